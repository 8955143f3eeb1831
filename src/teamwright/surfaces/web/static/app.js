// The frame: rail, middle, side; keys; title and icon. Everything is drawn from `state`.

import { answerByKey, cards, questionsOf, waitedThen, waiting } from "./cards.js";
import { h, patch } from "./dom.js";
import { enter, key } from "./net.js";
import { coloured, empty, folder, icon, mark, nested, sentence, spent, who } from "./parts.js";
import { costScreen, helpDialog, linksScreen, newScreen, nowScreen, sessionsScreen, settingsScreen, waitingScreen } from "./screens.js";
import { arrive, connect, draw, go, mayAct, mayManage, act, paintBy, sessionOf, snapshot, state, to, wish } from "./state.js";
import { afterDraw, beforeDraw, otherAgent, talkScreen } from "./talk.js";
import { changesScreen, mailScreen, replayBar, replayKey, tasksScreen, teamScreen } from "./work.js";

const root = document.getElementById("app");
const OF_SESSION = { team: ["Team", teamScreen], tasks: ["Tasks", tasksScreen], mail: ["Mail", mailScreen], changes: ["Changes", changesScreen], cost: ["Cost", costScreen] };
const OF_ALL = { now: nowScreen, waiting: waitingScreen, sessions: sessionsScreen, new: newScreen, links: linksScreen, settings: settingsScreen };
const side = { tab: "waiting", open: false };

function paint() {
  state.wide = innerWidth;
  beforeDraw();
  patch(root, state.trouble || state.line === "refused" ? locked() : frame());
  afterDraw();
  shade();
  entitle();
}

/** What lies below a dialog is out of reach; the focus goes back to where it was. */
let before = null;
function shade() {
  if (state.help === Boolean(before)) return;
  if (state.help) before = document.activeElement || document.body;
  for (const part of root.querySelectorAll(".frame > :not(.over, .spoken)")) part.inert = state.help;
  if (!state.help) before = (before.isConnected && before.focus(), null);
}

function locked() {
  const words = state.trouble && state.trouble !== "none" ? state.trouble : "This browser has no key, or it was revoked.";
  return h("main.locked", null, h("div.card.empty", null, h("svg.logo", { viewBox: "0 0 32 32", "aria-hidden": "true" }, h("rect", { width: 32, height: 32, rx: 7 }), h("path", { d: "M7 10h18M16 10v14" })),
    h("h1", null, "Teamwright"), h("p", null, sentence(`${words.split(": ")[0].replace(/\.$/, "")}.`)), h("p.dim", null, "Run ", h("code", null, "teamwright web link"), " and open what it prints.")));
}

function frame() {
  const phone = state.wide < 700;
  const withSide = Boolean(state.route.session) && !phone && !sessionOf(state.route.session)?.missing && !(state.route.page === "changes" && state.route.name); // a diff needs the room
  return h(`div.frame.${phone ? "phone" : state.wide < 1100 ? "tablet" : "desk"}${withSide ? ".with-side" : ""}${withSide && side.open ? ".side-open" : ""}`, null,
    top(phone), phone ? null : rail(), h("main.middle", { tabindex: -1 }, phone && more.open ? moreScreen() : state.route.session ? sessionScreen(phone) : OF_ALL[state.route.page]()),
    withSide && (state.wide >= 1100 || side.open) ? sidePane() : null, phone ? bottom() : null, helpDialog(),
    h("div.spoken", { "aria-live": "polite", role: "status" }, state.spoken || ""));
}

// --- the line on top

