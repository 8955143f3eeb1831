// Small pieces that several screens share: marks, times, money, rows of a diff, icons.

import { h } from "./dom.js";
import { state } from "./state.js";

const MARKS = {
  running: ["●", "works"], waiting: ["◐", "waits"], idle: ["○", "idle"], done: ["✓", "ended"],
  failed: ["✗", "failed"], stopped: ["■", "stopped"], ended: ["✓", "ended"], gone: ["✗", "gone"],
};

export function mark(of) {
  const [sign, word] = MARKS[of] || MARKS.idle;
  return h(`span.mark.is-${of}`, { role: "img", "aria-label": word, title: word }, sign);
}

export function stateWord(of) {
  return (MARKS[of] || ["", of])[1];
}

export function who(agent, extra = "") {
  const color = COLORS.has(agent.color) ? ` c-${agent.color}` : "";
  return h(`span.who${color ? "." + color.trim() : ""}`, { class: extra }, nameOf(agent));
}

/** Many sub-agents share the name of their kind: what they are for tells them apart. */
export function nameOf(agent) {
  if (agent.team || !agent.parent || !agent.description) return agent.name;
  return agent.name && agent.name !== agent.kind && agent.name !== agent.id ? agent.name : agent.description;
}

const COLORS = new Set(["blue", "green", "yellow", "purple", "orange", "pink", "cyan", "red", "teal", "gold", "lime", "violet"]);
export function colorClass(color) {
  return COLORS.has(color) ? `c-${color}` : "";
}

/** What a session has cost; nothing is said where no price is known. */
export function spent(session) {
  const unknown = !session.usd && session.agents && session.agents.some((agent) => agent.usd === null);
  return unknown || session.usd === null || session.usd === undefined ? "" : money(session.usd);
}

export function money(usd) {
  if (usd === null || usd === undefined) return "–"; // nobody knows its price
  return usd >= 0.01 || usd === 0 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(4)}`;
}

export function count(number) {
  if (number < 1000) return String(number);
  return number < 1e6 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1e6).toFixed(1)}M`;
}

export function span(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  return minutes < 1440 ? `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}` : `${Math.floor(minutes / 1440)} d`;
}

export function ago(ms) {
  if (!ms) return "";
  const passed = Math.max(0, (state.route.at || state.clock) - ms);
  return passed < 1000 ? "now" : `${passed < 10000 ? Math.floor(passed / 1000) + " s" : span(passed)} ago`;
}

export function clock(ms) {
  return ms ? new Date(ms).toLocaleTimeString([], { hour12: false }) : "";
}

export function when(ms) {
  if (!ms) return "";
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  return today ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })
    : date.toLocaleDateString([], { day: "numeric", month: "short" });
}

export function folder(path) {
  const parts = path.split("/").filter(Boolean);
  return parts.length ? parts[parts.length - 1] : path;
}

export function rows(found, { limit = 0, label = "What is asked for" } = {}) {
  const numbered = found.some((row) => row.number);
  const signed = found.some((row) => row.kind === "add" || row.kind === "del");
  const shown = limit ? found.slice(0, limit) : found;
  return h("div.rows", { tabindex: 0, role: "group", "aria-label": label }, shown.map((row, n) =>
    h(`div.row.k-${row.kind}`, { key: n },
      numbered ? h("span.no", { "aria-hidden": "true" }, row.number || "") : null,
      !signed ? null : h("span.sign", { "aria-hidden": row.kind === "add" || row.kind === "del" ? undefined : "true" }, row.kind === "add" ? "+" : row.kind === "del" ? "−" : " "),
      h("code.words", null, marked(row)))));
}

/** Before and after beside each other; what goes stands beside what comes in its place. */
export function sides(found, label) {
  const half = (row, number) => row
    ? [h("span.no", { "aria-hidden": "true" }, number || ""), h("span.sign", { "aria-hidden": row.kind === "plain" ? "true" : undefined }, row.kind === "add" ? "+" : row.kind === "del" ? "−" : " "), h(`code.words.k-${row.kind}`, null, marked(row))]
    : [h("span.no"), h("span.sign"), h("code.words.k-none")];
  return h("div.rows.sides", { tabindex: 0, role: "group", "aria-label": label }, paired(found).map(([left, right], n) =>
    left && left === right && left.kind !== "plain" ? h(`div.across.k-${left.kind}`, { key: n }, left.text)
      : h("div.pair-row", { key: n }, half(left, left && left.kind === "plain" ? left.old : left?.number), half(right, right?.number))));
}

function paired(found) {
  const out = [];
  for (let n = 0; n < found.length; ) {
    if (found[n].kind !== "del" && found[n].kind !== "add") {
      out.push([found[n], found[n++]]);
      continue;
    }
    const gone = [], come = [];
    while (n < found.length && found[n].kind === "del") gone.push(found[n++]);
    while (n < found.length && found[n].kind === "add") come.push(found[n++]);
    for (let k = 0; k < Math.max(gone.length, come.length); k++) out.push([gone[k], come[k]]);
  }
  return out;
}

