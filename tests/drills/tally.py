"""What a drill counts, and the table of all of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Effort:
    """How much is tried: kills over all commands, seconds of fuzzing for each parser (of these; none: all)."""

    kills: int
    seconds: float
    parsers: tuple[str, ...]
    seed: int
    scratch: Path
    turns: int
    """Turns of eight clients together; those of one long conversation and of an agent follow from it."""

    @property
    def long_turns(self) -> int:
        """Turns of a long conversation: 500 for 200."""
        return self.turns * 5 // 2

    @property
    def agent_turns(self) -> int:
        """Turns with a scripted agent, which are fast: 1,000 for 200."""
        return self.turns * 5

    def folder(self, name: str) -> Path:
        """A folder of a drill's own, empty."""
        path = self.scratch / name
        path.mkdir(parents=True)
        return path


@dataclass
class Tally:
    """One line of the table. `lost` says of each try that was not survived what happened; `figures` are lines with what
    was measured."""

    name: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)

    @property
    def survived(self) -> int:
        """Tries after which everything was as it should be."""
        return self.tried - len(self.lost)

    @contextmanager
    def attempt(self, case: str) -> Iterator[None]:
        """One try: whatever is raised inside, it is lost, and the next one goes on."""
        self.tried += 1
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = " ".join(str(error).split())[:300]
            self.lost.append(f"{case}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {message}")


Drill = Callable[[Effort], Iterator[Tally]]


def table(tallies: list[Tally]) -> str:
    """The table, in Markdown, and below it what was measured and what was lost."""
    width = max(len(tally.name) for tally in tallies)
    lines = [f"| {'drill':{width}} | tried | survived | lost |", f"|{'-' * (width + 2)}|------:|---------:|-----:|"]
    for tally in tallies:
        lines.append(f"| {tally.name:{width}} | {tally.tried:>5} | {tally.survived:>8} | {len(tally.lost):>4} |")
    measured = [f"- {tally.name}: {line}" for tally in tallies for line in tally.figures]
    lost = [f"- lost, {tally.name}: {case}" for tally in tallies for case in tally.lost]
    below = [*measured, *lost]
    return "\n".join([*lines, "", *below] if below else lines)