function top(phone) {
  const session = state.route.session ? sessionOf(state.route.session) : null;
  const many = state.questions.size;
  const running = [...state.sessions.values()];
  const usd = session ? spent(session) : running.length ? spent({ usd: running.reduce((sum, one) => sum + (one.usd || 0), 0), agents: running.flatMap((one) => one.agents) }) : "";
  return h("header.top", null,
    h("a.brand", to({ page: "now" }), phone && session ? "‹" : "Teamwright"),
    session && !session.missing ? h("span.cut.grow", null, mark(session.state), " ", h("span.top-title", null, session.title), phone ? null : h("span.dim", null, ` ${folder(session.cwd || "")}`)) : h("span.grow"),
    state.role === "read" ? h("span.dim.watching", null, "You are watching") : null,
    usd && !(phone && state.role === "read") ? h("span.num.dim", { title: "Cost" }, usd) : null,
    many ? h("a.wait", to({ page: "waiting" }), phone ? `${many} waiting` : `${many} ${many === 1 ? "waits" : "wait"} for you`) : null,
    state.route.session && !phone && state.wide < 1100 ? h("button.plain", { type: "button", "aria-label": "Side", "aria-expanded": side.open ? "true" : "false", onclick: () => ((side.open = !side.open), draw()) }, icon("list")) : null,
    state.line === "away" ? h("span.away", { role: "status" }, "Reconnecting…") : state.line === "open" ? h("span.here", { role: "img", "aria-label": "Connected", title: "Connected" }) : null);
}

// --- the rail

function rail() {
  const small = state.wide < 1100;
  const item = (route, name, words, number) => h("a.rail-item", to(route, { "aria-current": state.route.page === route.page && !state.route.session ? "page" : undefined, title: small ? words : undefined, "aria-label": small ? words : undefined }),
    icon(name), small ? null : h("span.grow", null, words), number ? h("span.badge", null, number) : null);
  const sessions = [...state.sessions.values()];
  return h("nav.rail", { "aria-label": "Sessions" },
    item({ page: "now" }, "now", "Now"), item({ page: "waiting" }, "waiting", "Waiting", state.questions.size || null),
    h("div.rail-sessions", null, sessions.map((session) => railSession(session, small))),
    opened(small),
    h("div.push"), item({ page: "sessions" }, "list", "Sessions"), mayManage() ? [item({ page: "new" }, "plus", "New session"), item({ page: "links" }, "link", "Links")] : null, item({ page: "settings" }, "settings", "Settings"));
}

/** A session that has ended stays in the rail while it is open. */
function opened(small) {
  const id = state.route.session;
  if (!id || state.sessions.has(id)) return null;
  const session = sessionOf(id);
  return session && !session.missing ? railSession(session, small) : null;
}

const MOST_IN_RAIL = 30;
function railSession(session, small) {
  const here = state.route.session === session.id;
  const then = here ? snapshot() : null;
  const agents = then && then.value ? coloured(then.value.agents, session) : session.agents;
  const asks = (id) => (then ? [] : [...state.questions.values()]).filter((question) => question.agent === id).length;
  const many = [...state.questions.values()].filter((question) => question.session === session.id).length;
  return h("div.rail-session", { key: session.id },
    h("a.rail-item", to({ page: "talk", session: session.id, agent: session.id, at: here ? state.route.at : 0 }, { "aria-current": here ? "true" : undefined, title: session.title, "aria-label": small ? session.title : undefined }),
      mark(session.state), small ? null : h("span.grow.cut", null, session.title || folder(session.cwd)), many ? h("span.badge", null, many) : null),
    here && !small ? h("ul", null, nested(agents).slice(0, MOST_IN_RAIL).map(([agent, deep]) => h("li", { key: agent.id },
      h("a.rail-agent", to({ page: "talk", session: session.id, agent: agent.id, at: state.route.at }, { "aria-current": state.route.agent === agent.id ? "page" : undefined, css: { "padding-left": `${20 + deep * 12}px` } }),
        mark(agent.state), who(agent, "cut grow"), asks(agent.id) ? h("span.badge", null, asks(agent.id)) : null)))) : null);
}

// --- a session

