"""The form of each step, and third-party parts found by module or by entry point."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.assistant.notes import over, script
from tests.patience import PATIENCE
from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.steps.step_results import Assessment, Draft, Evidence, UnderstoodMessage, assess
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.turn.components import embed_with
from turnmark.assistant.turn.step_forms import STEPS, all_forms, forms_for, open_steps, profile_of
from turnmark.assistant.types import Judgment, Usage
from turnmark.core.errors import RequestError
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.types import Hit, Query, Retriever


class Shrug:
    """A third-party step that knows nothing about kettles."""

    name = "decide"

    def __call__(self, turn: Turn, evidence: Evidence) -> Assessment:
        about = "kettle" in turn.message
        judgment = Judgment(decision="unknown" if about else "answer", confidence=0.5, reason="shrugged")
        return assess([judgment] * len(evidence.parts))


class Shout:
    """A third-party step that answers with the first passage in capitals."""

    name = "answer"

    def __call__(self, turn: Turn, understood: UnderstoodMessage, evidence: Evidence, assessment: Assessment) -> Draft:
        text = f"{evidence.hits[0].passage.text.splitlines()[-1].upper()} [1]"
        return Draft(text, assessment, evidence.hits)


def test_runs_third_party_steps_named_by_module(tmp_path):
    steps = (f"decide=python:{__name__}:Shrug", f"answer=python:{__name__}:Shout")
    assistant = over(
        tmp_path, steps=steps, kettle="# Kettle\n\nThe kettle is red.\n", cup="# Cup\n\nThe cup is blue.\n"
    )
    answered, unknown = (assistant.reply([], f"What colour is the {thing}?") for thing in ("cup", "kettle"))
    assert (answered.decision, answered.answer) == ("answer", "THE CUP IS BLUE. [1]")
    assert answered.trace.judgement.reason == "shrugged"
    assert answered.trace.forms["decide"] == f"python:{__name__}:Shrug"
    assert answered.trace.forms["retrieve"] == "quote"
    assert unknown.decision == "unknown"
    assert set(answered.timings) == {"understand", "retrieve", "decide", "answer", "verify"}


class First(Retriever):
    """A retriever that returns the first passages of the index for any query."""

    name = "first"

    def __init__(self, spec: Any, index: Any) -> None:
        self.index = index

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        passages = [passage for _, _, passage in next(self.index.store.pages(2))][:top_k]
        found = {"first": RankAndScore(rank=1, score=1.0)}
        return [[Hit(passage=passage, score=1.0, found=found) for passage in passages] for _ in queries]


class Parrot:
    """A generator that always gives the same reply."""

    name, context_tokens, reply_tokens = "parrot", 8192, 1024

    def __init__(self, spec: Any) -> None:
        pass

    def complete(self, messages: Any, **_: Any) -> Completion:
        return Completion(text="Polly. [1]", finish_reason="stop", usage=Usage(calls=1), model="parrot", max_tokens=99)


def test_finds_parts_by_entry_points(tmp_path, monkeypatch, turnmark):
    package = tmp_path / "own-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    points = {"steps": "decide.mine = Shrug", "retrievers": "first = First", "generators": "parrot = Parrot"}
    rows = [f"[turnmark.{group}]\n{line.replace('= ', f'= {__name__}:')}\n" for group, line in points.items()]
    (package / "entry_points.txt").write_text("".join(rows))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert all_forms()["decide"]["mine"].summary == "from own"
    assistant = over(tmp_path, steps=("decide=mine",), kettle="# Kettle\n\nThe kettle is red.\n")
    assert assistant.reply([], "What colour is the kettle?").decision == "unknown"
    listed = json.loads(turnmark.ok("list", "--json").out)
    assert listed["retrievers"]["first"] == listed["generators"]["parrot"] == "from own"
    words = ("ask", "x", "--index", "n", "--retriever", "first", "--generator", "parrot", "--json")
    reply = json.loads(turnmark.ok(*words, "--step", "understand=rules").out)
    assert (reply["generator"], reply["answer"]) == ("parrot", "Polly. [1]"), "the model's answer is kept"
    assert reply["checks"]["unsupported"] == ["Polly."], "and unsupported claims are reported"


# -- forms


def test_each_reader_has_one_default_form_per_step():
    assert profile_of(None) == "none"
    for reader in ("none", "small", "large"):
        defaults = forms_for(reader)
        assert list(defaults) == list(STEPS)
        assert reader != "none" or not any(STEPS[step][form].model for step, form in defaults.items())
        assert all(sum(reader in form.default for form in forms.values()) == 1 for forms in STEPS.values())


@pytest.mark.parametrize(("options", "reader"), [("", "large"), ("?size=small", "small")])
def test_model_size_decides_the_reader(tmp_path, options, reader):
    assert profile_of(open_generator(script(tmp_path, "x") + options)) == reader


def test_reports_all_wrong_steps_at_once():
    with pytest.raises(RequestError) as caught:
        forms_for("none", ["cook=llm", "decide=oracle", "retrieve=agent", "answer=llm", "answer"])
    assert len(caught.value.problems) == 5
    assert "there are: understand, retrieve, decide, answer, revise, verify" in str(caught.value)
    assert "add --generator" in str(caught.value)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("decide=python:json", "package.module:factory"),
        ("decide=python:json:nothing", "json has no 'nothing'"),
        ("decide=python:no_such_module:factory", "cannot be imported"),
        ("decide=python:builtins:dict", "expected a step"),
    ],
)
def test_refuses_what_is_not_a_step(choice, reason):
    with pytest.raises(RequestError, match=reason):
        open_steps(forms_for("none", [choice]))


def test_embeds_in_a_single_thread_and_after_a_fork():
    """PyTorch keeps memory for every thread that calls it, and a server has 16."""
    seen: set[int] = set()

    class Recording:
        name = "recording"
        is_batch_independent = False

        def encode(self, texts: Sequence[str], role: str) -> Any:
            assert role == "passage"
            seen.add(threading.get_ident())
            return np.full((len(texts), 2), len(texts))

    manifest = SimpleNamespace(trusts_cosines=lambda: True)
    index: Any = SimpleNamespace(manifest=manifest, embedder=Recording(), stored_vectors=lambda texts: {})
    embed = embed_with(index)
    assert embed is not None
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda n: embed(["text"] * n), range(1, 9)))
    assert [row.tolist() for row in rows] == [[[n, n]] * n for n in range(1, 9)]
    assert len(seen) == 1
    child = multiprocessing.get_context("fork").Process(target=embed, args=(["text"],))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0


def test_reads_the_vectors_of_passages_from_the_index(tmp_path):
    cup = "# Cup\n\nThe cup is blue.\n"
    assistant = over(tmp_path, retriever="dense", kettle="# Kettle\n\nThe kettle is red.\n", cup=cup)
    assert assistant.index is not None
    passages = [passage.indexed_text for passage in assistant.index]
    stored = assistant.index.stored_vectors([*passages, "The kettle is red."])
    computed = assistant.index.embedder.encode(passages, "passage")
    assert list(stored) == passages
    rounding = 2e-3  # 8 bits for each number
    assert np.allclose(np.stack(list(stored.values())), computed, atol=rounding)
    embed = embed_with(assistant.index)
    assert embed is not None
    mixed = embed([passages[0], "The kettle is red.", passages[1], passages[0]])
    assert np.allclose(mixed[[0, 2, 3]], computed[[0, 1, 0]], atol=rounding)
    assert np.allclose(mixed[1], assistant.index.embedder.encode(["The kettle is red."], "passage")[0], atol=1e-6)
