"""What `size` measured, as tables and plots: fits, and what larger corpora would need by them."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.benchmarks.size_plot import plot

Records = Sequence[Mapping[str, Any]]
Table = tuple[str, list[str], list[list[str]], str]
"""Title, head, rows, note."""

DEFAULT = "conversational"
CPU = "processor_p95_without_model"
MIB, GIB = 2**20, 2**30
LARGER = (366_000, 100_000_000)
PARTS = ("passages.db", "bm25", "chroma", "tokens")
"""What an index of any size has."""
EXACT = "exact"
"""The vectors in one file, which indexes of up to 100,000 passages have too."""
HOLDS = {
    "bm25": ("passages.db", "bm25"),
    "dense": ("passages.db", "bm25", "chroma", EXACT),
    "hybrid": ("passages.db", "bm25", "chroma", EXACT),
    "conversational?rerank=none": ("passages.db", "bm25", "chroma", EXACT),
    "conversational": (*PARTS, EXACT),
}
NOTES = """Measured: reading, SQLite, BM25, Chroma's HNSW and the token vectors at every size, each in a process of its
own. Not measured at every size: the model. Embedding is the passages divided by its speed on a sample of
512; vectors were looked up, those of repeated passages with noise (cosine about .9), their token vectors
the original's. Memory is what the process held (RSS); mapped files count where they were touched, and the
system may drop them. The model's own memory is in all figures of retrievers that embed. p95 is over the
judged turns of every fourth of MTRAG's conversations, one by one. On paper the processor's time counts:
other work on the machine changes it less."""
ASSUMED = """Straight lines through the measured sizes for disk, memory, embedding, reading, BM25 and tokens; n log n
for building HNSW; a + b ln n for searching it, as long as it fits into memory; a + b n for BM25, which adds up one
array as long as the corpus for each text; the model and late interaction cost the same at any size."""


def of(records: Records, what: str, retriever: str) -> dict[int, Mapping[str, Any]]:
    """Size -> what was measured."""
    found = {one["size"]: one for one in records if (one["what"], one["retriever"]) == (what, retriever)}
    return dict(sorted(found.items()))


def fit(points: Mapping[int, float], shape: Callable[[float], float] = float) -> Callable[[float], float]:
    """The least-squares line a + b * shape(n) through the points; b is not below 0. One point: constant."""
    shaped = np.array([shape(n) for n in points])
    values = np.array(list(points.values()))
    slope = float(np.polyfit(shaped, values, 1)[0]) if len(points) > 1 else 0.0
    slope = max(slope, 0.0)
    start = float(values.mean() - slope * shaped.mean())
    return lambda n: start + slope * shape(n)


def slope(points: Mapping[int, float]) -> float:
    """How much a passage more brings."""
    line = fit(points)
    return line(1) - line(0)


def phases(build: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Phase -> its measurements."""
    return {one["phase"]: one for one in build["phases"]}


def rate(records: Records, retriever: str = DEFAULT) -> float:
    """Passages a second that the model embeds."""
    return next(float(one["per_second"]) for one in of(records, "embed", retriever).values())


def build_seconds(records: Records) -> dict[int, dict[str, float]]:
    """Size -> phase -> seconds of the default's build; the model's by its speed."""
    speed = rate(records)
    found = {}
    for size, build in of(records, "build", DEFAULT).items():
        taken = {name: float(one["seconds"]) for name, one in phases(build).items()}
        found[size] = taken | {"embedding": build["passages"] / speed}
    return found


def build_table(records: Records) -> Table:
    """Time of the build."""
    names = ["reading", "embedding", "bm25", "chroma", "tokens"]
    rows = [
        [f"{size:,}", *(f"{taken.get(name, 0):.1f}" for name in names), f"{sum(taken.values()):.0f}"]
        for size, taken in build_seconds(records).items()
    ]
    return "Building the default's index, seconds", ["passages", *names, "all"], rows, ""