function sessionScreen(phone) {
  const session = sessionOf(state.route.session);
  const { page } = state.route;
  if (session && session.missing && (!session.status || session.status === 429 || session.status >= 500)) {
    return h("div.pane", null, empty("This session cannot be shown now.", session.missing));
  }
  if (session && session.missing) {
    return h("div.pane", null, empty("This session is not there.", "It was removed, or this link does not show it.", h("a.button", to({ page: "sessions" }), "All sessions")));
  }
  if (!session) return page === "talk" ? talkScreen() : h("div.pane");
  const tabs = h("div.tabs.of-session", { role: "group", "aria-label": "Screens of this session" },
    [["talk", "Talk"], ...Object.entries(OF_SESSION).map(([name, [words]]) => [name, words])].map(([name, words]) =>
      h("a.tab", to({ page: name, session: session.id, agent: state.route.agent || session.id, at: state.route.at }, { key: name, "aria-current": page === name ? "page" : undefined }), words)),
    state.route.at ? null : replayBar());
  const replay = state.route.at ? replayBar() : null;
  if (page === "talk") return h("div.session-screen", null, tabs, replay, phone ? phoneQuestions(session) : null, talkScreen());
  return h("div.session-screen", null, tabs, replay, h("div.pane", { key: page }, h("h1.spoken", null, OF_SESSION[page][0]), OF_SESSION[page][1](session)));
}

function phoneQuestions(session) {
  const [first, ...rest] = questionsOf(session.id).list;
  if (!first || state.route.at) return null;
  return h("a.asks", to({ page: "waiting" }), h("span.cut.grow", null, wish(first), rest.length ? ` and ${rest.length} more` : ""), "Answer ›");
}

function sidePane() {
  const session = sessionOf(state.route.session);
  const tabs = ["waiting", "tasks", "mail", "changes", "cost"].filter((name) => name !== state.route.page);
  if (!tabs.includes(side.tab)) side.tab = "waiting";
  const many = state.route.at ? 0 : questionsOf(state.route.session).list.length;
  return h("aside.side", { "aria-label": "Side" },
    h("div.tabs", { role: "group", "aria-label": "What stands beside it" }, tabs.map((name) => h("button.tab", { key: name, type: "button", "aria-pressed": side.tab === name ? "true" : "false", onclick: () => ((side.tab = name), draw()) },
      name === "waiting" ? "Waiting" : OF_SESSION[name][0], name === "waiting" && many ? h("span.badge", null, many) : null))),
    h("div.side-body", null, !session || session.missing ? null : side.tab === "waiting" ? (state.route.at ? waitedThen(snapshot().value?.questions || [], session) : cards(questionsOf(state.route.session), { where: false })) : OF_SESSION[side.tab][1](session, true)));
}

// --- the bar of a phone

const more = { open: false };
function bottom() {
  const id = state.route.session || (state.sessions.size === 1 ? [...state.sessions.keys()][0] : "");
  const item = (route, name, words, number, own = true) => h("a.bottom-item", to(route, { "aria-current": own && !more.open && state.route.page === route.page ? "page" : undefined }), icon(name), h("span", null, words), number ? h("span.badge", null, number) : null);
  return h("nav.bottom", { "aria-label": "Sessions", onclick: () => (more.open = false) },
    item({ page: "now" }, "now", "Now"), item({ page: "waiting" }, "waiting", "Waiting", state.questions.size || null),
    item(id ? { page: "talk", session: id, agent: state.route.agent || id } : { page: "sessions" }, "talk", "Talk", null, Boolean(id)),
    item(id ? { page: "tasks", session: id } : { page: "sessions" }, "tasks", "Tasks", null, Boolean(id)),
    h("button.bottom-item", { type: "button", "aria-expanded": more.open ? "true" : "false", onclick: (event) => (event.stopPropagation(), (more.open = !more.open), draw()) }, icon("more"), h("span", null, "More")));
}

function moreScreen() {
  const entries = [["sessions", "All sessions"], ...(mayManage() ? [["new", "New session"], ["links", "Links"]] : []), ["settings", "Settings"]];
  const ofSession = [...state.sessions.values()].flatMap((session) => ["team", "mail", "changes", "cost"].map((page) => [{ page, session: session.id }, `${OF_SESSION[page][0]} · ${session.title.slice(0, 30)}`]));
  const line = (route, words) => h("li", { key: words }, h("a.line", { ...to(route), onclick: (event) => (event.preventDefault(), (more.open = false), go(route)) }, words));
  return h("div.pane", null, h("h1", null, "More"), h("ul.list", null, entries.map(([page, words]) => line({ page }, words)), ofSession.map(([route, words]) => line(route, words))));
}

