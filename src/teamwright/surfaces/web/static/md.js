// Markdown as trees of elements. What it does not know stays text; HTML is text; links lead to http(s) only.

import { h } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEAD = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const BULLET = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const CELLS = /^\s*\|?(?:\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$/;
const DEEPEST = 6;

export function markdown(text, deep = 0) {
  const lines = text.split("\n");
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let found;
    if (!line.trim()) {
      at++;
    } else if ((found = FENCE.exec(line))) {
      const [block, next] = fenced(lines, at, found);
      out.push(block);
      at = next;
    } else if ((found = HEAD.exec(line))) {
      out.push(h(`h${Math.min(6, found[1].length + 2)}`, null, inline(found[2])));
      at++;
    } else if (RULE.test(line)) {
      out.push(h("hr"));
      at++;
    } else if (QUOTE.test(line) && deep < DEEPEST) {
      const part = [];
      while (at < lines.length && (found = QUOTE.exec(lines[at]))) part.push(found[1]), at++;
      out.push(h("blockquote", null, markdown(part.join("\n"), deep + 1)));
    } else if (BULLET.test(line) && deep < DEEPEST) {
      const [list, next] = listed(lines, at, deep);
      out.push(list);
      at = next;
    } else if (line.includes("|") && at + 1 < lines.length && CELLS.test(lines[at + 1])) {
      const [table, next] = tabled(lines, at);
      out.push(table);
      at = next;
    } else {
      const part = [];
      while (at < lines.length && lines[at].trim() && !begins(lines, at, part.length)) part.push(lines[at]), at++;
      out.push(h("p", null, inline(part.join("\n"))));
    }
  }
  return out;
}

function begins(lines, at, inside) {
  const line = lines[at];
  if (!inside) return false;
  return FENCE.test(line) || HEAD.test(line) || QUOTE.test(line) || RULE.test(line) || BULLET.test(line);
}

function fenced(lines, at, found) {
  const end = new RegExp(`^ {0,3}${found[1][0]}{${found[1].length},}\\s*$`);
  const code = [];
  at++;
  while (at < lines.length && !end.test(lines[at])) code.push(lines[at]), at++;
  return [h("pre", { "data-language": found[2] || undefined, tabindex: 0, role: "group", "aria-label": "Code" }, h("code", null, code.join("\n"))), at + 1];
}

function listed(lines, at, deep) {
  const first = BULLET.exec(lines[at]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items = [];
  while (at < lines.length) {
    const found = BULLET.exec(lines[at]);
    if (!found || found[1].length < indent || (found[1].length <= indent && /\d/.test(found[2]) !== ordered)) break;
    const own = [found[3]];
    const inner = found[1].length + found[2].length + 1;
    at++;
    while (at < lines.length) {
      const line = lines[at];
      const next = BULLET.exec(line);
      if (next && next[1].length <= indent) break;
      if (!line.trim()) {
        if (at + 1 >= lines.length || !/^\s/.test(lines[at + 1])) break;
        own.push("");
      } else if (/^\s/.test(line) || next) {
        own.push(line.slice(Math.min(inner, line.length - line.trimStart().length)));
      } else if (begins(lines, at, 1)) {
        break;
      } else {
        own.push(line);
      }
      at++;
    }
    items.push(item(own.join("\n"), deep));
    while (at < lines.length && !lines[at].trim() && at + 1 < lines.length && BULLET.test(lines[at + 1])) at++;
  }
  const start = ordered ? parseInt(first[2], 10) : 1;
  return [h(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : null, items), at];
}

function item(text, deep) {
  const check = /^\[([ xX])\]\s+(.*)$/s.exec(text);
  const body = check ? check[2] : text;
  const mark = check ? h("span.check", { "aria-label": check[1] === " " ? "open" : "done" }, check[1] === " " ? "☐ " : "☑ ") : null;
  const inner = body.includes("\n") ? markdown(body, deep + 1) : inline(body);
  if (inner.length === 1 && inner[0].name === "p") return h("li", null, mark, inner[0].children);
  return h("li", null, mark, inner);
}

function tabled(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
  const head = cells(lines[at]);
  const rows = [];
  at += 2;
  while (at < lines.length && lines[at].includes("|") && lines[at].trim()) rows.push(cells(lines[at])), at++;
  const table = h("table", null,
    h("thead", null, h("tr", null, head.map((cell) => h("th", null, inline(cell))))),
    h("tbody", null, rows.map((row) => h("tr", null, head.map((_, n) => h("td", null, inline(row[n] || "")))))));
  return [h("div.table", { tabindex: 0, role: "group", "aria-label": "Table" }, table), at];
}

// `code`, **strong**, *emphasis*, ~~gone~~, [words](address), <address>, address
const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]*?[^\s*])\*(?![\w*])|(?<![\w_])_(?=[^\s_])([^_\n]*?[^\s_])_(?!\w)|~~(?=\S)([\s\S]*?\S)~~|\[([^\]\n]{1,500})\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)|<(https?:\/\/[^\s<>]+)>|(https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}])|\\([\\`*_{}[\]()#+\-.!~|>])/;

export function inline(text, deep = 0) {
  const out = [];
  let rest = text;
  while (rest && deep < DEEPEST) {
    const found = INLINE.exec(rest);
    if (!found) break;
    if (found.index) out.push(...broken(rest.slice(0, found.index)));
    rest = rest.slice(found.index + found[0].length);
    const [, , code, strong, star, under, gone, words, address, angled, bare, escaped] = found;
    if (code !== undefined) out.push(h("code", null, code));
    else if (strong !== undefined) out.push(h("strong", null, inline(strong, deep + 1)));
    else if (star !== undefined || under !== undefined) out.push(h("em", null, inline(star ?? under, deep + 1)));
    else if (gone !== undefined) out.push(h("s", null, inline(gone, deep + 1)));
    else if (words !== undefined) out.push(link(address, words, found[0]));
    else if (angled || bare) out.push(link(angled || bare, angled || bare, found[0]));
    else out.push({ text: escaped });
  }
  if (rest) out.push(...broken(rest));
  return out;
}

function broken(text) {
  const parts = text.split(/ {2,}\n/);
  return parts.flatMap((part, n) => (n ? [h("br"), { text: part }] : [{ text: part }]));
}

function link(address, words, whole) {
  if (!/^https?:\/\//i.test(address)) return { text: whole };
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: address }, words);
}
