"use strict";
// The documents of the index: a list with the state of their files, and the text of each.

const STATES = { changed: "changed since the index was built", missing: "file is missing" };
let openedFrom = null;  // the button of the document that is shown

async function openLibrary() {
  $("words").value = "";
  if (!$("documents").open) $("documents").showModal();
  await listDocuments();
}

async function listDocuments() {
  showList(true);
  $("listed").replaceChildren();
  $("counted").textContent = "Loading…";
  try {
    const query = new URLSearchParams({ words: $("words").value, model: model ? model.id : "" });
    const { data, total } = await (await request(`v1/documents?${query}`)).json();
    $("counted").textContent = total > data.length ? `The first ${data.length} of ${total} documents` : `${total} document${total === 1 ? "" : "s"}`;
    $("listed").replaceChildren(...data.map(documentRow));
  } catch (error) {
    $("counted").textContent = messageOf(error);
  }
}

function documentRow(one) {
  const about = [one.path || one.document, one.date, `${one.passages} passage${one.passages === 1 ? "" : "s"}`].filter(Boolean).join(" · ");
  const open = button("open", el("bdi", "", one.title || one.path), () => {
    openedFrom = open;
    openDocument(one.document);
  });
  open.append(el("span", "dim", about));
  if (STATES[one.state]) open.append(el("span", `dim ${one.state}`, STATES[one.state]));
  return el("li", "", open);
}

async function openDocument(id) {
  try {
    const query = new URLSearchParams({ document: id, model: model ? model.id : "" });
    const read = await (await request(`v1/document?${query}`)).json();
    $("opened-title").textContent = read.title || read.path;
    $("opened-path").textContent = [read.path, read.date].filter(Boolean).join(" · ");
    $("opened-text").textContent = read.text;
    showList(false);
    $("back").focus();
  } catch (error) {
    $("counted").textContent = messageOf(error);
  }
}

function showList(shown) {
  for (const id of ["find", "counted", "listed"]) $(id).hidden = !shown;
  $("opened").hidden = shown;
}

$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  listDocuments();
});
$("back").addEventListener("click", () => {
  showList(true);
  (openedFrom || $("words")).focus();
});
