"use strict";
// The models that can be asked: an index, or all of them together, with a language model. Each conversation keeps its choice.

let models = [];   // the served models; the first one is the default
let model = null;  // the one that is asked
const NO_DOCUMENT = "There is no document yet. Drop files here, or add them under Documents.";
const differs = { index: false, generator: false };  // what there is to choose

async function loadModels() {
  for (let tried = 0; tried < 20; tried += 1) {
    try {
      const answer = await fetch("v1/models", { headers: tokenHeader() });
      if (answer.status === 401) {
        await askForToken(tried > 0);
        continue;
      }
      if (!answer.ok) throw await errorOf(answer);
      models = (await answer.json()).data;
      fillMenu();
      if (!models.length) chooseModel("");
      return true;
    } catch (error) {
      $("holds").textContent = messageOf(error);
      $("holds").className = "failed";
      return false;
    }
  }
  return false;
}

// Fills the menu. It is shown only if there is a choice, and names only what differs.
function fillMenu() {
  for (const what of ["index", "generator"]) differs[what] = new Set(models.map((one) => one.turnmark[what])).size > 1;
  $("models").replaceChildren(...models.map((one) => {
    const made = el("option", "", shownModel(one.id));
    made.value = one.id;
    return made;
  }));
  $("models").hidden = models.length < 2;
  $("about").hidden = models.length > 1;
}

function indexLabel(one) { return one.turnmark.index.replaceAll(",", " + "); }
function isQuoted(one) { return one.turnmark.generator === "extractive"; }
function generatorLabel(one) { return isQuoted(one) ? "quotations only" : one.turnmark.generator; }

// Chooses the model of the conversation; the default if it is not served anymore.
function chooseModel(id) {
  model = models.find((one) => one.id === id) || models[0] || null;
  if (!model) {
    $("holds").textContent = isBuilding() ? $("holds").textContent : NO_DOCUMENT;
    return;
  }
  conversation.model = model.id;
  const { documents, generator } = model.turnmark, name = indexLabel(model);
  document.title = `${name} – Turnmark`;
  $("models").value = model.id;
  $("models").title = `${name}, ${generatorLabel(model)}`;
  $("about").textContent = name;
  $("about").title = isQuoted(model) ? "quotations from the documents, without a language model" : generator;
  $("holds").textContent = `${name}: ${documents} document${documents === 1 ? "" : "s"}. Answers are ${isQuoted(model) ? "quoted from them" : `written by ${generator}`} and show their sources. If the documents do not contain an answer, you are told so.`;
}

// Returns what tells a model from the others; empty if there is no choice.
function shownModel(id) {
  const asked = models.find((one) => one.id === id);
  if (!asked) return "";
  return [differs.index && indexLabel(asked), differs.generator && generatorLabel(asked)].filter(Boolean).join(" · ");
}

$("models").addEventListener("change", () => {
  chooseModel($("models").value);
  if (conversation.turns.length) save(conversation);
  announce(`The next question goes to ${$("models").title}`);
});
