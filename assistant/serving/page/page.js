"use strict";
// The composer, the header and the token; opens the page.

let models = [];        // the served models
let model = null;       // the one that is asked
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

async function loadModel() {
  for (let tried = 0; tried < 20; tried += 1) {
    try {
      const answer = await fetch("v1/models", { headers: tokenHeader() });
      if (answer.status === 401) {
        await askForToken(tried > 0);
        continue;
      }
      if (!answer.ok) throw await errorOf(answer);
      models = (await answer.json()).data;
      $("models").replaceChildren(...models.map((one) => el("option", "", one.id)));
      $("models").hidden = models.length < 2;
      $("about").hidden = models.length > 1;
      show(loadConversation(stored("conversation")) || newConversation());
      return;
    } catch (error) {
      $("holds").textContent = error instanceof Refused ? error.message : "The server cannot be reached. Check that it is running, then reload the page.";
      $("holds").className = "failed";
      return;
    }
  }
}

function chooseModel(id) {
  model = models.find((one) => one.id === id) || models[0];
  if (!model) return;
  conversation.model = model.id;
  const about = model.turnmark, quoted = about.generator === "extractive";
  document.title = `${model.id} – Turnmark`;
  $("models").value = model.id;
  $("about").textContent = model.id;
  $("about").title = quoted ? "quotations from the documents, without a language model" : about.generator;
  $("holds").textContent = `${model.id}: ${about.documents} document${about.documents === 1 ? "" : "s"}. Answers are ${quoted ? "quoted from them" : `written by ${about.generator}`} and show their sources. If the documents do not contain an answer, you are told so.`;
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
$("models").addEventListener("change", () => chooseModel($("models").value));
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
loadModel().then(() => $("message").focus());