// --- title, icon, theme

let titled = "";
function entitle() {
  const many = state.questions.size;
  const session = state.route.session ? sessionOf(state.route.session) : null;
  const name = session && session.title && state.role === "full" ? session.title.slice(0, 60) : "Teamwright";
  const title = `${many ? `(${many}) ` : ""}${name}`;
  if (title === titled) return;
  titled = document.title = title;
  const dot = many ? "<circle cx='24' cy='8' r='7' fill='%23e5b567'/>" : "";
  document.querySelector("link[rel=icon]").href = `data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='%230757b8'/><path d='M7 10h18M16 10v14' stroke='white' stroke-width='4'/>${dot}</svg>`;
}

function dress() {
  const light = state.theme === "light" || (state.theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
  document.documentElement.dataset.theme = light ? "light" : "dark";
}

// --- keys

let lead = 0;
function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const { target } = event;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "range" && target.type !== "checkbox") return;
  if (heardKey(event.key, event)) event.preventDefault();
}

function heardKey(name, event) {
  const id = state.route.session || (state.sessions.size ? [...state.sessions.keys()][0] : "");
  if (Date.now() - lead < 1200) {
    lead = 0;
    const routes = { n: { page: "now" }, w: { page: "waiting" }, s: { page: "sessions" }, t: { page: "tasks", session: id }, m: { page: "mail", session: id }, c: { page: "changes", session: id } };
    if (routes[name] && (routes[name].session !== "" || !("session" in routes[name]))) return go(routes[name]), true;
  }
  if (name === "?") return (state.help = !state.help), draw(), true;
  if (name === "Escape") return escape(), true;
  if (state.help) return false;
  if (event.target.type !== "range" && replayKey(name)) return true;
  if (name === "g") return (lead = Date.now()), true;
  if (name === "j" || name === "k") return step(name === "j" ? 1 : -1);
  if (name === "i") return focusOn(".composer textarea");
  if (name === "/") return focusOn(".filter") || (go({ page: "sessions" }), setTimeout(() => focusOn(".filter"), 50), true);
  if (name === "." && state.route.page === "talk" && mayAct(sessionOf(id))) return act("interrupt", `/api/sessions/${id}/interrupt`, { agent: state.route.agent }), true;
  if (name === "[" || name === "]") return otherAgent(name === "]" ? 1 : -1), true;
  return ["y", "t", "a", "n", "w"].includes(name) && waiting().length > 0 && answerByKey(name);
}

function escape() {
  if (state.help) state.help = false;
  else if (side.open && state.wide < 1100) side.open = false;
  else if (document.activeElement && document.activeElement !== document.body) document.activeElement.blur();
  else if (state.route.session) go({ page: "now" });
  draw();
}

function focusOn(what) {
  const found = document.querySelector(what);
  if (found) found.focus();
  return Boolean(found);
}

function step(by) {
  const all = [...document.querySelectorAll("main a.agent, main a.line, main a.title, main article.card, main button.step, main .task-head")];
  if (!all.length) return false;
  const at = all.indexOf(document.activeElement);
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
  next.focus();
  return true;
}

// --- the beginning

async function begin() {
  dress();
  paintBy(paint);
  state.route = { page: "now" };
  const trouble = await enter();
  if (trouble || !key()) state.trouble = trouble || "none";
  arrive();
  if (!state.trouble) connect();
  setInterval(() => {
    state.clock = Date.now();
    if (!document.hidden) draw();
  }, 1000);
  addEventListener("popstate", () => ((more.open = false), arrive()));
  addEventListener("resize", draw);
  addEventListener("redraw", draw);
  addEventListener("theme", dress);
  addEventListener("keydown", pressed);
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", dress);
}

begin();
