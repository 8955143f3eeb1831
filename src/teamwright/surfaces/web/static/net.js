// The hub: requests with the key of this browser, one socket that comes back by itself, and the list that its messages make.

const KEY = "teamwright.key";

export function key() {
  return localStorage.getItem(KEY) || "";
}

export function forget() {
  localStorage.removeItem(KEY);
}

/** A link's token is exchanged for a key at once, and leaves the address. */
export async function enter() {
  const found = /^#t=([\w-]+)/.exec(location.hash);
  if (!found) return key() ? "" : "none";
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const told = await request("POST", "/api/login", { token: found[1] });
    localStorage.setItem(KEY, told.key);
    return "";
  } catch (error) {
    return key() ? "" : error.message;
  }
}

export class Refusal extends Error {
  constructor(status, told) {
    super(told.error || `The hub answered with ${status}.`);
    this.status = status;
    this.told = told;
  }
}

async function request(method, path, body) {
  const headers = { Authorization: `Bearer ${key()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Refusal(0, { error: "The hub cannot be reached." });
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, told);
  return told;
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);

const SOON = 250; // milliseconds until it comes back,
const STEADY = 5000; // and how long it must have held: one that breaks again and again comes back ever later

/** One socket for this tab. `heard` gets every message, `state` is told "open", "away" or "refused". */
export class Line {
  constructor(heard, state) {
    this.heard = heard;
    this.state = state;
    this.looks = new Map();
    this.wait = SOON;
    this.connect();
    addEventListener("online", () => this.again());
    document.addEventListener("visibilitychange", () => document.hidden || this.again());
  }

  connect() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = (this.socket = new WebSocket(`${scheme}://${location.host}/api/live`));
    socket.onopen = () => socket.send(JSON.stringify({ type: "hello", key: key() }));
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      const told = JSON.parse(event.data);
      if (told.type === "welcome") {
        this.welcomed = Date.now();
        this.state("open", told);
        for (const look of this.looks.values()) this.send({ type: "look", ...look });
      }
      this.heard(told);
    };
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (this.welcomed && Date.now() - this.welcomed > STEADY) this.wait = SOON;
      this.welcomed = 0;
      if (event.code === 4401) return this.state("refused");
      this.state("away");
      this.timer = setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 1.6, 5000);
    };
  }

  again() {
    if (!this.socket) this.connect();
  }

  send(message) {
    if (this.socket && this.socket.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  look(session, agent) {
    const name = `${session}/${agent}`;
    if (this.looks.has(name)) return;
    for (const [other, look] of this.looks) {
      this.send({ type: "leave", ...look });
      this.looks.delete(other);
    }
    this.looks.set(name, { session, agent });
    this.send({ type: "look", session, agent });
  }

  leave() {
    for (const look of this.looks.values()) this.send({ type: "leave", ...look });
    this.looks.clear();
  }
}

// --- a conversation: items by their place, of which some are drawn

function placeOf(item, talk) {
  const [line, index] = item.id.split(".").map(Number);
  if (line) return line * 1e5 + index;
  if (item.streaming || !item.after) return Number.MAX_SAFE_INTEGER - 1e6 + index;
  const before = talk.byId.get(item.after);
  return (before ? placeOf(before, talk) : 0) + 0.5 + index * 1e-4;
}

export function fill(talk, page) {
  const atEnd = talk.stick;
  talk.byId = new Map(page.items.map((item) => [item.id, item]));
  talk.list = [...talk.byId.values()];
  talk.more = page.more;
  talk.loading = false;
  talk.error = page.error || "";
  talk.to = talk.list.length;
  talk.from = Math.max(0, talk.to - 80);
  talk.stick = atEnd || talk.fresh;
  talk.fresh = false;
}

/** After a reconnect: what is there stays, what was missed is added. */
export function merge(talk, page) {
  const known = page.items.length && talk.list.length && talk.byId.has(page.items[0].id);
  if (!known) return fill(talk, page);
  const ids = new Set(page.items.map((item) => item.id));
  const first = placeOf(page.items[0], talk);
  const rest = talk.list.filter((item) => !ids.has(item.id) && placeOf(item, talk) < first && !item.id.startsWith("0."));
  for (const item of page.items) {
    const old = talk.byId.get(item.id);
    if (old) item.rev = (old.rev || 0) + 1;
  }
  const all = [...rest, ...page.items];
  talk.byId = new Map(all.map((item) => [item.id, item]));
  talk.list = all;
  talk.loading = false;
  talk.to = Math.min(talk.to, all.length);
  if (talk.stick) toEnd(talk);
}

function toEnd(talk) {
  talk.to = talk.list.length;
  talk.from = Math.max(talk.from, talk.to - 100, 0);
  if (talk.to - talk.from < 80) talk.from = Math.max(0, talk.to - 80);
}

const MOST = 160; // items in the page at once
export function put(talk, items) {
  let sorted = true;
  const atEnd = talk.to >= talk.list.length; // what comes is drawn below, wherever one reads
  for (const item of items) {
    const old = talk.byId.get(item.id);
    item.rev = old ? (old.rev || 0) + 1 : 0;
    talk.byId.set(item.id, item);
    if (old) talk.list[talk.list.indexOf(old)] = item;
    else {
      talk.list.push(item);
      sorted = false;
    }
  }
  if (!sorted) talk.list.sort((a, b) => placeOf(a, talk) - placeOf(b, talk));
  if (talk.stick) toEnd(talk);
  else if (atEnd) talk.to = Math.min(talk.list.length, talk.from + MOST);
}

export function drop(talk, ids) {
  for (const id of ids) talk.byId.delete(id);
  talk.list = talk.list.filter((item) => talk.byId.has(item.id));
  talk.to = Math.min(talk.to, talk.list.length);
  talk.from = Math.min(talk.from, Math.max(0, talk.to - 1));
  if (talk.stick) toEnd(talk);
}
