// Screens about all sessions: Now, Waiting, Sessions, New session, Links, Settings; and what a session cost.

import { cards, questionsOf } from "./cards.js";
import { h } from "./dom.js";
import { forget } from "./net.js";
import { ago, button, clock, colorClass, coloured, count, empty, error, folder, icon, mark, money, nameOf, nested, shown, span, spent, stateWord, when, who } from "./parts.js";
import { act, agentOf, draw, go, mayManage, snapshot, stale, state, to, want } from "./state.js";

// --- Now

export const MODES = new Map([["default", "ask for what needs a yes"], ["acceptEdits", "edit without asking"], ["plan", "plan first"], ["dontAsk", "never ask, refuse instead"]]);
export const modeName = (mode) => (mode === "bypassPermissions" ? "never asks" : MODES.get(mode) || mode);

export function nowScreen() {
  const sessions = [...state.sessions.values()].sort((a, b) => order(a) - order(b) || b.updated - a.updated);
  const questions = questionsOf("");
  const none = state.ready && !sessions.length;
  return h("div.pane.now", null,
    questions.list.length || state.gone.size ? [h("h1", null, "Waiting for you"), cards(questions)] : null,
    !state.ready ? h("div.loading", { "aria-busy": "true" }, state.clock - began > 150 ? [h("div.bar"), h("div.bar"), h("div.bar")] : null) : null,
    sessions.length ? h("h1", null, "Now") : null,
    h("div.cards", null, sessions.map(sessionCard)),
    none ? empty("Nothing is running.", "Start a session here, or run `teamwright` in a project.",
      mayManage() ? h("a.button.primary", to({ page: "new" }), "New session") : null) : null,
    ended());
}

const began = Date.now();
const order = (session) => ({ waiting: 0, running: 1, idle: 2 })[session.state] ?? 3;

function sessionCard(session) {
  const main = session.agents[0];
  return h("section.session", { key: session.id, "aria-label": session.title || "Session" },
    h("header", null, mark(session.state),
      h("a.title.cut", to({ page: "talk", session: session.id, agent: main ? main.id : session.id }), session.title || "(nothing was said yet)"),
      h("span.push.num", null, spent(session))),
    h("p.dim.small.meta", null, h("span.cut", { title: session.cwd }, folder(session.cwd)), session.team ? h("span", null, `team ${session.team}`) : null,
      h("span", null, session.model), session.mode && session.mode !== "default" ? h("span", null, modeName(session.mode)) : null, session.budget_left ? h("span", null, `${session.budget_left} left`) : null,
      session.steerable ? null : h("span.warn", null, "watch only")),
    budget(session),
    agentRows(session, session.agents));
}

/** `$1.20 of $5.00` becomes a bar as well as words. */
function budget(session) {
  const found = /\$([\d.]+) of \$([\d.]+)/.exec(session.budget_left || "");
  if (!found || !Number(found[2])) return null;
  const used = 100 - (100 * Number(found[1])) / Number(found[2]);
  return h("div.budget", { role: "img", "aria-label": `${Math.round(used)} % of the budget is used` }, h("div", { css: { width: `${used}%` }, class: used > 80 ? "is-high" : "" }));
}

const MOST_ROWS = 12;
export function agentRows(session, agents) {
  const busy = agents.filter((agent) => agent.state === "running" || agent.state === "waiting" || !agent.parent);
  const rest = agents.filter((agent) => !busy.includes(agent));
  const list = [...busy, ...rest].slice(0, MOST_ROWS);
  return h("ul.agents", { "aria-label": "Agents" }, list.map((agent) => h("li", { key: agent.id },
    h("a.agent", to({ page: "talk", session: session.id, agent: agent.id }),
      mark(agent.state), who(agent, "cut"), h("span.doing.cut", { title: doing(agent, agents) }, doing(agent, agents)),
      h("span.task.cut", agent.task ? { title: agent.task.subject } : null, agent.task ? `#${agent.task.id}` : ""),
      h("span.num.dim", null, agent.since && (agent.state === "running" || agent.state === "waiting") ? span(state.clock - agent.since) : ""),
      h("span.num.dim.wide", null, agent.tokens ? count(agent.tokens) : ""),
      h("span.num.dim.wide", null, agent.usd ? money(agent.usd) : "")))),
  agents.length > list.length ? h("li.dim.small", null, h("a", to({ page: "team", session: session.id }), `${agents.length - list.length} more`)) : null);
}

