"""The configuration files that are found, in the order in which they count, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnmark.assistant.settings import CONFIG_NAME, PROJECT_NAME, Source, read_source_file
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home
from turnmark.evaluation.configured import VARIABLES, Tables
from turnmark.evaluation.doctor.findings import Finding

OURS = (
    *VARIABLES.values(),
    "TURNMARK_DATA",
    "TURNMARK_HOME",
    "TURNMARK_CACHE",
    "TURNMARK_BACKEND",
    "TURNMARK_PRECISION",
)


def look(root: Any) -> tuple[list[Finding], dict[str, str]]:
    """Findings of the section `configuration`; and who names a generator -> its spec.

    Args:
        root: the command line, as typer made it.
    """
    findings: list[Finding] = []
    files: list[Source] = []
    named = [name for name in OURS if os.environ.get(name)]
    findings.append(
        Finding(
            section="configuration",
            name="1 environment",
            state="ok" if named else "absent",
            detail=f"set: {', '.join(named)}" if named else "nothing of ours is set",
        )
    )
    places = ((Path(PROJECT_NAME).absolute(), "2 project file"), (home() / CONFIG_NAME, "3 user file"))
    for path, name in places:
        try:
            source = read_source_file(path, "project" if name.endswith("project file") else "user")
        except RequestError as error:
            findings.append(Finding(section="configuration", name=name, state="broken", detail=str(error)))
            continue
        if source is None:
            findings.append(Finding(section="configuration", name=name, state="absent", detail=f"none at {path}"))
        else:
            files.append(source)
            detail = f"{path}: {', '.join(source.content) or 'empty'}"
            findings.append(Finding(section="configuration", name=name, state="ok", detail=detail))
    findings += _mistakes(root, files)
    return findings, dict(_generators(files))


def _mistakes(root: Any, files: list[Source]) -> Iterator[Finding]:
    problems: tuple[str, ...] = ()
    try:
        tables = Tables(root, files)
        for command in root.commands:
            tables.of(command)
    except RequestError as error:
        problems = error.problems
    for problem in problems:
        yield Finding(
            section="configuration", name="mistake", state="broken", detail=problem, advice="correct the line"
        )


def _generators(files: list[Source]) -> Iterator[tuple[str, str]]:
    if text := os.environ.get("TURNMARK_GENERATOR", "").strip():
        yield "TURNMARK_GENERATOR", text
    for source in files:
        for table, content in source.content.items():
            if not isinstance(content, dict):
                continue
            for key in ("generator", "judge"):
                value = content.get(key)
                for said in value if isinstance(value, list) else [value]:
                    if isinstance(said, str):
                        yield f"{source.path.name}: {table}.{key}", said
