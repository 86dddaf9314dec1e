"use strict";
// The composer, the header and the token; opens the page.

let running = null;     // the AbortController of the answer in progress
let token = stored("token") || "";
let conversation = newConversation();
let edited = null;      // the turn whose question is edited

function setRunning(controller) {
  running = controller;
  document.body.classList.toggle("busy", Boolean(controller));
  $("send").setAttribute("aria-label", controller ? "Stop" : "Send");
  $("welcome").hidden = Boolean(controller) || $("turns").childElementCount > 0;
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
  if (edited) forgetFrom(edited);
  fillField("");
  endEdit();
  ask(question);
}

function fillField(text) {
  $("message").value = text;
  fitField();
}

function edit(turn) {
  if (running) return;
  edited = turn;
  $("editing").hidden = false;
  fillField(turn.stored.question);
  $("message").focus();
}

function endEdit() {
  edited = null;
  $("editing").hidden = true;
}

// Removes a turn and all later ones from the conversation.
function forgetFrom(turn) {
  conversation.turns.splice(conversation.turns.indexOf(turn.stored));
  while (turn.box.nextSibling) turn.box.nextSibling.remove();
  turn.box.remove();
}

// Shows a conversation; a new one is empty.
function show(wanted) {
  if (running) running.abort();
  endEdit();
  conversation = wanted;
  stored("conversation", wanted.id);
  chooseModel(wanted.model);
  $("turns").replaceChildren();
  for (const one of wanted.turns) {
    const turn = new Turn(one.question);
    turn.stored = one;
    turn.finish(one.reply);
  }
  setRunning(null);
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
    const last = conversation.turns.at(-1);
    if (last) {
      event.preventDefault();
      fillField(last.question);
    }
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (running) running.abort();
  else if (edited) {
    fillField("");
    endEdit();
  }
});
$("fresh").addEventListener("click", () => show(newConversation()));
$("history").addEventListener("click", openConversations);
$("library").addEventListener("click", () => openLibrary());
for (const close of document.querySelectorAll("dialog .close")) close.addEventListener("click", () => close.closest("dialog").close());
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  stored("theme", root.dataset.theme);
});
if (stored("theme")) document.documentElement.dataset.theme = stored("theme");
loadModels().then((loaded) => {
  if (loaded) show(loadConversation(stored("conversation")) || newConversation());
  $("message").focus();
});