export function doing(agent, all = []) {
  if (agent.state === "waiting" && agent.waiting_for) {
    const child = all.find((one) => one.parent === agent.id && !one.ended && !one.background && one.name === agent.waiting_for);
    return `waits for ${child ? nameOf(child) : agent.waiting_for}`;
  }
  if (agent.state === "running") return agent.summary || agent.doing || "works";
  return agent.waiting_for && agent.state === "failed" ? agent.waiting_for : stateWord(agent.state);
}

function ended() {
  const held = want("/api/sessions", 10000);
  if (!held.value) return null;
  const today = new Date().toDateString();
  const list = held.value.sessions.filter((session) => !state.sessions.has(session.id) && new Date(session.updated).toDateString() === today);
  if (!list.length) return null;
  return [h("h2", null, "Ended today"), sessionList(list.slice(0, 20)), h("p", null, h("a", to({ page: "sessions" }), "All sessions"))];
}

function sessionList(sessions) {
  return h("ul.list", null, sessions.map((session) => h("li", { key: session.id },
    h("a.line", to({ page: "talk", session: session.id, agent: session.id }), mark(session.state),
      h("span.cut.grow", null, session.title || "(nothing was said)"), h("span.dim.cut.place", null, folder(session.cwd)), h("span.dim.num", null, when(session.updated))))));
}

// --- Sessions

const filter = { text: "", cursor: 0 };
export function sessionsScreen() {
  const held = want(`/api/sessions${filter.cursor ? `?cursor=${filter.cursor}` : ""}`, 5000);
  return h("div.pane", null, h("header.bar", null, h("h1", null, "Sessions"),
    h("input.filter", { type: "search", "aria-label": "Filter", placeholder: state.wide < 700 ? "Filter" : "Filter  /", value: filter.text, oninput: (event) => ((filter.text = event.target.value.toLowerCase()), draw()) })),
    shown(held, ({ sessions, next }) => {
      const list = sessions.filter((session) => `${session.title} ${session.cwd}`.toLowerCase().includes(filter.text));
      if (!list.length) return filter.text ? empty("No session fits.", "Titles and directories are searched.") : empty("There are no sessions yet.", "Start one here, or run `teamwright` in a project.", mayManage() ? h("a.button.primary", to({ page: "new" }), "New session") : null);
      return [sessionList(list), h("p.pager", null,
        filter.cursor ? button("Newer", () => ((filter.cursor = Math.max(0, filter.cursor - 60)), draw())) : null,
        next ? button("Older", () => ((filter.cursor = next), draw())) : null)];
    }));
}

// --- Waiting

export function waitingScreen() {
  return h("div.pane", null, h("h1", null, "Waiting for you"), cards(questionsOf("")));
}

// --- New session

const draft = { prompt: "", cwd: "", model: "", mode: "default", untrusted: null };
export function newScreen() {
  const places = want("/api/places").value;
  const busy = state.busy.has("new");
  const start = async (trust) => {
    const body = { prompt: draft.prompt, mode: draft.mode };
    if (draft.cwd) body.cwd = draft.cwd;
    if (draft.model) body.model = draft.model;
    if (trust !== undefined) body.trust = trust;
    const made = await act("new", "/api/sessions", body);
    draft.untrusted = !made && state.refused && state.refused.told.untrusted ? state.refused.told.untrusted : null;
    if (made) {
      Object.assign(draft, { prompt: "", untrusted: null });
      go({ page: "talk", session: made.id, agent: made.id });
    }
  };
  return h("div.pane.narrow", null, h("h1", null, "New session"),
    h("form.stack", { onsubmit: (event) => (event.preventDefault(), start()) },
      h("label.field", null, h("span", null, "What should be done?"),
        h("textarea", { rows: 6, required: true, value: draft.prompt, made: (node) => state.wide >= 700 && requestAnimationFrame(() => node.focus()), onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && draft.prompt.trim() && !draft.untrusted && start(), oninput: (event) => (draft.prompt = event.target.value) })),
      h("label.field", null, h("span", null, "Directory"),
        h("select", { value: draft.cwd, onchange: (event) => (Object.assign(draft, { cwd: event.target.value, untrusted: null }), draw()) },
          (places ? places.places : [""]).map((place, n) => h("option", { key: place, value: n ? place : "" }, place || "that of the hub")))),
      h("div.pair", null,
        h("label.field", null, h("span", null, "Model"), h("input", { type: "text", placeholder: "as configured", value: draft.model, oninput: (event) => (draft.model = event.target.value) })),
        h("label.field", null, h("span", null, "Permissions"),
          h("select", { value: draft.mode, onchange: (event) => (draft.mode = event.target.value) },
            [...MODES].map(([mode, words]) => h("option", { key: mode, value: mode }, words))))),
      draft.untrusted ? h("div.card", null, h("p.lead", null, "This directory brings settings or programs of its own:"),
        h("ul", null, draft.untrusted.map((part) => h("li", null, h("code", null, part)))),
        h("div.answers", null, button("Start without them", () => start(false), { kind: "primary", busy }), button("Trust it", () => start(true), { busy }))) : null,
      draft.untrusted ? null : h("div.answers", null, h("button.button.primary", { type: "submit", disabled: busy || undefined }, busy ? "Starting…" : "Start")),
      draft.untrusted ? null : error("new"),
      h("p.dim.small", null, "It runs in its own process: it goes on when you close this page or the hub. Its questions come up here.")));
}

