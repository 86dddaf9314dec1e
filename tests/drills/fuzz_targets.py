"""What is fuzzed: every reader of a file, every parser of what models and people write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import DEMO
from tests.drills.forking import fine, turnmark

Parse = Callable[[bytes], Any]
Target = tuple[list[bytes], Parse]
"""Contents to begin with, and what reads them."""
NOTE = "# Kettle\n\nFill the kettle. Boil it. The kettle is red.\n"


def targets(folder: Path) -> dict[str, Target]:
    """Name -> contents to begin with, and what reads them."""
    return _data(folder) | _documents(folder) | _stored(folder) | _sent() | _texts()


def build_kettle_index(folder: Path, home: Path) -> None:
    """Build an index `k` of one note."""
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.md").write_text(NOTE, encoding="utf-8")
    fine(turnmark("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25", home=home, folder=folder))


def _file(path: Path, load: Callable[[Path], Any]) -> Parse:
    """Reads a content from a file."""

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load(path)

    return read


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
    queries = b'{"_id": "1", "text": "|user|: hi", "variants": {"a": "b"}, "weights": {"a": 1}}\n'
    targets["own queries"] = (
        [queries],
        _file(folder / "queries.jsonl", lambda path: rows.read_recorded(path, "queries.jsonl")),
    )
    return targets


def _head(path: Path, size: int = 20_000) -> bytes:
    """The first lines of a file."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n", 0, size) + 1] or content


def _documents(folder: Path) -> dict[str, Target]:
    """Every kind of document, and what other programs hand us."""
    from turnmark.assistant.commands import read_history
    from turnmark.assistant.generators.replay import read_script
    from turnmark.assistant.prompts import HERE, read_prompt
    from turnmark.assistant.settings import read_source_file
    from turnmark.corpora.inspector import read_evaluation
    from turnmark.corpora.readers import read_source
    from turnmark.evaluation.agreement.rows import gather
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

    def load(path: Path) -> None:
        list(read_source(path))

    targets: dict[str, Target] = {name: (seeds, _file(folder / file, load)) for name, (file, seeds) in kinds.items()}
    history = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'
    revisions = b'{"id": "1-2", "prediction": "x", "rating": "good"}\n'
    script = b'{"text": "a", "match": "b"}\n{"text": "c"}\n'
    prompts = [(HERE / f"{name}.txt").read_bytes() for name in ("answer", "understand")]
    return targets | {
        "predictions": (
            [_OFFICIAL, b'{"id": "1", "prediction": "x"}\n'],
            _file(folder / "p.jsonl", lambda path: check_predictions([path], "mtrag")),
        ),
        "revisions": ([revisions], _file(folder / "k.jsonl", lambda path: check_predictions([path], "kiwi"))),
        "InspectorRAGet": ([_EVALUATION], _file(folder / "e.json", read_evaluation)),
        "rated rows": ([_OFFICIAL], _file(folder / "r.jsonl", lambda path: gather([path]))),
        "TREC runs": ([b"q Q0 d 1 0.5 tag\nq Q0 e 2 0.25 tag\n"], lambda content: parse_run(content, "run")),
        "histories": ([history], _file(folder / "h.json", read_history)),
        "configuration": (
            [b'[defaults]\nindex = "a"\n[prices."m"]\nprompt = 1\n'],
            _file(folder / "c.toml", read_source_file),
        ),
        "scripts of replies": ([script], _file(folder / "s.jsonl", read_script)),
        "prompts": (prompts, _file(folder / "t.txt", lambda path: read_prompt("answer", path))),
    }


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


def _stored(folder: Path) -> dict[str, Target]:
    """What a command wrote and another one reads again."""
    from turnmark.assistant.session_files import read_session, sessions_folder
    from turnmark.evaluation.report.stored import read_run

    folder = folder / "own"
    home, run = folder / "home", folder / "run"
    build_kettle_index(folder, home)
    fine(turnmark("chat", "--index", "k", home=home, folder=folder, stdin="Where is the kettle?\nAnd then?\n"))
    fine(turnmark("eval", "compound-qa", "--limit", "2", "--out", run, home=home, folder=folder))
    os.environ["TURNMARK_HOME"] = str(home)
    (session,) = sessions_folder().glob("*.jsonl")
    targets: dict[str, Target] = {
        "sessions": ([session.read_bytes()], _file(session, lambda path: read_session(path.stem))),
    }
    for name in ("manifest.json", "summary.json", "browse.jsonl"):
        path = Path(shutil.copytree(run, folder / f"run-{name}")) / name
        targets[f"runs: {name}"] = ([path.read_bytes()], _file(path, lambda path: read_run(path.parent)))
    return targets


