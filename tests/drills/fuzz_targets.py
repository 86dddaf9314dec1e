"""What is fuzzed: every reader of a file, every parser of what models and people write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import DEMO

Parse = Callable[[bytes], Any]
Target = tuple[list[bytes], Parse]
"""Contents to begin with, and what reads them."""


def targets(folder: Path) -> dict[str, Target]:
    """Name -> contents to begin with, and what reads them."""
    return _data(folder) | _documents(folder) | _texts()


def _data(folder: Path) -> dict[str, Target]:
    """Every data file of the benchmarks, in a copy of its folder."""
    from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag, rows

    targets: dict[str, Target] = {}

    def reader(name: str, child: str, load: Callable[[Path], Any], pattern: str) -> None:
        place = folder / name / child
        shutil.copytree(DEMO / child, place)
        path = next(iter(sorted(place.glob(pattern))))

        def parse(content: bytes) -> None:
            path.write_bytes(content)
            load(place)

        targets[name] = ([_head(path)], parse)

    reader("MTRAG tasks", "mt-rag-benchmark", lambda p: mtrag.load_tasks(p, "mtrag"), "mtrag-human/generation_tasks/*")
    reader("MTRAG-UN tasks", "mt-rag-benchmark", lambda p: mtrag.load_tasks(p, "mtrag-un"), "mtragun-human/gen*/*")
    reader("MTRAG queries", "mt-rag-benchmark", lambda p: mtrag.load_queries(p, "handbook", "rewrite"),
           "mtrag-human/retrieval_tasks/handbook/*rewrite*")  # fmt: skip
    reader("MTRAG qrels", "mt-rag-benchmark", lambda p: mtrag.load_qrels(p, "mtrag", "handbook"),
           "mtrag-human/retrieval_tasks/handbook/qrels/*")  # fmt: skip
    reader("InsCoQA", "inscoqa", inscoqa.load_tasks, "*.jsonl")
    reader("Compound-QA", "compound-qa", compound_qa.load_tasks, "data/Understanding/*.jsonl")
    reader("KIWI sessions", "kiwi", kiwi.load_sessions, "interaction*")
    reader("KIWI papers", "kiwi", kiwi.load_papers, "longform*")
    own = folder / "queries.jsonl"

    def recorded(content: bytes) -> None:
        own.write_bytes(content)
        rows.read_recorded(own, "queries.jsonl")

    targets["own queries"] = (
        [b'{"_id": "1", "text": "|user|: hi", "variants": {"a": "b"}, "weights": {"a": 1}}\n'],
        recorded,
    )
    return targets


def _head(path: Path, size: int = 20_000) -> bytes:
    """The first lines of a file."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n", 0, size) + 1] or content


def _documents(folder: Path) -> dict[str, Target]:
    """Every kind of document, and what other programs hand us."""
    from turnmark.assistant.commands import read_history
    from turnmark.assistant.settings import read_source_file
    from turnmark.corpora.readers import read_source
    from turnmark.corpora.rows import json_lines
    from turnmark.evaluation.predictions import check_predictions
    from turnmark.evaluation.trec import parse_run

    folder = folder / "documents"
    folder.mkdir()
    docx, pdf = _word(folder / "seed.docx"), _pdf()
    page = b"<html><head><title>T</title></head><body><h1>A</h1><p>b <b>c</b></p><table><tr><td>1</td></tr></table>"
    recipe = _head(DEMO / "documents" / "handbook" / "rhubarb-and-ginger-jam.md")
    kinds = {
        "Markdown": ("a.md", [recipe, b"# a\n\n- b\n\n|c|\n|-|\n|d|\n"]),
        "text": ("a.txt", [b"Title\n\nA paragraph. Another one.\n"]),
        "HTML": ("a.html", [page]),
        "Word": ("a.docx", [docx]),
        "PDF": ("a.pdf", [pdf]),
        "BEIR corpus": ("corpus.jsonl", [b'{"_id": "1", "title": "t", "text": "A text."}\n' * 3]),
    }  # fmt: skip

    def read(path: Path, load: Callable[[Path], Any], content: bytes) -> None:
        path.write_bytes(content)
        load(path)

    targets: dict[str, Target] = {
        name: (seeds, partial(read, folder / file, lambda path: list(read_source(path))))
        for name, (file, seeds) in kinds.items()
    }
    answers = (
        b'{"task_id": "a<::>1", "predictions": [{"text": "b"}], "contexts": [{"document_id": "1", "score": 1.5}]}\n'
    )
    history = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'
    targets |= {
        "predictions": ([answers, b'{"id": "1", "prediction": "x"}\n'],
                        partial(read, folder / "p.jsonl", lambda path: check_predictions([path], "mtrag"))),
        "TREC runs": ([b"q Q0 d 1 0.5 tag\nq Q0 e 2 0.25 tag\n"], lambda content: parse_run(content, "run")),
        "histories": ([history], partial(read, folder / "h.json", read_history)),
        "configuration": ([b'[defaults]\nindex = "a"\n[prices."m"]\nprompt = 1\n'],
                          partial(read, folder / "c.toml", read_source_file)),
        "JSON lines": ([b'{"a": 1}\n{"b": [1, 2]}\n'],
                       partial(read, folder / "j.jsonl", lambda path: list(json_lines(path, "j")))),
    }  # fmt: skip
    return targets


