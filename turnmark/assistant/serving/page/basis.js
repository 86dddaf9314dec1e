"use strict";
// How a computed source was made: its statement, all rows of its result as a file, and the rows that it rests on.

async function saveRows(box, one, asked) {
  try {
    const answer = await request(`v1/rows?${new URLSearchParams({ model: asked || "", statement: one.statement })}`);
    const link = el("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `rows-${one.n}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) {
    box.append(el("p", "dim", error instanceof Refused ? error.message : "The rows could not be loaded."));
  }
}

function basisDetails(one, asked) {
  const box = el("div", "basis", el("h4", "", "Computed with"), el("pre", "", one.statement));
  box.append(button("save", "Download all rows (CSV)", () => saveRows(box, one, asked)));
  for (const part of one.basis || []) {
    const all = `${part.count.toLocaleString("en")} row${part.count === 1 ? "" : "s"} of ${part.table}`;
    box.append(el("h4", "", `Rests on ${all}${part.count > part.rows.length ? `, the first ${part.rows.length}` : ""}`));
    const head = el("tr", "", ...part.columns.map((name) => el("th", "", name)));
    const rows = part.rows.map((row) => el("tr", "", ...row.map((value) => el("td", "", value === null ? "NULL" : String(value)))));
    const scrolled = el("div", "scrolled", el("table", "", el("thead", "", head), el("tbody", "", ...rows)));
    scrolled.tabIndex = 0;
    box.append(scrolled);
  }
  if (!(one.basis || []).length) box.append(el("p", "dim", "The rows that it rests on are not known."));
  return box;
}
