// What the page knows, where it is, and how it learns more. Everything is drawn from here.

import { drop, fill, get, Line, merge, post, put } from "./net.js";

export const state = {
  line: "opening", // opening, open, away, refused
  trouble: "", // why there is no key
  role: localStorage.getItem("teamwright.role") || "full", // the last one, until the hub tells: a watcher sees no buttons
  only: "", // the session of a link for one session alone
  ready: false,
  sessions: new Map(),
  questions: new Map(),
  gone: new Map(), // questions that were answered: shown for a moment
  shifted: 0, // when one went, and those below moved up
  route: { page: "now" },
  wide: 1200,
  talk: null,
  drafts: new Map(),
  errors: new Map(), // sentences below controls, by name
  busy: new Set(), // actions on their way
  data: new Map(), // answers of GET, by path
  theme: localStorage.getItem("teamwright.theme") || "auto",
  alerts: localStorage.getItem("teamwright.alerts") === "yes",
  help: false,
  clock: Date.now(),
  outbox: [],
};

let drawing = false;
let painter = () => {};
export function paintBy(paint) {
  painter = paint;
}
/** Soon, once for all that changed. */
export function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    painter();
  });
}

// --- where we are

export function parse(url) {
  const path = url.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const at = Number(url.searchParams.get("at")) || 0;
  if (path[0] === "s" && path[1]) {
    const session = path[1];
    if (path[2] === "a" && path[3]) return { page: "talk", session, agent: path[3], at };
    const known = ["team", "tasks", "mail", "changes", "cost"];
    if (known.includes(path[2])) return { page: path[2], session, name: path[3] || "", at };
    return { page: "talk", session, agent: session, at };
  }
  const page = path[0] || "now";
  return { page: ["waiting", "sessions", "links", "settings", "new"].includes(page) ? page : "now" };
}

export function address(route) {
  const query = route.at ? `?at=${route.at}` : "";
  if (route.page === "talk") return `/s/${route.session}/a/${encodeURIComponent(route.agent || route.session)}${query}`;
  if (route.session) return `/s/${route.session}/${route.page}${route.name ? `/${encodeURIComponent(route.name)}` : ""}${query}`;
  return route.page === "now" ? "/" : `/${route.page}`;
}

export function go(route, replace = false) {
  const to = address(route);
  if (to !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", to);
  arrive();
}

export function arrive() {
  state.route = parse(new URL(location.href));
  if (state.route.page === "new" || state.route.page === "links") if (!mayManage()) state.route = { page: "now" };
  if (location.pathname !== shownPath) requestAnimationFrame(() => document.querySelector("main")?.scrollTo(0, 0));
  shownPath = location.pathname;
  openTalk();
  draw();
}
let shownPath = location.pathname;

/** Props of a link inside of the page. */
export function to(route, more = {}) {
  return {
    href: address(route),
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      go(route);
    },
    ...more,
  };
}

// --- what is asked for

/** The answer of a GET, asked for when it is first wanted and again when it is stale. */
export function want(path, every = 0) {
  let held = state.data.get(path);
  if (!held) state.data.set(path, (held = { value: null, error: "", at: 0, loading: false, stale: true, began: Date.now() }));
  const old = every && Date.now() - held.at > every;
  if ((held.stale || old) && !held.loading && state.ready !== "no") {
    held.loading = true;
    held.stale = false;
    get(path).then(
      (value) => Object.assign(held, { value, error: "" }),
      (error) => Object.assign(held, { error: error.message, status: error.status }),
    ).finally(() => {
      held.loading = false;
      held.at = Date.now();
      draw();
    });
  }
  return held;
}

export function stale(matches) {
  for (const [path, held] of state.data) if (path.includes(matches)) held.stale = true;
  draw();
}

/** Does something, once at a time; what went wrong is told below the control of that name. */
export async function act(name, path, body, then) {
  if (state.busy.has(name)) return false;
  state.busy.add(name);
  state.errors.delete(name);
  draw();
  try {
    const told = await post(path, body);
    if (then) then(told);
    return told;
  } catch (error) {
    state.errors.set(name, error.message);
    state.refused = error;
    return false;
  } finally {
    state.busy.delete(name);
    draw();
  }
}

