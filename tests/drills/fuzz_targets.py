"""Targets of fuzzing: every reader of a file, and requests of clients. Typed input has property tests elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.conftest import DEMO
from tests.corpora.made import by_pandoc
from tests.corpora.shown import picture
from tests.drills.forking import fine, turnmark

Parse = Callable[[bytes], Any]
Target = tuple[list[bytes], Parse]
"""Initial contents, and the function that reads them."""


def targets(folder: Path) -> dict[str, Target]:
    """Return name -> initial contents and the function that reads them."""
    return _data(folder) | _documents(folder) | _stored(folder) | {"requests to the server": ([_REQUEST], _request)}


def _file(path: Path, load: Callable[[Path], Any]) -> Parse:
    """Read a content from a file."""

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load(path)

    return read


def _data(folder: Path) -> dict[str, Target]:
    """Return a target for every data file of the benchmarks, in a copy of its folder."""
    from turnmark.corpora import jsonl_rows
    from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi, mtrag

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
        _file(folder / "queries.jsonl", lambda path: jsonl_rows.read_recorded(path, "queries.jsonl")),
    )
    return targets


def _head(path: Path, size: int = 20_000) -> bytes:
    """Return the first lines of a file."""
    content = path.read_bytes()
    return content[: content.rfind(b"\n", 0, size) + 1] or content


def _documents(folder: Path) -> dict[str, Target]:
    """Return targets for every kind of document, and for input from other programs."""
    from turnmark.assistant.commands import read_history
    from turnmark.assistant.config_files import read_source_file
    from turnmark.assistant.llm.generators.replay import read_script
    from turnmark.assistant.llm.prompts.prompt_files import PROMPTS_FOLDER, read_prompt
    from turnmark.corpora.benchmarks.inspector_raget import read_evaluation
    from turnmark.corpora.benchmarks.mtrag import domain_of
    from turnmark.corpora.readers import read_source
    from turnmark.corpora.readers.pictures.image_size import DRAWABLE_FORMATS
    from turnmark.evaluation.agreement.compared_answers import gather
    from turnmark.evaluation.storage.predictions import check_predictions, parse_run

    folder = folder / "documents"
    folder.mkdir()
    docx, pdf = by_pandoc(folder / "seed.docx").read_bytes(), _pdf()
    page = b"<html><head><title>T</title></head><body><h1>A</h1><p>b <b>c</b></p><table><tr><td>1</td></tr></table>"
    recipe = _head(DEMO / "documents" / "handbook" / "rhubarb-and-ginger-jam.md")
    kinds = {
        "Markdown": ("a.md", [recipe, b"# a\n\n- b\n\n|c|\n|-|\n|d|\n"]),
        "text": ("a.txt", [b"Title\n\nA paragraph. Another one.\n"]),
        "HTML": ("a.html", [page]),
        "Word": ("a.docx", [docx]),
        "PDF": ("a.pdf", [pdf]),
        "heads of pictures": ("a.png", [picture("red", form=form) for form in DRAWABLE_FORMATS]),
        "BEIR corpus": ("corpus.jsonl", [b'{"_id": "1", "title": "t", "text": "A text."}\n' * 3]),
    }  # fmt: skip

    def load(path: Path) -> None:
        list(read_source(path))

    targets: dict[str, Target] = {name: (seeds, _file(folder / file, load)) for name, (file, seeds) in kinds.items()}
    history = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'
    revisions = b'{"id": "1-2", "prediction": "x", "rating": "good"}\n'
    script = b'{"text": "a", "match": "b"}\n{"text": "c"}\n'
    prompts = [(PROMPTS_FOLDER / f"{name}.txt").read_bytes() for name in ("answer", "understand")]
    return targets | {
        "predictions": (
            [_OFFICIAL, b'{"id": "1", "prediction": "x"}\n'],
            _file(folder / "p.jsonl", lambda path: check_predictions([path], "mtrag", domain_of)),
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


def _pdf() -> bytes:
    from io import BytesIO

    from reportlab.pdfgen.canvas import Canvas

    buffer = BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 720, "Descale with vinegar.")
    canvas.save()
    return buffer.getvalue()


def _stored(folder: Path) -> dict[str, Target]:
    """Return targets for files that one command writes and another reads."""
    from turnmark.assistant.sessions.session_files import read_session, sessions_folder
    from turnmark.evaluation.report.finished_runs import read_run

    folder = folder / "own"
    home, run = folder / "home", folder / "run"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.md").write_text("# Kettle\n\nFill the kettle. Boil it.\n", encoding="utf-8")
    fine(turnmark("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25", home=home, folder=folder))
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


def _request(content: bytes) -> None:
    from turnmark.assistant.serving.request_bodies import RejectedRequest, parse_request

    with suppress(RejectedRequest):  # a readable error about the client's mistake
        parse_request(content)


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
