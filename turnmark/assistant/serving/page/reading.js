"use strict";
// The reader: a document as it is, opened at the passage that an answer cites.

const HIGHLIGHT = [255, 235, 120];  // the color of marked words in the picture of a page
let readFrom = null;  // what had the focus before the reader was opened

// Opens a citation, or a document of the list. `said`: the question and what cites it, whose words point to the best block.
async function openReader(one, asked, said = "") {
  readFrom = document.activeElement;
  $("reader-title").textContent = one.title || one.path || one.document;
  $("reader-place").textContent = [placeOf(one), one.section, one.date].filter(Boolean).join(" · ");
  const body = $("reader-body");
  body.replaceChildren(...(one.statement ? [basisDetails(one, asked)] : []), el("p", "dim", "Loading…"));
  if (!$("reader").open) $("reader").showModal();
  body.scrollTop = 0;
  body.focus({ preventScroll: true });
  const offsets = one.start === undefined ? {} : { start: one.start, end: one.end };
  const query = new URLSearchParams({ document: one.document, index: one.index || "", model: asked || "", ...offsets });
  let read = null, problem = "";
  try {
    read = await (await request(`v1/document?${query}`)).json();
  } catch (error) {
    problem = messageOf(error);
  }
  body.lastChild.remove();
  if (read) drawDocument(body, one, asked, read, said);
  else if (one.text) body.append(el("p", "dim", problem.includes("no such document") ? "The passage, as it was found:" : problem), markdown(el("div", "document passage"), one.text));
  else body.append(el("p", "failed", problem));
}

function drawDocument(body, one, asked, read, said) {
  const about = [readerName(read.reader), read.date, read.pages ? `${read.pages} page${read.pages === 1 ? "" : "s"}` : ""];
  $("reader-place").textContent = [placeOf({ path: read.path, ...one }), one.section, ...about].filter(Boolean).join(" · ");
  const isPdf = /\.pdf$/i.test(read.path), text = drawText(read);
  const found = read.lines ? markPassage(text, ...read.lines, said) : null;
  if (isPdf) body.append(pageViewer(placed(one, read, found), asked, read.pages));
  else for (const picture of one.pictures || []) body.append(describedPicture(one, asked, picture));
  if (read.cut) body.append(el("p", "dim", "Only the part around the passage is shown: the document is very long."));
  body.append(isPdf ? el("details", "more", el("summary", "", "Text of the document"), text) : text);
  if (found && !isPdf && !one.pictures) requestAnimationFrame(() => found.scrollIntoView({ block: "center" }));
}

// Returns the citation with the offsets and the page of the block that is meant, if one is.
function placed(one, read, found) {
  if (!found || !found.classList.contains("exact")) return one;
  const [first, end] = found.dataset.lines.split("-").map(Number), lines = read.text.split("\n");
  const offset = (count) => read.start + [...lines.slice(0, count).join("\n")].length;  // characters as the server counts them
  const start = offset(first);
  return { ...one, start, end: offset(end), page: read.page + read.page_starts.filter((each) => each <= start + 1).length };
}

// Draws the text of a document as its format asks for: plain text and the lines of a mail stay as they are.
function drawText(read) {
  if (read.reader !== "text") return markdown(el("div", "document"), read.text, null, /mail/.test(read.reader));
  const lines = read.text.split("\n").map((line, at) => {
    const made = textBlock("div", "", line || "\u00a0");
    made.dataset.lines = `${at}-${at + 1}`;
    return made;
  });
  return el("div", "document plainly", ...lines);
}

// Marks the blocks of a passage, given by its first and last line; returns the one that says the most of what was said.
function markPassage(text, first, last, said) {
  const isTouched = ({ dataset }) => {
    const [from, to] = dataset.lines.split("-").map(Number);
    return from <= last && to > first;
  };
  const touched = [...text.querySelectorAll("[data-lines]")].filter(isTouched);
  const leaves = touched.filter((one) => !one.querySelector("[data-lines]"));
  for (const one of leaves) one.classList.add("passage");
  const best = bestBlock(leaves, said);
  if (best) best.classList.add("exact");
  return best || leaves[0] || null;
}

