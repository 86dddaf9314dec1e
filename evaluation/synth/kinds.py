"""What a kind of synthesis is to the command: seeds in, items and rejects out, and the files of a benchmark."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from turnmark.corpora.errors import RequestError
from turnmark.corpora.statistics import Sheet
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.records import Corpus, Made, Reject

if TYPE_CHECKING:
    from turnmark.evaluation.synth.source import Source


@dataclass(frozen=True)
class Seed:
    """What one attempt starts from.

    Attributes:
        id: in `attempts.jsonl`, and of what it makes; attempts are made in the order of their seeds.
        about: a document's id, or whatever else the kind starts from.
        domain: shown with the attempt.
    """

    id: str
    about: Any
    domain: str = ""

    def random(self, seed: int) -> random.Random:
        """Chance that depends on the command's seed and on this one alone, whatever runs beside it."""
        return random.Random(f"{seed} {self.id}")


@dataclass
class Haul:
    """What an attempt made so far."""

    seed: Seed
    made: list[Made] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def reject(self, why: Declined, **about: Any) -> None:
        """Take down what did not pass."""
        self.rejects.append(why.rejected(self.seed.id, **about))


@dataclass(frozen=True)
class Exported:
    """The files that were written, by their names under the folder, and what is to be said of them."""

    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Kind(Protocol):
    """A way of making data."""

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    @property
    def prompts(self) -> tuple[str, ...]:
        """Names of the prompts that it asks with."""
        ...

    @property
    def measures(self) -> tuple[str, ...]:
        """Of `faithfulness` and `idk`: what the judge is asked of an answer."""
        ...

    @property
    def each(self) -> int:
        """The most items that an attempt makes."""
        ...

    @property
    def searches(self) -> bool:
        """Whether it starts from an index."""
        ...

    @property
    def about(self) -> str:
        """What it makes and by which published method, in a sentence or two for the data sheet."""
        ...

    @property
    def limits(self) -> tuple[str, ...]:
        """What is known to be wrong with data made so."""
        ...

    def options(self) -> Mapping[str, Any]:
        """Its settings, by which it is opened again."""
        ...

    def corpus(self, tools: Tools) -> Corpus:
        """What it starts from."""
        ...

    def seeds(self, tools: Tools) -> Sequence[Seed]:
        """What attempts start from, in order; the same for the same corpus and seed."""
        ...

    def make(self, seed: Seed, desk: Desk) -> Haul:
        """One attempt. Called from many threads at once.

        Raises:
            Declined: nothing came of it; the reason is written down.
            GeneratorError: a call failed; the attempt will be tried again.
        """
        ...

    def export(self, folder: Path, items: Sequence[Made], source: Source | None) -> Exported:
        """Write the benchmark's own files.

        Args:
            source: None where the corpus is not at hand (after a review): files that need it stay as they are.
        """
        ...

    def statistics(self, folder: Path) -> Sequence[Sheet]:
        """The paper's tables over what was written."""
        ...


_TABLE = {
    "mtrag": "turnmark.evaluation.synth.mtrag:Conversations",
    "inscoqa": "turnmark.evaluation.synth.inscoqa:Instructions",
    "compound-qa": "turnmark.evaluation.synth.compound:Compounds",
}


def kind_of(name: str, options: Mapping[str, Any]) -> Kind:
    """The kind that a manifest names, with the settings that it holds.

    Raises:
        RequestError: this version knows no such kind, or no such settings of it.
    """
    if name not in _TABLE:
        raise RequestError(f"no synthesis is called {name!r}; there are: {', '.join(_TABLE)}")
    module, _, attribute = _TABLE[name].partition(":")
    try:
        made: Kind = getattr(import_module(module), attribute)(**options)
    except TypeError:
        raise RequestError(f"synth {name}: these are no settings of it: {dict(options)!r}") from None
    return made