def disk_table(records: Records) -> Table:
    """Disk by part."""
    rows = []
    for size, build in of(records, "build", DEFAULT).items():
        disk, most = build["disk"], max(one["disk_before"] for one in build["phases"])
        sizes = [disk.get(part, 0) for part in (*PARTS, EXACT)]
        all_of_it = sum(disk.values())
        rows.append(
            [f"{size:,}", *(f"{one / MIB:.1f}" for one in sizes), f"{all_of_it / MIB:.1f}", f"{most / MIB:.1f}"]
        )
    head = ["passages", *PARTS, EXACT, "all", "most while building"]
    return "Disk, MiB", head, rows, ""


def memory_table(records: Records) -> Table:
    """Memory of building and of searching."""
    rows = []
    searches = {name: of(records, "search", name) for name in HOLDS}
    for size, build in of(records, "build", DEFAULT).items():
        alone = of(records, "build", "bm25").get(size)
        cells = [
            f"{one['most'] / MIB:.0f} ({(one['most'] - one['most_own']) / MIB:.0f})" if one else ""
            for one in (build, alone)
        ]
        for found in searches.values():
            used = found[size]["used"] if size in found else None
            cells.append(f"{used['all'] / MIB:.0f} ({used['files'] / MIB:.0f})" if used else "")
        rows.append([f"{size:,}", *cells])
    head = ["passages", "building the default", "building bm25", *(f"searching {name}" for name in HOLDS)]
    return "Memory, MiB (in brackets: mapped files, libraries included)", head, rows, ""


def flat_table(records: Records) -> Table:
    """How a build's memory grows, phase by phase."""
    builds = of(records, "build", DEFAULT)
    rows = []
    for name in phases(next(iter(builds.values()))):
        parts = {size: (phases(build)[name], build) for size, build in builds.items()}
        most = {size: float(part["most_own"] - build["base"]) for size, (part, build) in parts.items()}
        own = {size: float(part["most_own"] - part["before_own"]) for size, (part, _) in parts.items()}
        files = {size: float(part["most"] - part["most_own"]) for size, (part, _) in parts.items()}
        structure = {"bm25": "bm25", "chroma": "hnsw"}.get(name, "")
        held = {size: float(b["hnsw"] if structure == "hnsw" else b["disk"]["bm25"]) for size, b in builds.items()}
        shown = f"{slope(held):,.0f}" if structure else "none"
        cells = [f"{value / MIB:.0f}" for value in most.values()]
        rows.append([name, *cells, f"{slope(own):,.0f}", shown, f"{slope(files):,.0f}"])
    head = ["phase", *(f"{size:,}" for size in builds), "bytes a passage", "of which its structure", "mapped files"]
    note = (
        "Most memory of its own in a phase, MiB above the process with the model loaded and warm (mapped files "
        "left out: the token vectors are written through them, and the system takes such pages back when it needs"
        " them). What an earlier phase held and gave back to the allocator counts in later ones. Bytes a passage:"
        " what a phase takes beyond what there was when it began, as a slope. The structure is the BM25 index's "
        "or HNSW's files."
    )
    return "A build's memory by phase", head, rows, note


def bytes_table(records: Records) -> Table:
    """Bytes a passage, by retriever."""
    builds, alone = of(records, "build", DEFAULT), of(records, "build", "bm25")
    rows = []
    for name, parts in HOLDS.items():
        disk = slope({size: float(sum(b["disk"].get(part, 0) for part in parts)) for size, b in builds.items()})
        made = alone if name == "bm25" else builds
        build = slope({size: float(b["most_own"]) for size, b in made.items()})
        found = of(records, "search", name)
        used = slope({size: float(one["used"]["all"]) for size, one in found.items()})
        files = slope({size: float(one["used"]["files"]) for size, one in found.items()})
        rows.append([name, f"{disk:,.0f}", f"{build:,.0f}", f"{used:,.0f}", f"{files:,.0f}"])
    head = ["retriever", "disk", "memory, building", "memory, searching", "of which mapped files"]
    note = (
        "Slopes over the sizes; building without mapped files. `dense`, `hybrid` and the default without late "
        "build what the default does, without `tokens`; their building is that of the default. SPLADE adds 6 "
        "bytes for every term of a passage (disk, mapped when searched): about 1,200 at 200 terms."
    )
    return "Bytes a passage", head, rows, note


