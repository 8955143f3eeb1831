// A small view: functions make trees of plain objects, `patch` brings the page to them. No HTML string is ever made.

const SVG = "http://www.w3.org/2000/svg";
const IN_SVG = new Set(["svg", "path", "rect", "circle", "line", "g", "polyline", "text", "title", "defs", "marker"]);

/** h("div.card", {key, class, on…, css: {…}}, ...children). A child is a node, a text, a number, a list or nothing. */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const found = props || {};
  const all = [classes.join(" "), found.class || ""].filter(Boolean).join(" ");
  return { name, props: found, classes: all, key: found.key, children: flat(children, []) };
}

function flat(children, out) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true || child === "") continue;
    if (Array.isArray(child)) flat(child, out);
    else out.push(typeof child === "object" ? child : { text: String(child) });
  }
  return out;
}

/** Makes `holder` have exactly these children, reusing what is there. */
export function patch(holder, children) {
  patchChildren(holder, flat([children], []), holder.namespaceURI === SVG);
}

function patchChildren(parent, wanted, svg) {
  const keyed = new Map();
  for (let node = parent.firstChild; node; node = node.nextSibling) {
    if (node.vkey !== undefined) keyed.set(node.vkey, node);
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    let node = want.key !== undefined ? keyed.get(want.key) : at;
    if (node && (want.key === undefined) !== (node.vkey === undefined)) node = want.key === undefined ? skipKeyed(at) : null;
    if (node && fits(node, want)) {
      if (node !== at) parent.insertBefore(node, at);
      else at = at.nextSibling;
      update(node, want, svg);
    } else {
      parent.insertBefore(create(want, svg), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    parent.removeChild(at);
    at = next;
  }
}

function skipKeyed(node) {
  while (node && node.vkey !== undefined) node = node.nextSibling;
  return node;
}

function fits(node, want) {
  if (want.text !== undefined) return node.nodeType === 3;
  return node.nodeType === 1 && node.vname === want.name && node.vkey === want.key;
}

function create(want, svg) {
  if (want.text !== undefined) return document.createTextNode(want.text);
  const inside = svg || want.name === "svg";
  const node = inside && IN_SVG.has(want.name) ? document.createElementNS(SVG, want.name) : document.createElement(want.name);
  node.vname = want.name;
  node.vkey = want.key;
  node.vprops = {};
  update(node, want, inside);
  if (want.props.made) want.props.made(node);
  return node;
}

function update(node, want, svg) {
  if (want.text !== undefined) {
    if (node.data !== want.text) node.data = want.text;
    return;
  }
  if (want.props.same !== undefined && node.vprops.same === want.props.same) return; // nothing in it can have changed
  if (want.classes !== node.vclasses) {
    node.setAttribute("class", want.classes);
    node.vclasses = want.classes;
  }
  setProps(node, node.vprops, want.props);
  node.vprops = want.props;
  if (!want.props.own) patchChildren(node, want.children, svg || want.name === "svg");
  if (want.name === "select" && want.props.value !== undefined) node.value = want.props.value; // its options are there now
}

const NO_ATTRIBUTE = new Set(["key", "class", "css", "made", "same", "own", "value", "checked"]);

function setProps(node, before, now) {
  for (const name in before) if (!(name in now)) setProp(node, name, undefined, before[name]);
  for (const name in now) if (now[name] !== before[name] || name === "value" || name === "checked") setProp(node, name, now[name], before[name]);
}

function setProp(node, name, value, before) {
  if (name.startsWith("on")) {
    node[name.toLowerCase()] = value ? (event) => void value(event) : null; // a handler that returns false would undo what happens
  } else if (name === "css") {
    for (const part in before || {}) if (!value || !(part in value)) node.style.removeProperty(part);
    for (const part in value || {}) node.style.setProperty(part, value[part]);
  } else if (name === "value" || name === "checked") {
    if (value !== undefined && node[name] !== value) node[name] = value;
  } else if (!NO_ATTRIBUTE.has(name)) {
    if (value === undefined || value === null || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}
