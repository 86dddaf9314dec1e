"use strict";
// Conversations in this browser's storage: saved after each answer, listed, opened again, exported and deleted.

const KEY = "turnmark.conversation.";

function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const id = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, model: model ? model.id : "", changed: 0, turns: [] };
}

function pastMessages(conversation) {
  return conversation.turns.flatMap((turn) => [
    { role: "user", content: turn.question }, { role: "assistant", content: turn.reply.answer },
  ]);
}

function loadConversation(id) {
  try {
    return JSON.parse(localStorage.getItem(KEY + id));
  } catch { /* storage is switched off, or the entry is damaged */ }
  return null;
}

// Returns the saved conversations, the latest first.
function savedConversations() {
  try {
    const ids = Object.keys(localStorage).filter((key) => key.startsWith(KEY)).map((key) => key.slice(KEY.length));
    return ids.map(loadConversation).filter(Boolean).sort((one, other) => other.changed - one.changed);
  } catch { return []; }
}

// Saves a conversation. If the storage is full, the oldest ones are deleted.
function save(conversation) {
  conversation.changed = Date.now();
  for (;;) {
    try {
      localStorage.setItem(KEY + conversation.id, JSON.stringify(conversation));
      return;
    } catch {
      const oldest = savedConversations().findLast((one) => one.id !== conversation.id);
      if (!oldest) return;  // storage is switched off, or the conversation alone is too large
      localStorage.removeItem(KEY + oldest.id);
    }
  }
}

const MANY_CONVERSATIONS = 8;  // from this number on, they can be searched

function openConversations() {
  $("sought").value = "";
  listConversations();
  $("conversations").showModal();
}

function listConversations() {
  const saved = savedConversations(), words = $("sought").value.trim().toLowerCase();
  $("sought").hidden = saved.length < MANY_CONVERSATIONS;
  const isSought = (one) => one.turns.some((turn) => turn.question.toLowerCase().includes(words));
  const rows = saved.filter(isSought).map((one) => {
    const title = one.turns[0].question;
    const questions = `${one.turns.length} question${one.turns.length === 1 ? "" : "s"}`;
    const when = [new Date(one.changed).toLocaleString(), shownModel(one.model) || one.model, questions].join(" · ");
    const open = button("open", el("bdi", "", title), () => {
      $("conversations").close();
      show(one);
    });
    open.append(el("span", "dim", when));
    const write = button("plain", "Export", () => download(`${title.slice(0, 40)}.md`, exported(one)));
    const remove = button("plain", "Delete", () => forget(one));
    write.setAttribute("aria-label", `Export: ${title}`);
    remove.setAttribute("aria-label", `Delete: ${title}`);
    return el("li", "", open, el("span", "row-actions", write, remove));
  });
  $("saved").replaceChildren(...(rows.length ? rows : [el("li", "dim", saved.length ? "No question contains this." : "No conversation is saved yet.")]));
}

$("sought").addEventListener("input", listConversations);

function forget(one) {
  localStorage.removeItem(KEY + one.id);
  if (one.id === conversation.id) show(newConversation());
  listConversations();
  ($("saved").querySelector("button") || $("conversations").querySelector(".close")).focus();
}

// Escapes what Markdown would make active. Citation marks stay.
function escaped(text) {
  const marks = /(\[\d{1,3}(?:\s*[,–-]\s*\d{1,3})*\](?![(:[]))/;
  return text.split(marks).map((piece, at) => at % 2 ? piece : piece.replace(/[\\[\]<]/g, "\\$&")).join("");
}

function sourceLines(reply) {
  return reply.citations.map((one) => {
    return `[${one.n}] ${[one.title, placeOf(one)].filter(Boolean).join(", ")}`.replace(/\s+/g, " ");
  });
}

function exported(conversation) {
  const parts = conversation.turns.map((turn) => {
    const sources = sourceLines(turn.reply).map((line) => `- ${escaped(line)}`).join("\n");
    return [`## ${escaped(turn.question.replace(/\s+/g, " "))}`, escaped(turn.reply.answer), sources && `Sources:\n\n${sources}`].filter(Boolean).join("\n\n");
  });
  return `${parts.join("\n\n")}\n`;
}

function download(name, text) {
  const made = el("a");
  made.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  made.download = name.replace(/[^\p{L}\p{N} ._-]/gu, "");
  made.click();
  setTimeout(() => URL.revokeObjectURL(made.href), 10000);
}

// -- what can be done with an answer

function turnActions(turn, reply) {
  const text = [reply.answer, ...(reply.citations.length ? ["", "Sources:", ...sourceLines(reply)] : [])].join("\n");
  const copied = button("plain", "Copy", async () => announceOn(copied, await copyText(text) ? "Copied" : "Not copied"));
  const change = button("plain", "Edit", () => edit(turn));
  copied.setAttribute("aria-label", "Copy the answer with its sources");
  change.setAttribute("aria-label", "Edit the question and ask again");
  const box = el("span", "actions", copied, change);
  if (!turn.stored.id) return box;
  const thumbs = [["good", "Good", "Good answer"], ["bad", "Bad", "Bad answer"]].map(([rating, word, label]) => {
    const made = button("plain", word, () => rate(turn, rating, thumbs));
    made.setAttribute("aria-label", label);
    made.title = label;
    made.dataset.rating = rating;
    return made;
  });
  showRating(turn, thumbs);
  box.append(...thumbs);
  return box;
}

function showRating(turn, thumbs) {
  for (const one of thumbs) one.setAttribute("aria-pressed", String(one.dataset.rating === turn.stored.rating));
}

async function rate(turn, rating, thumbs) {
  const rated = conversation, earlier = rated.turns.slice(0, rated.turns.indexOf(turn.stored)).slice(-100);
  const body = { conversation: rated.id, answer: turn.stored.id, before: earlier.map((one) => one.id), rating };
  try {
    await request("v1/ratings", { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
    turn.stored.rating = rating;
    save(rated);
    showRating(turn, thumbs);
    turn.problem("");
    announce(`Rated ${rating}`);
  } catch (error) {
    turn.problem(messageOf(error));
  }
}

function announceOn(pressed, text) {
  const before = pressed.textContent;
  pressed.textContent = text;
  announce(text);
  setTimeout(() => { pressed.textContent = before; }, 1500);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* the page is not served over HTTPS, or the browser forbids it */ }
  const field = document.body.appendChild(el("textarea", "unseen"));
  field.value = text;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
