// Questions as cards: who wants what and why, all of it, and the answers with their keys.

import { h } from "./dom.js";
import { markdown } from "./md.js";
import { ago, button, colorClass, error, rows, sentence as words } from "./parts.js";
import { act, draw, state, to } from "./state.js";

const DEAF = 600; // milliseconds in which a new question hears nothing,
const SHIFTED = 300; // and all of them when one has gone: a second click or key was not meant for the next
const typed = new Map(); // what is being written into a card, by question
let pointed = ""; // the card that somebody pointed at or went to
let hears = ""; // the one that hears keys, and shows them

export function waiting() {
  return [...state.questions.values()].sort((a, b) => a.asked - b.asked);
}

export function cards(questions, { where = true } = {}) {
  const gone = [...state.gone.values()].filter(({ question }) => questions.scope(question));
  const list = questions.list;
  hears = (list.find((one) => one.id === pointed) || list.find(hasKeys) || { id: "" }).id;
  const shown = [...list.map((question) => ({ question, waits: true })), ...gone].sort((a, b) => a.question.asked - b.question.asked);
  return h("section.waiting", { "aria-label": "Waiting for you" },
    shown.map(({ question, how, waits }) => waits ? card(question, where) : h("article.card.is-gone", { key: question.id, "aria-label": "Answered" },
      h("p", null, h("span.who", { class: colorClass(question.color) }, question.agent_name), ` ${question.tool}: `, outcome(question, how)))),
    list.length || gone.length ? null : h("div.empty", null, h("p.lead", null, where ? "Nobody waits for you." : "Nobody waits for you here."), h("p", null, where ? "Questions of agents come up here, and can be answered here." : "Questions of this session come up here, and can be answered here.")));
}

const PLACES = { terminal: "in the terminal", web: "on a page", acp: "in an editor", door: "at its door", stdio: "by the driving program", library: "by a program" };
function outcome(question, how) {
  const place = state.answered === question.id ? "here" : (how && PLACES[how.via]) || "elsewhere";
  if (!how) return state.answered === question.id ? "answered." : "answered elsewhere, or not wanted any more.";
  return how.verdict === "expired" ? "nobody answered in time." : `${how.verdict === "allow" ? "allowed" : "refused"} ${place}.`;
}

/** What waited at a moment of the past: it can be read, not answered. */
export function waitedThen(questions, session) {
  return h("section.waiting", { "aria-label": "Waiting then" },
    questions.map((question) => {
      const agent = session.agents.find((one) => one.id === question.agent);
      return h("article.card.is-gone", { key: `${question.agent}${question.asked}`, "aria-label": "Waited then" },
        h("header", null, h("span.who", { class: agent ? colorClass(agent.color) : "" }, agent ? agent.name : ""), h("span", null, `waited for an answer: ${question.tool}`)), h("p", null, h("code", null, question.title)));
    }),
    questions.length ? null : h("div.empty", null, h("p.lead", null, "Nobody waited then.")));
}

export function questionsOf(session) {
  const scope = (question) => !session || question.session === session;
  return { list: waiting().filter(scope), scope };
}

function card(question, where) {
  const name = `${question.agent_name} wants to use ${question.tool}`;
  const session = state.sessions.get(question.session);
  return h("article.card", {
    key: question.id, "aria-label": name, tabindex: -1, "data-question": question.id,
    onfocusin: () => point(question), onmousemove: (event) => (event.movementX || event.movementY) && point(question),
  },
    h("header", null,
      h("a.who", to({ page: "talk", session: question.session, agent: question.agent }, { class: colorClass(question.color) }), question.agent_name),
      h("span", null, sentence(question)),
      h("span.push.dim", null, ago(question.asked))),
    where && session ? h("p.dim.small.cut", null, session.title) : null,
    body(question),
    state.role === "full" ? answers(question) : h("p.dim.small.answers-not", null, "You are watching: this link cannot answer."),
    error(question.id));
}

function point(question) {
  if (pointed === question.id) return;
  pointed = question.id;
  draw();
}

const hasKeys = (question) => question.kind === "permission" || question.kind === "plan";

function sentence(question) {
  if (question.kind === "plan") return "has a plan";
  if (question.kind === "ask" || question.kind === "form") return "asks";
  return question.tool === "Bash" ? "wants to run" : question.is_edit ? "wants to change a file" : `wants to use ${question.tool}`;
}

function body(question) {
  if (question.kind === "plan") return h("div.prose.plan", { tabindex: 0, role: "group", "aria-label": "Plan" }, markdown(question.rows.map((row) => row.text).join("\n")));
  if (question.parts) return form(question);
  return [rows(question.rows), question.reason ? h("p.reason", null, words(question.reason)) : null];
}

// --- answers

function answers(question) {
  if (question.kind === "ask" || question.kind === "form") return formButtons(question);
  const held = typed.get(question.id);
  if (held && held.why !== undefined) return reason(question, held);
  const busy = onItsWay(question);
  const yes = (more) => () => answer(question, { decision: "allow", ...more });
  const key = (name) => (hears === question.id ? name : "");
  if (question.kind === "plan") {
    return h("div.answers.to-question", null,
      button("Approve", yes(), { kind: "primary", hint: key("y"), busy }),
      button("Approve, edits unasked", yes({ mode: "acceptEdits" }), { hint: key("t"), busy }),
      button("Keep planning", () => answer(question, { decision: "deny" }), { hint: key("n"), busy }),
      button("Keep planning, because…", () => why(question), { hint: key("w"), busy }));
  }
  const rules = question.rules.length > 0;
  return [h("div.answers.to-question", null,
    button("Allow once", yes(), { kind: "primary", hint: key("y"), busy }),
    rules && !question.outside ? button(`Always for ${question.agent_name}`, yes({ always: "agent" }), { hint: key("t"), busy }) : null,
    rules ? button("Always for all", yes({ always: "all" }), { hint: key("a"), busy }) : null,
    button("No", () => answer(question, { decision: "deny" }), { hint: key("n"), busy }),
    button("No, because…", () => why(question), { hint: key("w"), busy })),
  rules ? h("p.rule.dim.small", null, question.outside ? "Always runs outside of the sandbox: " : "Always adds: ", question.rules.map((rule, n) => [n ? ", " : "", h("code", null, rule)])) : null];
}

