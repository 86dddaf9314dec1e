"use strict";
// One turn on the page: the question, its answer, the sources and how the answer was made.

const STEP_LABELS = {
  understand: "Thinking", retrieve: "Searching", decide: "Checking the results", answer: "Writing", verify: "Checking the answer",
};
const CALL_NOUNS = [["search", "search", "searches"], ["read", "reading", "readings"], ["grep", "count", "counts"],
  ["outline", "outline", "outlines"], ["documents", "list", "lists"], ["look", "look", "looks"], ["tables", "list of tables", "lists of tables"],
  ["sql", "computation", "computations"]];
const NEXT_STEP = { understand: "retrieve", retrieve: "decide", decide: "answer", answer: "answer", verify: "verify" };

class Turn {
  constructor(question) {
    this.draft = "";
    this.drawing = false;
    this.sources = new Map();
    this.calls = el("div", "calls dim");
    this.doing = el("div", "doing", "Thinking…");
    this.understood = el("p", "understood");
    this.understood.hidden = true;
    this.said = el("div", "said draft");
    this.box = el("article", "turn", textBlock("div", "asked", question), this.understood, this.calls, this.said, this.doing);
    this.box.setAttribute("aria-label", "Question and answer");
    $("turns").append(this.box);
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
    this.understood.replaceChildren("→ ", el("bdi", "", text));
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
        const made = button("cite", String(n), () => this.show(n, made));
        made.title = reply.citations.find((one) => one.n === n).title;
        made.setAttribute("aria-label", `Source ${n}`);
        return made;
      },
    };
    this.said.replaceChildren(...drawAnswer(el("div"), reply, cite).childNodes);
    if (reply.rewrite && reply.rewrite !== reply.question) this.showRewrite(reply.rewrite);
    this.box.append(...checkLines(reply.checks));
    for (const note of reply.notes) this.box.append(el("p", "note", note));
    this.box.append(footer(reply, used.size, shownModel(this.stored.model), turnActions(this, reply)));
    if (reply.citations.length) this.box.append(this.listSources(reply.citations, used));
    this.box.append(traceDetails(reply));
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
    for (const one of citations) {
      const about = el("span", "", el("bdi", "title", [one.title || placeOf(one), one.section].filter(Boolean).join(" › ")), el("span", "where", placeOf(one)));
      about.append(textBlock("span", "beginning", one.text.replace(/[#|*`\s-]+/g, " ").slice(0, 240)));
      const made = button(used.has(one.n) ? "source" : "source unused", el("span", "n", String(one.n)), () => this.show(one.n));
      made.append(about);
      this.sources.set(one.n, one);
      box.append(made);
    }
    return box;
  }

  // Opens a source at the passage. The words near the citation mark, or those in bold, point to the part that is meant.
  show(n, mark) {
    const cited = mark && mark.closest("li, p, tr"), bold = (mark && mark.closest(".quoted") || this.said).querySelectorAll("strong");
    const near = cited && cited.textContent.length > 20 ? cited.textContent : [...bold].map((one) => one.textContent).join(" ");
    openReader(this.sources.get(n), this.stored.model, `${this.stored.question} ${near}`);
  }

  // Shows why there is no answer; `left`: because the user stopped it.
  failed(message, left, again) {
    this.draft = null;  // the searches stay visible
    this.doing.remove();
    const retry = button("again", "Try again", () => {
      if (running) return;
      this.box.remove();
      again();
    });
    this.box.append(el("p", left ? "stopped dim" : "failed", message), retry);
    announce(message);
  }

  // Shows a problem with what was done to the answer in one line, or removes the line.
  problem(message) {
    if (!this.problemLine) this.problemLine = this.box.querySelector(".foot").insertAdjacentElement("afterend", el("p", "failed"));
    this.problemLine.textContent = message;
    this.problemLine.hidden = !message;
    announce(message);
  }
}

// Returns where a source is: its index if there are several, its file and its page.
function placeOf(one) {
  return [`${one.index ? `${one.index}: ` : ""}${one.path || one.document}`, one.page ? `page ${one.page}` : ""].filter(Boolean).join(", ");
}

const MAX_UNSUPPORTED_LINES = 3;

function checkLines({ unsupported: sentences = [], wording_checked: wordingChecked = true }) {
  const said = sentences.slice(0, MAX_UNSUPPORTED_LINES).map((one) => inline(el("bdi"), isRow(one) ? cells(one).join(" · ") : one));
  const more = sentences.length - said.length;
  if (more) said.push(`${more} more sentence${more === 1 ? "" : "s"}`);
  const lines = said.map((one) => el("p", "unsupported dim", "Not in the documents: ", one));
  if (!wordingChecked) lines.push(el("p", "dim", "Only numbers, names and code were checked: the documents are in another language."));
  return lines;
}

function footer(reply, sections, asked, actions) {
  const said = sections ? [`${sections} section${sections === 1 ? "" : "s"}`] : [];
  if (asked) said.unshift(asked);
  if (reply.sub_questions.length > 1) said.push(`${reply.sub_questions.filter((one) => one.answered).length}/${reply.sub_questions.length} parts`);
  said.push(`${Object.values(reply.timings).reduce((sum, one) => sum + one, 0).toFixed(1)} s`);
  const unsupported = (reply.checks.unsupported || []).length, isAnswer = ["answer", "partial"].includes(reply.decision);
  const isBare = isAnswer && (reply.checks.grounded === 0 || (reply.checks.grounded === null && unsupported));
  const [color, label] = isBare ? ["unknown", "not supported"] : isAnswer && unsupported ? ["partial", "partly supported"] : [reply.decision, reply.decision];
  return el("div", "foot", el("span", `tag ${color}`, label), said.join(" · "), actions);
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
  const spent = Object.entries(reply.usage).map(([role, one]) => `${role}: ${one.calls} call${one.calls === 1 ? "" : "s"}, ${one.prompt_tokens} + ${one.completion_tokens} tokens`);
  if (spent.length) box.append(el("h3", "", "Model"), ...spent.map((one) => el("p", "", one)));
  return el("details", "more", el("summary", "", "How this answer was made"), box);
}
