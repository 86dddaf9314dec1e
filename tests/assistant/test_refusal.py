"""Refusals: every text that we write is recognized, answers are not, and the wording is in one file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from turnmark.assistant.citations.not_stated_mark import NOT_STATED_MARK, without_mark
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.wording.refusals import REFUSALS, is_refusal, refusal_extent
from turnmark.assistant.wording.reply_texts import (
    NOT_FOUND_TEXT,
    UNKNOWN_TEXT,
    UNSURE_TEXT,
    about_part,
)

QUESTIONS = (
    "kettle",
    "Who won the 1998 World Cup?",
    "Is it Mr. Smith? And why is it that nobody in the whole wide country ever wrote down what he had been doing",
    "What does [1] say; however, what about [2]?",
    "Who said “No”",
    "什么是茶壶？",
    "two\nlines",
    "",
)
MISSING = [about_part(NOT_FOUND_TEXT, question) for question in QUESTIONS]
TAUGHT = (
    "The documents do not say what it costs to return one late.",
    "The documents do not say who the librarian is.",
)
"""The refusals in the examples of the prompt `answer`."""
WRITTEN_BY_MODELS = (
    "I don't know.",
    "I do not know who won the 1998 World Cup.",
    "Sorry, I don't have that information.",
    "Unfortunately, the passages do not mention the price.",
    "The provided documents don't contain any information about that [1][2].",
    "There is no information about football in the documents.",
    "I couldn't find an answer to that. The passages do not say who won [1].",
    "I found nothing about the saw.",
    'I found nothing about "kettle".',
    "I dont know",
    "The documents dont mention it.",
    "No idea.",
    "Keine Ahnung.",
    "Ich habe leider keine Ahnung.",
    "Aucune idée.",
    "Ni idea.",
    "Geen idee.",
)
ANSWERS = (
    "",
    "It takes 200 g of cheese [1]. The passages do not say how much bacon.",
    "The passages do not say how much bacon it takes. It takes 200 g of cheese [1].",
    "I don't know the exact figure, but it takes about 200 g [1].",
    '"I don\'t know," said Watson when he was asked [1].',
    "I don't know of a better way than boiling [1].",
    "It is not given to children under five [1].",
    "No, IPv6 is not available on Docker by default, so add a network [1].",
    "There is no data loss when you upgrade [1].",
    "The documents do not have to be notarised [1].",
    "No answer key is needed [1].",
    "No idea is too small to be written down.",
    "Keine Ahnung hat der Autor von Steuern, aber 19% gelten.",
    "I do not know. A. B. C. D is what happens next in a long list. And so on. And on.",
    f"{UNSURE_TEXT}\n\nThe kettle is red [1].",
    "The search found nothing about the wreck until 1985, when divers saw its bell [1].",
)


EAST_ASIAN_REFUSALS = (
    "我不知道",
    "抱歉，我不知道。",
    "對不起，我不知道答案。",
    "文件中沒有提到這個問題。",
    "根據提供的文件，沒有相關資訊。",
    "我不知道[1]。",
    "所提供的文档没有说明，如何备份 [1]。",
    "所提供的文档未提及密码重置的步骤。[1] [2]",
    "资料［1］和［2］都没有提到这个问题。",
    "很抱歉，我在文档里找不到相关的说明。",
    "您的问题在文档中找不到答案。请咨询管理员。",
    "无从得知。",
    "答案：我不知道",
    "わかりません。",
    "文書には記載されていません[1]。",
    "お答えできません。",
    "文書[1]にも[2]にも書かれていません。",
    "모르겠습니다.",
    "문서에 나와 있지 않습니다 [1].",
    "문서 [1]과 [2]에는 그 내용이 없습니다.",
    "답변: 알 수 없습니다.",
)
EAST_ASIAN_ANSWERS = (
    "先打开设置，然后点击“重置”[1]。",
    "如果您不知道密码，请点击“忘记密码”[1]。",
    "没有找到设备时，请重新启动路由器[1]。",
    "無法找到裝置時，請重新啟動[1]。",
    "文档中没有提到的步骤可以跳过，先安装软件包[2]。",
    "您不知道版本号也没关系，运行 cat /etc/debian_version 即可[1]。",
    "不知道密码的用户应当联系管理员。",
    "パスワードがわからない場合は、管理者に連絡してください[1]。",
    "비밀번호를 모르면 관리자에게 문의하십시오 [1].",
)


@pytest.mark.parametrize(
    "text",
    [
        UNKNOWN_TEXT,
        *MISSING,
        *TAUGHT,
        *WRITTEN_BY_MODELS,
        *EAST_ASIAN_REFUSALS,
    ],
)
def test_recognizes_a_refusal(text: str) -> None:
    assert is_refusal(text)
    assert refusal_extent(text) == "yes"


@pytest.mark.parametrize("text", EAST_ASIAN_ANSWERS)
def test_does_not_take_an_east_asian_condition_for_a_refusal(text: str) -> None:
    assert not is_refusal(text)
    assert refusal_extent(text) == "no"


LABELED = tomllib.loads(Path(__file__).with_name("refusal_labels.toml").read_text("utf-8"))
"""Refusals and similar answers by language."""


@pytest.mark.parametrize("language", LABELED)
def test_refusals_and_similar_answers_are_told_apart_in_each_language(language: str) -> None:
    refusals, answers = LABELED[language]["refusals"], LABELED[language]["answers"]
    assert [text for text in refusals if not (is_refusal(text) and refusal_extent(text) == "yes")] == []
    assert [text for text in answers if is_refusal(text) or refusal_extent(text) != "no"] == []


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("D'après les documents, il n'est pas possible de répondre.", True),
        ("Die Unterlagen, die mir vorliegen, enthalten keine Angaben dazu.", True),
        ("In den Dokumenten finden Sie den Preis, er ist nicht verhandelbar [1].", False),
        ("“Page not found” appears if the link is old [1].", False),
        ("「ページが見つかりません」は古いリンクで表示されます [1]。", False),
    ],
)
def test_clauses_of_a_sentence_are_read_one_by_one(text: str, refused: bool) -> None:
    assert is_refusal(text) == refused


@pytest.mark.parametrize("marks", [" [1]", " [1] [2]", "[1][2]", " [1, 2]"])
@pytest.mark.parametrize("text", [
    "I don't know.",
    "I'm sorry, but I do not have an answer to that.",
    "The documents do not say who won. The passages only discuss the teams.",
    "The documents do not say who won. You should consult the club.",
    "文档中没有提到价格。这些文档只介绍安装。",
])  # fmt: skip
def test_marks_do_not_turn_a_refusal_into_a_partial_one(text: str, marks: str) -> None:
    assert refusal_extent(text + marks) == "yes"
    assert refusal_extent(f"{text[:-1]}{marks}{text[-1]}") == "yes"


@pytest.mark.parametrize("text", ["我不知道价格，但是安装是免费的[1]。", "文档没有提到价格。安装是免费的[1]。"])
def test_claim_with_a_mark_next_to_a_refusal_makes_it_partial(text: str) -> None:
    assert refusal_extent(text) == "partial"


@pytest.mark.parametrize("text", ANSWERS)
def test_does_not_take_an_answer_for_a_refusal(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize("text", [UNSURE_TEXT, "Boil the water [1].", "The kettle is red. It holds two litres."])
def test_answers_and_hedges_are_not_refusals(text: str) -> None:
    assert refusal_extent(text) == "no"


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer_with_a_missing_part_refuses_that_part(question: str) -> None:
    missing = about_part(NOT_FOUND_TEXT, question)
    reply = f"Kettle  \n**The kettle was made by Ada Berg in 1901.** It is red. [1]\n\n{missing}"
    assert refusal_extent(reply) == "partial"
    assert not is_refusal(reply)


def test_the_listed_texts_are_all_that_the_module_writes() -> None:
    assert {UNKNOWN_TEXT, about_part(NOT_FOUND_TEXT, "{question}")} == set(REFUSALS)


def test_prompts_teach_refusals_that_are_recognized() -> None:
    taught = without_mark("\n".join(text for _, text in load_prompt("answer").sections))
    assert all(text in taught for text in TAUGHT)
    system, _ = load_prompt("answer-small").render(sections="", question="", language="")
    assert "write only: not stated" in " ".join(system.content.split())
    system, user = load_prompt("answer-small").render(sections="", question="", language="German")
    assert all(f"write only: {NOT_STATED_MARK}" in " ".join(message.content.split()) for message in (system, user))
    assert is_refusal("Not stated.", terse=True)
    assert not is_refusal("Not stated.")


def test_only_one_module_has_the_wording() -> None:
    beginnings = [text.partition("“")[0][:24] for text in (*REFUSALS, UNSURE_TEXT)]
    files = (ROOT / "turnmark").rglob("*.py")
    writing = {path.name for path in files if any(text in path.read_text(encoding="utf-8") for text in beginnings)}
    assert writing == {"reply_texts.py"}


@given(
    st.lists(
        st.sampled_from([UNKNOWN_TEXT, MISSING[0], *TAUGHT, *WRITTEN_BY_MODELS, *ANSWERS]),
        max_size=4,
    )
)
def test_both_readings_agree_that_something_is_refused(sentences: list[str]) -> None:
    reply = " ".join(sentences)
    assert not (is_refusal(reply) and refusal_extent(reply) == "no")
