"use strict";
// Text from documents, models and the server is always inserted as text, never as markup.

const $ = (id) => document.getElementById(id);
const STEP_LABELS = {
  understand: "Thinking", retrieve: "Searching", decide: "Checking the results", answer: "Writing", verify: "Checking the answer",
};
const CALL_NOUNS = [["search", "search", "searches"], ["read", "reading", "readings"], ["grep", "count", "counts"],
  ["outline", "outline", "outlines"], ["documents", "list", "lists"]];
const NEXT_STEP = { understand: "retrieve", retrieve: "decide", decide: "answer", answer: "answer", verify: "verify" };

const messages = [];    // the conversation: {role, content}
let model = null;       // the served model
let running = null;     // the AbortController of the answer in progress
let token = stored("token") || "";

function stored(name, value) {
  try {
    if (value === undefined) return sessionStorage.getItem(name);
    sessionStorage.setItem(name, value);
  } catch { /* storage is switched off in this browser */ }
  return null;
}

function el(kind, names, ...inside) {
  const made = document.createElement(kind);
  if (names) made.className = names;
  made.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

// -- text with a little Markdown

const INLINE = new RegExp([
  /(`[^`\n]+`)/, /(\*\*[^*\n]+\*\*)/, /(\*[^*\s][^*\n]*\*)/,
  /\[([^[\]\n]+)\]\((https?:\/\/[^\s()<>]+)\)/, /(https?:\/\/[^\s<>()[\]"'`*]*[^\s<>()[\]"'`*.,;:!?])/,
  /\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]/,
].map((one) => one.source).join("|"), "g");

function inline(into, text, cite) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, strong, emphasis, label, target, address, numbers] = found;
    into.append(text.slice(at, found.index));
    at = found.index + whole.length;
    if (code) into.append(el("code", "", code.slice(1, -1)));
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
  const made = el("table"), width = cells(head).length;
  const addRow = (parent, kind, line) => {
    const row = parent.appendChild(el("tr"));
    for (const cell of cells(line).slice(0, width)) inline(row.appendChild(el(kind)), cell, cite);
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
    inline(into.appendChild(el("p", isRow(lines[0]) ? "rows" : "")), lines.join("\n"), cite);
    return;
  }
  let end = start;
  while (isRow(lines[end])) end += 1;
  paragraph(into, lines.slice(0, start), cite);
  into.append(table(lines.slice(start, end), cite));
  paragraph(into, lines.slice(end), cite);
}

function markdown(into, text, cite) {
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
        list = parent.appendChild(el(kind.toLowerCase()));
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
      if (head) inline(place.appendChild(el("p", "head")), head[1], cite);
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
      into.append(el("p", "path", row.trim()));
      box = into.appendChild(el("div", "quoted"));
      box.quotes = row !== line;
    } else {
      rest.push(box === into ? line : row);
    }
    above = row;
  });
  flush();
  return into;
}

// -- one turn on the page

class Turn {
  constructor(question) {
    this.draft = "";
    this.drawing = false;
    this.calls = el("div", "calls dim");
    this.doing = el("div", "doing", "Thinking…");
    this.understood = el("p", "understood");
    this.understood.hidden = true;
    this.said = el("div", "said draft");
    this.box = el("article", "turn", el("div", "asked", question), this.understood, this.calls, this.said, this.doing);
    this.box.setAttribute("aria-label", "Question and answer");
    $("turns").append(this.box);
    announce("Thinking");
    this.box.scrollIntoView({ block: "start", behavior: scrollBehavior() });
  }

  event(event) {
    if (event.delta) {
      this.draft += event.delta;
      this.redraw();
    } else if (event.step === "understand" && event.text) {
      this.showRewrite(event.text);
    } else if (event.detail.tool) {
      if ("found" in event.detail) this.calls.lastChild.textContent = event.text;
      else this.calls.append(el("p", "", event.text));
      this.draft = "";  // text before a tool call is not part of the answer
      this.redraw();
      return;
    }
    const doing = STEP_LABELS[event.delta ? "answer" : NEXT_STEP[event.step]];
    if (doing) this.doing.textContent = `${doing}…`;
  }

