"""Writes the result of a check as JUnit XML, which CI servers show: one test per question."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from turnmark.core.home import write_atomic
from turnmark.core.untrusted import one_line
from turnmark.evaluation.check.own_questions.questions_check import QuestionOutcome, QuestionsResult


def write_junit(result: QuestionsResult, path: Path) -> None:
    """Write a result; a question that says nothing about its reply is a skipped test."""
    outcomes = result.outcomes
    suite = ElementTree.Element(
        "testsuite",
        name=f"turnmark check {one_line(result.index)}",
        tests=str(len(outcomes)),
        failures=str(sum(one.right is False for one in outcomes)),
        errors=str(sum(one.failed is not None for one in outcomes)),
        skipped=str(sum(_is_skipped(one) for one in outcomes)),
        time=str(result.seconds),
    )
    for one in outcomes:
        name = f"{one.place}: {one_line(one.question)}"
        case = ElementTree.SubElement(suite, "testcase", classname=Path(result.questions).stem, name=name)
        if one.failed is not None:
            ElementTree.SubElement(case, "error", message=one_line(one.failed))
        elif one.right is False:
            failure = ElementTree.SubElement(case, "failure", message=one_line("; ".join(one.why)))
            failure.text = "".join(char for char in one.answer if char.isprintable() or char in "\n\t")
        elif _is_skipped(one):
            ElementTree.SubElement(case, "skipped", message="the file says nothing about its reply")
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    write_atomic(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')


def _is_skipped(one: QuestionOutcome) -> bool:
    return one.right is None and one.failed is None
