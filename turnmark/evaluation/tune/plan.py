"""The checked request of `turnmark tune`, and the names of results that depend on it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.check.own_questions.question_file import OwnQuestion, check_documents, read_questions
from turnmark.evaluation.tune.contenders import PRESENT, Contender
from turnmark.evaluation.tune.questions import TuneQuestion, draw_questions
from turnmark.evaluation.tune.rankings import (
    SearchChoice,
    all_choices,
    default_choice,
    has_splade,
    is_tunable,
    reranker_of,
)
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import untuned_retriever
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER


@dataclass(frozen=True)
class TunePlan:
    """A checked request."""

    request: TuneRequest
    index: StoredIndex
    retriever: str
    out: Path
    own: Sequence[OwnQuestion]
    choices: Sequence[SearchChoice]
    began: float
    contender: Contender = PRESENT
    """What is measured instead of the index and its retriever."""

    def of(self, contender: Contender) -> TunePlan:
        """Return the plan of a contender, with the configurations that are tried."""
        retriever = contender.retriever(self.retriever)
        choices = self.choices
        if contender.reranker:
            choices = _choices(self.index, retriever, self.own)
        return replace(self, contender=contender, retriever=retriever, choices=choices)

    @cached_property
    def drawn(self) -> Sequence[TuneQuestion]:
        """The questions that are made without a model."""
        return draw_questions(self.index, self.request.n, self.request.seed)

    @property
    def default(self) -> int:
        """The number of the default among the configurations."""
        return list(self.choices).index(default_choice(self.retriever))


def plan_tune(request: TuneRequest, errors: ErrorCollector) -> TunePlan:
    """Check a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    began = time.perf_counter()
    index, own = open_request(request, errors)
    if index is not None:
        manifest, retriever = index.manifest, untuned_retriever(index)
        if manifest.embedder is None or manifest.server is not None or manifest.pending:
            command = index.build_command("conversational")
            errors.add(f"index {index.name!r}: tuning needs the vectors of all passages in files: {command}")
        elif not is_tunable(retriever):
            errors.add(f"index {index.name!r} was built for {retriever!r}; conversational can be tuned")
        elif request.makes_questions and has_splade(retriever):
            errors.add(
                f"index {index.name!r} is searched with SPLADE, too, for which made questions do not predict those of "
                "people: give your own with --questions FILE, or a model that writes some with --generator SPEC"
            )
    if request.budget is not None and not request.asks_model:
        errors.add("--budget is for questions that a model writes; name it with --generator SPEC, or leave it out")
    errors.raise_all()
    assert index is not None, "errors.raise_all() raised otherwise"
    choices = _choices(index, retriever, own)
    out = request.out or Path("tunes") / index.name
    return TunePlan(request, index, retriever, out, own, choices, began)


def open_request(request: TuneRequest, errors: ErrorCollector) -> tuple[StoredIndex | None, Sequence[OwnQuestion]]:
    """Open the index that is tuned and read the file of questions; return None or no questions after a mistake."""
    index = errors.collect(open_index, request.index) if request.index else None
    own = (errors.collect(read_questions, request.questions) if request.questions else None) or []
    if index is not None and own:
        errors.collect(check_documents, own, [entry.document for entry in index.store.documents()])
    return index, own


def _choices(index: StoredIndex, retriever: str, own: Sequence[OwnQuestion]) -> list[SearchChoice]:
    """Return the configurations of a retriever over an index that are tried."""
    is_slow = reranker_of(retriever) != LATE_RERANKER
    return all_choices(
        default_choice(retriever),
        late=index.manifest.tokens or is_slow,
        follow_ups=any(one.conversation for one in own),
        sparse=has_splade(retriever),
        few=is_slow,
    )


def keys_of(plan: TunePlan, texts: Iterable[str]) -> list[str]:
    """Return for each text a name for a result that depends on it, the index, the configurations and the version."""
    choices = "\n".join(choice.model_dump_json() for choice in plan.choices)
    contender = plan.contender.model_dump_json()
    start = "\0".join([plan.index.manifest.fingerprint(), plan.retriever, contender, choices, version("turnmark")])
    names = (hashlib.sha256(f"{start}\0{text}".encode("utf-8", "surrogatepass")) for text in texts)
    return [name.hexdigest()[:16] for name in names]
