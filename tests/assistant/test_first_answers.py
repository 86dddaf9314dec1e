"""First questions without a model: definitions, near misses, further places and the length of replies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import pytest

from tests.assistant.notes import notes
from tests.conversations.scoring import word_count
from tests.opened import assistant_over
from turnmark.assistant.citations.marks import cited_numbers
from turnmark.assistant.wording.phrases import defined_subject, wants_procedure
from turnmark.retrieval.index.build import build_index

LABELS = json.loads((Path(__file__).parent / "decide_labels.json").read_text(encoding="utf-8"))
DOCUMENTS = {
    "index": "# Welcome\n\nHatch is a tool that manages Python projects. It makes environments and builds packages.\n",
    "install": "# Installation\n\nInstall Hatch with pip. Hatch needs Python 3.9.\n\n- Linux\n- macOS\n- Windows\n",
    "config": "# Configuration\n\nHatch reads its settings from a file. What Hatch may read is listed there.\n",
    "history": "# History\n\nVersion 1.2 of Hatch repairs the builds. Hatch was renamed once.\n",
    "pivot": "# Pivot-Tabelle\n\nEine Pivot-Tabelle ist eine Tabelle, die andere Daten zusammenfasst.\n",
    "filter": "# Filter\n\nIn einer Pivot-Tabelle lassen sich Filter setzen. Die Pivot-Tabelle wird dann kleiner.\n",
    "mirror": "# 镜像\n\n镜像是仓库的一份副本，用来加快下载。\n",
    "agenda": "# Agenda\n\n- What is Sculpin (S)?\n- Who uses Sculpin?\n- [Sculpin as a tool](http://x)\n",
    "talk": "# Talk\n\nSculpin has nodes.\n\n## What is Sculpin?\n\n- Mirrored storage for ships\n- Open since 2008\n",
    "harbor": "# *Hostile* [1] [link](http://x)\n\nHatch opens **the harbor** when Hatch runs. See [1].\n",
}


@pytest.fixture
def manual(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    build_index(notes(tmp_path / "manual", **DOCUMENTS), "manual", retriever="bm25")
    return assistant_over("manual")


@pytest.mark.parametrize(
    "question",
    ["What is Hatch?", "Was ist eine Pivot-Tabelle?", "Qu'est-ce qu'une table ?", "¿Qué es una tabla?",
     "Che cos'è Hatch?", "O que é uma tabela?", "Wat is een tabel?", "Что такое таблица?", "什么是镜像？",
     "テーブルとは何ですか？"],
)  # fmt: skip
def test_question_of_what_something_is_is_recognized_in_each_language(question):
    languages = ("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "russian", "chinese")
    assert defined_subject(question, languages)
    assert not wants_procedure(question, languages)
    assert not defined_subject("When does it open?", languages)


@pytest.mark.parametrize(
    ("question", "definition"),
    [
        ("What is Hatch?", "**Hatch is a tool that manages Python projects.**"),
        ("Was ist eine Pivot-Tabelle?", "**Eine Pivot-Tabelle ist eine Tabelle, die andere Daten zusammenfasst.**"),
        ("What is Sculpin?", "- **Mirrored storage for ships**\n- Open since 2008"),
        ("什么是镜像？", "**镜像是仓库的一份副本，用来加快下载**。"),
    ],
)
def test_definition_is_quoted_before_other_sentences_with_its_words(manual, question, definition):
    assert definition in manual.reply([], question).answer.split("\n\n")[0]


def test_further_places_are_other_paragraphs_with_their_own_sources_and_without_markup(manual):
    reply = manual.reply([], "Does Hatch need Python or a harbor?")
    quotation, places = reply.answer.split("\n\n")[-2:]
    rows = places.splitlines()
    assert 1 <= len(rows) <= 3
    assert all(re.fullmatch(r"- \*[^*]+\*: [^*\n]+ \[\d\]", row) for row in rows), rows
    assert len({*cited_numbers(places)} | {*cited_numbers(quotation)}) == len(rows) + 1
    assert {*cited_numbers(reply.answer)} <= {source.n for source in reply.citations}
    assert rows[0] == "- *Hostile (1) link*: Hatch opens the harbor when Hatch runs. [2]"


def test_list_that_is_asked_for_is_complete(manual):
    answer = manual.reply([], "On which systems is Hatch installed, Linux or macOS?").answer.replace("**", "")
    assert "- Linux\n- macOS\n- Windows" in answer


@pytest.mark.usefixtures("in_demo_home")
def test_replies_are_short_and_near_misses_are_seldom_sure():
    assistant = assistant_over("demo")
    replies = [assistant.reply([], question) for question in LABELS["answerable"]]
    assert median(word_count(reply.answer) for reply in replies) <= 110
    near = [assistant.reply([], question).decision for question in LABELS["near"]]
    assert near.count("answer") <= 0.2 * len(near), near


@pytest.mark.usefixtures("in_demo_home")
def test_chat_shows_a_further_place_and_the_kind_of_the_question(turnmark):
    ran = turnmark("chat", "--index", "demo", stdin="What is the Anvick Bakehouse?\n/why\n/why 3\n")
    assert "asks for the definition of “anvick bakehouse”" in ran.out
    place = re.search(r"^- \*Anvick › Buildings worth a look\*: (.+) \[3\]$", ran.out, re.MULTILINE)
    assert place
    assert ran.out.count(place[1]) == 2
