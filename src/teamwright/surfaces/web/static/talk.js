// The conversation of one agent: what is visible is drawn, the rest is read when it is scrolled to.

import { h } from "./dom.js";
import { markdown } from "./md.js";
import { get } from "./net.js";
import { button, clock, empty, error, loading, mark, nameOf, rows, span, stateWord, who } from "./parts.js";
import { act, agentOf, draw, go, mayAct, older, sessionOf, state, to } from "./state.js";

const NEAR = 900; // pixels from an end at which more is drawn
const STEP = 40;
const MOST = 160; // items in the page at once
let box = null; // the element that scrolls

export function talkScreen() {
  const { session: id, agent: agentId } = state.route;
  const session = sessionOf(id);
  const talk = state.talk;
  const agent = agentOf(session, agentId) || { id: agentId, name: agentId === id ? "main" : agentId, state: "idle" };
  return h("div.pane.talk", null, head(session, agent), conversation(talk, agent), session ? foot(session, agent) : null);
}

function head(session, agent) {
  const busy = agent.state === "running" || agent.state === "waiting";
  const kind = agent.team ? `teammate of ${agent.team}` : agent.parent ? agent.kind : session && session.team ? `leads ${session.team}` : session ? session.model : "";
  const may = session && mayAct(session);
  return h("header.bar", null, h("h1.cut", null, who(agent)), h("span.dim.cut.grow.kind", null, kind),
    h("span.state", null, mark(agent.state), h("span", null, ` ${stateWord(agent.state)}`), busy && agent.since ? h("span.dim", null, ` ${span(state.clock - agent.since)}`) : null),
    may && agent.state === "running" ? button("Interrupt", () => act("interrupt", `/api/sessions/${session.id}/interrupt`, { agent: agent.id }), { hint: ".", kind: "small" }) : null,
    may && waitedFor(session, agent) ? background(session, agent, "interrupt") : null,
    may && agent.parent && !agent.ended ? button("Stop", () => act("interrupt", `/api/sessions/${session.id}/stop`, { agent: agent.id }), { kind: "small", "aria-label": `Stop ${nameOf(agent)}` }) : null,
    error("interrupt"));
}

/** Another agent waits for it, and could go on. */
export function waitedFor(session, agent) {
  return agentOf(session, agent.parent)?.state === "waiting" && !agent.team && !agent.background && !agent.ended;
}

export function background(session, agent, name) {
  return button("To background", () => act(name, `/api/sessions/${session.id}/background`, { agent: agent.id }), { kind: "small", "aria-label": `To background: ${nameOf(agent)}`, title: "The agent that waits for it goes on meanwhile" });
}

function conversation(talk, agent) {
  let inside;
  if (!talk || (talk.loading && !talk.error)) inside = loading({ began: talk ? talk.began : Date.now(), loading: true }, 6);
  else if (talk.error && !talk.list.length) inside = empty("The conversation cannot be read.", talk.error);
  else if (!talk.list.length) inside = empty("Nothing was said yet.", state.role === "full" ? `Write to ${nameOf(agent)} below.` : "");
  else inside = items(talk);
  return h("section.conversation", { "aria-label": "Conversation", tabindex: 0, made: (node) => (box = node), onscroll: scrolled, key: talk ? `${talk.session}/${talk.agent}/${talk.at ? "then" : "now"}` : "none" },
    talk && talk.more && talk.from === 0 ? h("p.dim.small.center", null, talk.fetching ? "Reading…" : "Scroll up for more") : null,
    inside,
    talk && !talk.stick ? h("button.jump", { type: "button", onclick: jump }, "Jump to latest ↓") : null);
}

function items(talk) {
  const shown = talk.list.slice(talk.from, talk.to);
  const out = [];
  for (const item of shown) {
    out.push(row(talk, item));
    if (item.id === talk.left && item !== talk.list[talk.list.length - 1]) out.push(h("div.newline", { key: "new", role: "separator" }, h("span", null, "New")));
  }
  return h("ol.items", null, out);
}

