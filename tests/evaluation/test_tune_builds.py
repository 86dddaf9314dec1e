"""`turnmark tune` over other builds: an embedder that reads, sizes of passages, and when builds are not compared."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.retrieval import tiny
from turnmark.core.console import NoProgress
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import write_atomic
from turnmark.evaluation.tune import race
from turnmark.evaluation.tune.contenders import Contender, find_contenders
from turnmark.evaluation.tune.plan import plan_tune
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.evaluation.tune.race import RacePlan, choose_contenders, drawn_first, run_race
from turnmark.evaluation.tune.rankings import SearchChoice, record_lists
from turnmark.evaluation.tune.request import TuneRequest
from turnmark.evaluation.tune.searches import queries_of
from turnmark.evaluation.tune.tune_run import TuneResult, run_tune
from turnmark.evaluation.tune.verdict import halves
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.rerankers import present_cross_encoders
from turnmark.retrieval.search.retriever_factory import open_retriever

ASKED = {
    "car": "automobile", "doctor": "physician", "dog": "puppy", "sofa": "couch", "lawyer": "attorney",
    "bicycle": "bike", "child": "kid", "ship": "vessel", "forest": "woods", "stone": "rock", "road": "street",
    "money": "cash", "film": "movie", "picture": "photograph", "store": "shop", "taxi": "cab", "jail": "prison",
    "garbage": "trash", "present": "gift", "error": "mistake", "illness": "disease", "aeroplane": "aircraft",
    "autumn": "fall season", "student": "pupil", "teacher": "instructor", "writer": "author", "king": "monarch",
    "war": "armed conflict", "house": "home", "storm": "tempest", "ocean": "sea", "infant": "baby", "job": "employment",
    "meal": "dinner", "thief": "burglar", "soldier": "trooper", "cat": "kitten", "boss": "manager", "rabbit": "bunny",
    "television": "TV set", "telephone": "cellphone", "wine": "alcoholic drink", "bread": "baked loaf",
    "snow": "winter flakes", "piano": "keyboard instrument", "physics": "natural science", "village": "small town",
    "river": "stream of water", "gun": "firearm", "hat": "headgear", "nurse": "hospital carer", "coin": "small change",
}  # fmt: skip
"""Word of a note -> how it is asked for, in words that no note has."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of notes that are found only by what words mean, next to questions about them."""
    monkeypatch.chdir(tmp_path)
    rows = ["question,document"]
    for number, (word, asked) in enumerate(ASKED.items()):
        write_atomic(tmp_path / f"notes/{word}.md", f"# {word.capitalize()}\n\nSee shelf {number} for each {word}.\n")
        rows.append(f"Anything about some {asked}?,{word}.md")
    write_atomic(tmp_path / "mine.csv", "\n".join(rows) + "\n")
    return tmp_path / "notes"


@pytest.fixture
def poor(notes: Path) -> str:
    """Build an index of the notes with an embedder whose weights are random, searched by vectors alone."""
    model = tiny.dense(notes.parent / "tiny")
    retriever = "conversational?weight=0&rerank=none"
    build_index(notes, "poor", retriever=retriever, embedder=f"sentence-transformers:{model}", include=["*.md"])
    return "poor"


def tune(index: str, out: str, progress: NoProgress | None = None, **options: object) -> TuneResult:
    request = TuneRequest(index=index, questions=Path("mine.csv"), out=Path(out), **options)
    return run_tune(plan_tune(request, ErrorCollector()), progress or NoProgress())


class Interrupting(NoProgress):
    """Progress that is interrupted in the nth step of a phase."""

    def __init__(self, phase: str, left: int = 1) -> None:
        self.phase, self.left, self.now = phase, left, ""

    def start(self, phase: str, total: int | None) -> None:
        self.now = phase

    def advance(self, n: int = 1) -> None:
        self.left -= n if self.phase == self.now else 0
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_better_embedder_is_proposed_with_the_command_that_rebuilds_the_index(poor, turnmark):
    with pytest.raises(KeyboardInterrupt):
        tune(poor, "cut", Interrupting("embedding"))
    with pytest.raises(KeyboardInterrupt):
        tune(poor, "cut", Interrupting("questions: minilm", 9))
    assert list(Path("cut/builds").iterdir())
    resumed, whole = tune(poor, "cut"), tune(poor, "whole")
    differing = {"out", "seconds"}
    assert resumed.model_dump(exclude=differing) == whole.model_dump(exclude=differing)
    assert not Path("cut/builds").exists()
    assert whole.rebuild is not None
    assert whole.rebuild.contender == Contender(embedder="minilm")
    assert whole.rebuild.gain > whole.default_gain + 0.1
    assert whole.rebuild.difference > (whole.winner.difference if whole.winner else 0)
    assert whole.rebuild.is_better

    shown = turnmark("tune", poor, "--questions", "mine.csv", "--out", "whole").out
    assert f"Rebuild it: {whole.command}" in " ".join(shown.split())
    program, *arguments = shlex.split(whole.command)
    assert program == "turnmark"
    assert arguments[arguments.index("--include") :][:2] == ["--include", "*.md"]
    assert turnmark(*arguments).code == 0
    assert open_index(poor).manifest.embedder.spec == "minilm"
    again = tune(poor, "again")
    assert again.retriever == whole.rebuild.choice.spec(whole.retriever)
    assert again.default_gain == pytest.approx(whole.rebuild.gain, abs=0.02)


