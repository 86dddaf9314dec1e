"use strict";
// The documents of the indexes: a table with what was read and what was left out, its filters, and why a file is not found.

const STATES = { changed: "changed since it was read", missing: "the file is missing" };
const COLUMNS = ["Title", "Reader", "Passages", "Language", "Date", "Notes", ""];
let listed = [];  // the rows of the table: documents, and files without one

async function openLibrary() {
  $("words").value = "";
  $("only").value = "";
  if (!$("documents").open) $("documents").showModal();
  await listDocuments();
}

async function listDocuments() {
  $("counted").textContent = "Loading…";
  try {
    const query = new URLSearchParams({ words: $("words").value, model: model ? model.id : "" });
    const { data, total, unread } = await (await request(`v1/documents?${query}`)).json();
    const several = new Set([...data, ...unread].map((one) => one.index)).size > 1;
    listed = [...data, ...unread.map((one) => ({ ...one, isUnread: true }))].map((one) => ({ ...one, several }));
    $("counted").dataset.more = total > data.length ? `, of ${total.toLocaleString("en")}` : "";
    fillFilter();
    drawDocuments();
  } catch (error) {
    listed = [];
    $("listed").replaceChildren();
    $("counted").textContent = error.status === 503 ? "" : messageOf(error);
  }
}

const FILTERS = {
  "Something left out": (one) => one.left_out || one.isUnread, "Changed or missing": (one) => STATES[one.state],
  "Not read": (one) => one.isUnread, "Added here": isAdded,
};

// Fills the filter with what the documents differ in.
function fillFilter() {
  const chosen = $("only").value, kinds = { "Index: ": "index", "Language: ": "language", "Reader: ": "reader" };
  const values = Object.entries(kinds).flatMap(([label, key]) => {
    const found = [...new Set(listed.map((one) => one[key]).filter(Boolean))].sort();
    return found.length > 1 ? found.map((value) => [label + value, (one) => one[key] === value]) : [];
  });
  $("only").filters = Object.fromEntries([...Object.entries(FILTERS).filter(([, test]) => listed.some(test)), ...values]);
  $("only").replaceChildren(new Option("All documents", ""), ...Object.keys($("only").filters).map((name) => new Option(name, name)));
  $("only").value = chosen in $("only").filters ? chosen : "";
  $("only").hidden = $("only").options.length < 2;
}

function drawDocuments() {
  const test = $("only").filters[$("only").value] || (() => true), words = $("words").value.trim().toLowerCase();
  const isNamed = (one) => !words || one.matches || `${one.title || ""} ${one.path}`.toLowerCase().includes(words);
  const rows = listed.filter(test).filter(isNamed), unread = rows.filter((one) => one.isUnread).length;
  const read = counted(rows.length - unread, "document");
  $("counted").textContent = `${read}${$("counted").dataset.more}${unread ? ` and ${counted(unread, "file")} that ${unread === 1 ? "is" : "are"} not read` : ""}`;
  const head = el("tr", "", ...COLUMNS.map((name) => el("th", "", name)));
  $("listed").replaceChildren(...(rows.length ? [el("thead", "", head), el("tbody", "", ...rows.map(documentRow))] : []));
}

function isAdded(one) {
  return Boolean(build.added) && one.index === build.added.index && build.added.files.includes(one.path);
}

function documentRow(one) {
  const path = one.path || one.document, place = one.several ? `${one.index}: ${path}` : path;
  const name = el("bdi", "", one.title || path);
  const open = one.isUnread ? el("span", "open unread", name) : button("open", name, () => openReader({ ...one, index: one.several ? one.index : "", document: ownId(one) }, model.id));
  open.append(el("span", "dim", place));
  const notes = [one.isUnread && `not read: ${one.reason}`, STATES[one.state], one.left_out, ...(one.remarks || [])].filter(Boolean);
  const cells = [readerName(one.reader || ""), one.passages, one.language, one.date].map((value, at) => {
    const cell = el("td", "", value === undefined ? "" : String(value));
    cell.dataset.unit = at === 1 && one.passages !== undefined ? (one.passages === 1 ? " passage" : " passages") : "";
    return cell;
  });
  const remove = button("plain", "Remove", () => confirmed(remove) && removeFile(one.path));
  remove.setAttribute("aria-label", `Remove ${path}`);
  return el("tr", "", el("td", "", open), ...cells, el("td", "notes", notes.join("; ")), el("td", "", isAdded(one) ? remove : null));
}

// Asks again on the button itself: the first press arms it.
function confirmed(pressed) {
  if (pressed.dataset.armed) return true;
  pressed.dataset.armed = "yes";
  pressed.textContent = "Really?";
  setTimeout(() => {
    pressed.textContent = "Remove";
    delete pressed.dataset.armed;
  }, 4000);
  return false;
}

// If several indexes are listed, the id of a document begins with the name of its index.
function ownId(one) { return one.several ? one.document.slice(one.index.length + 1) : one.document; }

$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  listDocuments();
});
$("words").addEventListener("input", () => {
  if (!$("words").value && listed.some((one) => one.matches)) listDocuments();
  else drawDocuments();
});
$("only").addEventListener("change", drawDocuments);
$("why-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const query = new URLSearchParams({ file: $("why-file").value, model: model ? model.id : "" });
  try {
    const { lines } = await (await request(`v1/why?${query}`)).json();
    $("why-said").textContent = lines.join("\n");
  } catch (error) {
    $("why-said").textContent = messageOf(error);
  }
});