// --- Cost

export function costScreen(session, narrow = false) {
  const held = want(`/api/sessions/${session.id}/cost`, 5000);
  return h("section", { "aria-label": "Cost" }, shown(held, (cost) => {
    if (!cost.agents.length) return empty("Nothing was used yet.", "What models charge is added up here, agent by agent.");
    const then = state.route.at ? snapshot().value : null;
    const series = state.route.at ? cost.series.filter((point) => point.at <= state.route.at) : cost.series;
    const sum = (name) => series.reduce((total, point) => total + point[name], 0);
    const usd = state.route.at ? sum("usd") : cost.total_usd;
    const input = state.route.at ? sum("input_tokens") : cost.input_tokens, kept = state.route.at ? sum("cached_tokens") : cost.cached_tokens;
    const most = Math.max(...cost.agents.map((agent) => agent.usd), 1e-9);
    const tokens = Math.max(...cost.agents.map((agent) => agent.input_tokens + agent.output_tokens), 1);
    return [h("dl.figures", null, figure("Cost", !cost.unknown_cost ? money(usd) : usd ? `${money(usd)} + ?` : "not known"), figure("Input", count(input)), figure("Output", count(state.route.at ? sum("output_tokens") : cost.output_tokens)), figure("From cache", `${input ? Math.round((100 * kept) / input) : 0} %`),
      state.route.at || !cost.saved_by_cache_usd ? null : figure("Saved by it", money(cost.saved_by_cache_usd)), session.budget_left && !state.route.at ? figure("Budget left", session.budget_left) : null),
      series.length > 1 ? h("div.charts", null, chart(series, session, cost.agents), cached(series)) : null,
      then ? h("ul.list", null, nested(coloured(then.agents, session)).map(([agent, deep]) => h("li.line", { key: agent.id, css: { "padding-left": `${8 + deep * 16}px` } }, mark(agent.state), h("span.grow.cut", null, who(agent)), h("span.num.dim", null, count(agent.tokens)), h("span.num", null, money(agent.usd)))))
        : h("div.table", { tabindex: 0, role: "group", "aria-label": "Cost of each agent" }, h("table.cost", null, h("thead", null, h("tr", null, ["Agent", "Cost", narrow ? null : "Input", narrow ? null : "Cached", narrow ? null : "Output", narrow ? null : "Turns", narrow ? null : "Time"].filter(Boolean).map((words) => h("th", { key: words }, words)))),
        h("tbody", null, nested(cost.agents).map(([agent, deep]) => h("tr", { key: agent.id }, h("td", { css: { "padding-left": `${8 + deep * 14}px` } }, h("a", to({ page: "talk", session: session.id, agent: agent.id }), label(session, agent))),
          h("td.num", null, h("span.meter", { css: { width: `${(cost.total_usd ? agent.usd / most : (agent.input_tokens + agent.output_tokens) / tokens) * 100}%` } }), money(agent.unknown_cost && !agent.usd ? null : agent.usd)),
          narrow ? null : [h("td.num", null, count(agent.input_tokens)), h("td.num", null, `${agent.input_tokens ? Math.round((100 * agent.cached_tokens) / agent.input_tokens) : 0} %`), h("td.num", null, count(agent.output_tokens)), h("td.num", null, agent.turns), h("td.num", null, span(agent.seconds * 1000))])))))];
  }));
}

