"use strict";
// What every script of the page uses. Text from documents, models and the server is always inserted as text, never as markup.

const $ = (id) => document.getElementById(id);

// Reads or writes a value that this tab keeps until it is closed, or this browser always.
function stored(name, value, storage = sessionStorage) {
  try {
    if (value === undefined) return storage.getItem(name);
    storage.setItem(name, value);
  } catch { /* storage is switched off in this browser */ }
  return null;
}

function el(kind, names, ...inside) {
  const made = document.createElement(kind);
  if (names) made.className = names;
  made.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

// Makes a block of text whose direction follows its own words, since documents and answers may be in any language.
function textBlock(kind, names, ...inside) {
  const made = el(kind, names, ...inside);
  made.dir = "auto";
  return made;
}

function button(names, label, onClick) {
  const made = el("button", names, label);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

function counted(count, noun) { return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`; }
function announce(text) { $("status").textContent = text; }
function scrollBehavior() { return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"; }
