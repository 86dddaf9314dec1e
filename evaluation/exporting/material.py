"""What an export says of a sample: its answer without marks, its conversation, its passages, as its run has them.

No data are needed: `browse.jsonl` holds the texts. Where one is longer than what is kept there, a passage is written
without its text (whoever reads it looks it up by its id), and a message as far as it is known; both are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from turnmark.corpora.mtrag import conversation_of
from turnmark.corpora.text import strip_citations
from turnmark.evaluation.passages import HIDDEN
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.report.browse import FILE, Browsed, SeenPassage, read_browsed
from turnmark.evaluation.report.stored import Key, StoredRun, samples
from turnmark.evaluation.trec import ranked

COLLECTIONS: Mapping[str, str] = {
    "clapnq": "mt-rag-clapnq-elser-512-100-20240503",
    "cloud": "mt-rag-ibmcloud-elser-512-100-20240502",
    "fiqa": "mt-rag-fiqa-beir-elser-512-100-20240501",
    "govt": "mt-rag-govt-elser-512-100-20240611",
}
"""Domain -> the `Collection` that MTRAG's tasks and its evaluation scripts name."""

_SPEAKERS = {"user": "user", "assistant": "agent"}


@dataclass
class Counted:
    """What became of the samples of a run on their way out.

    Attributes:
        written: samples.
        failed: that have no answer.
        repeats: of further repeats, left out.
        hidden: with hidden passages, which no official task is; left out.
        cut: messages and references that are known in part.
        textless: passages whose text is not known, or known in part.
        silent: samples of which the folder says no more than the answer.
        by_rank: samples whose scores do not fall with the rank.
    """

    written: int = 0
    failed: int = 0
    repeats: int = 0
    hidden: int = 0
    cut: int = 0
    textless: int = 0
    silent: int = 0
    by_rank: int = 0

    def notes(self, failed: str) -> Iterator[str]:
        """A line for everything that is not as one might expect.

        Args:
            failed: what was done with samples that have no answer.
        """
        said = {
            f"failed or skipped samples: {failed}": self.failed,
            "further repeats are left out: a file has one answer for each task": self.repeats,
            "samples with hidden passages are left out: they are no tasks of the benchmark": self.hidden,
            "messages or references are known in part, since the run keeps 4,000 characters of each": self.cut,
            "passages are written without their texts: the run does not hold them whole": self.textless,
            "samples are written without their conversations: the run has no browse.jsonl; score it again": self.silent,
            "lists have 1 / rank for a score: their own scores do not fall with the rank": self.by_rank,
        }
        return (f"{count} {what}" for what, count in said.items() if count)


@dataclass(frozen=True)
class Told:
    """A sample, and what the folder of its run says of the task."""

    sample: Sample
    seen: Browsed | None
    counted: Counted = field(repr=False)

    @property
    def conversation(self) -> str:
        """The conversation that the task is of."""
        return conversation_of(self.sample.id)

    @property
    def turn(self) -> str:
        """What stands after the last `<::>` of a task's id: the number of its turn; empty where there is none."""
        return self.sample.id.rpartition("<::>")[2] if "<::>" in self.sample.id else ""

    @property
    def answer(self) -> str:
        """The answer with its steps, without marks of citations: what is scored."""
        from turnmark.evaluation.benchmarks.turns import with_steps

        return strip_citations(with_steps(self.sample.prediction or "", self.sample.procedure)).strip()

    def labels(self, dimension: str) -> list[str]:
        """The values of a dimension."""
        return list(self.seen.labels.get(dimension, ())) if self.seen else []

    def messages(self) -> list[dict[str, str]]:
        """The conversation, the question last, as `input` has it."""
        if self.seen is None:
            self.counted.silent += 1
            return [{"speaker": "user", "text": self.sample.query}] if self.sample.query else []
        said = [*((_SPEAKERS.get(one.role, one.role), one.text) for one in self.seen.history)]
        said.append(("user", self.seen.question))
        self.counted.cut += sum(bool(text.left_out) for _, text in said)
        return [{"speaker": speaker, "text": text.text} for speaker, text in said]

    def reference(self) -> str:
        """The reference answer; empty where the data has none."""
        if self.seen is None:
            return ""
        self.counted.cut += bool(self.seen.reference.left_out)
        return self.seen.reference.text

    @cached_property
    def contexts(self) -> tuple[ContextRef, ...]:
        """The passages in the order in which the system was given them, with scores that fall with the rank.

        Whoever reads a file sorts by the score; where ours are of parts that were put together, they are 1 / rank.
        """
        refs = self.sample.contexts
        if ranked(refs) == refs:
            return refs
        self.counted.by_rank += 1
        return tuple(ref.model_copy(update={"score": 1 / rank}) for rank, ref in enumerate(refs, 1))

    def passages(self, most: int | None = None) -> list[dict[str, Any]]:
        """What the system was given, best first, as `contexts` has it."""
        known = {one.id: one for one in self.seen.passages} if self.seen else {}
        made: list[dict[str, Any]] = []
        for ref in self.contexts[:most]:
            title, text = _text(known.get(ref.document_id), ref.title, ref.text)
            self.counted.textless += text is None
            one = {"document_id": ref.document_id, "title": title or None, "text": text, "score": ref.score}
            made.append({name: value for name, value in one.items() if value is not None})
        return made

    def relevant(self) -> list[int]:
        """Places, from 0, of the relevant ones among `passages`."""
        good = {one.id for one in self.seen.passages if one.relevant} if self.seen else set()
        return [at for at, ref in enumerate(self.contexts) if ref.document_id in good]


def _text(seen: SeenPassage | None, title: str | None, text: str | None) -> tuple[str | None, str | None]:
    if text is None and seen is not None and seen.text is not None and not seen.text.left_out:
        text = seen.text.text
    return title or (seen.title if seen else None), text


def told(run: StoredRun, counted: Counted) -> Iterator[Told]:
    """Every sample of a run that is to be written, in the order of the run's tasks; the others are counted."""
    seen = _seen(run)
    found: dict[str, Sample] = {}
    for sample in samples(run.path):
        if sample.repeat:
            counted.repeats += 1
        elif sample.id.endswith(HIDDEN):
            counted.hidden += 1
        else:
            found[sample.id] = sample
    order = {name: at for at, (name, _) in enumerate(seen)}
    for name in sorted(found, key=lambda name: order.get(name, len(order))):
        counted.written += 1
        counted.failed += found[name].status != "done"
        yield Told(found[name], seen.get((name, 0)), counted)


def _seen(run: StoredRun) -> dict[Key, Browsed]:
    path = run.path / FILE
    if not path.is_file():
        return {}
    with open(path, "rb") as file:
        return {one.key: one for line in file if (one := read_browsed(line)) is not None}
