"use strict";
// Whatever comes from documents, models or the server is put on the page as text, never as markup.

const $ = (id) => document.getElementById(id);
const DOING = {
  understand: "Thinking", retrieve: "Searching", decide: "Weighing what was found", answer: "Writing", verify: "Checking",
};
const CALLS = [["search", "search", "searches"], ["read", "reading", "readings"], ["grep", "count", "counts"],
  ["outline", "outline", "outlines"], ["documents", "list", "lists"]];
const NEXT = { understand: "retrieve", retrieve: "decide", decide: "answer", answer: "answer", verify: "verify" };

const talk = [];        // the conversation: {role, content}
let model = null;       // what is served
let running = null;     // the AbortController of the answer that comes
let token = kept("token") || "";

function kept(name, value) {
  try {
    if (value === undefined) return sessionStorage.getItem(name);
    sessionStorage.setItem(name, value);
  } catch { /* a browser that keeps nothing */ }
  return null;
}

function el(kind, names, ...inside) {
  const made = document.createElement(kind);
  if (names) made.className = names;
  made.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

// -- text with a little Markdown

const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)|\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]/g;

function inline(into, text, cite) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    into.append(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[1]) into.append(el("code", "", found[0].slice(1, -1)));
    else if (found[2]) inline(into.appendChild(el("strong")), found[0].slice(2, -2), cite);
    else if (found[3]) inline(into.appendChild(el("em")), found[0].slice(1, -1), cite);
    else into.append(...marks(found, cite));
  }
  into.append(text.slice(at));
  return into;
}

function marks(found, cite) {
  const numbers = found[4].split(",").flatMap((part) => {
    const [first, last] = part.split(/[–-]/).map(Number);
    return last === undefined || last < first || last > first + 50 ? [first] : Array.from({ length: last - first + 1 }, (_, n) => first + n);
  });
  return cite && numbers.every(cite.has) ? numbers.map(cite.make) : [found[0]];
}

