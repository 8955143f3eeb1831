// Screens of one session: team, tasks, mail, changes, and its past.

import { h } from "./dom.js";
import { get } from "./net.js";
import { ago, button, clock, colorClass, coloured, count, empty, error, icon, mark, money, nameOf, nested, rows, shown, sides, span, who } from "./parts.js";
import { doing, modeName, MODES } from "./screens.js";
import { act, draw, go, mayAct, snapshot, stale, state, to, want } from "./state.js";
import { background, waitedFor } from "./talk.js";

const base = () => `/api/sessions/${state.route.session}`;

// --- Team

export function teamScreen(session) {
  const then = snapshot();
  const agents = then ? (then.value ? coloured(then.value.agents, session) : []) : session.agents;
  const roster = new Map((want(`${base()}/team`, 3000).value?.members || []).map((member) => [member.id, member]));
  const tree = nested(agents);
  return h("section", { "aria-label": "Agents" }, h("ul.list.team", null, tree.map(([agent, deep]) => {
    const member = roster.get(agent.id);
    return h("li.line", { key: agent.id },
      h("a.member", to({ page: "talk", session: session.id, agent: agent.id, at: state.route.at }, { css: { "padding-left": `${deep * 16}px` } }), mark(agent.state), h("span.name", null, who(agent, "cut"), h("span.doing.cut", { title: doing(agent, agents) }, doing(agent, agents)))),
      h("span.facts", null, agent.task ? h("span.task", { title: agent.task.subject }, `#${agent.task.id}`) : null,
        member && member.unread ? h("span.badge", { title: "unread messages" }, member.unread) : null,
        agent.worktree ? h("code.small.dim.cut", { title: agent.worktree }, agent.worktree) : null),
      h("span.dim.num", null, count(agent.tokens)), h("span.dim.num", null, money(agent.usd)),
      h("span.acts", null, mayAct(session) && agent.state === "running" ? button("Interrupt", () => act(`a-${agent.id}`, `${base()}/interrupt`, { agent: agent.id }), { kind: "small", "aria-label": `Interrupt ${nameOf(agent)}` }) : null,
      mayAct(session) && waitedFor(session, agent) ? background(session, agent, `a-${agent.id}`) : null,
      mayAct(session) && agent.team && agent.parent && !agent.ended ? button("Shut down", () => act(`a-${agent.id}`, `${base()}/shutdown`, { agent: agent.id }), { kind: "small", "aria-label": `Shut down ${nameOf(agent)}`, title: "Asks it to end when its work is done" }) : null,
      mayAct(session) && agent.parent && !agent.ended ? button("Stop", () => act(`a-${agent.id}`, `${base()}/stop`, { agent: agent.id }), { kind: "small", "aria-label": `Stop ${nameOf(agent)}` }) : null),
      error(`a-${agent.id}`));
  })), mayAct(session) && agents.some((agent) => agent.parent && !agent.ended) ? h("p", null, button("Stop all", () => act("stop-all", `${base()}/stop`, { all: true })), error("stop-all")) : null,
  controls(session));
}

function controls(session) {
  if (!mayAct(session)) return null;
  return h("div.pair.controls", null,
    h("label.field", null, h("span", null, "Permissions"), h("select", { value: session.mode, onchange: (event) => act("mode", `${base()}/mode`, { mode: event.target.value }) },
      [...new Set([...MODES.keys(), session.mode])].map((mode) => h("option", { key: mode, value: mode }, modeName(mode)))), error("mode")),
    h("label.field", null, h("span", null, "Model"), h("select", { value: session.model, onchange: (event) => act("model", `${base()}/model`, { model: event.target.value }) },
      [...new Set([session.model, ...(session.models || [])])].map((model) => h("option", { key: model, value: model }, model))), error("model")));
}

// --- Tasks

const board = { view: localStorage.getItem("teamwright.tasks") || "board", chosen: "", adding: false, draft: {} };
const COLUMNS = [["blocked", "Blocked"], ["ready", "Ready"], ["in_progress", "In progress"], ["completed", "Done"]];

