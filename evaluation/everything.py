"""`turnwise eval all`: the four benchmarks one after the other, in one folder with one summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpora.errors import Mistakes, RequestError, TurnwiseError
from corpora.home import write_json
from evaluation import generation
from evaluation.flags import check_flags
from evaluation.records import Summary
from evaluation.report.page import write_page
from evaluation.requests import GenerationRequest
from evaluation.run import default_folder

FOUR = ("mtrag", "inscoqa", "compound-qa", "kiwi")


@dataclass(frozen=True)
class Plan:
    """A plan for each benchmark, or why it is left out."""

    plans: dict[str, generation.Plan | str]
    folder: Path

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        benchmarks = {
            name: {"skipped": made} if isinstance(made, str) else made.describe() for name, made in self.plans.items()
        }
        return {"dry_run": True, "benchmark": "all", "benchmarks": benchmarks, "run": str(self.folder)}


def plan(request: GenerationRequest) -> Plan:
    """Check the request for each of the four.

    One whose data is not in the folder that was named is left out, with the reason; demo data never stand in for it.

    Raises:
        RequestError: everything that is wrong with it, at once, or there is no data for any of the four.
    """
    mistakes = Mistakes()
    for flag, value in (("--only", request.only), ("--domains", request.domains), ("--setting", request.setting)):
        if value:
            mistakes.add(f"{flag} means something of one benchmark, and `all` runs four; name that benchmark")
    for flag in ("query", "queries", "passages", "counterfactual"):
        if getattr(request, flag):
            mistakes.add(f"--{flag} belongs to MTRAG's setting rag, which `all` does not run; name that benchmark")
    if mistakes.problems:
        check_flags(request, mistakes)
    mistakes.check()
    made: dict[str, generation.Plan | str] = {}
    wrong: dict[str, list[str]] = {}
    for name in FOUR:
        missing = _missing(name, request.data)
        if missing:
            made[name] = missing
            continue
        out = request.out / name if request.out else None
        try:
            made[name] = generation.plan(request.model_copy(update={"benchmark": name, "out": out}))
        except RequestError as error:
            for problem in error.problems:
                wrong.setdefault(problem, []).append(name)
    for problem, names in wrong.items():
        mistakes.add(problem if len(names) > 1 else f"{names[0]}: {problem}")
    mistakes.check()
    found = {name: one for name, one in made.items() if isinstance(one, generation.Plan)}
    if not found:
        raise RequestError([one for one in made.values() if isinstance(one, str)])
    folder = request.out or _folder(found)
    inside = {name: one if isinstance(one, str) else generation.moved(one, folder / name) for name, one in made.items()}
    return Plan(inside, folder)


def _missing(name: str, data: Path | None) -> str:
    """Why there is no data for a benchmark; empty where there is."""
    from corpora import compound_qa, inscoqa, kiwi, mtrag

    locate: dict[str, Callable[[Path | None], Any]] = {
        "mtrag": mtrag.locate, "inscoqa": inscoqa.locate, "compound-qa": compound_qa.locate, "kiwi": kiwi.locate,
    }  # fmt: skip
    try:
        locate[name](data)
    except RequestError as error:
        return str(error)
    return ""


def _folder(plans: dict[str, generation.Plan]) -> Path:
    """`runs/all-<hash>`: of the hashes of its parts."""
    import hashlib

    names = "".join(default_folder(one.manifest).name for one in plans.values())
    return Path("runs") / f"all-{hashlib.sha256(names.encode()).hexdigest()[:12]}"


def run(made: Plan) -> tuple[dict[str, Summary | str], Path, bool]:
    """Run the four; one that fails does not keep the others from running.

    Returns:
        Benchmark -> its summary, or why there is none; the folder; whether any failed.
    """
    entries: dict[str, Summary | str] = {name: one for name, one in made.plans.items() if isinstance(one, str)}
    failed = False
    for name, one in made.plans.items():
        if isinstance(one, str):
            continue
        try:
            entries[name], _, gave_up = generation.run(replace(one, began=time.perf_counter()))
            failed |= gave_up
        except (TurnwiseError, OSError) as error:
            entries[name] = f"failed: {error}"
            failed = True
        # After each, so that what has ended can be reported whatever becomes of the rest.
        entries = {key: entries[key] for key in made.plans if key in entries}
        made.folder.mkdir(parents=True, exist_ok=True)
        write_json(made.folder / "summary.json", as_json(entries))
    write_page(made.folder)
    return entries, made.folder, failed


def as_json(entries: dict[str, Summary | str]) -> dict[str, Any]:
    """The entries as `summary.json` holds them."""
    return {
        name: {"skipped": entry} if isinstance(entry, str) else entry.model_dump(mode="json")
        for name, entry in entries.items()
    }