function row(talk, item) {
  const opened = talk.open.get(item.id);
  const same = `${item.id}:${item.rev || 0}:${opened ? opened.rev : 0}:${item.status || ""}:${item.status === "running" ? state.clock : 0}`;
  const kind = item.type === "person" || item.type === "agent" ? `says.is-${item.type}.as-${item.type}` : `as-${item.type}`;
  return h(`li.item.${kind}`, { key: item.id, same }, content(talk, item, opened));
}

function content(talk, item, opened) {
  switch (item.type) {
    case "person":
      return [h("div.text.plain", null, item.text), whole(talk, item, opened)];
    case "agent":
      return [h("div.prose", { class: item.streaming ? "streaming" : "" }, tree(item)), whole(talk, item, opened)];
    case "thought":
      return thought(talk, item, opened);
    case "step":
      return step(talk, item, opened);
    default:
      return h(`p.note.n-${item.kind}`, null, item.who ? h("strong", null, `${item.who} `) : null, noteSign(item.kind), item.text);
  }
}

const trees = new WeakMap();
function tree(item) {
  const held = trees.get(item);
  if (held && held.size === item.text.length) return held.nodes;
  const nodes = markdown(item.text);
  trees.set(item, { size: item.text.length, nodes });
  return nodes;
}

function noteSign(kind) {
  return { message: "✉ ", notice: "◆ ", warning: "! ", error: "✗ ", aside: "» " }[kind] || "";
}

function whole(talk, item, opened) {
  if (!item.cut) return null;
  if (opened && opened.told) return h("div.text.plain", null, opened.told.text);
  return button("Show all of it", () => open(talk, item), { kind: "small" });
}

function thought(talk, item, opened) {
  const first = item.text.trim().split("\n")[0].slice(0, 120);
  return h("details.thought", { open: opened ? true : undefined },
    h("summary", { onclick: (event) => (event.preventDefault(), toggle(talk, item)) }, h("span.dim", null, item.streaming ? "thinking… " : "thought ", h("em", null, opened ? "" : first))),
    opened ? h("div.prose.dim", null, tree(item)) : null);
}

const SIGNS = { ok: ["✓", "done"], error: ["✗", "failed"], denied: ["⊘", "denied"], running: ["…", "running"] };
function step(talk, item, opened) {
  const [sign, word] = item.asked ? ["?", "waits for an answer"] : SIGNS[item.status] || SIGNS.running;
  const lasted = item.ended ? item.ended - (item.begun || item.at) : item.status === "running" && !talk.at ? state.clock - (item.begun || item.at) : 0;
  const took = lasted < 100 ? "" : span(lasted);
  return [h(`button.step.s-${item.asked ? "asked" : item.status}`, { type: "button", "aria-expanded": opened ? "true" : "false", onclick: () => toggle(talk, item) },
    h("span.sign", { role: "img", "aria-label": word }, sign), h("span.tool", null, item.tool), h("span.title", null, item.title),
    item.change ? h("span.change", null, item.change.replace("-", "−")) : null, h("span.took", null, took)),
  item.progress && !opened ? h("p.progress", null, item.progress) : null,
  opened ? detail(talk, item, opened) : null];
}

function detail(talk, item, opened) {
  if (opened.error) return h("p.error", null, opened.error);
  if (!opened.told) return h("div.detail", null, h("div.bar"));
  const { told } = opened;
  if (talk.at && item.status === "running") return h("div.detail", null, told.rows.length ? rows(told.rows, { label: "Call" }) : null); // its end was to come
  return h("div.detail", null,
    told.rows.length ? rows(told.rows, { label: "Call" }) : null,
    told.consent ? h("p.dim.small", null, consent(told.consent)) : null,
    told.result ? h("pre.result", { tabindex: 0, "aria-label": "Result" }, told.result) : null,
    told.cut ? h("p.dim.small", null, "The middle of it is left out here.") : null,
    item.agent ? h("p", null, h("a", to({ page: "talk", session: talk.session, agent: item.agent, at: talk.at }), "Open its conversation")) : null);
}

