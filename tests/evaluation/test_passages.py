"""Passages by id, hidden passages, and what an earlier run found."""

from __future__ import annotations

import json

import pytest

from turnmark.core.errors import RequestError
from turnmark.evaluation.storage.corpus_passages import CorpusTexts, read_recorded_passages


def corpus(path, *lines):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    return path


def test_looks_up_texts_by_id_and_skips_invalid_lines(tmp_path):
    path = corpus(
        tmp_path / "c.jsonl", {"_id": "a", "title": "Bells", "text": "Größe"}, "", "{broken", "[1]", {"text": "no id"},
        {"_id": 7, "text": None}, {"_id": "z\u2028", "title": None, "text": "last"},
    )  # fmt: skip
    texts = CorpusTexts(path)
    first = texts.get("a")
    assert (first.title, first.text, first.document, first.start, first.end) == ("Bells", "Größe", "a", 0, 5)
    assert (texts.get("7") or first).text == ""
    assert (texts.get("z\u2028") or first).text == "last"
    assert texts.get("b") is None
    assert "a" in texts
    assert "b" not in texts


def sample(name, *document_ids, **fields):
    contexts = [{"document_id": passage_id, "score": 1.0} for passage_id in document_ids]
    return json.dumps({"id": name, "status": "done", "contexts": contexts, **fields}) + "\n"


def test_reads_recorded_passages(tmp_path):
    file = tmp_path / "predictions.jsonl"
    lines = sample("q", "a"), sample("q", "b", repeat=1), sample("r", "c", status="failed", reason="x"), sample("e")
    file.write_text("".join(lines) + '{"id": "tor')
    before = file.read_bytes()
    lists = read_recorded_passages(tmp_path)
    assert {name: [ref.document_id for ref in refs] for name, refs in lists.items()} == {"q": ["a"], "e": []}
    assert file.read_bytes() == before, "a run that may be going on is not written to"
    assert read_recorded_passages(file) == lists


@pytest.mark.parametrize(("content", "message"), [
    (None, "no such run folder"),
    ("", "no sample in the file is done"),
    ('{"id": "tor', "no sample in the file is done"),
    ('{"id": 5}\n[]\n{"id": "x", "status": "done"}\n', "predictions.jsonl:1: 'id' is int, not text"),
    ('{"id": 5}\n[]\n{"id": "x", "status": "done"}\n', "predictions.jsonl:2: not a JSON object"),
])  # fmt: skip
def test_refuses_files_without_recorded_passages(tmp_path, content, message):
    folder = tmp_path / "run"
    if content is not None:
        folder.mkdir()
        (folder / "predictions.jsonl").write_text(content)
    with pytest.raises(RequestError) as caught:
        read_recorded_passages(folder)
    assert message in "\n".join(caught.value.problems)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match=r"contains no predictions\.jsonl"):
        read_recorded_passages(tmp_path / "empty")