def _word(path: Path) -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Kettles", 1)
    document.add_paragraph("Descale with vinegar.")
    document.save(str(path))
    return path.read_bytes()


def _pdf() -> bytes:
    from io import BytesIO

    from reportlab.pdfgen.canvas import Canvas

    buffer = BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 720, "Descale with vinegar.")
    canvas.save()
    return buffer.getvalue()


def _texts() -> dict[str, Target]:
    """What models and people type."""
    from turnmark.assistant.settings import parse_budget
    from turnmark.assistant.steps.marks import cited_numbers, escape_marks, pieces_of
    from turnmark.assistant.steps.requests import edit_request
    from turnmark.assistant.steps.understand import understand
    from turnmark.assistant.steps.understand_llm import UnderstandReply, understanding_of
    from turnmark.assistant.structured import parse_object
    from turnmark.corpora.specs import parse_spec
    from turnmark.corpora.text import list_items, plain, sentences
    from turnmark.evaluation.judging.compound_qa import FIVE
    from turnmark.evaluation.judging.kiwi import RATINGS
    from turnmark.evaluation.judging.kiwi_rules import operations
    from turnmark.evaluation.judging.mtrag import IDK, RATING
    from turnmark.evaluation.judging.verdicts import Labels, Scale, read_verdict

    offers = (IDK, RATING, FIVE, Scale(), Labels(offered=tuple(RATINGS)))

    def spec(text: str) -> None:
        parsed = parse_spec(text)
        assert parse_spec(str(parsed)) == parsed, "a spec in normal form is another one"

    def verdicts(text: str) -> None:
        for offer in offers:
            read_verdict(text, offer)

    def structured(text: str) -> None:
        reply = parse_object(text, UnderstandReply)
        if isinstance(reply, UnderstandReply):
            understanding_of(reply, "How?", True)

    def messages(text: str) -> None:
        understand((), text)
        edit_request(text)

    def citations(text: str) -> None:
        cited_numbers(text)
        escape_marks(text)

    def procedure(text: str) -> None:
        pieces_of(text)
        operations(text, text[::-1])
        sentences(text)
        list_items(text)
        plain(text)

    def budget(text: str) -> None:
        parse_budget(text)

    seeds: dict[str, tuple[list[bytes], Callable[[str], None]]] = {
        "specs": ([b"openai:gpt-4o@http://localhost:8000/v1?temperature=0&seed=1", b"chroma+https://h:1/x?a=b"], spec),
        "verdicts": ([b"Because it is.\nVerdict: [[yes]]", b"Rating: 7.5\n", b"**no**", b"[[3]] or [[4]]"], verdicts),
        "replies in JSON": (
            [b'```json\n{"rewrite": "a", "parts": [{"question": "a"}]}\n```'],
            structured,
        ),
        "messages": ([b"And how is it made, and when? Only the first two, please."], messages),
        "citations": ([b"A [1], b [1, 2] and c [2-4]. [9999999999-99999999999]"], citations),
        "procedures": ([b"1. Fill it.\n2. Boil it [1].\n   - then wait\n\nDone. So."], procedure),
        "budgets": ([b"200k", b"$5", b"2.50 EUR"], budget),
    }
    return {
        name: (contents, lambda content, parse=parse: parse(content.decode("utf-8", "replace")))  # type: ignore[misc]
        for name, (contents, parse) in seeds.items()
    }
