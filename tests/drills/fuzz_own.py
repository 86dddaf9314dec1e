"""What is fuzzed of the formats that are Turnmark's own, and of what people and other programs send to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.drills.forking import fine, turnmark
from tests.drills.fuzz_targets import Target

NOTE = "# Kettle\n\nFill the kettle. Boil it. The kettle is red.\n"


def targets(folder: Path) -> dict[str, Target]:
    """Name -> contents to begin with, and what reads them."""
    folder = folder / "own"
    folder.mkdir()
    return _written_by_others(folder) | _kept(folder) | _sent()


def kettle(folder: Path, home: Path) -> None:
    """An index `k` of one note."""
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text(NOTE, encoding="utf-8")
    fine(turnmark("index", "build", folder / "notes", "--name", "k", "--retriever", "bm25", home=home, folder=folder))


def _file(path: Path, load: Callable[[Path], Any]) -> Callable[[bytes], None]:
    """Reads a content from a file."""

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load(path)

    return read


def _written_by_others(folder: Path) -> dict[str, Target]:
    from turnmark.assistant.generators.replay import read_script
    from turnmark.assistant.prompts import HERE, read_prompt
    from turnmark.corpora.inspector import read_evaluation
    from turnmark.evaluation.agreement.rows import gather
    from turnmark.evaluation.predictions import check_predictions

    revisions = b'{"id": "1-2", "prediction": "x", "rating": "good"}\n'
    script = b'{"text": "a", "match": "b"}\n{"text": "c"}\n'
    prompts = [(HERE / f"{name}.txt").read_bytes() for name in ("answer", "understand")]
    return {
        "InspectorRAGet": ([_EVALUATION], _file(folder / "e.json", read_evaluation)),
        "official answers": (
            [_OFFICIAL],
            _file(folder / "o.jsonl", lambda path: check_predictions([path], "mtrag-un")),
        ),
        "rated rows": ([_OFFICIAL], _file(folder / "r.jsonl", lambda path: gather([path]))),
        "revisions": ([revisions], _file(folder / "k.jsonl", lambda path: check_predictions([path], "kiwi"))),
        "scripts of replies": ([script], _file(folder / "s.jsonl", read_script)),
        "prompts": (prompts, _file(folder / "p.txt", lambda path: read_prompt("answer", path))),
    }


def _kept(folder: Path) -> dict[str, Target]:
    """What a command wrote and another one reads again."""
    from turnmark.assistant.session_files import read_session, sessions_folder
    from turnmark.evaluation.journal import read_records
    from turnmark.evaluation.records import RunManifest
    from turnmark.evaluation.report.browse import Browsed
    from turnmark.evaluation.report.stored import read_run
    from turnmark.evaluation.rundir import stored_manifest
    from turnmark.evaluation.synth.folder import SynthItem

    home, run = folder / "home", folder / "run"
    kettle(folder, home)
    fine(turnmark("chat", "--index", "k", home=home, folder=folder, stdin="Where is the kettle?\nAnd then?\n"))
    fine(turnmark("eval", "compound-qa", "--limit", "2", "--out", run, home=home, folder=folder))
    os.environ["TURNMARK_HOME"] = str(home)
    (session,) = sessions_folder().glob("*.jsonl")
    manifest = run / "manifest.json"
    summary = Path(shutil.copytree(run, folder / "another")) / "summary.json"
    item = b'{"id": "a", "seed": "s", "key": "q", "content": {"question": "q"}, "notes": ["n"]}\n'
    return {
        "sessions": ([session.read_bytes()], _file(session, lambda path: read_session(path.stem))),
        "run manifests": (
            [manifest.read_bytes()],
            _file(manifest, lambda path: stored_manifest(path.parent, RunManifest)),
        ),
        "run folders": ([summary.read_bytes()], _file(summary, lambda path: read_run(path.parent))),
        "browsed samples": (
            (run / "browse.jsonl").read_bytes().splitlines(),
            _file(folder / "browse.jsonl", lambda path: list(read_records(path, Browsed))),
        ),
        "synthetic items": ([item], _file(folder / "items.jsonl", lambda path: list(read_records(path, SynthItem)))),
    }


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
