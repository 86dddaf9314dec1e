// The browser for the samples of a report. Everything it shows is in the page as JSON (evaluation/report/sample_browser.py
// explains its short names). Every text becomes a text node, never markup. Nothing is fetched.
(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const STATUS = ["done", "failed", "skipped"];
  const NARROW = window.matchMedia("(max-width: 52rem)");
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const runs = data.runs.filter((run) => run.samples.length);

  // --- elements -----------------------------------------------------------------------------------------------------

  // Makes an element. `about` contains a class, attributes, and event handlers.
  function make(tag, about, ...inside) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(about || {})) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
    return made;
  }

  function bar(share) {
    const made = document.createElementNS(SVG, "svg");
    for (const [name, value] of [["width", "100%"], ["height", "10"], ["aria-hidden", "true"]]) made.setAttribute(name, value);
    const box = document.createElementNS(SVG, "rect");
    const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    for (const [name, value] of [["class", "bar"], ["height", "10"], ["rx", "1.5"], ["width", width]]) box.setAttribute(name, value);
    made.append(box);
    return made;
  }

  const heading = (text, more) => make("h3", {}, text, more ? make("small", {}, ` ${more}`) : null);
  const fixed = (value, digits) => value.toFixed(digits);
  const chars = (n) => `… (${n.toLocaleString("en")} more characters)`;

  // --- texts --------------------------------------------------------------------------------------------------------

  const body = (at) => (at === undefined || at < 0 ? "" : Array.isArray(data.texts[at]) ? data.texts[at][0] : data.texts[at]);
  const leftOut = (at) => (at >= 0 && Array.isArray(data.texts[at]) ? data.texts[at][1] : 0);

  // Shows a text with the searched words marked and, if `cite` is given, its citation marks as buttons.
  function written(at, cite, tag) {
    const made = make(tag || "div", { class: "said", dir: "auto" });
    made.append(...marked(body(at), cite));
    if (leftOut(at)) made.append(make("span", { class: "left-out" }, chars(leftOut(at))));
    return made;
  }

  function marked(text, cite) {
    const words = state.words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const parts = [...words, ...(cite ? ["\\[\\d{1,3}\\]"] : [])];
    if (!parts.length) return [text];
    return text.split(new RegExp(`(${parts.join("|")})`, "gi")).map((part, at) => {
      if (at % 2 === 0 || !part) return part;
      const number = cite && /^\[(\d+)\]$/.exec(part);
      return number ? cite(Number(number[1])) : make("mark", {}, part);
    });
  }

  // --- what is asked for --------------------------------------------------------------------------------------------

  const state = { run: 0, words: [], status: "", labels: {}, metric: 0, low: null, high: null, sort: "data", shown: [], at: -1 };
  const haystacks = new WeakMap();
  const run = () => runs[state.run];
  const spent = (one) => Object.values(one.u || {}).reduce((sum, [, prompt, completion]) => sum + prompt + completion, 0);
  const timed = (one) => (one.t || []).map((value, at) => [run().phases[at], value]).filter(([, value]) => value !== null);
  const took = (one) => {
    const total = timed(one).find(([name]) => name === "total");
    return total ? total[1] : timed(one).reduce((sum, [, value]) => sum + value, 0);
  };
  const score = (one) => { const value = (one.v || [])[state.metric]; return typeof value === "number" ? value : null; };

  // Returns all texts of a sample in lower case; they are joined at the first search.
  function haystack(one) {
    if (!haystacks.has(one)) {
      const places = [one.q, one.w, one.p, one.f, one.y, one.b, ...(one.h || []).map((said) => said[1]), ...Object.values(one.g || {})];
      for (const [at] of one.c || []) places.push(data.passages[at][2]);
      const names = (one.c || []).map(([at]) => `${data.passages[at][0]} ${data.passages[at][1]}`);
      haystacks.set(one, [one.i, ...names, ...places.map(body)].join("\n").toLowerCase());
    }
    return haystacks.get(one);
  }

  function fits(one) {
    if (state.status !== "" && (one.s || 0) !== Number(state.status)) return false;
    for (const [dimension, value] of Object.entries(state.labels)) {
      if (!((one.l || [])[dimension] || []).includes(Number(value))) return false;
    }
    if (state.low !== null || state.high !== null) {
      const value = score(one);
      if (value === null || (state.low !== null && value < state.low) || (state.high !== null && value > state.high)) return false;
    }
    return !state.words.length || state.words.every((word) => haystack(one).includes(word));
  }

  const SORTS = {
    data: null,
    lowest: (one) => score(one),
    highest: (one) => (score(one) === null ? null : -score(one)),
    slowest: (one) => -took(one),
    tokens: (one) => -spent(one),
  };

  function update(keep) {
    const before = keep ? state.shown[state.at] : undefined;
    const by = SORTS[state.sort];
    state.shown = run().samples.filter(fits);
    if (by) {
      const keys = new Map(state.shown.map((one) => [one, by(one)]));
      // Samples without a value come last; sort() is stable, so ties keep the order of the data.
      state.shown.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        return x === null || y === null ? Number(x === null) - Number(y === null) : x - y;
      });
    }
    state.at = before ? state.shown.indexOf(before) : -1;
    drawList();
    if (state.at < 0) show(NARROW.matches || !state.shown.length ? -1 : 0, true);
    else show(state.at, true);
  }

  // --- controls -----------------------------------------------------------------------------------------------------

  function field(label, control) {
    return make("label", {}, label, control);
  }

  function choice(options, value, changed) {
    const made = make("select", { change: () => { made.classList.toggle("on", made.value !== options[0][0]); changed(made.value); } });
    for (const [key, text] of options) made.append(make("option", { value: key, selected: key === value }, text));
    return made;
  }

  function number(label, key) {
    const made = make("input", { type: "number", step: "any", inputmode: "decimal", placeholder: "any", input: () => {
      state[key] = made.value === "" || Number.isNaN(made.valueAsNumber) ? null : made.valueAsNumber;
      made.classList.toggle("on", state[key] !== null);
      update(true);
    } });
    return field(label, made);
  }

  function counted(values) {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    return counts;
  }

  function drawControls() {
    const made = [];
    const here = run();
    if (runs.length > 1) {
      const options = runs.map((one, at) => [String(at), one.name]);
      made.push(field("run", choice(options, String(state.run), (value) => {
        Object.assign(state, { run: Number(value), status: "", labels: {}, metric: runs[value].first, low: null, high: null, sort: "data" });
        drawControls();
        update(false);
      })));
    }
    let waiting = 0;
    const search = make("input", { type: "search", id: "search", placeholder: "words of a question, an answer, a passage, an id", input: () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { state.words = search.value.toLowerCase().split(/\s+/).filter(Boolean); update(true); }, 90);
    } });
    search.value = state.words.join(" ");
    made.push(make("label", { class: "search" }, "search", search));
    const more = [];
    const statuses = counted(here.samples.map((one) => one.s || 0));
    if (statuses.size > 1) {
      const options = [...statuses].sort().map(([key, n]) => [String(key), `${STATUS[key]} (${n})`]);
      more.push(field("status", choice([["", "any"], ...options], state.status, (value) => { state.status = value; update(true); })));
    }
    here.dimensions.forEach(([name, values], at) => {
      const counts = counted(here.samples.flatMap((one) => (one.l || [])[at] || []));
      if (counts.size < 2) return;
      const options = values.map((value, place) => [String(place), `${value} (${counts.get(place) || 0})`]);
      options.sort((a, b) => (a[1] < b[1] ? -1 : 1));
      more.push(field(name.replace(/_/g, " "), choice([["", "any"], ...options], state.labels[at] || "", (value) => {
        if (value === "") delete state.labels[at];
        else state.labels[at] = value;
        update(true);
      })));
    });
    if (here.metrics.length) {
      const metrics = here.metrics.map(([name], at) => [String(at), name]);
      const metric = make("select", { change: () => { state.metric = Number(metric.value); update(true); } },
        ...metrics.map(([key, text]) => make("option", { value: key, selected: key === String(state.metric) }, text)));
      more.push(field("score", metric), number("from", "low"), number("to", "high"));
    }
    const sorts = [["data", "as in the data"], ["lowest", "lowest score first"], ["highest", "highest score first"]];
    if (here.samples.some(took)) sorts.push(["slowest", "slowest first"]);
    if (here.samples.some(spent)) sorts.push(["tokens", "most tokens first"]);
    made.push(field("order", choice(sorts, state.sort, (value) => { state.sort = value; update(true); })));
    made.push(make("button", { type: "button", id: "clear", click: clear }, "Clear"));
    // On a narrow screen, open filters would hide everything else.
    if (more.length) made.push(make("details", { class: "filters", open: !NARROW.matches }, make("summary", {}, "Filters"), make("div", { class: "controls" }, ...more)));
    $("controls").replaceChildren(...made);
  }

  function clear() {
    Object.assign(state, { words: [], status: "", labels: {}, low: null, high: null, sort: "data" });
    drawControls();
    update(true);
  }

  // --- the list -----------------------------------------------------------------------------------------------------

  function shownScore(one, at) {
    const value = (one.v || [])[at];
    if (value === false) return "failed";
    return typeof value === "number" ? fixed(value, run().metrics[at][1]) : "–";
  }

  const brief = (name) => (name.length > 18 ? `${name.slice(0, 6)}…${name.slice(-6)}` : name);

  function drawList() {
    const here = run();
    const domain = here.dimensions.findIndex(([name]) => name === "domain");
    const decision = here.dimensions.findIndex(([name]) => name === "decision");
    const label = (one, at) => (at < 0 ? [] : ((one.l || [])[at] || []).map((value) => here.dimensions[at][1][value]));
    $("list").replaceChildren(...state.shown.map((one, at) => {
      const meta = [...label(one, domain), ...label(one, decision), brief(one.i) + (one.r ? ` (repeat ${one.r})` : "")].join(" · ");
      const button = make("button", { type: "button", click: () => open(at) },
        make("span", { class: "asked", dir: "auto" }, body(one.q) || one.i),
        make("span", { class: "score" }, here.metrics.length ? shownScore(one, state.metric) : ""),
        make("span", { class: "meta" }, one.s ? make("span", { class: "failed" }, `${STATUS[one.s]} · `) : null, meta));
      return make("li", {}, button);
    }));
    const values = state.shown.map(score).filter((value) => value !== null);
    const all = here.samples.length;
    let told = state.shown.length === all ? `${all} samples` : `${state.shown.length} of ${all} samples`;
    if (values.length) {
      const [name, digits] = here.metrics[state.metric];
      told += `, mean ${name} ${fixed(values.reduce((a, b) => a + b, 0) / values.length, digits)} over ${values.length}`;
    }
    if (here.more) told += `; ${here.more} more are in predictions.jsonl`;
    $("count").textContent = told;
  }

  // --- a sample -----------------------------------------------------------------------------------------------------

  // Shows the sample at a position of the list; nothing at -1. `still`: the page does not scroll.
  function show(at, still) {
    state.at = at;
    const one = state.shown[at];
    for (const old of $("list").querySelectorAll("[aria-current]")) old.removeAttribute("aria-current");
    if (!one) {
      $("sample").replaceChildren(make("p", { class: "nothing" }, state.shown.length ? "Choose a sample." : "No sample matches."));
      return;
    }
    const button = $("list").children[at].firstChild;
    button.setAttribute("aria-current", "true");
    $("sample").replaceChildren(...drawn(one, at));
    $("sample").scrollTop = 0;
    if (still) return;
    const [box, mine] = [$("list").getBoundingClientRect(), button.getBoundingClientRect()];
    if (!NARROW.matches && (mine.top < box.top || mine.bottom > box.bottom)) {
      $("list").scrollTop += mine.top - box.top - box.height / 3;
    }
    const top = $("sample").getBoundingClientRect().top;
    if (!NARROW.matches && (top < 0 || top > window.innerHeight / 2)) $("sample").scrollIntoView();
  }

  function* drawn(one, at) {
    yield make("header", {},
      make("button", { type: "button", class: "only-phone", click: close }, "Back"),
      make("span", { class: "where" }, `${at + 1} of ${state.shown.length}`),
      make("button", { type: "button", "aria-label": "previous sample", disabled: at < 1, click: () => step(-1) }, "‹ Previous"),
      make("button", { type: "button", "aria-label": "next sample", disabled: at + 1 >= state.shown.length, click: () => step(1) }, "Next ›"));
    yield make("p", { class: "id" }, one.i + (one.r ? ` (repeat ${one.r})` : ""));
    yield chips(one);
    if (one.s) yield make("p", { class: "failed" }, `${STATUS[one.s]}: `, ...marked(body(one.y)));
    yield* conversation(one);
    yield* answers(one);
    yield* passages(one);
    yield* scores(one);
    yield* trace(one);
  }

  function chips(one) {
    const made = make("div", { class: "chips" });
    run().dimensions.forEach(([name, values], at) => {
      for (const value of (one.l || [])[at] || []) {
        made.append(make("span", { class: "chip" }, `${name.replace(/_/g, " ")} `, make("b", {}, values[value])));
      }
    });
    return made;
  }

  function turn(who, at, now) {
    return make("div", { class: now ? "turn now" : "turn" }, make("span", {}, who), written(at));
  }

  function* conversation(one) {
    const before = (one.h || []).map(([role, at]) => turn(role ? "assistant" : "user", at));
    yield heading("Conversation");
    if (before.length > 2) {
      const folded = before.slice(0, -2);
      yield make("details", {}, make("summary", {}, `${folded.length} earlier messages`), ...folded);
    }
    yield* before.slice(-2);
    if (body(one.q)) yield turn("asks", one.q, true);
    if (one.w !== undefined) yield turn("searched", one.w);
    for (const [mode, at] of Object.entries(one.x || {})) yield turn(mode, at);
  }

  function* answers(one) {
    const lit = (n) => make("button", { type: "button", class: "cite", "aria-label": `passage ${n}`, click: () => light(n) }, String(n));
    const cite = (n) => ((one.c || []).some(([, rank]) => rank === n) ? lit(n) : `[${n}]`);
    const pair = make("div", { class: "pair" });
    if (one.p !== undefined || one.d) {
      const steps = (one.d || []).map(([at, places]) => make("li", {}, written(at, null, "span"), ...places.map(cite)));
      pair.append(make("div", { class: "ours" }, heading("Answer"), one.p === undefined ? null : written(one.p, cite), steps.length ? make("ol", {}, ...steps) : null));
    }
    if (one.f !== undefined) pair.append(make("div", {}, heading(one.b === undefined ? "Reference" : "Recorded revision"), written(one.f)));
    if (pair.childElementCount) yield make("section", { class: "answers" }, pair);
    if (one.e) yield heading("Parts");
    for (const [asked, said] of one.e || []) {
      yield make("div", { class: "turn" }, make("span", {}, "part"), make("div", {}, make("b", {}, written(asked)), body(said) ? written(said) : make("span", { class: "dim" }, "not answered")));
    }
    const before = (one.h || []).map((said) => said[1]);
    if (one.b !== undefined && !before.includes(one.b)) yield make("details", {}, make("summary", {}, "the previous answer"), written(one.b));
    if (one.o) yield make("details", {}, make("summary", {}, `${one.o.length} operations`), ...one.o.map((at) => written(at)));
  }

  function* passages(one) {
    if (!one.c || !one.c.length) return;
    const said = [body(one.p), ...(one.d || []).map(([, places]) => places.map((n) => `[${n}]`).join(""))].join(" ");
    const cited = new Set([...said.matchAll(/\[(\d+)\]/g)].map((found) => Number(found[1])));
    const missed = one.c.filter(([, rank]) => !rank).length;
    yield heading("Passages", `${one.c.length - missed}${missed ? `, and ${missed} relevant not found` : ""}`);
    for (const [at, rank, value, relevant] of one.c) {
      const [name, title, text] = data.passages[at];
      const quoted = rank > 0 && cited.has(rank);
      yield make("details", { class: "passage", "data-rank": rank, open: quoted },
        make("summary", {},
          make("span", { class: "rank" }, rank ? String(rank) : "–"),
          make("span", { class: "title", dir: "auto" }, title || name),
          rank ? null : make("span", { class: "badge bad" }, "not found"),
          relevant === 1 ? make("span", { class: "badge good" }, "relevant") : null,
          relevant === 0 ? make("span", { class: "badge" }, "not labeled") : null,
          quoted ? make("span", { class: "badge accent" }, "cited") : null,
          rank ? make("span", { class: "dim number" }, fixed(value, 4)) : null,
          make("span", { class: "snippet", dir: "auto" }, body(text).slice(0, 200))),
        make("div", {}, text < 0 ? make("span", { class: "dim" }, "its text is not in the folder of the run") : written(text), make("p", { class: "id" }, name)));
    }
  }

  function light(n) {
    for (const one of $("sample").querySelectorAll(".passage")) {
      const mine = one.getAttribute("data-rank") === String(n);
      one.classList.toggle("lit", mine);
      if (mine) { one.open = true; one.scrollIntoView({ block: "nearest" }); }
    }
  }

  // Judges' reasons contain the addresses of their servers; the manifest records these, so the page omits them.
  const placeless = (text) => text.replace(/@https?:\/\/[^\s,|;?]*[^\s,|;?:]/g, "");

  // The reasons of several judges are on separate lines.
  function* reasons(why) {
    if (why === undefined) return;
    for (const part of placeless(body(why)).split(" | ")) yield make("div", { dir: "auto" }, ...marked(part));
    if (leftOut(why)) yield make("span", { class: "left-out" }, chars(leftOut(why)));
  }

  function* scores(one) {
    const rows = [];
    const none = [];
    run().metrics.forEach(([name, digits, by], at) => {
      const value = (one.v || [])[at];
      const why = (one.g || {})[at];
      const told = [...reasons(why), by ? make("div", { class: "by" }, placeless(by)) : null];
      if (value === null || value === undefined) { none.push(name); return; }
      const drawn = value !== false && value >= 0 && value <= 1 && digits === 4 ? bar(value) : null;
      rows.push(make("tr", {},
        make("th", { scope: "row" }, name),
        make("td", { class: value === false ? "number failed" : "number" }, value === false ? "failed" : fixed(value, digits)),
        make("td", { class: "bars" }, drawn),
        make("td", { class: "why" }, ...told)));
    });
    if (rows.length) {
      yield heading("Scores");
      yield make("table", { class: "scores" }, make("tbody", {}, ...rows));
    }
    if (none.length) yield make("p", { class: "under" }, `not applicable: ${none.join(", ")}`);
  }

  function* trace(one) {
    const phases = timed(one);
    const total = took(one) || 1;
    const rows = phases.map(([name, value]) => make("tr", {},
      make("th", { scope: "row" }, name), make("td", { class: "number" }, `${fixed(value, value < 10 ? 3 : 1)} s`),
      make("td", { class: "bars" }, name === "total" ? null : bar(value / total))));
    for (const [role, [calls, prompt, completion]] of Object.entries(one.u || {})) {
      const told = `${calls} ${calls === 1 ? "call" : "calls"}, ${prompt.toLocaleString("en")} + ${completion.toLocaleString("en")} tokens`;
      rows.push(make("tr", {}, make("th", { scope: "row" }, role), make("td", { colspan: 2 }, told)));
    }
    if (one.a) rows.push(make("tr", {}, make("th", { scope: "row" }, "attempts"), make("td", { class: "number" }, String(one.a)), make("td", {})));
    if (rows.length || one.n) yield heading("Trace");
    if (rows.length) yield make("table", { class: "trace" }, make("tbody", {}, ...rows));
    for (const at of one.n || []) yield written(at, null, "p");
  }

  // --- navigation ---------------------------------------------------------------------------------------------------

  const address = (one) => `#sample=${encodeURIComponent(JSON.stringify([run().name, one.i, one.r || 0]))}`;

  function open(at) {
    if (at < 0 || at >= state.shown.length) return;
    const already = document.body.classList.contains("open");
    document.body.classList.add("open");
    show(at);
    // The browser's Back button undoes opening a sample, but not moving to the next one.
    try {
      if (already || !NARROW.matches) history.replaceState(null, "", address(state.shown[at]));
      else history.pushState(null, "", address(state.shown[at]));
    } catch { /* a page without permission to change its address still works */ }
  }

  function step(by) {
    open(Math.min(state.shown.length - 1, Math.max(0, state.at + by)));
  }

  function close() {
    document.body.classList.remove("open");
    try { history.replaceState(null, "", "#samples"); } catch { /* as above */ }
    const button = $("list").children[state.at];
    if (button && NARROW.matches) button.firstChild.focus();
  }

  function arrive() {
    const found = /^#sample=(.*)$/.exec(location.hash);
    if (!found) { document.body.classList.remove("open"); return; }
    let wanted;
    try { wanted = JSON.parse(decodeURIComponent(found[1])); } catch { return; }
    if (!Array.isArray(wanted)) return;
    const at = runs.findIndex((one) => one.name === wanted[0]);
    if (at < 0) return;
    if (at !== state.run) { Object.assign(state, { run: at, metric: runs[at].first }); clear(); }
    const place = state.shown.findIndex((one) => one.i === wanted[1] && (one.r || 0) === wanted[2]);
    if (place < 0) return;
    document.body.classList.add("open");
    show(place);
    if (!NARROW.matches) $("sample").scrollIntoView();
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "radio";
    if (event.key === "Escape") {
      if (typing) event.target.blur();
      else close();
      return;
    }
    if (typing) return;
    const acts = { j: () => step(1), k: () => step(-1), "/": () => { close(); $("search").focus(); $("search").select(); } };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  }

  if (!runs.length) return;
  state.metric = run().first;
  $("browser").hidden = false;
  drawControls();
  update(false);
  arrive();
  window.addEventListener("hashchange", arrive);
  window.addEventListener("popstate", arrive);
  document.addEventListener("keydown", pressed);
})();