export function tasksScreen(session, narrow = false) {
  const then = snapshot();
  const held = then || kept(want(`${base()}/tasks${board.chosen ? `?chosen=${board.chosen}` : ""}`, 5000));
  const view = narrow || then ? "list" : board.view;
  const may = mayAct(session);
  return h("section", { "aria-label": "Tasks" },
    narrow ? null : h("div.tools", null, then ? null : h("div.tabs", { role: "group", "aria-label": "How tasks are shown" }, ["board", "list", "graph"].map((name) =>
      h("button.tab", { key: name, type: "button", "aria-pressed": view === name ? "true" : "false", onclick: () => ((board.view = name), localStorage.setItem("teamwright.tasks", name), draw()) }, name))),
    may ? button("Add a task", () => ((board.adding = !board.adding), draw()), { kind: "small" }) : null),
    board.adding && may && !narrow ? taskForm(session, null) : null,
    shown(held, (told) => {
      if (!told.tasks.length) return empty("No tasks yet.", "The lead makes them, or add one.");
      if (view === "graph") return graph(told);
      return view === "board" ? columns(told.tasks, session) : h("ul.list", null, told.tasks.map((task) => h("li", { key: task.id }, taskCard(task, session, narrow))));
    }));
}

/** While the paths of another task are asked for, what is there stays. */
function kept(held) {
  if (held.value) Object.assign(board, { last: held.value, of: state.route.session });
  return held.value || held.error || board.of !== state.route.session ? held : { ...held, value: board.last };
}

const columnOf = (task) => (task.status === "pending" ? (task.blockedBy.length ? "blocked" : "ready") : task.status);

function columns(tasks, session) {
  return h("div.board", null, COLUMNS.map(([name, words]) => {
    const own = tasks.filter((task) => columnOf(task) === name);
    return h(`section.column.in-${name}`, { key: name, "aria-label": words }, h("h2", null, words, h("span.dim", null, ` ${own.length}`)), own.map((task) => taskCard(task, session)), own.length ? null : h("p.none", { "aria-hidden": "true" }));
  }));
}

