"use strict";
// What the server builds: the progress, and what became of it. Files are added and removed here.

const BUILD_MS = 1000;  // between two looks at a build
let build = { state: "idle", text: "", notes: [], added: null, watching: null };
let following = false, orders = 0;  // orders: how often a build was ordered since the last look

const isBuilding = () => build.state === "building";

// Shows the progress of a build until it has ended; the new documents are then asked.
async function followBuild() {
  orders += 1;
  if (following) return;
  following = true;
  let wasBuilding = false;
  try {
    do {
      orders = 0;
      build = { ...build, ...await (await request("v1/build")).json() };
      drawBuild();
      if (!model) await takeModels();
      wasBuilding = wasBuilding || isBuilding();
      if (isBuilding()) await new Promise((resolve) => { setTimeout(resolve, BUILD_MS); });
    } while (isBuilding() || orders);
  } catch (error) {
    if (error.status !== 404) showBuild(messageOf(error));
  }
  following = false;
  if (!wasBuilding) return;
  await takeModels();
  if ($("documents").open) await listDocuments();
}

// Asks the models that the server offers now: the default one, if it has become another.
async function takeModels() {
  const before = models.length ? models[0].id : "";
  if (!await loadModels() || !models.length) return;
  chooseModel(models[0].id === before ? conversation.model : models[0].id);
  if (waiting) send();
}

function showBuild(text) {
  $("building").hidden = !text;
  $("building-text").textContent = text;
}

function drawBuild() {
  showBuild(isBuilding() ? build.text[0].toUpperCase() + build.text.slice(1) : "");
  const outcome = build.state === "failed" ? [build.text] : build.notes;
  $("outcome").hidden = isBuilding() || !outcome.length;
  $("outcome").className = build.state === "failed" ? "failed" : "dim";
  $("outcome").textContent = outcome.join("\n");
  if (!model) $("holds").textContent = isBuilding() ? "Your documents are being read. You can type a question already." : NO_DOCUMENT;
  for (const one of document.querySelectorAll(".adding")) one.hidden = !build.added;
  $("watch").hidden = build.watching === null;
  $("watching").checked = build.watching;
}

// -- adding and removing

// Sends files to the server, one after the other. Each comes with the folders that it is in, which become part of its name.
async function addFiles(files) {
  if (!build.added || !files.length) return;
  const refused = [], wanted = files.filter(({ file, name }) => {
    const suffix = name.slice(name.lastIndexOf(".")).toLowerCase();
    if (!build.added.suffixes.includes(suffix)) refused.push(`${name}: files of this type are not read`);
    else if (file.size > build.added.max_bytes) refused.push(`${name}: larger than ${build.added.max_bytes / 1e6} MB`);
    else return true;
    return false;
  });
  let done = 0;
  for (const { file, name } of wanted) {
    $("adding").textContent = `Adding ${++done} of ${counted(wanted.length, "file")}: ${name}`;
    try {
      await request(`v1/files?${new URLSearchParams({ name })}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
    } catch (error) {
      refused.push(error instanceof Refused ? error.message : `${name}: ${messageOf(error)}`);
    }
  }
  const added = files.length - refused.length, more = refused.length > 10 ? [`… and ${refused.length - 10} more`] : [];
  $("adding").textContent = [`${counted(added, "file")} added${refused.length ? `, ${refused.length} left out:` : ""}`, ...refused.slice(0, 10), ...more].join("\n");
  announce($("adding").textContent);
  await followBuild();
}

// Returns the files of a drop, with those in its folders.
async function droppedFiles(items) {
  const files = [];
  const visit = async (entry, above) => {
    if (entry.name.startsWith(".")) return;
    const name = above + entry.name;
    if (entry.isFile) files.push({ file: await new Promise((resolve, reject) => { entry.file(resolve, reject); }), name });
    else for (const one of await childrenOf(entry.createReader())) await visit(one, `${name}/`);
  };
  for (const entry of [...items].map((one) => one.webkitGetAsEntry()).filter(Boolean)) await visit(entry, "");
  return files;
}

// A reader of a folder returns its entries in several pieces.
async function childrenOf(reader) {
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!some.length) return all;
    all.push(...some);
  }
}

async function changeDocuments(path, options) {
  try {
    await request(path, options);
  } catch (error) {
    $("adding").textContent = messageOf(error);
  }
  await followBuild();
}

const postJson = (path, body) => changeDocuments(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
const removeFile = (name) => changeDocuments(`v1/files?${new URLSearchParams({ name })}`, { method: "DELETE" });
$("update").addEventListener("click", () => postJson("v1/build", {}));
$("watching").addEventListener("change", () => postJson("v1/watch", { watching: $("watching").checked }));
for (const [opener, chooser] of [["add-files", "chosen-files"], ["add-folder", "chosen-folder"]]) {
  $(opener).addEventListener("click", () => $(chooser).click());
  $(chooser).addEventListener("change", async () => {
    const files = [...$(chooser).files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));
    $(chooser).value = "";
    await addFiles(files.filter(({ name }) => !/(^|\/)\./.test(name)));
  });
}

const hasFiles = (event) => build.added && [...event.dataTransfer.types].includes("Files");
let dragged = 0;  // how many elements the files are over
for (const [kind, step] of [["dragenter", 1], ["dragleave", -1]]) {
  document.addEventListener(kind, (event) => {
    if (hasFiles(event)) document.body.classList.toggle("dropping", (dragged += step) > 0);
  });
}
document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
document.addEventListener("drop", async (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  dragged = 0;
  document.body.classList.remove("dropping");
  const files = droppedFiles(event.dataTransfer.items);  // the items are gone after the event
  if (!$("documents").open) openLibrary();
  await addFiles(await files);
});