function marked(row) {
  if (!row.marks || !row.marks.length) return row.text || " ";
  const out = [];
  let at = 0;
  const letters = Array.from(row.text);
  for (const [from, end] of row.marks) {
    out.push(letters.slice(at, from).join(""), h("mark", null, letters.slice(from, end).join("")));
    at = end;
  }
  return [...out, letters.slice(at).join("")];
}

/** Agents of the past with the colours that they have. */
export function coloured(agents, session) {
  const colors = new Map((session.agents || []).map((agent) => [agent.id, agent.color]));
  return agents.map((agent) => ({ ...agent, color: agent.color || colors.get(agent.id) || "" }));
}

export function nested(agents) {
  const ids = new Set(agents.map((agent) => agent.id));
  const out = [];
  const walk = (parent, deep) => {
    for (const agent of agents) if ((ids.has(agent.parent) ? agent.parent : null) === parent) out.push([agent, deep]), walk(agent.id, deep + 1);
  };
  walk(null, 0);
  return out;
}

/** A sentence in which what stands between backticks is code. */
export function sentence(text) {
  const parts = text.split(/`([^`]+)`/);
  return parts.map((part, n) => (n % 2 ? h("code", { key: n }, part) : n ? part : part.charAt(0).toUpperCase() + part.slice(1)));
}

export function error(name) {
  const words = state.errors.get(name);
  return words ? h("p.error", { role: "alert" }, words) : null;
}

export function empty(title, words, ...more) {
  return h("div.empty", null, h("p.lead", null, title), words ? h("p", null, sentence(words)) : null, ...more);
}

export function loading(held, lines = 4) {
  if (Date.now() - held.began < 150) {
    setTimeout(() => held.loading && dispatchEvent(new Event("redraw")), 170);
    return h("div.loading", { "aria-busy": "true" });
  }
  return h("div.loading", { "aria-busy": "true", "aria-label": "Loading" }, Array.from({ length: lines }, (_, n) => h("div.bar", { key: n })));
}

/** The value of a GET, or what stands in its place. */
export function shown(held, draw) {
  if (held.value) return draw(held.value);
  if (held.error) return h("div.empty", null, h("p.lead", null, "That did not work."), h("p", null, held.error));
  return loading({ ...held, loading: true });
}

const ICONS = {
  now: "M3 12h4l3-8 4 16 3-8h4", waiting: "M12 8v5m0 3.5v.1M12 3l9.5 17h-19z", talk: "M4 5h16v11H9l-5 4z",
  tasks: "M4 6l2 2 3-3M4 13l2 2 3-3M12 7h8M12 14h8M4 20h16", mail: "M3 6h18v12H3zM3 7l9 7 9-7",
  changes: "M6 3v12m0 0a3 3 0 1 0 .1 0M18 9a3 3 0 1 0-.1 0m0 0c0 5-6 4-11.5 6", cost: "M4 20V10m6 10V4m6 16v-7m4 7H2",
  team: "M9 11a4 4 0 1 0-.1 0M2 20c0-4 3-6 7-6s7 2 7 6m0-16a4 4 0 0 1 0 7m2 3c3 .5 4 2.5 4 6", more: "M5 12h.1M12 12h.1M19 12h.1",
  plus: "M12 5v14M5 12h14", link: "M10 14a4 4 0 0 0 6 0l4-4a4 4 0 0 0-6-6l-1 1m1 5a4 4 0 0 0-6 0l-4 4a4 4 0 0 0 6 6l1-1",
  settings: "M12 9a3 3 0 1 0 .1 0M12 2v3m0 14v3M2 12h3m14 0h3M5 5l2 2m10 10 2 2M19 5l-2 2M7 17l-2 2", list: "M4 6h16M4 12h16M4 18h16",
  close: "M6 6l12 12M18 6 6 18", open: "M9 6l6 6-6 6", stop: "M7 7h10v10H7z", clock: "M12 3a9 9 0 1 0 .1 0M12 7v5l3.5 2",
};
export function icon(name) {
  return h("svg.icon", { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, h("path", { d: ICONS[name] || ICONS.more }));
}

export function button(words, onclick, more = {}) {
  const { hint, kind, busy, ...rest } = more;
  const label = hint ? { "aria-label": more["aria-label"] || words, "aria-keyshortcuts": hint } : {};
  return h(`button.button${kind ? `.${kind}` : ""}`, { type: "button", onclick, disabled: busy || undefined, ...label, ...rest },
    words, hint ? h("kbd", { "aria-hidden": "true" }, hint) : null);
}