function taskCard(task, session, small = false) {
  const owner = session.agents && session.agents.find((agent) => agent.name === task.owner);
  const open = board.chosen === task.id && !small;
  return h(`div.task-card.t-${columnOf(task)}`, { key: task.id },
    h("button.plain.task-head", { type: "button", "aria-expanded": open ? "true" : "false", onclick: () => ((board.chosen = open ? "" : task.id), draw()) },
      h("span.dim", null, `#${task.id}`), h("span.grow", null, task.subject), task.owner ? h("span.who", { class: owner ? colorClass(owner.color) : "" }, task.owner) : null),
    task.blockedBy && task.blockedBy.length ? h("p.dim.small", null, `waits for ${task.blockedBy.map((id) => `#${id}`).join(", ")}`) : null,
    open ? h("div.task-more", null, task.description ? h("p.text", null, task.description) : null, h("p.dim.small", null, `changed ${ago(task.updatedAt)}`), mayAct(session) ? taskForm(session, task) : null) : null);
}

function taskForm(session, task) {
  const name = task ? `task-${task.id}` : "task-new";
  const draft = (board.draft[name] = board.draft[name] || { subject: task ? task.subject : "", description: task ? task.description : "", owner: (task && task.owner) || "" });
  const path = task ? `${base()}/tasks/${task.id}` : `${base()}/tasks`;
  const done = () => {
    delete board.draft[name];
    if (!task) board.adding = false;
    stale(`${base()}/tasks`);
  };
  const save = () => {
    const body = { ...draft };
    if (task) for (const part of ["subject", "description", "owner"]) if (draft[part] === (task[part] || "")) delete body[part];
    return act(name, path, body, done);
  };
  const names = session.agents.filter((agent) => agent.team || !agent.parent).map((agent) => agent.name);
  return h("form.stack.task-form", { onsubmit: (event) => (event.preventDefault(), save()) },
    h("input", { type: "text", "aria-label": "Subject", placeholder: "Subject", required: true, value: draft.subject, oninput: (event) => (draft.subject = event.target.value) }),
    h("textarea", { "aria-label": "Description", placeholder: "Description", rows: 2, value: draft.description, oninput: (event) => (draft.description = event.target.value) }),
    h("select", { "aria-label": "Owner", value: draft.owner, onchange: (event) => (draft.owner = event.target.value) }, h("option", { value: "" }, "nobody"), [...new Set([...names, draft.owner].filter(Boolean))].map((one) => h("option", { key: one, value: one }, one))),
    task && task.owner && task.status === "in_progress" ? h("p.warn.small", null, `${task.owner} works on it and is told of the change.`) : null,
    h("div.answers", null, h("button.button.primary", { type: "submit" }, task ? "Save" : "Add"),
      task ? button(task.status === "completed" ? "Reopen" : "Done", () => act(name, path, { status: task.status === "completed" ? "pending" : "completed" }, done)) : null,
      task ? button("Delete", () => act(name, path, { status: "deleted" }, done)) : null), error(name));
}

const WIDTH = 176, HEIGHT = 44, WORDS = Object.fromEntries(COLUMNS);
function graph({ tasks, graph: found }) {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const lit = board.chosen ? pathsOf(found.edges, board.chosen) : null;
  if (!found.nodes.length) return empty("Too many tasks for one picture.", "Choose one in the list: its paths are drawn then.");
  return h("div.graph", { tabindex: 0, role: "group", "aria-label": "Graph of tasks" }, h("svg", { viewBox: `-4 -4 ${found.width + 8} ${found.height + 8}`, width: found.width + 8, height: found.height + 8, role: "group", "aria-label": `${tasks.length} tasks and what they wait for` },
    found.edges.map((edge) => h("path.edge", { key: `${edge.from}-${edge.to}`, d: edge.path, class: lit && lit.has(edge.from) && lit.has(edge.to) ? "is-lit" : "" })),
    found.nodes.map((node) => {
      const task = byId.get(node.id);
      return h("g.node", { key: node.id, class: `t-${columnOf(task)} ${lit && !lit.has(node.id) ? "is-far" : ""}`, transform: `translate(${node.x} ${node.y})`, tabindex: 0, role: "button", "aria-pressed": board.chosen === node.id ? "true" : "false", "aria-label": `#${task.id} ${task.subject}, ${WORDS[columnOf(task)]}`,
        onclick: () => choose(node.id), onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), event.stopPropagation(), choose(node.id)) },
        h("title", null, task.subject), h("rect", { width: WIDTH, height: HEIGHT, rx: 6 }),
        h("text", { x: 10, y: 18 }, `#${task.id} ${cut(task.subject, 20)}`), h("text.sub", { x: 10, y: 34 }, cut(`${WORDS[columnOf(task)]}${task.owner ? ` · ${task.owner}` : ""}`, 26)));
    })));
}