function consent(found) {
  const who = { person: "You", program: "The driving program", nobody: "Nobody" }[found.by];
  const verb = found.by === "nobody" ? "answered" : found.verdict === "allow" ? "allowed it" : "said no";
  const where = found.via ? ` (${found.via})` : "";
  return `${who} ${verb}${where} at ${clock(found.answered)}, after ${span(found.answered - found.asked)}`;
}

function toggle(talk, item) {
  if (talk.open.has(item.id)) {
    talk.open.delete(item.id);
    item.rev = (item.rev || 0) + 1;
    return draw();
  }
  return open(talk, item);
}

let revision = 1;
async function open(talk, item) {
  const held = { rev: revision++, told: null, error: "" };
  talk.open.set(item.id, held);
  talk.stick = talk.stick && talk.list[talk.list.length - 1] === item;
  draw();
  if (item.type === "thought" || item.id.startsWith("0.")) return;
  try {
    held.told = await get(`/api/sessions/${talk.session}/agents/${talk.agent}/items/${item.id}`);
  } catch (fault) {
    held.error = fault.message;
  }
  held.rev = revision++;
  draw();
}

// --- scrolling

function jump() {
  const talk = state.talk;
  talk.stick = true;
  talk.to = talk.list.length;
  talk.from = Math.max(0, talk.to - 80);
  draw();
}

function scrolled() {
  const talk = state.talk;
  if (!talk || !box) return;
  const below = box.scrollHeight - box.scrollTop - box.clientHeight;
  const stick = below < 24 && talk.to >= talk.list.length;
  if (box.scrollTop < NEAR && talk.from > 0 && !stick) {
    talk.from = Math.max(0, talk.from - STEP);
    if (talk.to - talk.from > MOST) talk.to = talk.from + MOST;
    draw();
  } else if (box.scrollTop < NEAR && talk.from === 0 && talk.more && !stick) {
    older(talk);
  }
  if (below < NEAR && talk.to < talk.list.length) {
    talk.to = Math.min(talk.list.length, talk.to + STEP);
    if (talk.to - talk.from > MOST) talk.from = talk.to - MOST;
    draw();
  }
  if (stick !== talk.stick) {
    talk.stick = stick;
    draw();
  }
}

let anchor = null;
export function beforeDraw() {
  anchor = null;
  const talk = state.talk;
  if (!talk || talk.stick || !box || !box.isConnected) return;
  const top = box.getBoundingClientRect().top;
  for (const node of box.querySelectorAll("li.item")) {
    const place = node.getBoundingClientRect();
    if (place.bottom > top) {
      anchor = { node, key: node.vkey, top: place.top };
      return;
    }
  }
}

export function afterDraw() {
  const talk = state.talk;
  if (!talk || !box || !box.isConnected) return;
  if (talk.stick) {
    box.scrollTop = box.scrollHeight;
    remember(talk);
  } else if (anchor && anchor.node.isConnected) {
    const moved = anchor.node.getBoundingClientRect().top - anchor.top;
    if (Math.abs(moved) > 0.5) box.scrollTop += moved;
  }
  const button = box.querySelector(".jump");
  if (button) button.hidden = talk.to >= talk.list.length && box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  // A wheel that turns meanwhile may end where it began, and then no event tells of it.
  if (!talk.stick && box.scrollTop < NEAR && (talk.from > 0 || talk.more)) requestAnimationFrame(scrolled);
}

let remembered = 0;
function remember(talk) {
  const last = talk.list[talk.list.length - 1];
  if (!last || talk.at || document.hidden || last.id.startsWith("0.") || Date.now() - remembered < 1000) return;
  remembered = Date.now();
  localStorage.setItem(`teamwright.left.${talk.agent}`, last.id);
}

// --- saying something

const outputs = new Map(); // of commands that no model reads, until something else is said