export function sessionOf(id) {
  const living = state.sessions.get(id);
  if (living) return living;
  if (!id) return null;
  const held = want(`/api/sessions/${id}`, state.line === "open" ? 5000 : 0);
  return settled(held.value) || (held.error ? { missing: held.error, status: held.status } : null);
}

/** Nobody is idle where nothing runs. */
function settled(session) {
  const over = session && (session.state === "ended" || session.state === "gone");
  if (over) for (const agent of session.agents) if (agent.state === "idle") agent.state = "done";
  return session;
}

export function agentOf(session, id) {
  return session && session.agents ? session.agents.find((agent) => agent.id === id) : null;
}

/** Whether this link may begin sessions and make links: one for a single session may not. */
export function mayManage() {
  return state.role === "full" && !state.only;
}

export function mayAct(session) {
  return state.role === "full" && !state.route.at && (!session || session.steerable);
}

// --- a conversation

export function openTalk() {
  const { page, session, agent, at } = state.route;
  if (page !== "talk") {
    if (line && !state.route.session) line.leave();
    if (state.talk && state.route.session !== state.talk.session) state.talk = null;
    return;
  }
  const same = state.talk && state.talk.session === session && state.talk.agent === agent;
  if (same && state.talk.at === (at || 0)) return;
  if (same && at && state.talk.at) {
    state.talk.at = at; // what is shown stays until the other moment is there
    loadPast(state.talk);
    return;
  }
  state.talk = newTalk(session, agent, at || 0);
  if (at) {
    if (line) line.leave(); // what happens now is not looked at
    loadPast(state.talk);
  } else if (line) line.look(session, agent);
}

function newTalk(session, agent, at) {
  return {
    session, agent, at, byId: new Map(), list: [], more: false, loading: true, began: Date.now(), open: new Map(),
    from: 0, to: 0, stick: true, left: localStorage.getItem(`teamwright.left.${agent}`) || "", fresh: true,
  };
}

/** One request at a time, so often as a slider that is moved needs it; the last wish counts. */
async function loadPast(talk) {
  if (talk.asking) return;
  talk.asking = true;
  for (let at = 0; at !== talk.at && state.talk === talk; ) {
    at = talk.at;
    try {
      fill(talk, await get(`/api/sessions/${talk.session}/agents/${talk.agent}/items?until=${at}`));
    } catch (error) {
      talk.error = error.message;
      talk.loading = false;
    }
    draw();
    await rest();
  }
  talk.asking = false;
}

const rest = () => new Promise((done) => setTimeout(done, PACE));
const PACE = 250; // milliseconds between two questions about the past

export async function older(talk) {
  if (talk.fetching || !talk.more || !talk.list.length) return;
  talk.fetching = true;
  const first = talk.list.find((item) => !item.id.startsWith("0."));
  try {
    const until = talk.at ? `&until=${talk.at}` : "";
    const page = await get(`/api/sessions/${talk.session}/agents/${talk.agent}/items?before=${first.id}&limit=200${until}`);
    const news = page.items.filter((item) => !talk.byId.has(item.id));
    for (const item of news) talk.byId.set(item.id, item);
    talk.list = [...news, ...talk.list];
    talk.from += news.length;
    talk.to += news.length;
    talk.more = page.more;
    talk.from = Math.max(0, talk.from - 60);
    if (talk.to - talk.from > 160) talk.to = talk.from + 160;
  } catch (error) {
    talk.error = error.message;
  } finally {
    talk.fetching = false;
    draw();
  }
}

/** In the past everything that is shown is what was so then. */
export function snapshot() {
  const { session, at } = state.route;
  if (!at) return null;
  if (then.session !== session) Object.assign(then, { session, value: null, error: "", at: 0, loading: false, began: Date.now() });
  if (then.at !== at && !then.loading) lookBack(session, at);
  return then; // of the moment before, until the other one is told
}

