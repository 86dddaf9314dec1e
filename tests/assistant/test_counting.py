"""Questions about all documents, answered by counting and without a model."""

from __future__ import annotations

import pytest

from tests.assistant.notes import notes
from tests.opened import assistant_over
from turnmark.assistant.steps.answer.answer_collection import MAX_LISTED_DOCUMENTS, mentioned_words
from turnmark.retrieval.index.build import build_index


@pytest.fixture
def pans(kitchen, tmp_path):
    dishes = {f"stew{n:02}": f"# Stew {n}\n\nUse a Dutch oven.\n" for n in range(40)}
    folder = notes(
        tmp_path / "m", tea="# Tea\n\nBoil water.\n\n## Pots\n\nA teapot is not a kettle. The kettle is red.\n",
        bread="# Bread\n\nBake it in an oven. The kettle stays cold.\n", **dishes,
    )  # fmt: skip
    build_index(folder, "m", retriever="bm25")
    return assistant_over("m")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Which pages mention conda?", "conda"), ("how many recipes mention a dutch oven", "dutch oven"),
        ("What files mention “the red kettle and pan”?", "the red kettle and pan"),
        ("How many of my notes mention Ada Berg?", "Ada Berg"), ("Where is dpkg-divert mentioned?", "dpkg-divert"),
        ("In which chapters are epochs mentioned?", "epochs"), ("which documents contain the word tea?", "tea"),
        ("Which pages mention it?", ""), ("Which pages mention conda and pip?", ""),
        ("Besides conda, which pages mention pip?", ""), ("Which file contains the settings?", ""),
        ("How many people mention rain?", ""), ("Which pages mention how one can get rid of a user?", ""),
        ("Where is the kettle?", ""), ("Which files mention /etc/?", ""),
        ("Which files mention /etc/fstab?", "/etc/fstab"), ("Which files mention '/(/'?", ""),
        (f"Which files mention '{'long ' * 50}'?", ""),
    ],
)  # fmt: skip
def test_recognizes_only_plain_counting_questions(message, words):
    assert mentioned_words(message) == words


def test_documents_are_counted_and_cited(pans):
    reply = pans.reply([], "Which pages mention the kettle?")
    assert reply.answer.startswith("“kettle” is found 3 times in 2 of 42 documents:\n\n- Tea [")
    assert reply.decision == "answer"
    assert (reply.checks.unsupported, reply.checks.parts_answered) == ((), 1.0)
    listed = reply.answer.split("\n")[2:]
    assert len(listed) == 2
    for row, title in zip(listed, ("Tea", "Bread"), strict=True):
        name, number = row.removeprefix("- ").removesuffix("]").split(" [")
        cited = reply.citations[int(number) - 1]
        assert name == cited.title == title
        assert "kettle" in cited.text


def test_long_list_of_documents_is_shortened(pans):
    reply = pans.reply([], "How many recipes mention a dutch oven?")
    assert reply.answer.startswith("“dutch oven” is found 40 times in 40 of 42 documents:")
    assert reply.answer.endswith(f"\n- … and {40 - MAX_LISTED_DOCUMENTS} more")
    assert reply.answer.count("\n- ") == MAX_LISTED_DOCUMENTS + 1


def test_words_found_nowhere_are_counted_and_the_nearest_documents_listed(pans):
    reply = pans.reply([], "Which pages mention kettles of iron?")
    none = (
        "“kettles of iron” is found 0 times in 0 of 42 documents.\n\nThe documents nearest to “kettles of iron”:\n\n- "
    )
    assert reply.answer.startswith(none)
    german = pans.reply([], "Welche Seiten erwähnen iron kettles?").answer
    assert german.startswith("„iron kettles“ kommt 0-mal in 0 von 42 Dokumenten vor.")


def test_counts_over_several_indexes(pans, tmp_path):
    build_index(notes(tmp_path / "o", cup="# Cup\n\nThe kettle fills it.\n"), "o", retriever="bm25")
    reply = assistant_over("m,o").reply([], "Which pages mention the kettle?")
    assert reply.answer.startswith("“kettle” is found 4 times in 3 of 43 documents:")
    assert "- Cup [" in reply.answer