  redraw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (this.draft !== null) this.said.replaceChildren(...markdown(el("div"), this.draft, null).childNodes);
    });
  }

  showRewrite(text) {
    this.understood.hidden = false;
    this.understood.textContent = `Understood as: ${text}`;
  }

  finish(reply) {
    this.draft = null;
    this.doing.remove();
    this.foldCalls(reply.trace.calls);
    this.said.className = "said";
    const numbers = new Set(reply.citations.map((one) => one.n));
    const used = new Set();
    const cite = {
      has: (n) => numbers.has(n),
      make: (n) => {
        used.add(n);
        const made = el("button", "cite", String(n));
        made.type = "button";
        made.title = reply.citations.find((one) => one.n === n).title;
        made.setAttribute("aria-label", `Source ${n}`);
        made.addEventListener("click", () => this.show(n));
        return made;
      },
    };
    this.said.replaceChildren(...drawAnswer(el("div"), reply, cite).childNodes);
    if (reply.rewrite && reply.rewrite !== reply.question) this.showRewrite(reply.rewrite);
    for (const line of unsupportedLines(reply.checks.unsupported || [])) this.box.append(el("p", "unsupported dim", line));
    for (const note of reply.notes) this.box.append(el("p", "note", note));
    this.box.append(footer(reply, used.size));
    if (reply.citations.length) this.box.append(this.listSources(reply.citations, used));
    this.box.append(traceDetails(reply));
    announce(`Answered: ${reply.answer}`.slice(0, 400));
  }

  foldCalls(calls) {
    const named = CALL_NOUNS.map(([tool, one, more]) => [calls.filter((call) => call.tool === tool).length, one, more]).filter(([count]) => count);
    const summary = named.map(([count, one, more]) => `${count} ${count === 1 ? one : more}`).join(", ");
    const lines = calls.map((call) => el("p", "", `${call.tool}: ${call.asked} → ${call.found}`));
    if (calls.length) this.calls.replaceWith(el("details", "more calls", el("summary", "", summary), el("div", "trace", ...lines)));
    else this.calls.remove();
  }

  listSources(citations, used) {
    const box = el("details", "more sources", el("summary", "", `Sources (${citations.length})`));
    this.sources = new Map();
    for (const one of citations) {
      const place = [`${one.index ? `${one.index}: ` : ""}${one.path || one.document}`, one.page ? `page ${one.page}` : ""].filter(Boolean).join(", ");
      const about = el("span", "", el("span", "title", [one.title || place, one.section].filter(Boolean).join(" › ")), el("span", "where", place));
      const made = el("details", used.has(one.n) ? "source" : "source unused",
        el("summary", "", el("span", "n", String(one.n)), about), el("blockquote", "", one.text));
      made.lastChild.tabIndex = 0;
      if (one.page && /\.pdf$/i.test(one.path)) made.addEventListener("toggle", () => showPagePicture(made, one), { once: true });
      this.sources.set(one.n, made);
      box.append(made);
    }
    this.list = box;
    return box;
  }

  show(n) {
    this.list.open = true;
    for (const [number, one] of this.sources) one.classList.toggle("found", number === n);
    const one = this.sources.get(n);
    one.open = true;
    one.scrollIntoView({ block: "nearest", behavior: scrollBehavior() });
    one.querySelector("summary").focus({ preventScroll: true });
  }

  failed(message, again) {
    this.draft = null;  // the searches stay visible
    this.doing.remove();
    const button = el("button", "again", "Try again");
    button.type = "button";
    button.addEventListener("click", () => {
      if (running) return;
      this.box.remove();
      again();
    });
    this.box.append(el("p", "failed", message), button);
    announce(message);
  }
}