const then = { session: "" };
async function lookBack(session, at) {
  then.loading = true;
  const told = await get(`/api/sessions/${session}/at?ms=${at}`).then((value) => ({ value, error: "" }), (error) => ({ error: error.message }));
  if (then.session !== session) return;
  Object.assign(then, told, { at });
  draw();
  await rest();
  if (then.session !== session) return;
  then.loading = false;
  draw();
}

// --- what the hub tells

let line = null;
export function connect() {
  line = new Line(heard, (how, told) => {
    state.line = how;
    if (how === "open") {
      const changed = state.role !== told.role || state.only !== (told.session || "");
      state.role = told.role;
      state.only = told.session || "";
      localStorage.setItem("teamwright.role", told.role);
      if (changed) arrive(); // not every page is for everybody
      for (const held of state.data.values()) held.stale = true;
      then.at = 0;
      flush();
    }
    draw();
  });
  if (state.route.page === "talk" && !state.route.at) line.look(state.route.session, state.route.agent);
}

async function flush() {
  const waiting = state.outbox.splice(0);
  for (const one of waiting) await act(one.name, one.path, one.body, one.then);
}

const known = new Map(); // questions that were seen, and when for the first time
function heard(told) {
  const talk = state.talk && state.talk.session === told.session && state.talk.agent === told.agent && !state.talk.at ? state.talk : null;
  switch (told.type) {
    case "now":
      now(told);
      break;
    case "talk":
      if (talk) talk.fresh ? fill(talk, told) : merge(talk, told);
      break;
    case "put":
      if (talk) put(talk, told.items);
      break;
    case "drop":
      if (talk) drop(talk, told.items);
      break;
    case "append": {
      const item = talk && talk.byId.get(told.item);
      if (item) {
        item.text += told.text;
        item.rev = (item.rev || 0) + 1;
      }
      break;
    }
    case "board":
      stale(`/api/sessions/${told.session}/tasks`);
      break;
    case "mail":
      stale(`/api/sessions/${told.session}/mail`);
      break;
    case "changes":
      stale(`/api/sessions/${told.session}/changes`);
      break;
    default:
      return; // newer than this page
  }
  draw();
}

let first = true;
function now(told) {
  if (told.whole) {
    // after a lost connection, too: what is not told of any more has gone meanwhile
    for (const id of state.sessions.keys()) stale(`/api/sessions/${id}`);
    state.sessions.clear();
    state.questions.clear();
  }
  state.ready = true;
  for (const session of told.sessions) state.sessions.set(session.id, session);
  const news = [];
  for (const question of told.questions) {
    if (!known.has(question.id)) {
      known.set(question.id, Date.now());
      news.push(question);
    }
    question.seen = known.get(question.id);
    state.questions.set(question.id, question);
  }
  for (const id of told.gone) {
    const question = state.questions.get(id);
    if (question) {
      state.shifted = Date.now();
      state.gone.set(id, { question, how: told.answered?.[id] });
      setTimeout(() => (state.gone.delete(id), draw()), 4000);
    }
    if (state.sessions.has(id)) stale(`/api/sessions/${id}`);
    state.sessions.delete(id);
    state.questions.delete(id);
  }
  if (news.length && !first) announce(news);
  else if (news.length) state.spoken = `${news.length} ${news.length === 1 ? "waits" : "wait"} for you`;
  first = false;
}

function announce(news) {
  state.spoken = news.map(wish).join(". ");
  if (!document.hidden || !state.alerts || !("Notification" in window) || Notification.permission !== "granted") return;
  const secret = state.role === "read";
  for (const question of news) {
    const words = secret ? "Somebody waits for an answer" : wish(question);
    const shown = new Notification("Teamwright", { body: words, tag: question.id });
    shown.onclick = () => (window.focus(), go({ page: "waiting" }), shown.close());
  }
}

export function wish(question) {
  const what = { plan: "has a plan", ask: "has a question", form: "has a form to fill in" }[question.kind];
  return `${question.agent_name} ${what || `wants to use ${question.tool}`}`;
}
