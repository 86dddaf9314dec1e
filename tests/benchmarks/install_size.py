"""How many packages and megabytes the base installation has, and how many each extra adds.

    python -m tests.benchmarks.install_size

Follows the requirements of the installed packages from `turnmark` on, and adds up the sizes of the files that `pip`
recorded, so no further environment is needed. An extra of which a package is not installed here is named instead. The
table in docs/install.md has these figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BLOCK_BYTES = 512


def requirements(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Yield the requirements of a package with these extras on this platform."""
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def closure(extra: str) -> tuple[dict[str, Distribution], set[str]]:
    """Return the packages that `turnmark` needs with an extra, and the names of those that are not installed."""
    found: dict[str, Distribution] = {}
    missing: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [("turnmark", frozenset([extra] if extra else []))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            missing.add(name)
            continue
        found[name] = package
        for requirement in requirements(package, extras):
            waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found, missing


def megabytes(package: Distribution) -> float:
    """Return the size on disk of the installed files of a package, as `du` counts it, compiled Python included."""
    paths = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(path.stat().st_blocks * BLOCK_BYTES for path in paths if path.is_file()) / 2**20


def main() -> None:
    """Print the table."""
    base, _ = closure("")
    total = sum(map(megabytes, base.values()))
    print("| extra | packages | MB |\n|---|---|---|")
    print(f"| none | {len(base)} | {total:,.0f} |")
    for extra in sorted(distribution("turnmark").metadata.get_all("Provides-Extra") or ()):
        packages, missing = closure(extra)
        added = {name: package for name, package in packages.items() if name not in base}
        note = f" (not installed here: {', '.join(sorted(missing))})" if missing else ""
        print(f"| {extra} | {len(added)} | {sum(map(megabytes, added.values())):,.0f}{note} |")
    print("\nThe largest of the base installation:")
    for package in sorted(base.values(), key=megabytes, reverse=True)[:12]:
        print(f"{package.metadata['Name']} {megabytes(package):.0f}")


if __name__ == "__main__":
    main()