const figure = (name, value) => h("div", { key: name }, h("dt", null, name), h("dd", null, value));
function label(session, row) {
  const agent = agentOf(session, row.id);
  return agent ? who(agent) : row.name || row.id.slice(0, 8);
}

/** Money over time, stacked by agent; where no price is known, tokens. */
function chart(series, session, agents) {
  const width = 640, height = 120;
  const priced = series.some((point) => point.usd > 0);
  const from = series[0].at, end = series[series.length - 1].at || from + 1;
  const x = (at) => (width * (at - from)) / Math.max(1, end - from);
  const names = priced ? agents.map((agent) => agent.id) : ["all"];
  const totals = names.map(() => 0);
  const points = series.map((point) => {
    names.forEach((name, n) => (totals[n] += priced ? point.agents[name] || 0 : point.input_tokens + point.output_tokens));
    return { at: point.at, sums: [...totals] };
  });
  const top = Math.max(totals.reduce((a, b) => a + b, 0), 1e-9);
  let below = points.map(() => 0);
  const areas = names.map((name, n) => {
    const upper = points.map((point, i) => below[i] + point.sums[n]);
    const line = points.map((point, i) => `${x(point.at).toFixed(1)} ${(height - (height * upper[i]) / top).toFixed(1)}`);
    const back = points.map((point, i) => `${x(point.at).toFixed(1)} ${(height - (height * below[i]) / top).toFixed(1)}`).reverse();
    below = upper;
    const agent = agentOf(session, name);
    return h("path.area", { key: name, d: `M${line.join("L")}L${back.join("L")}Z`, class: (agent && colorClass(agent.color)) || `shade-${n % 4}` }, h("title", null, agent ? nameOf(agent) : name));
  });
  return h("figure.chart", null, h("figcaption", null, priced ? "Cost" : "Tokens", h("span.push.dim", null, priced ? money(top) : count(top))),
    h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Spent over time" }, areas),
    h("div.axis.dim.small", null, h("span", null, clock(from)), h("span.push", null, clock(end))));
}

/** Which share of what was read came from the cache, over time. */
function cached(series) {
  const width = 640, height = 120;
  const read = series.filter((point) => point.input_tokens > 0);
  if (read.length < 2 || !read.some((point) => point.cached_tokens)) return null;
  const from = series[0].at, end = series[series.length - 1].at;
  const line = read.map((point) => `${((width * (point.at - from)) / Math.max(1, end - from)).toFixed(1)} ${(height - (height * point.cached_tokens) / point.input_tokens).toFixed(1)}`);
  const last = read[read.length - 1];
  return h("figure.chart", null, h("figcaption", null, "From cache", h("span.push.dim", null, `${Math.round((100 * last.cached_tokens) / last.input_tokens)} % at the end`)),
    h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Share of the input that came from the cache, over time" },
      h("path.area.shade-1", { d: `M${line[0].split(" ")[0]} ${height}L${line.join("L")}L${line[line.length - 1].split(" ")[0]} ${height}Z` }), h("path.stroke", { d: `M${line.join("L")}` })),
    h("div.axis.dim.small", null, h("span", null, clock(from)), h("span.push", null, clock(end))));
}

// --- Links