def _sent() -> dict[str, Target]:
    """What a client sends to the server, and a model to us."""
    from turnmark.assistant.serving.request import Refusal, parse_request
    from turnmark.assistant.steps.quote import rate_lines, show_stretch, stretches
    from turnmark.assistant.steps.read import decision_of, draft_of
    from turnmark.assistant.steps.verify import check_claims, drop_dead_marks
    from turnmark.corpora.types import Passage
    from turnmark.evaluation.judging.kiwi_rules import read_revision
    from turnmark.retrieval.task_passages import hits_of

    def request(content: bytes) -> None:
        try:
            parse_request(content, "k")
        except Refusal:  # the client's own mistake, in words
            return

    def answer(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        decision_of(text, 2)
        draft, _ = drop_dead_marks(draft_of(text), 2)
        hits = hits_of([Passage(id="d", document="d", title="T", text=text, start=0, end=len(text))])
        check_claims(draft, hits, "How?", None)
        for stretch in stretches(rate_lines(["How?"], hits, None), hits, 2):
            assert show_stretch(stretch, hits[0], 1)

    def revision(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        third = len(text) // 3
        read_revision(text[:third], text[third : 2 * third], text[2 * third :])

    orders = [b"Add a sentence at the end. " * 2 + NOTE.encode() * 2, b"Remove 2. A b. C d. A b."]
    answers = [b"Fill it [1]. Then:\n\n1. Boil it [1]\n2. Pour it [2]\n", b"I do not know."]
    return {
        "requests to the server": ([_REQUEST], request),
        "answers": (answers, answer),
        "revisions by code": (orders, revision),
    }


def _texts() -> dict[str, Target]:
    """What models and people type."""
    from turnmark.assistant.asking import parse_object
    from turnmark.assistant.settings import parse_budget
    from turnmark.assistant.steps.marks import cited_numbers, escape_marks, pieces_of
    from turnmark.assistant.steps.requests import edit_request
    from turnmark.assistant.steps.understand import understand
    from turnmark.assistant.steps.understand_llm import UnderstandReply, understanding_of
    from turnmark.corpora.specs import parse_spec
    from turnmark.corpora.text import list_items, plain, sentences
    from turnmark.evaluation.judging.compound_qa import FIVE
    from turnmark.evaluation.judging.kiwi import RATINGS
    from turnmark.evaluation.judging.kiwi_rules import operations
    from turnmark.evaluation.judging.mtrag import IDK, RATING
    from turnmark.evaluation.judging.verdicts import Labels, RatingScale, read_verdict

    offers = (IDK, RATING, FIVE, RatingScale(), Labels(offered=tuple(RATINGS)))

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

    seeds: dict[str, tuple[list[bytes], Callable[[str], Any]]] = {
        "specs": ([b"openai:gpt-4o@http://localhost:8000/v1?temperature=0&seed=1", b"chroma+https://h:1/x?a=b"], spec),
        "verdicts": ([b"Because it is.\nVerdict: [[yes]]", b"Rating: 7.5\n", b"**no**", b"[[3]] or [[4]]"], verdicts),
        "replies in JSON": (
            [b'```json\n{"rewrite": "a", "parts": [{"question": "a"}]}\n```'],
            structured,
        ),
        "messages": ([b"And how is it made, and when? Only the first two, please."], messages),
        "citations": ([b"A [1], b [1, 2] and c [2-4]. [9999999999-99999999999]"], citations),
        "procedures": ([b"1. Fill it.\n2. Boil it [1].\n   - then wait\n\nDone. So."], procedure),
        "budgets": ([b"200k", b"$5", b"2.50 EUR"], parse_budget),
    }
    return {
        name: (contents, lambda content, parse=parse: parse(content.decode("utf-8", "replace")))  # type: ignore[misc]
        for name, (contents, parse) in seeds.items()
    }


_EVALUATION = (
    b'{"name": "n", "models": [{"model_id": "m", "name": "M"}],'
    b' "metrics": [{"name": "f", "author": "human", "type": "categorical",'
    b' "values": [{"value": "4", "numeric_value": 4}]}],'
    b' "tasks": [{"task_id": "c<::>1", "input": [{"speaker": "user", "text": "q"}], "targets": [{"text": "t"}]}],'
    b' "evaluations": [{"task_id": "c<::>1", "model_id": "m", "model_response": "r",'
    b' "annotations": {"f": {"46": {"value": "4"}}}}]}'
)
_OFFICIAL = (
    b'{"task_id": "c<::>1", "conversation_id": "c", "task_type": "rag", "collection": "d",'
    b' "input": [{"speaker": "user", "text": "q"}], "targets": [{"speaker": "agent", "text": "t"}],'
    b' "contexts": [{"document_id": "1", "text": "x", "title": "y", "score": 1.5}],'
    b' "predictions": [{"text": "p"}], "metrics": {"RL_F": [0.5], "idk_eval": 0}}\n'
)
_REQUEST = (
    b'{"model": "k", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0,'
    b' "turnmark": {"events": true, "footnotes": false}, "messages": [{"role": "system", "content": "s"},'
    b' {"role": "user", "content": [{"type": "text", "text": "Where?"}]}]}'
)