def test_builds_that_do_not_differ_are_not_proposed(notes):
    build_index(notes, "short", retriever="conversational")
    found = tune("short", "out", minutes=60)
    assert [one.contender for one in found.raced] == [Contender(passage_tokens=size) for size in (96, 128, 192)]
    assert found.rebuild is None
    assert not found.command
    assert {one.contender.passage_tokens: one.is_dropped for one in found.raced} == {96: False, 128: False, 192: False}


def test_without_source_or_with_other_documents_the_rest_is_tuned(notes):
    build_index(notes, "short", retriever="conversational")
    write_atomic(notes / "new.md", "# New\n\nThis is new.\n")
    found = tune("short", "changed")
    assert not found.raced
    assert "have changed" in found.left_out
    shutil.rmtree(notes)
    found = tune("short", "gone")
    assert not found.raced
    assert f"{notes} does not exist any more" in found.left_out
    assert found.configurations == 84


def test_the_forecast_counts_builds_and_leaves_out_those_without_time(notes, turnmark, monkeypatch):
    build_index(notes, "short", retriever="conversational")

    def forecast(*options: str) -> dict:
        return json.loads(turnmark("tune", "short", "--dry-run", "--json", *options).out)

    own = ("--questions", "mine.csv")
    every, none = (forecast(*own, "--minutes", minutes) for minutes in ("60", "0.0001"))
    assert [one["passage_tokens"] for one in every["contenders"]] == [96, 128, 192]
    assert every["seconds"] > none["seconds"]
    assert every["left_out"] == ""
    assert none["contenders"] == []
    assert none["left_out"] == "3 of 3 other builds and rerankers do not fit into --minutes."
    monkeypatch.setattr(race, "MAX_BUILT_PASSAGES", 10)
    assert "more than 10 passages" in forecast(*own)["left_out"]
    assert forecast(*own, "--minutes", "60")["contenders"] == every["contenders"]


def test_a_contender_that_is_clearly_worse_is_not_measured_on_all_questions():
    rng = np.random.default_rng(0)
    units = np.array([f"{number}.md" for number in range(300)])
    searched = halves(units.tolist(), 0)
    default = rng.random(300) * 0.2 + 0.4
    shift = {96: -0.2, 128: 0.1, 192: 0.0}
    asked = []

    def measure(contender: Contender, mask: np.ndarray) -> tuple[list[SearchChoice], np.ndarray]:
        asked.append((contender.passage_tokens, int(mask.sum())))
        gains = default[mask] + shift[contender.passage_tokens] + rng.random(int(mask.sum())) * 0.01
        return [SearchChoice(), SearchChoice(weight=1.0)], np.stack([gains - 0.01, gains])

    contenders = [Contender(passage_tokens=size) for size in shift]
    tried = run_race(contenders, default, searched, units, 0, measure)
    first = int((searched & drawn_first(units.tolist(), 0)).sum())
    assert 30 < first < 75
    every = int(searched.sum())
    assert asked == [(96, first), (128, first), (128, every), (192, first), (192, every)]
    assert [one.is_dropped for one in tried] == [True, False, False]
    assert {one.choice.weight for one in tried} == {1.0}
    chosen = choose_contenders(tried, float(default[searched].mean()) + 0.05)
    assert [one.contender.passage_tokens for one in chosen] == [128]


def test_recorded_lists_rank_as_the_retriever_does_with_splade_and_a_cross_encoder(notes, tmp_path):
    splade, cross = tiny.splade(tmp_path / "s"), tiny.cross(tmp_path / "c")
    base = f"conversational?splade={splade}"
    build_index(notes, "sparse", retriever=base)
    with pytest.raises(RequestError, match=r"searched with SPLADE, too, .*--questions FILE"):
        plan_tune(TuneRequest(index="sparse"), ErrorCollector())
    index = open_index("sparse")
    asked = [TuneQuestion(id=word, kind="own", message=f"Where is the {word}?", gold=()) for word in list(ASKED)[:8]]
    queries = queries_of(index, base, asked)
    choices = [SearchChoice(), SearchChoice(splade=2.0), SearchChoice(weight=1.0, late=2.0, splade=0.0)]
    for retriever in (base, Contender(reranker=f"cross:{cross}").retriever(base)):
        recorded = record_lists(index, retriever, queries, choices)
        for choice in choices:
            opened = open_retriever(choice.spec(retriever), index)
            for hits, lists in zip(opened.search(queries, 10), recorded, strict=True):
                fused = lists.fused(choice)
                ranked = fused.rows[lists.order(fused, choice.late)[:10]]
                assert [hit.passage.id for hit in hits] == [one.id for one in index.store.by_rows(ranked.tolist())]


def test_cross_encoders_in_the_cache_of_the_hub_are_contenders(notes, tmp_path, monkeypatch):
    def put(name: str, **config: object) -> None:
        write_atomic(tmp_path / f"hub/models--{name}/snapshots/1/config.json", json.dumps(config))

    put("a--cross", architectures=["BertForSequenceClassification"], id2label={"0": "LABEL_0"})
    put("a--moods", architectures=["BertForSequenceClassification"], id2label={"0": "sad", "1": "glad"})
    put("b--dense", architectures=["BertModel"])
    write_atomic(tmp_path / "hub/models--c--broken/snapshots/1/config.json", "{")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert present_cross_encoders() == ["cross:a/cross"]
    build_index(notes, "short", retriever="conversational")
    contenders, left_out = find_contenders(open_index("short"), "conversational")
    assert contenders[-1] == Contender(reranker="cross:a/cross")
    assert not left_out
    assert RacePlan(contenders=tuple(contenders)).contenders[-1].retriever("conversational?weight=1") == (
        "conversational?rerank=cross:a/cross&weight=1"
    )