function markdown(into, text, cite) {
  let list = null, code = null, lines = [];
  const flush = () => {
    if (lines.length) inline(into.appendChild(el("p", lines[0].trim().startsWith("|") ? "rows" : "")), lines.join("\n"), cite);
    lines = [];
  };
  for (const line of text.split("\n")) {
    const item = /^\s{0,8}(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/.exec(line), head = /^\s{0,3}#{1,6}\s+(.*)$/.exec(line);
    if (/^\s{0,8}```/.test(line)) {
      flush();
      list = null;
      code = code ? null : into.appendChild(el("pre")).appendChild(el("code"));
    } else if (code) {
      code.append(line + "\n");
    } else if (item) {
      flush();
      const kind = item[1] ? "UL" : "OL";
      if (!list || list.tagName !== kind) {
        list = into.appendChild(el(kind.toLowerCase()));
        if (item[2]) list.start = Number(item[2]);
      }
      inline(list.appendChild(el("li")), item[3], cite);
    } else if (!line.trim()) {
      flush();
    } else {
      list = null;
      if (head) {
        flush();
        inline(into.appendChild(el("p", "head")), head[1], cite);
      } else {
        lines.push(line);
      }
    }
  }
  flush();
  return into;
}

// A quotation begins with a line that is a source's title, alone or with headings below it.
function said(into, reply, cite) {
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
    status("Thinking");
    this.box.scrollIntoView({ block: "start", behavior: calm() });
  }

  event(event) {
    if (event.delta) {
      this.draft += event.delta;
      this.redraw();
    } else if (event.step === "understand" && event.text) {
      this.rewritten(event.text);
    } else if (event.detail.tool) {
      if ("found" in event.detail) this.calls.lastChild.textContent = event.text;
      else this.calls.append(el("p", "", event.text));
      this.draft = "";  // what the model said before the call is no part of its answer
      this.redraw();
      return;
    }
    const doing = DOING[event.delta ? "answer" : NEXT[event.step]];
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

  rewritten(text) {
    this.understood.hidden = false;
    this.understood.textContent = `Understood as: ${text}`;
  }

  finish(reply) {
    this.draft = null;
    this.doing.remove();
    this.folded(reply.trace.calls);
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
    this.said.replaceChildren(...said(el("div"), reply, cite).childNodes);
    if (reply.rewrite && reply.rewrite !== reply.question) this.rewritten(reply.rewrite);
    for (const one of reply.checks.unsupported || []) this.box.append(el("p", "unsupported dim", `Not in the documents: ${one}`));
    for (const note of reply.notes) this.box.append(el("p", "note", note));
    this.box.append(foot(reply, used.size));
    if (reply.citations.length) this.box.append(this.listed(reply.citations, used));
    this.box.append(traced(reply));
    status(`Answered: ${reply.answer}`.slice(0, 400));
  }

  folded(calls) {
    const named = CALLS.map(([tool, one, more]) => [calls.filter((call) => call.tool === tool).length, one, more]).filter(([count]) => count);
    const summary = named.map(([count, one, more]) => `${count} ${count === 1 ? one : more}`).join(", ");
    const lines = calls.map((call) => el("p", "", `${call.tool}: ${call.asked} → ${call.found}`));
    if (calls.length) this.calls.replaceWith(el("details", "more calls", el("summary", "", summary), el("div", "trace", ...lines)));
    else this.calls.remove();
  }

  listed(citations, used) {
    const box = el("details", "more sources", el("summary", "", `Sources (${citations.length})`));
    this.sources = new Map();
    for (const one of citations) {
      const place = [`${one.index ? `${one.index}: ` : ""}${one.path || one.document}`, one.page ? `page ${one.page}` : ""].filter(Boolean).join(", ");
      const about = el("span", "", el("span", "title", [one.title || place, one.section].filter(Boolean).join(" › ")), el("span", "where", place));
      const made = el("details", used.has(one.n) ? "source" : "source unused",
        el("summary", "", el("span", "n", String(one.n)), about), el("blockquote", "", one.text));
      made.lastChild.tabIndex = 0;
      if (one.page && /\.pdf$/i.test(one.path)) made.addEventListener("toggle", () => picture(made, one), { once: true });
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
    one.scrollIntoView({ block: "nearest", behavior: calm() });
    one.querySelector("summary").focus({ preventScroll: true });
  }

  failed(message, again) {
    this.draft = null;  // its searches stay
    this.doing.remove();
    const button = el("button", "again", "Try again");
    button.type = "button";
    button.addEventListener("click", () => {
      if (running) return;
      this.box.remove();
      again();
    });
    this.box.append(el("p", "failed", message), button);
    status(message);
  }
}

// The page that a source is on, with the passage marked.
async function picture(source, one) {
  const query = new URLSearchParams({ index: one.index || "", document: one.document, page: one.page, start: one.start, end: one.end });
  try {
    const answer = await fetch(`v1/picture?${query}`, { headers: bearer() });
    if (!answer.ok) throw await refused(answer);
    const drawn = el("img", "page");
    drawn.alt = `Page ${one.page} of ${one.path}, with the passage marked`;
    drawn.src = URL.createObjectURL(await answer.blob());
    source.append(drawn);
  } catch (error) {
    source.append(el("p", "dim", error instanceof Refused ? error.message : "The page could not be loaded."));
  }
}

function foot(reply, sections) {
  const said = sections ? [`${sections} section${sections === 1 ? "" : "s"}`] : [];
  if (reply.sub_questions.length > 1) said.push(`${reply.sub_questions.filter((one) => one.answered).length}/${reply.sub_questions.length} parts`);
  said.push(`${Object.values(reply.timings).reduce((sum, one) => sum + one, 0).toFixed(1)} s`);
  return el("div", "foot", el("span", `tag ${reply.decision}`, reply.decision), said.join(" · "));
}

function traced(reply) {
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
  return el("details", "more", el("summary", "", "How this came about"), box);
}

// -- asking

class Refused extends Error {}

async function ask(question) {
  const turn = new Turn(question);
  const stopper = new AbortController();
  busy(stopper);
  talk.push({ role: "user", content: question });
  try {
    const reply = await streamed(turn, stopper.signal);
    talk.push({ role: "assistant", content: reply.answer });
    turn.finish(reply);
  } catch (error) {
    talk.pop();
    const left = stopper.signal.aborted;
    turn.failed(left ? "Stopped." : error instanceof Refused ? error.message : "The server could not be reached.", () => ask(question));
    if (error.status === 401) await entered(true);
  } finally {
    busy(null);
  }
}

async function streamed(turn, signal) {
  // More of a long conversation is not looked at.
  const body = { model: model.id, messages: talk.slice(-101), stream: true, turnmark: { events: true, footnotes: false } };
  const answer = await fetch("v1/chat/completions", {
    method: "POST", signal, body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...bearer() },
  });
  if (!answer.ok) throw await refused(answer);
  let reply = null;
  for await (const said of events(answer.body)) {
    if (said === "[DONE]") break;
    const chunk = JSON.parse(said);
    if (chunk.error) throw new Refused(chunk.error.message);
    const ours = chunk.turnmark;
    if (ours && ours.event) turn.event(ours.event);
    else if (ours) reply = ours;
  }
  if (!reply) throw new Refused("The answer broke off.");
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

async function refused(answer) {
  let said = `The server answered ${answer.status}.`;
  try { said = (await answer.json()).error.message; } catch { /* no error of ours */ }
  const wait = answer.headers.get("Retry-After");
  const error = new Refused(answer.status === 429 && wait ? `${said} (in about ${wait} s)` : said);
  error.status = answer.status;
  return error;
}

function bearer() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

// -- around it

function status(text) { $("status").textContent = text; }
function calm() { return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"; }

function busy(stopper) {
  running = stopper;
  document.body.classList.toggle("busy", Boolean(stopper));
  $("send").setAttribute("aria-label", stopper ? "Stop" : "Send");
  $("welcome").hidden = talk.length > 0 || Boolean(stopper) || $("turns").childElementCount > 0;
  $("fresh").hidden = !$("welcome").hidden;
  if (!stopper) $("message").focus({ preventScroll: true });
}

function grown() {
  const field = $("message");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function send() {
  const question = $("message").value.trim();
  if (running || !model || !question) return;
  $("message").value = "";
  grown();
  ask(question);
}

function entered(again) {
  return new Promise((resolve) => {
    $("refused").hidden = !again || !token;
    $("token").value = "";
    $("asktoken").showModal();
    $("asktoken").onclose = () => {
      token = $("token").value.trim() || token;
      kept("token", token);
      resolve();
    };
  });
}

async function connect() {
  for (let tried = 0; tried < 20; tried += 1) {
    try {
      const answer = await fetch("v1/models", { headers: bearer() });
      if (answer.status === 401) {
        await entered(tried > 0);
        continue;
      }
      if (!answer.ok) throw await refused(answer);
      model = (await answer.json()).data[0];
      const about = model.turnmark, written = about.generator === "extractive" ? "quotations from the documents, no language model" : about.generator;
      document.title = `${model.id} – Turnmark`;
      $("about").textContent = model.id;
      $("about").title = written;
      $("holds").textContent = `${model.id}: ${about.documents} document${about.documents === 1 ? "" : "s"}. Answers are ${about.generator === "extractive" ? "quoted from them" : `written by ${about.generator}`}, with sources; if they hold no answer, it says so.`;
      return;
    } catch (error) {
      $("holds").textContent = error instanceof Refused ? error.message : "The server cannot be reached.";
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
$("message").addEventListener("input", grown);
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  } else if (event.key === "ArrowUp" && !$("message").value) {
    const last = talk.findLast((one) => one.role === "user");
    if (last) {
      event.preventDefault();
      $("message").value = last.content;
      grown();
    }
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running && !$("asktoken").open) running.abort();
});
$("fresh").addEventListener("click", () => {
  if (running) running.abort();
  talk.length = 0;
  $("turns").replaceChildren();
  busy(null);
});
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  kept("theme", root.dataset.theme);
});
if (kept("theme")) document.documentElement.dataset.theme = kept("theme");
connect().then(() => $("message").focus());
