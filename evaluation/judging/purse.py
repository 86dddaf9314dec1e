"""What judges may spend: they and the samples of a run draw on one budget, and what it does not reach to is said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from turnmark.assistant.config import Budget
from turnmark.assistant.types import Usage
from turnmark.evaluation.judging.measures import Measure
from turnmark.evaluation.judging.records import Case, Outcome
from turnmark.evaluation.judging.seats import Seat
from turnmark.evaluation.judging.store import JudgementFile
from turnmark.evaluation.run import RunFolder
from turnmark.evaluation.spending import Ledger, spent_on

BUDGET = "budget"
"""The kind of failure of a judgement that was not asked for, as it would have gone beyond `--budget`."""


class Purse:
    """A budget, what of it is spent, and the judgements that it did not reach to.

    Args:
        budget: the most that samples and judgements of the run may take; None: no limit.
        priced: judge, what a call took -> the same with its cost.
        prompts: folder with prompts of one's own.
        elsewhere: what other runs on the same budget have used.
    """

    def __init__(
        self,
        budget: Budget | None,
        priced: Callable[[Seat, Usage], Usage],
        prompts: Path | None,
        elsewhere: Usage | None = None,
    ) -> None:
        self._budget, self._priced, self._prompts = budget, priced, prompts
        self._elsewhere = elsewhere or Usage()
        self._ledger = Ledger()
        self._refused: set[str] = set()

    def open(self, run: RunFolder, file: JudgementFile) -> None:
        """Take in what is spent: on judgements, and on samples where they were made here and not handed in."""
        made_here = "generator" in run.manifest.specs
        spent = file.used() + (spent_on(run.samples) if made_here else Usage())
        self._ledger = Ledger(budget=self._budget, spent=spent + self._elsewhere)

    def affords(self, seat: Seat, measure: Measure, case: Case, running: int) -> bool:
        """Whether one more judgement fits beside so many that run. Judges without a language model cost nothing."""
        if self._budget is None or not seat.has_model:
            return True
        if not self._ledger.guessed:
            from turnmark.evaluation.judging.estimate import counted

            with suppress(Exception):  # a measure that cannot be counted: known once its first call has ended
                self._ledger.expect(self._priced(seat, counted(measure, case, self._prompts)))
        return self._ledger.affords(running)

    def spend(self, used: Usage) -> None:
        """Take down what a judgement took, priced."""
        self._ledger.spend({"judge": used})

    def refuse(self, key: str) -> None:
        """Take down that a judgement was not asked for."""
        self._refused.add(key)

    def refused(self, key: str) -> Outcome | None:
        """What a judgement is that was not asked for; None for any other."""
        if key not in self._refused:
            return None
        return Outcome(status="failed", kind=BUDGET, reason=f"{BUDGET}: {self._ledger.exhausted()}")

    def notes(self) -> list[str]:
        """What the summary says of it."""
        if not self._refused:
            return []
        n = len(self._refused)
        return [f"judging {self._ledger.exhausted()}; {n} judgements were not asked for, and are with a larger budget"]
