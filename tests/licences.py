"""The licences of the pinned packages, by what they say of themselves: `python -m tests.licences [--write FILE]`.

Each package of constraints.txt that is installed here is asked for its SPDX expression, its classifiers and its licence
field, in this order. A licence that is not known, or that asks a whole program to be under it, ends with 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]

# From what a package says to the name of a family; the first that is found counts.
FAMILIES = (
    ("strong copyleft", r"\bAGPL|\bAffero|(?<!L)(?<!Lesser )\bGPL|(?<!Lesser )General Public License|\bSSPL|\bBUSL"),
    ("weak copyleft", r"\bLGPL|Lesser General Public|\bMPL|Mozilla Public|\bEPL|\bCDDL"),
    ("Apache-2.0", r"Apache"),
    ("BSD", r"\bBSD"),
    ("MIT", r"\bMIT\b|\bExpat\b"),
    ("ISC", r"\bISC\b|\bISCL\b"),
    ("PSF", r"\bPSF|Python Software Foundation|\bCNRI"),
    ("Unlicense", r"Unlicense|\bCC0|Public Domain|\b0BSD|\bZPL|Zope"),
    ("HPND", r"\bHPND|Historical Permission|\bMIT-CMU"),
    ("NVIDIA", r"NVIDIA"),
)

_TEXT = re.compile(r"Permission is hereby granted, free of charge")


def pinned() -> list[str]:
    """The names in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return sorted((line.partition("==")[0].strip() for line in lines if "==" in line and line[0] != "#"), key=str.lower)


def said(package: Distribution) -> str:
    """What a package says of its licence, in one line; empty where it says nothing."""
    meta = package.metadata
    if expression := meta.get("License-Expression"):
        return str(expression)
    classifiers = [
        str(classifier) for classifier in meta.get_all("Classifier") or () if str(classifier).startswith("License ::")
    ]
    named = "; ".join(
        classifier.rpartition(" :: ")[2] for classifier in classifiers if not classifier.endswith("OSI Approved")
    )
    if named:
        return named
    field = str(meta.get("License") or "").strip()
    if field and field.upper() != "UNKNOWN":
        return "MIT (its text)" if _TEXT.search(field) else field.splitlines()[0][:80]
    return "MIT (its text)" if any(_TEXT.search(text) for text in _texts(package)) else _first_line(package)


def _texts(package: Distribution) -> list[str]:
    """The licence files that a package brings along."""
    files = [file for file in package.files or () if re.search(r"licen[cs]e|copying", file.name, re.IGNORECASE)]
    texts = []
    for file in files[:3]:
        try:
            texts.append(Path(str(file.locate())).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return texts


def _first_line(package: Distribution) -> str:
    for text in _texts(package):
        for line in text.splitlines():
            if family_of(line):
                return " ".join(line.split())[:80]
    return ""


def family_of(text: str) -> str:
    """The family of a licence; empty where it is not known. Of several that one may choose from, the freest."""
    families = [family for family, pattern in FAMILIES if re.search(pattern, text, re.IGNORECASE)]
    if " OR " in text and len(families) > 1:
        return families[-1]
    return families[0] if families else ""


def rows() -> tuple[list[tuple[str, str, str, str]], list[str]]:
    """Name, version, family and own words of each package; and what is wrong."""
    table, problems = [], []
    for name in pinned():
        try:
            package = distribution(name)
        except PackageNotFoundError:
            table.append((name, "-", "-", "not installed here"))
            continue
        words = said(package)
        family = family_of(words)
        if not family:
            problems.append(f"{name} {package.version}: its licence is not known: {words or 'it names none'}")
        elif family == "strong copyleft":
            problems.append(f"{name} {package.version}: {words}: asks a whole program to be under it")
        table.append((name, package.version, family or "unknown", words))
    return table, problems


def page(table: list[tuple[str, str, str, str]]) -> str:
    """The list as Markdown."""
    counts: dict[str, int] = {}
    for _, _, family, _ in table:
        counts[family] = counts.get(family, 0) + 1
    counted = ", ".join(f"{family} {count}" for family, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    lines = [
        "# Licences of the pinned packages", "",
        "Made by `make licences` from what each package says of itself; not written by hand. Turnmark itself is under",
        "the Apache License 2.0, and brings none of these along: pip fetches them.", "",
        f"{len(table)} packages: {counted}.", "",
        "| package | version | family | in its own words |", "|---|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {name} | {number} | {family} | {words.replace('|', '/')} |" for name, number, family, words in table]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print what is wrong, and write the list where that is asked for."""
    words = argparse.ArgumentParser(description="licences of the pinned packages")
    words.add_argument("--write", type=Path, metavar="FILE")
    options = words.parse_args()
    table, problems = rows()
    if options.write:
        options.write.write_text(page(table), encoding="utf-8")
    print("\n".join(problems) or f"{len(table)} packages: each licence is known, and none binds a whole program")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