def query_table(records: Records) -> Table:
    """The 95th percentile of a query, with and without the model."""
    found = {name: of(records, "search", name) for name in HOLDS}
    sizes = sorted({size for one in found.values() for size in one})
    rows = []
    for size in sizes:
        cells = []
        for one in found.values():
            values = one.get(size)
            names = ("p95", "p95_without_model", CPU)
            cells.append(" / ".join(f"{values[name] * 1000:.1f}" for name in names) if values else "")
        rows.append([f"{size:,}", *cells])
    return (
        "One query, p95 in ms: with the model / without it / processor time without it",
        ["passages", *HOLDS],
        rows,
        "",
    )


def needs(records: Records, n: int) -> dict[str, str]:
    """What `n` passages would need."""
    builds, taken = of(records, "build", DEFAULT), build_seconds(records)
    disk = {part: fit({size: float(b["disk"].get(part, 0)) for size, b in builds.items()})(n) for part in PARTS}
    hours = {"embedding": n / rate(records)}
    for phase in ("reading", "bm25", "chroma", "tokens"):
        points = {size: values[phase] for size, values in taken.items()}
        hours[phase] = fit(points, _n_log_n if phase == "chroma" else float)(n)
    search = of(records, "search", DEFAULT)
    anonymous = _own(search)(n)
    found = {f"disk: {part}": f"{value / GIB:,.1f} GiB" for part, value in disk.items()}
    found["disk: all"] = f"{sum(disk.values()) / GIB:,.1f} GiB"
    found |= {f"building: {phase}": _duration(value) for phase, value in hours.items()}
    found["memory, building, without mapped files"] = (
        f"{fit({s: float(b['most_own']) for s, b in builds.items()})(n) / GIB:,.1f} GiB"
    )
    found["memory, searching, without mapped files"] = f"{anonymous / GIB:,.1f} GiB"
    dense, bm25 = (of(records, "search", name) for name in ("dense", "bm25"))
    for label, one, shape in (("HNSW", dense, math.log), ("BM25, one text", bm25, float)):
        line = fit({size: values[CPU] for size, values in one.items()}, shape)
        found[f"p95: {label}"] = f"{line(n) * 1000:,.0f} ms"
    for label, name in (("default without late", "conversational?rerank=none"), ("default", DEFAULT)):
        found[f"p95: {label}, without the model"] = f"{_at(records, name, n) * 1000:,.0f} ms"
    return found


def _own(search: Mapping[int, Mapping[str, Any]]) -> Callable[[float], float]:
    """A searching process's memory by passages, mapped files left out."""
    return fit({size: float(one["used"]["all"] - one["used"]["files"]) for size, one in search.items()})


def _at(records: Records, name: str, n: int) -> float:
    """The 95th percentile at `n` without the model: the largest measured, HNSW and BM25 (each text) grown to `n`."""
    last, measured = list(of(records, "search", name).items())[-1]
    grown = 0.0
    for one, shape, times in (("dense", math.log, 1.0), ("bm25", float, measured["texts"])):
        found = {size: values[CPU] for size, values in of(records, "search", one).items()}
        line = fit(found, shape)
        grown += times * (line(n) - line(last))
    return float(measured[CPU]) + grown


def needs_table(records: Records) -> Table:
    """What larger corpora would need, on paper."""
    found = [needs(records, n) for n in LARGER]
    rows = [[name, *(one[name] for one in found)] for name in found[0]]
    note = f"{ASSUMED} {which_move(records)}"
    return "On paper", ["", *(f"{n:,} passages" for n in LARGER)], rows, note