// Shows the page of a source with the passage marked.
async function showPagePicture(source, one) {
  const query = new URLSearchParams({ index: one.index || "", document: one.document, page: one.page, start: one.start, end: one.end });
  try {
    const answer = await fetch(`v1/picture?${query}`, { headers: tokenHeader() });
    if (!answer.ok) throw await errorOf(answer);
    const drawn = el("img", "page");
    drawn.alt = `Page ${one.page} of ${one.path}, with the passage marked`;
    drawn.src = URL.createObjectURL(await answer.blob());
    await drawn.decode();
    source.append(drawn);
    if (source.open) drawn.scrollIntoView({ block: "nearest", behavior: scrollBehavior() });
  } catch (error) {
    source.append(el("p", "dim", error instanceof Refused ? error.message : "The picture of the page could not be loaded."));
  }
}

const MAX_UNSUPPORTED_LINES = 3;

function unsupportedLines(sentences) {
  const lines = sentences.slice(0, MAX_UNSUPPORTED_LINES).map((one) => `Not in the documents: ${one}`);
  const more = sentences.length - lines.length;
  return more ? [...lines, `Not in the documents: ${more} more sentence${more === 1 ? "" : "s"}`] : lines;
}

function footer(reply, sections) {
  const said = sections ? [`${sections} section${sections === 1 ? "" : "s"}`] : [];
  if (reply.sub_questions.length > 1) said.push(`${reply.sub_questions.filter((one) => one.answered).length}/${reply.sub_questions.length} parts`);
  said.push(`${Object.values(reply.timings).reduce((sum, one) => sum + one, 0).toFixed(1)} s`);
  return el("div", "foot", el("span", `tag ${reply.decision}`, reply.decision), said.join(" · "));
}

function traceDetails(reply) {
  const box = el("div", "trace"), trace = reply.trace, judged = trace.judgement;
  if (judged) {
    box.append(el("h3", "", "Decision"), el("p", "", `${judged.decision}, confidence ${judged.confidence.toFixed(2)}: ${judged.reason}`));
  }
  if (reply.sub_questions.length > 1) {
    box.append(el("h3", "", "Parts"));
    for (const one of reply.sub_questions) box.append(el("p", "", `${one.answered ? "✓" : "–"} ${one.text}`));
  }
  if (trace.searches.length) box.append(el("h3", "", "Searches"));
  for (const one of trace.searches) {
    const made = box.appendChild(el("div", "search", el("div", "query", one.query), el("div", "dim", one.why)));
    for (const variant of one.variants) made.append(el("div", "dim", `also: ${variant}`));
    const hits = made.appendChild(el("ol"));
    for (const hit of one.hits) hits.append(el("li", "", `${hit.title || hit.id} `, el("span", "score", hit.score.toFixed(3))));
  }
  const seconds = Object.entries(reply.timings), most = Math.max(...seconds.map(([, one]) => one), 1e-9);
  const bars = el("div", "bars");
  for (const [step, one] of seconds) {
    const line = el("span");
    line.style.width = `${100 * one / most}%`;
    bars.append(el("span", "", step), el("div", "line", line), el("span", "dim", `${one.toFixed(3)} s`));
  }
  box.append(el("h3", "", "Steps"), bars);
  const forms = Object.entries(trace.forms).map(([step, form]) => `${step}: ${form}`).join(" · ");
  if (forms) box.append(el("p", "dim", forms));
  const spent = Object.entries(reply.usage).map(([role, one]) => `${role}: ${one.calls} calls, ${one.prompt_tokens} + ${one.completion_tokens} tokens`);
  if (spent.length) box.append(el("h3", "", "Model"), ...spent.map((one) => el("p", "", one)));
  return el("details", "more", el("summary", "", "How this answer was made"), box);
}

// -- asking

class Refused extends Error {}

async function ask(question) {
  const turn = new Turn(question);
  const controller = new AbortController();
  setRunning(controller);
  messages.push({ role: "user", content: question });
  try {
    const reply = await streamReply(turn, controller.signal);
    messages.push({ role: "assistant", content: reply.answer });
    turn.finish(reply);
  } catch (error) {
    messages.pop();
    const left = controller.signal.aborted;
    turn.failed(left ? "Stopped." : error instanceof Refused ? error.message : "The server cannot be reached. Check that it is running, then try again.", () => ask(question));
    if (error.status === 401) await askForToken(true);
  } finally {
    setRunning(null);
  }
}