function choose(id) {
  board.chosen = board.chosen === id ? "" : id;
  draw();
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function pathsOf(edges, chosen) {
  const found = new Set([chosen]);
  for (const [from, end] of [["from", "to"], ["to", "from"]]) {
    const todo = [chosen];
    while (todo.length) {
      const at = todo.pop();
      for (const edge of edges) if (edge[from] === at && !found.has(edge[end])) found.add(edge[end]), todo.push(edge[end]);
    }
  }
  return found;
}

// --- Mail

const post = { from: "", to: "", only: "", open: 0, colors: new Map() };
export function mailScreen(session, narrow = false) {
  const held = want(`${base()}/mail?limit=${narrow ? 100 : 400}`, 5000);
  return h("section", { "aria-label": "Mail" }, shown(held, ({ entries }) => {
    let list = state.route.at ? entries.filter((entry) => entry.sent_at <= state.route.at).map(asOf) : entries;
    if (!list.length) return empty("No messages yet.", "What teammates write to each other is shown here.");
    post.colors = new Map(list.map((entry) => [entry.from, entry.color]));
    const names = [...new Set(list.flatMap((entry) => [entry.from, entry.to]))];
    list = list.filter((entry) => (!post.from || entry.from === post.from) && (!post.to || entry.to === post.to) && (!post.only || entry.state === post.only));
    const choice = (label, name, options) => h("select", { "aria-label": label, value: post[name], onchange: (event) => ((post[name] = event.target.value), draw()) }, h("option", { value: "" }, label), options.map(([value, words]) => h("option", { key: value, value }, words)));
    return [narrow ? null : h("div.tools", null, choice("From", "from", names.map((one) => [one, one])), choice("To", "to", names.map((one) => [one, one])), choice("All", "only", [["stored", "unread"], ["delivered", "read"], ["dead", "dead"]])),
      narrow || state.wide < 900 ? letters(list, session) : h("div.mail-grid", null, lanes(list, names, session), letters(list, session))];
  }));
}

const asOf = (entry) => (entry.delivered_at && entry.delivered_at <= state.route.at ? entry : { ...entry, delivered_at: null, state: "stored" });

function letters(list, session) {
  return h("ol.letters", null, [...list].reverse().map((entry) => h(`li.letter.m-${entry.state}`, { key: entry.n },
    h("button.plain", { type: "button", "aria-expanded": post.open === entry.n ? "true" : "false", onclick: () => ((post.open = post.open === entry.n ? 0 : entry.n), draw()) },
      h("span.way", null, h("span.who.cut", { class: colorOf(session, entry.from), title: entry.from }, entry.from), h("span.dim", null, "→"), h("span.who.cut", { class: colorOf(session, entry.to), title: entry.to }, entry.to),
        h("span.push.dim.num", null, clock(entry.sent_at))), h("span.summary.cut", null, entry.summary || entry.text)),
    h("p.dim.small", null, entry.state === "dead" ? `dead: ${entry.reason || "nobody reads it"}` : entry.delivered_at ? readAfter(entry.delivered_at - entry.sent_at) : "not read yet"),
    post.open === entry.n ? h("p.text", null, entry.text) : null)));
}

const readAfter = (ms) => (ms < 1000 ? "read at once" : `read after ${span(ms)}`);

function colorOf(session, name) {
  const found = session.agents && session.agents.find((agent) => agent.name === name);
  return colorClass(found ? found.color : post.colors.get(name));
}

function lanes(list, names, session) {
  const width = 88, gap = 26, top = 28;
  const times = [...new Set(list.flatMap((entry) => [entry.sent_at, entry.delivered_at]).filter(Boolean))].sort((a, b) => a - b);
  const y = new Map(times.map((time, n) => [time, top + n * gap]));
  const x = (name) => names.indexOf(name) * width + width / 2;
  const height = top + times.length * gap + 10;
  return h("div.lanes", { tabindex: 0, role: "group", "aria-label": "Lanes of messages" }, h("svg", { width: names.length * width, height, role: "img", "aria-label": "Who wrote to whom, and when it was read" },
    names.map((name) => h("g", { key: name }, h("text.lane", { x: x(name), y: 14 }, cut(name, 11)), h("line", { x1: x(name), x2: x(name), y1: 22, y2: height }))),
    list.map((entry) => {
      const end = entry.delivered_at ? y.get(entry.delivered_at) : y.get(entry.sent_at) + gap;
      return h(`path.arrow.m-${entry.state}`, { key: entry.n, class: colorOf(session, entry.from), d: `M${x(entry.from)} ${y.get(entry.sent_at)} L${x(entry.to)} ${end}`, onclick: () => ((post.open = entry.n), draw()) }, h("title", null, `${entry.from} → ${entry.to}: ${entry.summary}`));
    }),
    list.map((entry) => h("circle", { key: `c${entry.n}`, class: `m-${entry.state}`, cx: x(entry.to), cy: entry.delivered_at ? y.get(entry.delivered_at) : y.get(entry.sent_at) + gap, r: 3 }))));
}

// --- Changes

const SIDES = 1400; // pixels from which a diff is shown side by side
const change = { file: "", preview: null };
export function changesScreen(session, narrow = false) {
  const held = want(`${base()}/changes`, 10000);
  return h("section", { "aria-label": "Changes" }, shown(held, ({ worktrees, landing, note }) => {
    if (!worktrees.length && !landing.length) return empty("No branches of agents here.", note || "An agent that works in a worktree of its own shows up here with what it changes.");
    return [h("ul.list", null, worktrees.map((tree) => h("li", { key: tree.name }, treeRow(session, tree, narrow)))), landing.length ? landingQueue(landing) : null];
  }));
}

function landingQueue(entries) {
  return h("section", { "aria-label": "Landing queue" }, h("h2", null, "Landing queue"), h("ul.list", null, entries.map((entry) => h("li", { key: entry.id }, h("div.line", null,
    h("code.cut", null, entry.branch), h("span.dim.cut.grow", null, entry.reason), h("span.dim.cut", null, [entry.owner, entry.task ? `#${entry.task}` : ""].filter(Boolean).join(" ")),
    h("span.dim", null, `onto ${entry.target}`), h(entry.state === "sent_back" ? "span.badge" : "span.badge.quiet", null, entry.state.replace("_", " ")))))));
}

function treeRow(session, tree, narrow) {
  const open = state.route.name === tree.name;
  const route = { page: "changes", session: session.id, name: open ? "" : tree.name };
  const agent = session.agents.find((one) => one.worktree && one.worktree === tree.name);
  return [h("a.line.tree-line", to(route, { "aria-expanded": open ? "true" : "false" }), h("span.turn", { "aria-hidden": "true" }, open ? "▾" : "▸"), h("span.who-of", null, agent ? who(agent) : h("span.dim", null, tree.owner || "")), h("code.cut.grow.dim", null, tree.branch),
    h("span.change", null, h("span.plus", null, `+${tree.insertions}`), " ", h("span.minus", null, `−${tree.deletions}`)), h("span.dim.num", null, `${tree.ahead} ahead`), h("span.badge.quiet", null, tree.state.replace("_", " "))),
  open && !narrow ? treeMore(session, tree) : null];
}

function treeMore(session, tree) {
  const path = `${base()}/changes/${encodeURIComponent(tree.name)}`;
  const name = `tree-${tree.name}`;
  const held = want(path, 10000);
  const preview = async () => {
    change.preview = { name: tree.name };
    draw();
    try {
      change.preview = { name: tree.name, told: await get(`${path}/preview`) };
    } catch (fault) {
      change.preview = { name: tree.name, error: fault.message };
    }
    draw();
  };
  const done = () => {
    change.preview = null;
    stale(`${base()}/changes`);
  };
  const told = change.preview && change.preview.name === tree.name ? change.preview : null;
  return h("div.tree", null,
    h("div.answers", null, button("Preview merge", preview), state.role === "full" && !state.route.at ? button("Merge", () => act(name, `${path}/merge`, {}, done), { kind: told && told.told && told.told.passes ? "primary" : "", busy: state.busy.has(name) }) : null,
      state.role === "full" && !state.route.at ? button("Remove", () => act(name, `${path}/remove`, {}, done), { busy: state.busy.has(name) }) : null),
    error(name), told ? verdict(told) : null,
    shown(held, (seen) => [h("p.dim.small", null, `${seen.ahead_of_here} ahead of ${seen.here || "here"}, ${seen.behind_here} behind`),
      seen.commits.length ? h("ul.commits", null, seen.commits.map((commit) => h("li", { key: commit }, h("code", null, commit)))) : null,
      seen.files.map((file) => fileRow(path, file))]));
}

function verdict({ told, error: fault }) {
  if (fault) return h("p.error", { role: "alert" }, fault);
  if (!told) return h("p.dim", null, "Trying…");
  const words = !told.commits ? "Nothing to merge." : told.passes ? `Merges cleanly into ${told.into}: ${told.touched.length} ${told.touched.length === 1 ? "file" : "files"}.` : "Does not merge.";
  return h("div", { class: told.passes ? "verdict good" : "verdict warn", role: "status" }, h("p", null, words), [...told.conflicts.map((one) => `conflict in ${one}`), ...told.blocked].map((line) => h("p.small", { key: line }, line)));
}

function fileRow(path, file) {
  const open = change.file === `${path}${file.path}`;
  return h("div.file", { key: file.path },
    h("button.plain.line", { type: "button", "aria-expanded": open ? "true" : "false", onclick: () => ((change.file = open ? "" : `${path}${file.path}`), draw()) },
      h("span.turn", { "aria-hidden": "true" }, open ? "▾" : "▸"), h("code.cut.grow", null, file.path), h("span.change", null, h("span.plus", null, `+${file.insertions}`), " ", h("span.minus", null, `−${file.deletions}`))),
    open ? shown(want(`${path}/diff?path=${encodeURIComponent(file.path)}`, 10000), (diff) => [state.wide >= SIDES && diff.rows.some((row) => row.kind === "del") ? sides(diff.rows, `Diff of ${file.path}`) : rows(diff.rows, { label: `Diff of ${file.path}` }), diff.cut ? h("p.dim", null, "The rest is left out here.") : null]) : null);
}

// --- the past

const play = { speed: 0, timer: 0 };
const TICK = 250; // milliseconds
export function replayBar() {
  const { at } = state.route;
  const held = want(`${base()}/moments`);
  if (!held.value) return null;
  const { from, to: end, moments } = held.value;
  if (end <= from) return null;
  const set = (ms, replace = true) => go({ ...state.route, at: Math.round(Math.max(from, Math.min(end, ms))) }, replace);
  if (!at) return h("div.replay.is-off", null, button(state.wide < 700 ? icon("clock") : "Replay", () => set(end, false), { kind: "small", "aria-label": "Replay this session" }));
  return h("div.replay", { role: "group", "aria-label": "Replay" },
    h("p.band", null, h("strong", null, `Replay ${clock(at)}`), " — ", h("a", to({ ...state.route, at: 0 }), "Back to now")),
    h("div.slide", null,
      button(play.speed ? "Pause" : "Play", () => toggle(set), { kind: "small" }),
      [1, 10, 60].map((speed) => button(`${speed}×`, () => run(set, speed), { key: speed, kind: "small", "aria-pressed": play.speed === speed ? "true" : "false" })),
      h("div.track", null,
        h("input", { type: "range", "aria-label": "Time", min: from, max: end, step: 1, value: String(at), "aria-valuetext": clock(at), oninput: (event) => set(Number(event.target.value)) }),
        h("svg.ticks", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" }, thinned(moments, from, end).map((moment) => h("line", { key: `${moment.at}${moment.kind}${moment.agent}`, class: `k-${moment.kind}`, x1: moment.x, x2: moment.x, y1: 0, y2: 8 }))))),
    h("p.dim.small.cut", { "aria-live": "polite" }, near(moments, at)));
}

function thinned(moments, from, end) {
  const seen = new Set();
  return moments.map((moment) => ({ ...moment, x: Math.round((1000 * (moment.at - from)) / (end - from)) })).filter((moment) => !seen.has(moment.x) && seen.add(moment.x));
}

function near(moments, at) {
  const last = moments.filter((moment) => moment.at <= at).pop();
  return last ? `${clock(last.at)} ${last.kind.replace("_", " ")}: ${last.text}` : "";
}

function run(set, speed) {
  clearInterval(play.timer);
  play.speed = speed;
  play.timer = setInterval(() => {
    const held = want(`${base()}/moments`).value;
    if (!state.route.at || !held || state.route.at >= held.to) return toggle(set);
    set(state.route.at + TICK * play.speed);
  }, TICK);
  draw();
}

function toggle(set) {
  if (play.speed) {
    clearInterval(play.timer);
    play.speed = 0;
    draw();
  } else run(set, 1);
}

export function replayKey(pressed) {
  if (!state.route.at) return false;
  const held = want(`${base()}/moments`).value;
  if (!held) return false;
  const set = (ms) => go({ ...state.route, at: ms }, true);
  if (pressed === " ") return toggle(set), true;
  const times = held.moments.map((moment) => moment.at);
  if (pressed === "ArrowRight") return set(times.find((time) => time > state.route.at) || held.to), true;
  if (pressed === "ArrowLeft") return set([...times].reverse().find((time) => time < state.route.at) || held.from), true;
  return false;
}