function why(question) {
  typed.set(question.id, { why: "" });
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(`[data-question="${question.id}"] textarea`)?.focus()));
}

function reason(question, held) {
  const send = () => answer(question, { decision: "deny", reason: held.why });
  return h("form.because", { onsubmit: (event) => (event.preventDefault(), send()) },
    h("textarea", {
      "aria-label": "Why not", rows: 2, placeholder: "What should it do instead?", value: held.why,
      oninput: (event) => (held.why = event.target.value),
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey) event.preventDefault(), send();
        if (event.key === "Escape") typed.delete(question.id), draw();
      },
    }),
    h("div.answers", null,
      h("button.button.primary", { type: "submit" }, "Say no"),
      button("Back", () => (typed.delete(question.id), draw()))));
}

const onItsWay = (question) => question.told || state.busy.has(question.id);

export async function answer(question, said) {
  if (question.told || Date.now() - question.seen < DEAF || Date.now() - state.shifted < SHIFTED) return;
  state.answered = question.id;
  const done = await act(question.id, `/api/sessions/${question.session}/questions/${question.id}`, said);
  if (!done) return;
  question.told = true; // its session has the answer; that it has gone comes over the socket, perhaps later
  typed.delete(question.id);
}

// --- forms

function form(question) {
  const held = typed.get(question.id) || { values: {} };
  typed.set(question.id, held);
  held.values = held.values || {};
  const set = (name, value) => ((held.values[name] = value), draw());
  const lead = question.kind === "form" ? h("p", null, question.rows.filter((row) => row.kind === "strong").map((row) => row.text).join("\n")) : null;
  return h("div.form", null, lead, question.parts.map((part, n) => question.kind === "ask" ? asked(question, part, held, set, n) : field(part, held, set)));
}

function asked(question, part, held, set, n) {
  const name = `${question.id}-${n}`;
  const chosen = held.values[part.question] || [];
  const pick = (label) => {
    if (!part.several) return set(part.question, [label]);
    return set(part.question, chosen.includes(label) ? chosen.filter((one) => one !== label) : [...chosen, label]);
  };
  return h("fieldset", { key: name }, h("legend", null, part.text),
    part.options.map((option) => h("label.option", { key: option.label },
      h("input", { type: part.several ? "checkbox" : "radio", name, checked: chosen.includes(option.label), onchange: () => pick(option.label) }),
      h("span", null, h("strong", null, option.text), h("span.dim", null, ` ${option.description}`)))),
    h("label.option", null, h("span.dim", null, "Other"), h("input", {
      type: "text", "aria-label": `Another answer: ${part.text}`, value: held.values[`${part.question}\n`] || "",
      oninput: (event) => set(`${part.question}\n`, event.target.value),
    })));
}

function field(part, held, set) {
  const label = [part.title, part.required ? "" : h("span.dim", null, " (optional)")];
  const value = held.values[part.name];
  let control;
  if (part.kind === "boolean") control = h("input", { type: "checkbox", checked: Boolean(value), onchange: (event) => set(part.name, event.target.checked) });
  else if (part.kind === "choice") {
    control = h("select", { onchange: (event) => set(part.name, part.values[event.target.value]) },
      h("option", { value: "" }, "—"), part.values.map((one, n) => h("option", { value: n, selected: value === one }, part.texts[n])));
  } else {
    const number = part.kind !== "text";
    control = h("input", { type: number ? "number" : "text", value: value ?? "", oninput: (event) => set(part.name, number && event.target.value !== "" ? Number(event.target.value) : event.target.value) });
  }
  return h("label.field", { key: part.name }, h("span", null, label), control, part.description ? h("span.dim.small", null, part.description) : null);
}

function formButtons(question) {
  const busy = onItsWay(question);
  return h("div.answers", null,
    button("Send", () => answer(question, { decision: "allow", answers: collected(question) }), { kind: "primary", busy }),
    button("Skip", () => answer(question, { decision: "deny" }), { busy }));
}

function collected(question) {
  const { values = {} } = typed.get(question.id) || {};
  if (question.kind === "form") return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined));
  return Object.fromEntries(question.parts.map((part) => {
    const other = values[`${part.question}\n`];
    return [part.question, [...(values[part.question] || []), ...(other ? [other] : [])].join(", ")];
  }).filter(([, said]) => said));
}

// --- keys

/** True if a question heard it. */
export function answerByKey(pressed) {
  const question = state.questions.get(hears);
  if (!question || state.role !== "full" || !hasKeys(question) || !document.querySelector(`[data-question="${hears}"]`)) return false;
  const always = question.rules.length > 0;
  const said = { y: { decision: "allow" }, n: { decision: "deny" }, t: question.kind === "plan" ? { decision: "allow", mode: "acceptEdits" } : always && !question.outside && { decision: "allow", always: "agent" }, a: question.kind !== "plan" && always && { decision: "allow", always: "all" } }[pressed];
  if (pressed === "w") return why(question), true;
  if (!said) return false;
  answer(question, said);
  return true;
}
