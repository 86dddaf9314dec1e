"""`turnmark eval all`: the four benchmarks, or a suite of more, one after the other, in one folder with one summary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnmark.assistant.types import Usage
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.home import write_json
from turnmark.evaluation.flags import check_flags
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.requests import GenerationRequest
from turnmark.evaluation.run import default_folder
from turnmark.evaluation.spending import spent_in
from turnmark.evaluation.suites import FOUR, SMOKE, SUITES, Part, Work, locators, planned


@dataclass(frozen=True)
class Plan:
    """A plan for each part, or why it is left out."""

    plans: Mapping[str, Work | str]
    folder: Path

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        parts = {
            name: {"skipped": made} if isinstance(made, str) else made.describe() for name, made in self.plans.items()
        }
        return {"dry_run": True, "benchmark": "all", "benchmarks": parts, "run": str(self.folder)}


def plan(request: GenerationRequest, suite: str | None = None) -> Plan:
    """Check the request for each part.

    One whose data is not in the folder that was named is left out, with the reason; demo data never stand in for it.

    Args:
        suite: one of `SUITES`; None: the four benchmarks with all their samples.

    Raises:
        RequestError: everything that is wrong with it, at once, or there is no data for any part.
    """
    errors = ErrorCollector()
    for flag, value in (("--only", request.only), ("--domains", request.domains), ("--setting", request.setting)):
        if value:
            errors.add(f"{flag} means something of one benchmark, and `all` runs four; name that benchmark")
    for flag in ("query", "queries", "passages", "counterfactual"):
        if getattr(request, flag):
            errors.add(f"--{flag} belongs to MTRAG's setting rag, which `all` runs with its defaults, if at all")
    if suite is not None and suite not in SUITES:
        errors.add(f"--suite: no suite is called {suite!r}; there are: {', '.join(SUITES)}")
    if errors.problems:
        check_flags(request, errors)
    errors.raise_all()
    if suite == "smoke" and request.sample is None and request.limit is None:
        request = request.model_copy(update={"sample": SMOKE})
    made = _planned(SUITES[suite] if suite else FOUR, request)
    found = [one for one in made.values() if not isinstance(one, str)]
    if not found:
        raise RequestError([one for one in made.values() if isinstance(one, str)])
    folder = request.out or _folder(found)
    return Plan({name: one if isinstance(one, str) else one.moved(folder / name) for name, one in made.items()}, folder)


def _planned(parts: tuple[Part, ...], request: GenerationRequest) -> dict[str, Work | str]:
    """Each part checked; a mistake that several have is said once.

    Raises:
        RequestError: what is wrong with any of them.
    """
    errors = ErrorCollector()
    made: dict[str, Work | str] = {}
    wrong: dict[str, list[str]] = {}
    for part in parts:
        missing = _missing(part.benchmark, request.data)
        if missing:
            made[part.name] = missing
            continue
        out = request.out / part.name if request.out else None
        try:
            made[part.name] = planned(part, request.model_copy(update={"out": out}))
        except RequestError as error:
            if part not in FOUR:  # what the data at hand do not allow keeps the four from nothing
                made[part.name] = str(error)
                continue
            for problem in error.problems:
                wrong.setdefault(problem, []).append(part.name)
    for problem, names in wrong.items():
        errors.add(problem if len(names) > 1 else f"{names[0]}: {problem}")
    errors.raise_all()
    return made


def _missing(name: str, data: Path | None) -> str:
    """Why there is no data for a benchmark; empty where there is."""
    try:
        locators()[name](data)
    except RequestError as error:
        return str(error)
    return ""


def _folder(plans: list[Work]) -> Path:
    """`runs/all-<hash>`: of the hashes of its parts."""
    names = "".join(default_folder(one.manifest).name for one in plans)
    return Path("runs") / f"all-{hashlib.sha256(names.encode()).hexdigest()[:12]}"


def run(made: Plan) -> tuple[dict[str, Summary | str], Path, bool]:
    """Run the parts; one that fails does not keep the others from running.

    Returns:
        Part -> its summary, or why there is none; the folder; whether any failed.
    """
    entries: dict[str, Summary | str] = {name: one for name, one in made.plans.items() if isinstance(one, str)}
    failed = False
    for name, one in made.plans.items():
        if isinstance(one, str):
            continue
        try:
            entries[name], gave_up = one.run(_elsewhere(made, name))
            failed |= gave_up
        except (TurnmarkError, OSError) as error:
            entries[name] = f"failed: {error}"
            failed = True
        # After each, so that what has ended can be reported whatever becomes of the rest.
        entries = {key: entries[key] for key in made.plans if key in entries}
        made.folder.mkdir(parents=True, exist_ok=True)
        write_json(made.folder / "summary.json", as_json(entries))
    write_page(made.folder)
    return entries, made.folder, failed


def _elsewhere(made: Plan, name: str) -> Usage:
    """What all parts but one have used, in this call and in earlier ones: `--budget` is one for all of them."""
    others = (other for other, one in made.plans.items() if other != name and not isinstance(one, str))
    return sum((spent_in(made.folder / other) for other in others), Usage())


def as_json(entries: Mapping[str, Summary | str]) -> dict[str, Any]:
    """The entries as `summary.json` holds them."""
    return {
        name: {"skipped": entry} if isinstance(entry, str) else entry.model_dump(mode="json")
        for name, entry in entries.items()
    }
