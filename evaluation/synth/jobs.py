"""Which attempts the engine is given, how far they have come, and what all of them together have used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnmark.assistant.types import Usage
from turnmark.corpora.progress import Progress
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.engine import Job
from turnmark.evaluation.spending import Ledger
from turnmark.evaluation.synth.desk import JUDGE, WRITER
from turnmark.evaluation.synth.folder import SynthFolder
from turnmark.evaluation.synth.kinds import Seed

TRIES = 5
"""Attempts for each item that is wanted, after which it is given up: filters that reject nearly all are costly."""
SPARE = 5
"""Attempts beside that, for those who want few."""


class Jobs:
    """Hands out seeds while more items are wanted than there are and than those at work can give.

    So the attempts of a call are the same few first seeds whatever runs at once. It may give none now and one later,
    when something at work has been rejected; the engine asks again whenever an attempt ends.

    Args:
        each: the most items that an attempt gives.
    """

    def __init__(self, seeds: Sequence[Seed], wanted: int | None, each: int, folder: SynthFolder) -> None:
        self._wanted, self._each, self._folder = wanted, each, folder
        most = None if wanted is None else TRIES * -(-wanted // each) + SPARE
        self._seeds = iter([seed for seed in seeds[:most] if not folder.samples.finished((seed.id, 0))])
        self._handed = 0

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        folder = self._folder
        taken = folder.kept + self._each * (self._handed - folder.ended + folder.failed)
        if folder.stopped or (self._wanted is not None and taken >= self._wanted):
            raise StopIteration
        seed = next(self._seeds)
        self._handed += 1
        return Job(Item(id=seed.id, task=seed, domain=seed.domain or None))


class Counted:
    """Progress in items, where the engine counts attempts."""

    def __init__(self, progress: Progress, folder: SynthFolder) -> None:
        self._progress, self._folder, self._shown = progress, folder, folder.kept

    def start(self, what: str, total: int | None) -> None:
        """See `Progress.start`."""
        self._progress.start(what, total)
        self._progress.advance(self._shown)

    def advance(self, n: int = 1) -> None:  # noqa: ARG002
        """See `Progress.advance`."""
        self._progress.advance(self._folder.kept - self._shown)
        self._shown = self._folder.kept

    def tell(self, text: str) -> None:
        """See `Progress.tell`."""
        rejected = sum(self._folder.filters.values())
        self._progress.tell(", ".join(filter(None, [f"{rejected} rejected" if rejected else "", text])))


def usage_of(folder: SynthFolder, ledger: Ledger) -> dict[str, dict[str, float | None]]:
    """Role -> calls, tokens and cost of all calls of the command, as the attempts' lines add up."""
    total: dict[str, Usage] = {}
    for key in list(folder.samples.keys()):
        sample = folder.samples.get(key)
        for role, used in (sample.usage if sample else {}).items():
            total[role] = total.get(role, Usage()) + used
    order = [role for role in (WRITER, JUDGE) if role in total] + [r for r in total if r not in (WRITER, JUDGE)]
    return {role: ledger.priced(total)[role].model_dump() for role in order}
