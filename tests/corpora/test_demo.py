"""The demo corpus: what ships is what its sources say, and its sources keep the promises of its README."""

import json
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tools import make_demo as make

SHIPPED = make.HERE / "mt-rag-benchmark"
DOCUMENTS = make.HERE / "documents"
CONVERSATIONS: list[dict[str, Any]] = json.loads((make.HERE / "conversations.json").read_text(encoding="utf-8"))
FILES = sorted(f"{domain}/{file.name}" for domain in make.DOMAINS for file in (DOCUMENTS / domain).iterdir())


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tree(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def turns(split: str) -> list[dict[str, Any]]:
    return [turn for c in CONVERSATIONS if c["split"] == split for turn in c["turns"]]


@cache
def corpus() -> dict[str, dict[str, Any]]:
    folder = SHIPPED / "corpora" / "passage_level"
    return {row["_id"]: row for domain in make.DOMAINS for row in rows(folder / f"{domain}.jsonl")}


def test_regenerating_gives_the_shipped_bytes(tmp_path: Path) -> None:
    make.build(make.HERE, tmp_path / "again")
    assert tree(tmp_path / "again") == tree(SHIPPED)


@pytest.mark.parametrize("document", FILES)
def test_document_is_well_formed(document: str) -> None:
    raw = (DOCUMENTS / document).read_text(encoding="utf-8")
    levels = [level for level, *_ in make.headings(raw)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert levels.count(2) >= 2
    assert 150 <= len(raw.split()) <= 420
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.md", Path(document).name)


@pytest.mark.parametrize("document", FILES)
def test_passages_are_the_document_at_their_offsets(document: str) -> None:
    raw = (DOCUMENTS / document).read_text(encoding="utf-8")
    end = 0
    for passage in make.passages(DOCUMENTS, document):
        assert raw[passage.start : passage.end] == passage.body == passage.body.strip()
        assert len(passage.body) <= make.LIMIT
        assert end == 0 or not raw[end : passage.start].strip()  # nothing but the title is left out
        end = passage.end
        shipped = corpus()[passage.id]
        assert shipped["title"] == passage.title
        assert shipped["text"] == f"{passage.title}\n{raw[passage.start : passage.end]}"
    assert not raw[end:].strip()


def test_every_shipped_passage_is_in_a_document() -> None:
    made = [p.id for document in FILES for p in make.passages(DOCUMENTS, document)]
    assert sorted(made) == sorted(corpus())


def test_counts_of_documents() -> None:
    domains = Counter(document.split("/")[0] for document in FILES)
    assert domains["handbook"] >= 40
    assert domains["almanac"] >= 24
    assert sum(domains.values()) >= 64


def test_counts_of_conversations_and_labels() -> None:
    human = [c for c in CONVERSATIONS if c["split"] == "mtrag-human"]
    assert len(human) >= 7
    assert all(5 <= len(c["turns"]) <= 8 for c in human)
    labels = {split: Counter(turn["answerability"] for turn in turns(split)) for split in make.SPLITS}
    assert labels["mtrag-human"].total() >= 40
    assert labels["mtragun-human"].total() >= 9
    assert labels["mtrag-synthetic"].total() >= 8
    least = {"PARTIAL": 4, "UNANSWERABLE": 5, "UNDERSPECIFIED": 3, "CONVERSATIONAL": 4}
    assert all(labels["mtrag-human"][label] >= n for label, n in least.items())
    assert labels["mtragun-human"]["UNDERSPECIFIED"] >= 3
    assert labels["mtragun-human"]["UNANSWERABLE"] >= 2
    assert {(c["split"], c["domain"]) for c in CONVERSATIONS} == {(s, d) for s in make.SPLITS for d in make.DOMAINS}


def test_kinds_of_turn() -> None:
    every = [turn for split in make.SPLITS for turn in turns(split)]
    assert sum(t["answerability"] == "ANSWERABLE" and len(t["relevant"]) >= 2 for t in every) >= 12
    assert 0.25 <= sum(not t["standalone"] for t in every) / len(every) <= 0.45
    assert {kind for turn in every for kind in turn["question_type"]} == make.QUESTION_TYPES


@pytest.mark.parametrize("split", make.SPLITS)
def test_tasks_have_the_official_shape(split: str) -> None:
    (file,) = (SHIPPED / split / "generation_tasks").iterdir()
    label = "answerability" if split == "mtragun-human" else "Answerability"
    context = {
        "mtrag-human": {"document_id", "text", "title", "score"},
        "mtragun-human": {"document_id", "text", "title"},
        "mtrag-synthetic": {"document_id", "text"},
    }[split]
    found = rows(file)
    assert [row["targets"][0]["text"] for row in found] == [turn["agent"] for turn in turns(split)]
    for row in found:
        assert re.fullmatch(r"[0-9a-f]{32}", row["conversation_id"])
        assert row["task_id"] == f"{row['conversation_id']}<::>{row['turn']}"
        assert len(row["input"]) == 2 * int(row["turn"]) - 1
        assert [s["speaker"] for s in row["input"]] == ["user", "agent"] * (int(row["turn"]) - 1) + ["user"]
        assert bool(row["contexts"]) == (row[label][0] in make.WITH_PASSAGES)
        assert all(set(c) == context and c["text"] == corpus()[c["document_id"]]["text"] for c in row["contexts"])


@pytest.mark.parametrize("domain", make.DOMAINS)
def test_retrieval_tasks_and_judgements_agree(domain: str) -> None:
    passages = {row["_id"] for row in rows(SHIPPED / "corpora" / "passage_level" / f"{domain}.jsonl")}
    folder = SHIPPED / "mtrag-human" / "retrieval_tasks" / domain
    judgements = {"mtrag-human": folder / "qrels" / "dev.tsv"}
    judgements["mtragun-human"] = SHIPPED / "mtragun-human" / "retrieval_tasks" / "qrels" / f"{domain}.tsv"
    judged: dict[str, list[str]] = {}
    for split, path in judgements.items():
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        assert header == "query-id\tcorpus-id\tscore"
        pairs = [tuple(line.split("\t")) for line in lines]
        assert len(set(pairs)) == len(pairs) > 0
        assert all(passage in passages and score == "1" for _, passage, score in pairs)
        judged[split] = list(dict.fromkeys(query for query, *_ in pairs))
        tasks = rows(SHIPPED / split / "generation_tasks" / "reference.jsonl")
        here = [t for t in tasks if t["Collection"] in (domain, f"mt-rag-{domain}-demo")]
        assert pairs == [(t["task_id"], c["document_id"], "1") for t in here for c in t["contexts"]]
    for kind in ("lastturn", "rewrite", "questions"):
        queries = rows(folder / f"{domain}_{kind}.jsonl")
        assert [query["_id"] for query in queries] == judged["mtrag-human"]
        for query in queries:
            expected = int(query["_id"].rsplit("<::>")[1]) if kind == "questions" else 1
            assert [line[:8] for line in query["text"].split("\n")] == ["|user|: "] * expected


def test_two_mistakes_are_reported_in_one_message(tmp_path: Path) -> None:
    planted = json.loads(json.dumps(CONVERSATIONS))
    planted[0]["turns"][0]["multi_turn"] = "Follow-up"
    planted[1]["turns"][0]["relevant"] = [{"document": "handbook/no-such-page.md", "section": "Steps"}]
    shutil.copytree(DOCUMENTS, tmp_path / "documents")
    (tmp_path / "conversations.json").write_text(json.dumps(planted), encoding="utf-8")
    with pytest.raises(SystemExit) as refused:
        make.build(tmp_path, tmp_path / "out")
    assert f"{planted[0]['name']}, turn 1: multi_turn 'Follow-up'" in str(refused.value)
    assert f"{planted[1]['name']}, turn 1: unknown document 'handbook/no-such-page.md'" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 3
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"relevant": []}, "ANSWERABLE with 0 relevant sections"),
        ({"answerability": "UNANSWERABLE"}, "UNANSWERABLE with"),
        ({"answerability": "PERHAPS"}, "unknown answerability 'PERHAPS'"),
        ({"question_type": ["Riddle"]}, "unknown or no question type"),
        ({"relevant": [{"document": FILES[-1], "section": "No such heading"}]}, "no section 'No such heading'"),
        ({"relevant": [{"document": FILES[0], "section": ""}]}, "is outside the domain"),
        ({"rewrite": "Something else?"}, "a turn is standalone exactly where"),
        ({"rewrite": " "}, "an empty text"),
        ({"note": "?"}, "fields missing or unknown: note"),
    ],
)
def test_each_kind_of_mistake_is_named(change: dict[str, Any], complaint: str) -> None:
    known = {(p.document, p.section) for document in FILES for p in make.passages(DOCUMENTS, document)}
    conversation = next(c for c in CONVERSATIONS if c["domain"] == "handbook")
    first, *others = conversation["turns"]
    assert FILES[0].startswith("almanac/")
    assert not list(make.problems([conversation], known))
    found = list(make.problems([{**conversation, "turns": [{**first, **change}, *others]}], known))
    assert any(complaint in line for line in found)


def test_document_without_a_title_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("No heading at all.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md: wants one first-level heading"):
        make.passages(tmp_path, "page.md")


def test_long_section_is_split_at_paragraphs_and_keeps_its_heading(tmp_path: Path) -> None:
    paragraphs = [letter * 500 for letter in "abcde"]
    text = "\n\n".join(["# Title", "Lead.", "## Long", *paragraphs, "## Short", "```text\n# no heading\n```"])
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    found = make.passages(tmp_path, "page.md")
    assert [p.section for p in found] == ["", "Long", "Long", "Long", "Short"]
    assert found[1].body == "## Long\n\n" + "\n\n".join(paragraphs[:2])
    assert found[3].body == paragraphs[4]
    assert found[4].body.endswith("# no heading\n```")


def test_long_sections_and_underlined_headings_occur() -> None:
    sections = Counter((p.document, p.section) for document in FILES for p in make.passages(DOCUMENTS, document))
    assert max(sections.values()) >= 2
    assert sections["handbook/sharpen-a-kitchen-knife.md", "Steps"] == 1