const made = { read: true, session: "", url: "" };
export function linksScreen() {
  const held = want("/api/links", 5000);
  const create = async () => {
    const told = await act("link", "/api/links", { read_only: made.read, session: made.session, hours: made.read ? 24 : 0 });
    if (told) made.url = told.url;
    stale("/api/links");
  };
  return h("div.pane.narrow", null, h("h1", null, "Links"),
    h("form.inline", { onsubmit: (event) => (event.preventDefault(), create()) },
      h("select", { "aria-label": "What it may do", value: made.read ? "read" : "full", onchange: (event) => ((made.read = event.target.value === "read"), draw()) },
        h("option", { value: "read" }, "Can look, for a day"), h("option", { value: "full" }, "Can do everything")),
      h("select", { "aria-label": "What it shows", value: made.session, onchange: (event) => (made.session = event.target.value) },
        h("option", { value: "" }, "All sessions"), [...state.sessions.values()].map((session) => h("option", { key: session.id, value: session.id }, session.title.slice(0, 50) || session.id.slice(0, 8)))),
      h("button.button.primary", { type: "submit" }, "New link")),
    error("link"),
    made.url ? h("div.card", null, h("p", null, "It opens once, within ten minutes:"), h("code.url", null, made.url),
      navigator.clipboard ? h("div.answers", null, button(made.copied === made.url ? "Copied" : "Copy", () => navigator.clipboard.writeText(made.url).then(() => ((made.copied = made.url), draw()), () => {}))) : null) : null,
    shown(held, ({ links }) => h("ul.list.links", { "aria-label": "Links" }, links.map((link) => h("li.line", { key: link.id },
      h("code", null, link.id), h("span", null, link.role === "read" ? "can look" : "can do everything"), h("span.dim.cut.grow", null, link.session ? `session ${link.session.slice(0, 8)}` : "all sessions"),
      h("span.dim.used", null, link.current ? "this browser · " : "", link.opened ? `used ${ago(link.last_used)}` : "not opened yet"),
      button("Revoke", () => act(`revoke-${link.id}`, `/api/links/${link.id}/revoke`, {}, () => stale("/api/links")), { kind: "small", "aria-label": `Revoke ${link.id}` }))))));
}

// --- Settings

export function settingsScreen() {
  const choose = (theme) => () => {
    state.theme = theme;
    localStorage.setItem("teamwright.theme", theme);
    dispatchEvent(new Event("theme"));
    draw();
  };
  const alerts = async () => {
    state.alerts = !state.alerts && "Notification" in window && (await Notification.requestPermission()) === "granted";
    localStorage.setItem("teamwright.alerts", state.alerts ? "yes" : "no");
    draw();
  };
  return h("div.pane.narrow", null, h("h1", null, "Settings"),
    h("fieldset", null, h("legend", null, "Theme"), h("div.answers", null, ["auto", "dark", "light"].map((theme) =>
      button(theme.charAt(0).toUpperCase() + theme.slice(1), choose(theme), { key: theme, "aria-pressed": state.theme === theme ? "true" : "false", kind: state.theme === theme ? "primary" : "" })))),
    h("fieldset", null, h("legend", null, "Notifications"), h("label.option", null, h("input", { type: "checkbox", checked: state.alerts, onchange: alerts }),
      h("span", null, "Tell me when somebody waits and this page is hidden"))),
    h("fieldset", null, h("legend", null, "This browser"), button("Log out", async () => {
      await act("logout", "/api/logout", {});
      forget();
      location.reload();
    })),
    h("fieldset", null, h("legend", null, "Keyboard"), button("Keys", () => ((state.help = true), draw()), { hint: "?" })));
}

const KEYS = [
  ["Go to", [["g n", "Now"], ["g w", "Waiting"], ["g s", "Sessions"], ["g t", "Tasks"], ["g m", "Mail"], ["g c", "Changes"]]],
  ["A question", [["y", "allow once"], ["t", "always for this agent"], ["a", "always for all"], ["n", "no"], ["w", "no, because…"]]],
  ["Anywhere", [["j / k", "next, previous"], ["Enter", "open"], ["Esc", "back"], ["/", "filter"], ["?", "this list"]]],
  ["A conversation", [["i", "write"], [".", "interrupt"], ["[ / ]", "agent before, after"]]],
  ["Replay", [["Space", "play, pause"], ["← / →", "moment before, after"]]],
];
export function helpDialog() {
  if (!state.help) return null;
  const close = () => ((state.help = false), draw());
  return h("div.over", { onclick: (event) => event.target === event.currentTarget && close() },
    h("div.dialog", { role: "dialog", "aria-modal": "true", "aria-label": "Keys", tabindex: -1, made: (node) => requestAnimationFrame(() => node.focus()) },
      h("header", null, h("h1", null, "Keys"), h("button.plain.push", { type: "button", "aria-label": "Close", onclick: close }, icon("close"))),
      h("div.key-groups", null, KEYS.map(([name, keys]) => h("section", { key: name }, h("h2", null, name), h("dl.keys", null, keys.map(([key, words]) => [h("dt", null, h("kbd", null, key)), h("dd", null, words)])))))));
}

