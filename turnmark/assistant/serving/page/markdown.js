"use strict";
// Text with a little Markdown.

const INLINE = new RegExp([
  /(`[^`\n]+`)/, /(\*\*\*[^*\n]+\*\*\*)/, /(\*\*[^*\n]+\*\*)/, /(~~[^~\n]+~~)/, /(\*[^*\s][^*\n]*\*)/,
  /\[([^[\]\n]+)\]\((https?:\/\/[^\s()<>]+)\)/, /(https?:\/\/[^\s<>()[\]"'`*]*[^\s<>()[\]"'`*.,;:!?])/,
  /\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]/,
].map((one) => one.source).join("|"), "g");

function inline(into, text, cite) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, both, strong, deleted, emphasis, label, target, address, numbers] = found;
    into.append(text.slice(at, found.index));
    at = found.index + whole.length;
    if (code) into.append(el("code", "", code.slice(1, -1)));
    else if (both) inline(into.appendChild(el("strong")), both.slice(2, -2), cite);
    else if (deleted) inline(into.appendChild(el("s")), deleted.slice(2, -2), cite);
    else if (strong) inline(into.appendChild(el("strong")), strong.slice(2, -2), cite);
    else if (emphasis) inline(into.appendChild(el("em")), emphasis.slice(1, -1), cite);
    else if (target || address) into.append(...link(target || address, label));
    else into.append(...citeMarks(whole, numbers, cite));
  }
  into.append(text.slice(at));
  return into;
}

// A link opens only on a click, in a new tab. It shows its host, since its label may claim another one.
function link(address, label) {
  if (!URL.canParse(address)) return [label ? `[${label}](${address})` : address];
  const made = el("a", "", label || address);
  made.href = address;
  made.title = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer nofollow";
  return label ? [made, el("span", "dim", ` (${new URL(address).host})`)] : [made];
}

function citeMarks(whole, text, cite) {
  const numbers = text.split(",").flatMap((part) => {
    const [first, last] = part.split(/[–-]/).map(Number);
    return last === undefined || last < first || last > first + 50 ? [first] : Array.from({ length: last - first + 1 }, (_, n) => first + n);
  });
  return cite && numbers.every(cite.has) ? numbers.map(cite.make) : [whole];
}

const isRow = (line) => line !== undefined && line.trim().startsWith("|");
const isRule = (line) => isRow(line) && line.includes("-") && /^[\s|:-]+$/.test(line);

function cells(line) {
  return line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(rows, cite) {
  const [head, , ...body] = rows;
  const made = textBlock("table"), width = cells(head).length;
  const addRow = (parent, kind, line) => {
    const row = parent.appendChild(el("tr"));
    for (const cell of cells(line).slice(0, width)) inline(row.appendChild(textBlock(kind)), cell, cite);
  };
  addRow(made.appendChild(el("thead")), "th", head);
  const rest = made.appendChild(el("tbody"));
  for (const line of body) addRow(rest, "td", line);
  return el("div", "scrolled", made);
}

function paragraph(into, lines, cite) {
  if (!lines.length) return;
  const start = lines.findIndex((line, at) => isRow(line) && isRule(lines[at + 1]));
  if (start < 0) {
    inline(into.appendChild(textBlock("p", isRow(lines[0]) ? "rows" : "")), lines.join("\n"), cite);
    return;
  }
  let end = start;
  while (isRow(lines[end])) end += 1;
  paragraph(into, lines.slice(0, start), cite);
  into.append(table(lines.slice(start, end), cite));
  paragraph(into, lines.slice(end), cite);
}

const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;

// Draws a text: its quotations and rules, and the blocks between them.
function markdown(into, text, cite) {
  let run = [], quoting = false, inCode = false;
  const flush = () => {
    if (run.length && quoting) markdown(into.appendChild(textBlock("blockquote", "quoted")), run.join("\n"), cite);
    else if (run.length) blocks(into, run.join("\n"), cite);
    run = [];
  };
  for (const line of text.split("\n")) {
    const quoted = !inCode && /^\s{0,3}>/.test(line), isRule = !inCode && RULE.test(line);
    if (quoted !== quoting || isRule) flush();
    quoting = quoted;
    if (isRule) into.append(el("hr"));
    else run.push(quoted ? line.replace(/^\s*> ?/, "") : line);
    if (!quoted && /^\s*```/.test(line)) inCode = !inCode;
  }
  flush();
  return into;
}

// Draws paragraphs, headings, lists, tables and code.
function blocks(into, text, cite) {
  let items = [], code = null, fence = 0, lines = [], place = into;  // items: the open list items, outermost first
  const flush = () => {
    paragraph(place, lines, cite);
    lines = [];
  };
  for (const line of text.split("\n")) {
    const indent = line.length - line.trimStart().length;
    const item = /^\s*(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/.exec(line), head = /^\s{0,3}#{1,6}\s+(.*)$/.exec(line);
    if (/^\s*```/.test(line)) {
      flush();
      if (!code && indent < 2) items = [];
      if (!code) fence = indent;
      place = items.length ? items.at(-1).node : into;
      code = code ? null : place.appendChild(el("pre")).appendChild(el("code"));
    } else if (code) {
      code.append(line.slice(Math.min(indent, fence)) + "\n");
    } else if (item) {
      flush();
      while (items.length > 1 && indent < items.at(-1).indent) items.pop();
      const before = items.at(-1), deeper = !before || indent >= before.indent + 2;
      const parent = deeper ? (before ? before.node : into) : before.list.parentNode;
      if (!deeper) items.pop();
      const kind = item[1] ? "UL" : "OL";
      let list = deeper ? null : before.list;
      if (!list || list.tagName !== kind) {
        list = parent.appendChild(textBlock(kind.toLowerCase()));
        if (item[2]) list.start = Number(item[2]);
      }
      const node = inline(list.appendChild(el("li")), item[3], cite);
      items.push({ indent, list, node });
    } else if (!line.trim()) {
      flush();
    } else {
      const inside = items.filter((one) => indent >= one.indent + 2);
      if (head || !lines.length || inside.length !== items.length) {
        flush();
        items = inside;
        place = items.length ? items.at(-1).node : into;
      }
      if (head) inline(place.appendChild(textBlock("p", "head")), head[1], cite);
      else lines.push(line);
    }
  }
  flush();
  return into;
}

// A quotation starts with a line that contains a source's title, alone or followed by headings.
function drawAnswer(into, reply, cite) {
  const names = reply.citations.flatMap((one) => [one.title, (one.section || "").split(" › ")[0]]).filter(Boolean);
  let above = "", box = into, rest = [];
  const flush = () => {
    if (rest.length) markdown(box, rest.join("\n"), cite);
    rest = [];
  };
  const lines = reply.answer.split("\n");
  lines.forEach((line, at) => {
    const row = line.replace(/^> ?/, ""), below = (lines[at + 1] || "").replace(/^> ?/, "");
    if (box.quotes && row === line && line.trim()) {
      flush();
      box = into;
    }
    if (!above.trim() && below.trim() && names.some((name) => `${row.trim()} › `.startsWith(`${name} › `))) {
      flush();
      into.append(textBlock("p", "path", row.trim()));
      box = into.appendChild(textBlock("div", "quoted"));
      box.quotes = row !== line;
    } else {
      rest.push(box === into ? line : row);
    }
    above = row;
  });
  flush();
  return into;
}