def which_move(records: Records) -> str:
    """Which parts a server has to take over, by the figures."""
    bm25 = of(records, "search", "bm25")
    line = fit({size: values[CPU] for size, values in bm25.items()})
    search = of(records, "search", DEFAULT)
    memory = _own(search)
    moved = [
        f"at {n:,} BM25 takes {line(n) * 1000:,.0f} ms a text and the process {memory(n) / GIB:,.1f} GiB"
        for n in LARGER
    ]  # fmt: skip
    return (
        f"So {'; '.join(moved)}. What has to move first is HNSW, since all of it is in memory, then BM25, which looks "
        "at every passage; passages and token vectors are read by row from files and stay on a local disk as long as "
        "it holds them; embedding moves to a GPU."
    )


def _n_log_n(n: float) -> float:
    return n * math.log(n) if n > 1 else 0.0


def _duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:,.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:,.1f} days"


def tables(records: Records) -> list[Table]:
    """All tables."""
    made = (build_table, disk_table, memory_table, bytes_table, flat_table, query_table, needs_table)
    return [make(records) for make in made]


def load(records: Records) -> str:
    """What else the machine did."""
    loads = [one["load"] for one in records]
    return (
        f"The machine's load (one minute) at the end of each measurement was {min(loads):.1f} to "
        f"{max(loads):.1f}. "
        f"The model embeds {rate(records):.1f} passages a second with token vectors, "
        f"{rate(records, 'hybrid'):.1f} without."
    )


def as_text(records: Records) -> str:
    """The tables for a terminal."""
    out = []
    for title, head, rows, note in tables(records):
        widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
        out.append("\n".join([title, *lines, note]))
    return "\n\n".join([*out, NOTES, load(records)]) + "\n"


def plots(records: Records) -> list[str]:
    """The four plots, as SVG."""
    builds, taken = of(records, "build", DEFAULT), build_seconds(records)
    part = {name: {s: b["disk"].get(name, 0) / MIB for s, b in builds.items()} for name in (*PARTS, EXACT)}
    search = of(records, "search", DEFAULT)
    memory = {
        "building, no files": {size: build["most_own"] / MIB for size, build in builds.items()},
        "searching": {size: one["used"]["all"] / MIB for size, one in search.items()},
        "searching, no files": {s: (o["used"]["all"] - o["used"]["files"]) / MIB for s, o in search.items()},
    }
    times = {phase: {size: values[phase] for size, values in taken.items()} for phase in next(iter(taken.values()))}
    queries = {name: {size: one[CPU] * 1000 for size, one in of(records, "search", name).items()} for name in HOLDS}
    return [
        plot("Building, seconds", times),
        plot("Disk, MiB", part),
        plot("Memory, MiB", memory),
        plot("A query without the model, p95 of processor ms", queries),
    ]


def as_html(records: Records) -> str:
    """The whole report as one page that needs nothing else."""
    body = ["<h1>What a corpus costs by its size</h1>", f"<p>{html.escape(NOTES)} {html.escape(load(records))}</p>"]
    body += plots(records)
    for title, head, rows, note in tables(records):
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
        top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        body.append(f"<h2>{html.escape(title)}</h2><table><tr>{top}</tr><tr>{'</tr><tr>'.join(lines)}</tr></table>")
        body.append(f"<p>{html.escape(note)}</p>")
    style = (
        "body{font:15px system-ui;max-width:70em;margin:2em auto;padding:0 1em}td,th{padding:.2em .8em;text-align:"
        "right;border-bottom:1px solid #ddd}"
        "td:first-child,th:first-child{text-align:left}table{border-collapse:collapse}"
    )
    page = "\n".join(body)
    meta = f'<meta charset="utf-8"><title>Cost over size</title><style>{style}</style>'
    return f'<!doctype html><html lang="en">{meta}{page}\n'
