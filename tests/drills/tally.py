"""Counts of a drill, and the table of all drills."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Effort:
    """The amount of tries: kills over all commands, and seconds of fuzzing per parser (only these; none: all)."""

    kills: int
    seconds: float
    parsers: tuple[str, ...]
    seed: int
    scratch: Path
    turns: int
    """Total turns of eight clients; the numbers for the long conversation and the agent derive from it."""

    @property
    def long_turns(self) -> int:
        """Return the number of turns of a long conversation, e.g. 500 for 200."""
        return self.turns * 5 // 2

    @property
    def agent_turns(self) -> int:
        """Return the number of turns with a scripted agent, which are fast, e.g. 1,000 for 200."""
        return self.turns * 5

    def folder(self, name: str) -> Path:
        """Make an empty folder for a drill."""
        path = self.scratch / name
        path.mkdir(parents=True)
        return path


@dataclass
class Tally:
    """One row of the table. `lost` describes each failed try; `figures` are lines with measurements."""

    name: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)

    @property
    def survived(self) -> int:
        """Return the number of tries that succeeded."""
        return self.tried - len(self.lost)

    @contextmanager
    def attempt(self, case: str) -> Iterator[None]:
        """Count one try; an exception inside counts as lost and does not stop the drill."""
        self.tried += 1
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(str(error).split())[:300]
            self.lost.append(f"{case}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {message}")


Drill = Callable[[Effort], Iterator[Tally]]


def table(tallies: list[Tally]) -> str:
    """Return the table in Markdown, followed by the measurements and the lost tries."""
    width = max(len(tally.name) for tally in tallies)
    lines = [f"| {'drill':{width}} | tried | survived | lost |", f"|{'-' * (width + 2)}|------:|---------:|-----:|"]
    for tally in tallies:
        lines.append(f"| {tally.name:{width}} | {tally.tried:>5} | {tally.survived:>8} | {len(tally.lost):>4} |")
    measured = [f"- {tally.name}: {line}" for tally in tallies for line in tally.figures]
    lost = [f"- lost, {tally.name}: {case}" for tally in tallies for case in tally.lost]
    below = [*measured, *lost]
    return "\n".join([*lines, "", *below] if below else lines)
