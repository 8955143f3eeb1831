// The hub: requests with the key of this browser, and one socket that comes back by itself.

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

/** One socket for this tab. `heard` gets every message, `state` is told "open", "away" or "refused". */
export class Line {
  constructor(heard, state) {
    this.heard = heard;
    this.state = state;
    this.looks = new Map();
    this.wait = 250;
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
        this.wait = 250;
        this.state("open", told);
        for (const look of this.looks.values()) this.send({ type: "look", ...look });
      }
      this.heard(told);
    };
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      this.socket = null;
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
