"""`turnmark tune --try`: settings of the assistant, compared by its replies to a person's own questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evaluation.poor_retriever import SPEC as POOR
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.errors import ErrorCollector
from turnmark.core.home import write_atomic
from turnmark.evaluation.check.own_questions.question_file import read_questions
from turnmark.evaluation.tune.tries.run import in_search_half, unit_of
from turnmark.evaluation.tune.tries.settings import TriedSetting, changed_settings, read_tries
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.tuned_settings import (
    TunedSettings,
    read_tuned_settings,
    tuned_settings_file,
    write_tuned_settings,
)

LAMPS = 60
TUNED = TunedSettings(
    generator="extractive", settings={"top_k": 3, "tokens": 500}, gain=0.2, ci95=(0.1, 0.3), questions=60,
    created="2026-01-01T00:00:00+00:00",
)  # fmt: skip


@pytest.fixture(scope="module")
def lamps_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the index `lamps`, built for a retriever that finds nothing useful, and questions about it."""
    folder = tmp_path_factory.mktemp("lamps")
    rows = ["question,facts,document"]
    for number in range(LAMPS):
        hours = 300 + 7 * number
        text = f"# Lamp {number}\n\nThe lamp in room {number} burns for {hours} hours before it is replaced.\n"
        write_atomic(folder / f"notes/lamp{number}.md", text)
        rows.append(f"For how many hours does the lamp in room {number} burn?,{hours},lamp{number}.md")
    write_atomic(folder / "mine.csv", "\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder / "home"))
        build_index(folder / "notes", "lamps", retriever=POOR)
    return folder


@pytest.fixture
def lamps(lamps_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the questions; the working folder is empty, and the index has no tuned settings afterwards."""
    monkeypatch.setenv("TURNMARK_HOME", str(lamps_home / "home"))
    monkeypatch.chdir(tmp_path)
    yield lamps_home
    tuned_settings_file(open_index("lamps")).unlink(missing_ok=True)


def test_a_setting_that_is_better_on_the_test_half_is_used_until_it_is_undone(lamps, turnmark):
    typed = ("tune", "lamps", "--questions", str(lamps / "mine.csv"), "--try", "retriever=bm25", "--try", "top-k=7")
    result = turnmark.json(*typed)
    assert result["search_questions"] + result["test_questions"] == LAMPS
    assert result["winner"]["settings"] == {"retriever": "bm25"}
    assert result["winner"]["gain"] > 0.8
    assert result["default_gain"] < 0.1
    by_settings = {json.dumps(one["settings"]): one for one in result["tried"]}
    assert by_settings['{"retriever": "bm25"}']["difference"] > 0.7
    # Seven passages find no more than six, so this setting is no finalist.
    assert by_settings['{"retriever": "bm25", "top_k": 7}']["difference"] == 0
    assert len(result["finalists"]) == 1

    assert Assistant.from_config(AssistantConfig(index="lamps")).config.retriever == "bm25"
    assert "300" in turnmark("ask", "For how many hours does the lamp in room 0 burn?", "--index", "lamps").out
    info = turnmark.json("index", "info", "lamps")
    assert "retriever=bm25 with extractive" in info["settings"]
    checked = turnmark.json("check", "lamps", "--questions", str(lamps / "mine.csv"))
    assert checked["retriever"] == "bm25"

    again = turnmark(*typed)
    assert "retriever=bm25 is better" in again.out
    assert "answering questions: 1" not in again.err  # every reply is in the folder already
    later = turnmark.json("tune", "lamps", "--questions", str(lamps / "mine.csv"), "--try", "top_k=1", "--out", "later")
    assert later["tried"][0]["gain"] > 0.8, "a later tuning starts from what an earlier one found"
    assert "is searched by default" in turnmark("tune", "lamps", "--undo").out
    assert Assistant.from_config(AssistantConfig(index="lamps")).config.retriever is None


def test_a_later_tuning_adds_to_an_earlier_one(lamps, turnmark):
    index = open_index("lamps")
    write_tuned_settings(index, TUNED.model_copy(update={"settings": {"top_k": 3, "quote_words": 90}}))
    tries = ("--try", "retriever=bm25", "--try", "top_k=5")
    result = turnmark.json("tune", "lamps", "--questions", str(lamps / "mine.csv"), *tries)
    assert result["winner"]["settings"] == {"retriever": "bm25"}
    written = read_tuned_settings(index)
    assert written is not None
    assert written.settings == {"quote_words": 90, "retriever": "bm25"}, "a field that is tried starts from its default"


def test_a_setting_that_changes_nothing_is_not_proposed(lamps, turnmark):
    ran = turnmark("tune", "lamps", "--questions", str(lamps / "mine.csv"), "--try", "top_k=5")
    assert "Keep the present settings" in ran.out
    assert not tuned_settings_file(open_index("lamps")).exists()


def test_a_forecast_counts_replies_and_asks_nothing(lamps, turnmark, tmp_path):
    typed = ("tune", "lamps", "--questions", str(lamps / "mine.csv"), "--try", "retriever=bm25", "--dry-run")
    expected = turnmark.json(*typed)
    assert (expected["questions"], expected["settings"], expected["replies"]) == (LAMPS, 1, 2 * LAMPS)
    assert "at most 120 replies" in turnmark(*typed).out
    assert list(tmp_path.iterdir()) == []


def test_all_mistakes_are_reported_at_once(lamps, turnmark):
    tries = ("top_k=many", "colour=red", "prompts", "generator=nobody:x", "step=answer=singing")
    ran = turnmark("tune", "lamps", "--budget", "much", *(word for text in tries for word in ("--try", text)))
    assert ran.code == 2
    for part in ("--questions FILE", "top_k", "colour", "KEY=VALUE", "nobody", "singing", "--budget"):
        assert part in ran.err


def test_a_file_with_too_few_questions_says_how_many_are_needed(lamps, turnmark, tmp_path):
    head = (lamps / "mine.csv").read_text().splitlines()[:9]
    write_atomic(tmp_path / "few.csv", "\n".join(head) + "\n")
    ran = turnmark("tune", "lamps", "--questions", "few.csv", "--try", "top_k=5")
    assert ran.code == 2
    assert "8 questions say what is right" in ran.err


def test_questions_of_one_half_only_are_too_few(lamps, turnmark, tmp_path):
    head, *rows = (lamps / "mine.csv").read_text().splitlines()
    one_talk = [f"{head},conversation", *(f"{row},talk" for row in rows)]
    write_atomic(tmp_path / "talk.csv", "\n".join(one_talk) + "\n")
    ran = turnmark("tune", "lamps", "--questions", "talk.csv", "--try", "top_k=5")
    assert ran.code == 2
    assert "the smaller half has 0" in ran.err


def test_a_conversation_is_in_one_half(tmp_path):
    rows = [f"What is {number}?,{number},talk{number // 3}" for number in range(30)]
    write_atomic(tmp_path / "talks.csv", "\n".join(["question,facts,conversation", *rows]) + "\n")
    halves: dict[str, set[bool]] = {}
    for one in read_questions(tmp_path / "talks.csv"):
        halves.setdefault(one.conversation, set()).add(in_search_half(unit_of(one), 0))
    assert {len(half) for half in halves.values()} == {1}
    assert len(set.union(*halves.values())) == 2


def test_the_model_is_tried_first_and_forms_of_other_steps_stay():
    texts = ("top-k=3", "step=decide=llm", "generator=openai:a", "top_k=3", "step=retrieve=read")
    tries = read_tries(texts, ErrorCollector())
    assert [one.field for one in tries] == ["generator", "top_k", "steps", "steps"]
    base = AssistantConfig(index="notes")
    config = base
    for one in tries:
        config = one.applied_to(config)
    assert config.steps == ("decide=llm", "retrieve=read")
    assert TriedSetting("steps", ("decide=rules",)).applied_to(config).steps == ("retrieve=read", "decide=rules")
    assert changed_settings(config, base) == {
        "generator": "openai:a", "top_k": 3, "steps": ["decide=llm", "retrieve=read"],
    }  # fmt: skip


def test_settings_are_used_with_their_model_only_and_a_given_one_stays(lamps):
    index = open_index("lamps")
    write_tuned_settings(index, TUNED)
    assert Assistant("lamps").top_k == 3
    given = Assistant("lamps", top_k=4)
    assert (given.top_k, given.config.tokens) == (4, 500)
    write_tuned_settings(index, TUNED.model_copy(update={"generator": "openai:another"}))
    assert Assistant("lamps").config.top_k is None


def test_damaged_settings_are_not_used(lamps, capsys):
    write_atomic(tuned_settings_file(open_index("lamps")), "{")
    assert Assistant("lamps").config.top_k is None
    assert "turnmark tune lamps --undo" in capsys.readouterr().err