const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+(?:[:.,][\p{N}]+)*/gu) || []);

// Returns the block that shares the most words with a text; a word counts less the more blocks have it.
function bestBlock(blocks, said) {
  const wanted = wordsOf(said), found = blocks.map((one) => wordsOf(one.textContent)), counts = new Map();
  for (const words of found) for (const word of words) counts.set(word, (counts.get(word) || 0) + 1);
  const scores = found.map((words) => [...words].filter((word) => wanted.has(word)).reduce((sum, word) => sum + 1 / counts.get(word), 0) / Math.sqrt(words.size + 5));
  const most = Math.max(0, ...scores);
  return most && blocks.length > 1 ? blocks[scores.indexOf(most)] : null;
}

// Returns how the table and the reader name what read a file: "Mail" for "a mail".
const readerName = (reader) => reader.replace(/^an? /, "").replace(/^./, (letter) => letter.toUpperCase());

// Shows a page of a PDF with the passage marked and its described pictures framed, and leads to the other pages.
function pageViewer(one, asked, pages) {
  const label = el("span", "dim"), drawing = el("div");
  const box = el("div", "pages", el("div", "turning"), drawing);
  let page = one.pictures && one.pictures[0].page || one.page || 1;
  const show = async (number) => {
    page = number;
    label.textContent = pages ? `Page ${page} of ${pages}` : `Page ${page}`;
    [back.disabled, next.disabled] = [page <= 1, page >= pages];
    const drawn = await picture(one, asked, { page, start: one.start || 0, end: one.end || 0 }, `Page ${page} of ${one.path}, with the passage marked`);
    if (page !== number) return;
    drawing.replaceChildren(drawn);
    const body = $("reader-body"), place = markedPlace(drawn);
    if (place) body.scrollTop += drawn.getBoundingClientRect().top + place * drawn.clientHeight - body.getBoundingClientRect().top - body.clientHeight / 3;
  };
  const back = button("plain", "←", () => show(page - 1)), next = button("plain", "→", () => show(page + 1));
  back.setAttribute("aria-label", "Previous page");
  next.setAttribute("aria-label", "Next page");
  box.firstChild.append(back, label, next);
  show(page);
  return box;
}

// Returns how far down the first marked word of a picture is, as a share of its height; 0 if none is marked.
function markedPlace(drawn) {
  if (!drawn.naturalWidth) return 0;
  const canvas = el("canvas"), { naturalWidth: width, naturalHeight: height } = drawn;
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(drawn, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  for (let at = 0; at < data.length; at += 4) {
    if (HIGHLIGHT.every((value, each) => Math.abs(data[at + each] - value) < 4)) return at / 4 / width / height;
  }
  return 0;
}

function describedPicture(one, asked, described) {
  const box = el("div", "pages", el("p", "dim", [described.caption, `described by ${described.model}`].filter(Boolean).join(", ")));
  picture(one, asked, { picture: described.sha256 }, described.caption || `Picture in ${one.path}`).then((drawn) => box.append(drawn));
  return box;
}

async function picture(one, asked, wanted, alt) {
  const query = new URLSearchParams({ model: asked || "", index: one.index || "", document: one.document, ...wanted });
  try {
    const answer = await request(`v1/picture?${query}`);
    const drawn = el("img", "page");
    drawn.alt = alt;
    drawn.src = URL.createObjectURL(await answer.blob());
    await drawn.decode();
    return drawn;
  } catch (error) {
    return el("p", "dim", error instanceof Refused ? error.message : "The picture could not be loaded.");
  }
}

$("reader").addEventListener("close", () => readFrom && readFrom.focus());
