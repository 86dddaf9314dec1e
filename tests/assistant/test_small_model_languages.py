"""A real small model says by the mark that a short text does not answer, in German, Chinese and English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.assistant.notes import evidence_of, over, understood_as
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.steps.answer.answer_llm import AnswerBySmallModel
from turnmark.assistant.steps.step_results import PartEvidence, assess
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Judgment
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit

PRINTER = {
    "en": (
        "The printer is a Brona 410. Its IP address is 10.0.4.17. The tray takes 250 sheets. A parking space costs 35 "
        "euros a month. Full-time employees have 28 days of vacation a year.",
        ("What is the IP address of the printer?", "How much does a parking space cost?", "How many sheets fit?"),
        ("Who repairs the printer?", "How long is my pay continued when I am sick?", "How fast is the guest wifi?"),
    ),
    "de": (
        "Der Drucker ist ein Brona 410. Seine IP-Adresse ist 10.0.4.17. In das Fach passen 250 Blatt. Ein Stellplatz "
        "kostet 35 Euro im Monat. Vollzeitbeschäftigte haben 28 Tage Urlaub im Jahr.",
        ("Welche IP-Adresse hat der Drucker?", "Was kostet ein Stellplatz?", "Wie viele Blatt passen in das Fach?"),
        ("Wer repariert den Drucker?", "Wie lange wird bei Krankheit Gehalt gezahlt?", "Was kostet ein Farbdruck?"),
    ),
    "zh": (
        "打印机型号是 Brona 410，IP 地址是 10.0.4.17。纸盒可以装 250 张纸。一个车位每月 35 欧元。"
        "全职员工每年有 28 天年假。",
        ("打印机的 IP 地址是什么？", "一个车位多少钱？", "纸盒能装多少张纸？"),
        ("打印机坏了由谁来修？", "病假期间工资发多久？", "彩色打印多少钱一张？"),
    ),
}
MIN_RIGHT = 2
"""Minimum right replies of three. The model has 1.5 billion parameters."""


def decision(reader_path: Path, language: str, question: str) -> str:
    """Return the decision of a turn over the text of a language."""
    text = PRINTER[language][0]
    hits = [Hit(passage=Passage(id="d-0", document="d", title="", text=text, start=0, end=len(text)), score=1.0)]
    generator = open_generator(f"local:{reader_path}?seed=5&max_tokens=60")
    turn = Turn(question, generator=generator, evidence=hits, trusted=True, languages=(language,))
    evidence = evidence_of(PartEvidence(question, question, hits=tuple(hits)))
    assessment = assess([Judgment(decision="answer", confidence=1.0, reason="")])
    return turn.run(AnswerBySmallModel(), understood_as(question), evidence, assessment).assessment.judgment.decision


@pytest.mark.reader
@pytest.mark.parametrize("language", PRINTER)
def test_small_model_answers_and_refuses(reader_path: Path, language: str):
    _, answerable, unanswerable = PRINTER[language]
    answered = [decision(reader_path, language, question) for question in answerable]
    assert answered.count("answer") >= MIN_RIGHT
    refused = [decision(reader_path, language, question) for question in unanswerable]
    assert refused.count("answer") <= len(unanswerable) - MIN_RIGHT


HANDBOOK = {
    "parking": "# Parking\n\nA parking space costs 35 euros a month. Bicycles are parked in the basement.\n",
    "leave": "# Vacation\n\nFull-time employees have 28 days of vacation a year.\n",
    "printer": "# Printer\n\nAfter a paper jam, open the rear cover and pull the paper out slowly.\n",
}


@pytest.mark.reader
@pytest.mark.parametrize(
    ("question", "phrases", "answer"),
    [
        ("Wie viele Tage Urlaub habe ich im Jahr?", "vacation|leave|holiday", "28"),
        ("一个停车位每月多少钱？", "parking", "35"),
    ],
)
def test_small_model_searches_english_documents_with_english_phrases(
    reader_path: Path, tmp_path: Path, question: str, phrases: str, answer: str
):
    reply = over(tmp_path, f"local:{reader_path}?seed=5&max_tokens=60", **HANDBOOK).reply([], question)
    searched = " ".join(variant for search in reply.trace.searches for variant in search.variants)
    assert re.search(phrases, searched.lower())
    assert answer in reply.answer