function foot(session, agent) {
  if (state.route.at) return null;
  if (state.role !== "full") return h("footer.composer", null, h("p.dim", null, "You are watching."));
  const ended = session.state === "ended" || session.state === "gone";
  if (!session.steerable && !ended) return h("footer.composer", null, h("p.dim", null, "Runs without a door: you can watch. Start it with --listen to take part."));
  const deaf = ended && agent.id !== session.id; // only the main agent begins again with what is said
  const name = `say-${agent.id}`;
  const queued = (session.queue || []).filter((one) => one.agent === agent.id);
  const label = nameOf(agent);
  return h("footer.composer", null,
    ended ? h("p.dim.small", null, session.state === "gone" ? "Its program has ended. " : "It has ended. ", deaf ? "Write to its main agent to resume it." : "What you say resumes it.",
      session.state === "gone" ? button("Resume", () => act(name, `/api/sessions/${session.id}/resume`, {}), { kind: "small", busy: state.busy.has(name) }) : null) : null,
    queued.map((one) => h("div.queued", { key: one.letter }, h("span.dim", null, "queued"), h("span.cut", null, one.text),
      button("Take back", () => takeBack(session, agent, one), { kind: "small" }))),
    deaf ? null : h("form", { onsubmit: (event) => (event.preventDefault(), say(session, agent)) },
      h("textarea", {
        "aria-label": `Message ${label}`, placeholder: `Message ${label.length > 28 ? `${label.slice(0, 27)}…` : label}`, rows: 1, value: state.drafts.get(agent.id) || "",
        oninput: (event) => (state.drafts.set(agent.id, event.target.value), grow(event.target)),
        onkeydown: (event) => typedKey(event, session, agent, queued), made: (node) => requestAnimationFrame(() => grow(node)),
      }),
      h("button.button.primary", { type: "submit", disabled: state.busy.has(name) || undefined }, "Send")),
    state.line === "away" && state.outbox.length ? h("p.dim.small", null, "It is sent when the connection is back.") : null,
    outputs.has(name) ? h("div.output", { role: "status" }, markdown(outputs.get(name))) : null,
    error(name));
}

function grow(area) {
  area.style.setProperty("height", "auto");
  area.style.setProperty("height", `${Math.min(area.scrollHeight + 2, 220)}px`);
}

function typedKey(event, session, agent, queued) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    say(session, agent);
  } else if (event.key === "ArrowUp" && !event.target.value && queued.length) {
    event.preventDefault();
    takeBack(session, agent, queued[queued.length - 1]);
  } else if (event.key === "Escape") event.target.blur();
}

async function say(session, agent) {
  const text = (state.drafts.get(agent.id) || "").trim();
  if (!text) return;
  const name = `say-${agent.id}`;
  outputs.delete(name);
  const then = (told) => {
    if (told && told.output) outputs.set(name, told.output);
    if ((state.drafts.get(agent.id) || "").trim() === text) state.drafts.set(agent.id, "");
    const area = document.querySelector(".composer textarea");
    if (area) requestAnimationFrame(() => grow(area));
    if (state.talk) state.talk.stick = true;
  };
  const sent = { name, path: `/api/sessions/${session.id}/say`, body: { text, agent: agent.id }, then };
  if (state.line === "away") {
    if (!state.outbox.some((one) => one.name === name)) state.outbox.push(sent);
    return draw();
  }
  await act(sent.name, sent.path, sent.body, sent.then);
}

async function takeBack(session, agent, one) {
  const done = await act(`say-${agent.id}`, `/api/sessions/${session.id}/withdraw`, { letter: one.letter });
  if (done && !(state.drafts.get(agent.id) || "")) state.drafts.set(agent.id, one.text);
  draw();
}

export function otherAgent(by) {
  const session = sessionOf(state.route.session);
  if (!session || !session.agents) return;
  const at = session.agents.findIndex((agent) => agent.id === state.route.agent);
  const next = session.agents[(at + by + session.agents.length) % session.agents.length];
  if (next) go({ page: "talk", session: session.id, agent: next.id, at: state.route.at });
}