async function streamReply(turn, signal) {
  // The server uses only the last messages of a long conversation.
  const body = { model: model.id, messages: messages.slice(-101), stream: true, turnmark: { events: true, footnotes: false } };
  const answer = await fetch("v1/chat/completions", {
    method: "POST", signal, body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...tokenHeader() },
  });
  if (!answer.ok) throw await errorOf(answer);
  let reply = null;
  for await (const said of events(answer.body)) {
    if (said === "[DONE]") break;
    const chunk = JSON.parse(said);
    if (chunk.error) throw new Refused(chunk.error.message);
    const ours = chunk.turnmark;
    if (ours && ours.event) turn.event(ours.event);
    else if (ours) reply = ours;
  }
  if (!reply) throw new Refused("The connection ended before the answer was complete.");
  return reply;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const said = rest.slice(0, end);
      if (said.startsWith("data: ")) yield said.slice(6);
    }
  }
}

async function errorOf(answer) {
  let said = `The server reported an error (status ${answer.status}).`;
  try { said = (await answer.json()).error.message; } catch { /* the error is not from Turnmark */ }
  const wait = answer.headers.get("Retry-After");
  const error = new Refused(answer.status === 429 && wait ? `${said} (try again in about ${wait} s)` : said);
  error.status = answer.status;
  return error;
}

function tokenHeader() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

// -- the rest of the page

function announce(text) { $("status").textContent = text; }
function scrollBehavior() { return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"; }

function setRunning(controller) {
  running = controller;
  document.body.classList.toggle("busy", Boolean(controller));
  $("send").setAttribute("aria-label", controller ? "Stop" : "Send");
  $("welcome").hidden = messages.length > 0 || Boolean(controller) || $("turns").childElementCount > 0;
  $("fresh").hidden = !$("welcome").hidden;
  if (!controller) $("message").focus({ preventScroll: true });
}

function fitField() {
  const field = $("message");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function send() {
  const question = $("message").value.trim();
  if (running || !model || !question) return;
  $("message").value = "";
  fitField();
  ask(question);
}

function askForToken(again) {
  return new Promise((resolve) => {
    $("refused").hidden = !again || !token;
    $("token").value = "";
    $("asktoken").showModal();
    $("asktoken").onclose = () => {
      token = $("token").value.trim() || token;
      stored("token", token);
      resolve();
    };
  });
}

async function loadModel() {
  for (let tried = 0; tried < 20; tried += 1) {
    try {
      const answer = await fetch("v1/models", { headers: tokenHeader() });
      if (answer.status === 401) {
        await askForToken(tried > 0);
        continue;
      }
      if (!answer.ok) throw await errorOf(answer);
      model = (await answer.json()).data[0];
      const about = model.turnmark, written = about.generator === "extractive" ? "quotations from the documents, without a language model" : about.generator;
      document.title = `${model.id} – Turnmark`;
      $("about").textContent = model.id;
      $("about").title = written;
      $("holds").textContent = `${model.id}: ${about.documents} document${about.documents === 1 ? "" : "s"}. Answers are ${about.generator === "extractive" ? "quoted from them" : `written by ${about.generator}`} and show their sources. If the documents do not contain an answer, you are told so.`;
      return;
    } catch (error) {
      $("holds").textContent = error instanceof Refused ? error.message : "The server cannot be reached. Check that it is running, then reload the page.";
      $("holds").className = "failed";
      return;
    }
  }
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) running.abort();
  else send();
});
$("message").addEventListener("input", fitField);
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  } else if (event.key === "ArrowUp" && !$("message").value) {
    const last = messages.findLast((one) => one.role === "user");
    if (last) {
      event.preventDefault();
      $("message").value = last.content;
      fitField();
    }
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running && !$("asktoken").open) running.abort();
});
$("fresh").addEventListener("click", () => {
  if (running) running.abort();
  messages.length = 0;
  $("turns").replaceChildren();
  setRunning(null);
});
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  stored("theme", root.dataset.theme);
});
if (stored("theme")) document.documentElement.dataset.theme = stored("theme");
loadModel().then(() => $("message").focus());
