"use strict";
// Markdown of answers and documents: markdown-it draws it, DOMPurify checks it. HTML in it stays text, and so do pictures.

const drawer = markdownit({ html: false, linkify: true }).disable(["image", "reference", "code", "lheading"]);
drawer.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
drawer.validateLink = (address) => /^https?:\/\//i.test(address) && URL.canParse(address);
// Notes the lines of each block, by which a passage is found, and the alignment of cells, which must not be inline style.
drawer.core.ruler.push("lines", ({ tokens }) => {
  for (const token of tokens) {
    if (token.map && token.nesting >= 0) token.attrSet("data-lines", token.map.join("-"));
    const style = token.attrGet("style");
    if (style) token.attrs = [["class", style.replace("text-align:", "")]];
  }
});
// A table ends at the first line that does not begin with a bar, such as a citation mark below it.
const endsTable = ({ parentType, src, bMarks, tShift }, line, _, silent) => silent && parentType === "table" && src[bMarks[line] + tShift[line]] !== "|";
drawer.block.ruler.push("table_end", endsTable, { alt: ["blockquote"] });
const TAGS = "p br h1 h2 h3 h4 h5 h6 ul ol li blockquote hr pre code em strong s a table thead tbody tr th td".split(" ");
const PURE = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "class", "start", "data-lines"], ALLOW_DATA_ATTR: false, RETURN_DOM_FRAGMENT: true };

function drawn(html, cite) {
  const made = DOMPurify.sanitize(html, PURE);
  for (const one of made.querySelectorAll("table")) {
    const box = el("div", "scrolled");
    one.replaceWith(box);
    box.append(one);
  }
  // Text may be in any language.
  for (const one of made.querySelectorAll("p, ul, ol, blockquote, table, th, td, h1, h2, h3, h4, h5, h6")) one.dir = "auto";
  for (const one of made.querySelectorAll("p")) if (isRow(one.textContent)) one.className = "rows";
  for (const one of made.querySelectorAll("a")) showHost(one);
  if (cite) drawMarks(made, cite);
  return made;
}

// Appends a text with Markdown; with `breaks`, lines stay lines.
function markdown(into, text, cite, breaks = false) {
  into.append(drawn(drawer.set({ breaks }).render(text), cite));
  return into;
}

function inline(into, text) {
  into.append(drawn(drawer.renderInline(text), null));
  return into;
}

// A link opens only on a click, in a new tab. It shows its host, since its label may claim another one.
function showHost(link) {
  link.title = link.href;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
  if (!/^https?:\/\//i.test(link.textContent)) link.after(el("span", "dim", ` (${new URL(link.href).host})`));
}

const MARK = /\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]/g;
const MARKS = /(?:\[\d{1,3}(?:\s*[,–-]\s*\d{1,3})*\]\s?)*\[\d{1,3}(?:\s*[,–-]\s*\d{1,3})*\][.,;:!?…)]*/g;

// Replaces citation marks by buttons. Marks in a row and the punctuation behind them stay on one line.
function drawMarks(root, cite) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest("code, a")) texts.push(walker.currentNode);
  for (const node of texts) {
    const pieces = splitAt(node.data, MARKS, ([marks]) => el("span", "marks", ...splitAt(marks, MARK, ([whole, numbers]) => citeButtons(whole, numbers, cite))));
    if (pieces.length > 1 || pieces[0] !== node.data) node.replaceWith(...pieces);
  }
}

// Returns a text with the matches of a pattern replaced by nodes.
function splitAt(text, pattern, make) {
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    pieces.push(text.slice(at, found.index), make(found));
    at = found.index + found[0].length;
  }
  return [...pieces, text.slice(at)].flat().filter((one) => one !== "");
}

function citeButtons(whole, text, cite) {
  const numbers = text.split(",").flatMap((part) => {
    const [first, last] = part.split(/[–-]/).map(Number);
    return last === undefined || last < first || last > first + 50 ? [first] : Array.from({ length: last - first + 1 }, (_, n) => first + n);
  });
  return numbers.every(cite.has) ? numbers.map(cite.make) : [whole];
}

const isRow = (line) => line.trim().startsWith("|");

function cells(line) {
  return line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// A quotation starts with a line that contains a source's title, alone or followed by headings.
function drawAnswer(into, reply, cite) {
  const names = reply.citations.flatMap((one) => [one.title, (one.section || "").split(" › ")[0]]).filter(Boolean);
  const mails = reply.citations.filter((one) => /\.(eml|mbox)$/i.test(one.path)).map((one) => one.title);
  let above = "", box = into, rest = [];
  const flush = () => {
    if (rest.length) markdown(box, rest.join("\n"), cite, box.isMail);
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
      box.isMail = mails.some((title) => row.startsWith(title));
    } else {
      rest.push(box === into ? line : row);
    }
    above = row;
  });
  flush();
  return into;
}
