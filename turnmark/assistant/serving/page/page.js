"use strict";
// The composer, the header and the token; opens the page.

let running = null;     // the AbortController of the answer in progress
let token = stored("token") || "";
let conversation = newConversation();
let edited = null;      // the turn whose question is edited
let waiting = false;    // whether the question in the field is asked as soon as there is an index

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
  if (running || !question) return;
  setWaiting(!model);
  if (!model) return;  // it is asked when there are documents
  if (edited) forgetFrom(edited);
  fillField("");
  endEdit();
  ask(question);
}

function setWaiting(waits) {
  waiting = waits;
  $("waiting").hidden = !waits;
  if (waits) announce($("waiting").textContent);
}

function fillField(text) {
  $("message").value = text;
  stored("draft", text);
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
$("message").addEventListener("input", () => {
  setWaiting(false);
  stored("draft", $("message").value);
  fitField();
});
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
  stored("theme", root.dataset.theme, localStorage);
});
if (stored("theme", undefined, localStorage)) document.documentElement.dataset.theme = stored("theme", undefined, localStorage);
loadModels().then((loaded) => {
  const draft = stored("draft") || "";
  if (loaded) show(loadConversation(stored("conversation")) || newConversation());
  fillField(draft);
  $("message").focus();
  followBuild();
});
