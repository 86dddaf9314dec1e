"""The MTRAG family: MTRAG, MTRAG-UN and MTRAG-S, from a clone (or part of one) of the official repository.

Source: https://github.com/IBM/mt-rag-benchmark (Apache-2.0). Papers: MTRAG (TACL 2025, doi 10.1162/TACL.a.19), MTRAG-UN
(arXiv 2602.23184). One row of `mtrag-human/generation_tasks/reference.jsonl`, shortened:

    {"conversation_id": "dd6b6ffd177f2b311abe676261279d2f", "task_id": "dd6b6ffd177f2b311abe676261279d2f<::>2",
     "turn": "2", "input": [{"speaker": "user", "text": "where do the arizona cardinals play this week"},
               {"speaker": "agent", "text": "…"},
               {"speaker": "user", "text": "Do the Arizona Cardinals play outside the US?"}],
     "contexts": [{"document_id": "822086267_7384-8758-0-1374", "title": "2017 Arizona Cardinals season", "text": "…"}],
     "targets": [{"speaker": "agent", "text": "The Arizona Cardinals do play outside the United States. …"}],
     "Question Type": ["Factoid"], "Multi-Turn": ["Follow-up"], "Answerability": ["ANSWERABLE"],
     "Collection": "mt-rag-clapnq-elser-512-100-20240503"}

MTRAG-UN writes `answerability`, and only the domain as its `Collection`. A row that cannot be read becomes a
Problem with file and line, and the others are still read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.home import unzip
from turnmark.core.record import Record
from turnmark.corpora import jsonl_rows
from turnmark.corpora.benchmarks.task_ids import canonical_id, conversation_of
from turnmark.corpora.jsonl_rows import JsonRow, LoadedRows, Source
from turnmark.corpora.types import Message, Problem

Benchmark = Literal["mtrag", "mtrag-un", "mtrag-s"]
Answerability = Literal["ANSWERABLE", "PARTIAL", "UNANSWERABLE", "UNDERSPECIFIED", "CONVERSATIONAL"]
Mode = Literal["last-turn", "rewrite", "questions"]

REPOSITORY = "https://github.com/IBM/mt-rag-benchmark"
FULL_PASSAGES: Mapping[str, int] = {"clapnq": 183_408, "fiqa": 61_022, "govt": 49_607, "cloud": 72_442}
"""Number of passages in the full corpora (MTRAG Table 2)."""
DEMO_ROOT = Path(__file__).parents[1] / "demo" / "mt-rag-benchmark"

_TASK_FILES: Mapping[str, str] = {
    "mtrag": "mtrag-human/generation_tasks/reference.jsonl",
    "mtrag-un": "mtragun-human/generation_tasks/reference.jsonl",
    "mtrag-s": "mtrag-synthetic/generation_tasks/synthetic.jsonl",
}
_SETTING_FILES: Mapping[str, str] = {"rag": "RAG.jsonl", "reference+rag": "reference+RAG.jsonl"}
_QUERY_FILES: Mapping[str, str] = {"last-turn": "lastturn", "rewrite": "rewrite", "questions": "questions"}
_ALIASES = {"ibmcloud": "cloud"}
_SPEAKERS: Mapping[str, Literal["user", "assistant"]] = {"user": "user", "agent": "assistant", "assistant": "assistant"}
_DOMAIN = re.compile(r"^[a-z0-9]+$")


class MtragContext(Record):
    """A passage that the data gives with a task."""

    document_id: str
    title: str
    text: str


class MtragTask(Record):
    """A turn of a conversation, with the turns before it (MTRAG section 4.4)."""

    id: str = Field(description="task_id: <conversation><::><turn>")
    conversation: str
    turn: int = Field(description="1-based")
    domain: str
    history: tuple[Message, ...] = Field(description="the turns before this one")
    question: str
    reference: str = Field(description="the answer that the annotators approved; may be empty")
    contexts: tuple[MtragContext, ...]
    answerability: Answerability | None = None
    question_types: tuple[str, ...] = ()
    multi_turn: str | None = Field(default=None, description="Follow-up, Clarification or N/A")
    standalone: bool | None = Field(default=None, description="None: not in the data")


def locate(data: Path | None) -> Source:
    """Find the folder to read: `data`, its child `mt-rag-benchmark`, that of `$TURNMARK_DATA`, or the demo split."""
    return jsonl_rows.locate(
        data,
        "mt-rag-benchmark",
        DEMO_ROOT,
        lambda root: any((root / Path(file).parts[0]).is_dir() for file in _TASK_FILES.values()),
        "contains no mtrag-human/, mtragun-human/ or mtrag-synthetic/",
        f"git clone {REPOSITORY} and point --data at the clone",
    )


def _labels(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the labels under a key, a list or one string, however the key is spelled ("Question Type",
    "question_type", …).
    """
    letters = name.replace(" ", "")
    for key, value in row.items():
        if re.sub(r"[^a-z]", "", key.lower()) == letters and value is not None:
            labels = [value] if isinstance(value, str) else value
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise ValueError(f"{key!r} is neither text nor a list of texts")
            return tuple(dict.fromkeys(label.strip() for label in labels if label.strip()))
    return ()


def _label(row: Mapping[str, Any], name: str) -> str | None:
    labels = _labels(row, name)
    if len(labels) > 1:
        raise ValueError(f"expected one {name} label, not {', '.join(map(repr, labels))}")
    return labels[0] if labels else None


def domain_of(collection: str) -> str:
    """Return the domain of a `Collection`: `mt-rag-<domain>-…` or the bare domain; `ibmcloud` becomes `cloud`."""
    name = collection.strip().lower()
    if name.startswith("mt-rag-"):
        name = name.removeprefix("mt-rag-").split("-")[0]
    if not _DOMAIN.match(name):
        raise ValueError(f"'Collection' {collection!r} names no domain")
    return _ALIASES.get(name, name)


def _turn(row: Mapping[str, Any]) -> int:
    value = row.get("turn")
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"'turn' is {value!r}, not a number from 1")
    return value


def _context(item: Mapping[str, Any]) -> MtragContext:
    key, text = jsonl_rows.get_non_blank(item, "document_id"), jsonl_rows.get_string(item, "text", "")
    title = jsonl_rows.get_string({"title": item.get("title") or ""}, "title")
    return MtragContext(document_id=key, title=title, text=text)


def _parse_task(row: JsonRow) -> tuple[str, MtragTask]:
    task_id = canonical_id(jsonl_rows.get_non_blank(row, "task_id"))
    messages: list[Message] = []
    for item in jsonl_rows.get_objects(row, "input"):
        speaker = jsonl_rows.get_string(item, "speaker")
        if speaker not in _SPEAKERS:
            raise ValueError(f"unknown speaker {speaker!r} (expected user or agent)")
        messages.append(Message(role=_SPEAKERS[speaker], content=jsonl_rows.get_string(item, "text")))
    if not messages or messages[-1].role != "user":
        raise ValueError("'input' does not end with a message of the user")
    targets = jsonl_rows.get_objects({"targets": row.get("targets") or []}, "targets")
    contexts = jsonl_rows.get_objects({"contexts": row.get("contexts") or []}, "contexts")
    answerability = _label(row, "answerability")
    if answerability is not None:
        answerability = answerability.upper()
        if answerability not in get_args(Answerability):
            raise ValueError(f"answerability {answerability!r}; there are: {', '.join(get_args(Answerability))}")
    multi_turn = _label(row, "multi turn")
    standalone = _label(row, "standalone type")
    if standalone is not None and standalone.lower() not in ("standalone", "non-standalone"):
        raise ValueError(f"unknown standalone type {standalone!r} (expected Standalone or Non-standalone)")
    return task_id, MtragTask.model_validate({
        "id": task_id,
        "conversation": jsonl_rows.get_string(row, "conversation_id", conversation_of(task_id)),
        "turn": _turn(row),
        "domain": domain_of(jsonl_rows.get_string(row, "Collection", row.get("collection"))),
        "history": tuple(messages[:-1]),
        "question": messages[-1].content,
        "reference": jsonl_rows.get_string(targets[0], "text") if targets else "",
        "contexts": tuple(map(_context, contexts)),
        "answerability": answerability,
        "question_types": _labels(row, "question type"),
        # MTRAG writes "Follow-up", MTRAG-S "Follow Up".
        "multi_turn": "Follow-up" if multi_turn and multi_turn.lower() in ("follow up", "follow-up") else multi_turn,
        "standalone": None if standalone is None else standalone.lower() == "standalone",
    })  # fmt: skip


def _file(root: Path, relative: str, description: str) -> Path:
    return jsonl_rows.require_file(root, relative, description, f"point --data at a clone of {REPOSITORY} that has it")


def load_tasks(root: Path, benchmark: Benchmark) -> LoadedRows[dict[str, MtragTask]]:
    """Read the tasks of a benchmark in the reference setting, by id, in the file's order."""
    relative = _TASK_FILES[benchmark]
    path = _file(root, relative, f"the tasks of {benchmark}")
    return jsonl_rows.collect_rows(jsonl_rows.parse_rows(path, relative, _parse_task), path)


def setting_file(root: Path, benchmark: Benchmark, setting: str) -> Path | None:
    """Return the file of official tasks for a retrieval setting, with the passages that the paper's models were shown.

    None if the clone has no such file, or the setting shows the reference passages.
    """
    name = _SETTING_FILES.get(setting)
    path = (root / _TASK_FILES[benchmark]).with_name(name) if name else None
    return path if path is not None and path.is_file() else None


def setting_file_name(benchmark: Benchmark, setting: str) -> str:
    """Return the path in a clone of the file that `setting_file` looks for."""
    return f"{Path(_TASK_FILES[benchmark]).parent.as_posix()}/{_SETTING_FILES[setting]}"


def load_queries(root: Path, domain: str, mode: Mode) -> LoadedRows[dict[str, str]]:
    """Read MTRAG's recorded queries of a domain: the last turn, Mixtral's rewrite of it, or all questions so far.

    The file is in BEIR format (`{"_id", "text"}` per line); `|user|: ` is stripped from every line of a text. MTRAG-UN
    and MTRAG-S have no recorded queries.
    """

    def parse(row: JsonRow) -> tuple[str, str]:
        text = jsonl_rows.strip_user_marks(row, "text")
        return canonical_id(jsonl_rows.get_non_blank(row, "_id")), text

    name = _check_domain(domain)
    relative = f"mtrag-human/retrieval_tasks/{name}/{name}_{_QUERY_FILES[mode]}.jsonl"
    path = _file(root, relative, f"the recorded {mode} queries of {name}")
    return jsonl_rows.collect_rows(jsonl_rows.parse_rows(path, relative, parse), path)


def load_qrels(root: Path, benchmark: Benchmark, domain: str) -> LoadedRows[dict[str, dict[str, int]]]:
    """Read the relevance labels of a domain: query id -> passage id -> grade. Queries without a relevant passage are
    left out.
    """
    name = _check_domain(domain)
    if benchmark == "mtrag-s":
        raise RequestError(
            "MTRAG-S has no relevance labels, so retrieval cannot be scored on it; use mtrag or mtrag-un"
        )
    folder = "mtrag-human/retrieval_tasks" if benchmark == "mtrag" else "mtragun-human/retrieval_tasks"
    relative = f"{folder}/{name}/qrels/dev.tsv" if benchmark == "mtrag" else f"{folder}/qrels/{name}.tsv"
    path = _file(root, relative, f"the relevance labels of {name}")
    labels: dict[str, dict[str, int]] = {}
    problems: list[Problem] = []
    for number, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        line = raw.removesuffix(b"\r").decode("utf-8", "replace")
        cells = line.split("\t")
        if not line.strip() or (number == 1 and cells[0] == "query-id"):
            continue
        fault = ""
        if len(cells) != 3 or "\ufffd" in line:
            fault = "expected query id, passage id and grade, separated by tabs"
        elif not re.fullmatch(r"-?[0-9]{1,4}", cells[2].strip()):
            fault = f"the grade {cells[2]!r} is not an integer"
        elif cells[1] in labels.get(canonical_id(cells[0]), {}):
            fault = f"query {cells[0]!r} and passage {cells[1]!r} occurred before; the first is kept"
        if fault:
            problems.append(Problem(file=relative, line=number, what=fault))
            continue
        labels.setdefault(canonical_id(cells[0]), {})[cells[1]] = int(cells[2])
    for query, grades in list(labels.items()):
        if max(grades.values()) < 1:
            problems.append(Problem(file=relative, what=f"query {query!r} has no relevant passage; left out"))
            del labels[query]
    return LoadedRows(data=labels, problems=tuple(problems), path=path)


def _check_domain(domain: str) -> str:
    if not _DOMAIN.match(domain):
        raise RequestError(f"invalid domain {domain!r} (expected lower-case letters and digits)")
    return domain


def corpus_path(root: Path, domain: str) -> Path:
    """Return the path of a domain's passages, a BEIR `corpus.jsonl` (passage level, as the paper recommends).

    The repository contains them as zip files; an archive is unpacked into the cache.
    """
    relative = f"corpora/passage_level/{_check_domain(domain)}.jsonl"
    packed = root / f"{relative}.zip"
    if not (root / relative).is_file() and packed.is_file():
        return unzip(packed, f"{domain}.jsonl")
    return _file(root, relative, f"the passages of {domain}")


def labeled_passages(qrels: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Return the ids of the passages that are relevant to some query.

    Args:
        qrels: query id -> passage id -> grade.
    """
    return {passage for grades in qrels.values() for passage, grade in grades.items() if grade > 0}


_PASSAGE_ID = re.compile(rb'"_id"\s*:\s*("(?:[^"\\]|\\.)*")')


def absent_passages(path: Path, ids: Iterable[str]) -> set[str]:
    """Return those of the passage ids that a corpus file does not contain. Only the ids of its rows are read."""
    absent = set(ids)
    with open(path, "rb") as file:
        for line in file:
            match = _PASSAGE_ID.search(line)
            if match is not None:
                absent.discard(json.loads(match[1]))
    return absent


def retrieval_domains(root: Path, benchmark: Benchmark) -> tuple[str, ...]:
    """Return the domains with relevance labels under `root`, sorted. Only file names are read."""
    if benchmark == "mtrag-s":
        return ()
    if benchmark == "mtrag":
        names = [path.parts[-3] for path in (root / "mtrag-human/retrieval_tasks").glob("*/qrels/dev.tsv")]
    else:
        names = [path.stem for path in (root / "mtragun-human/retrieval_tasks/qrels").glob("*.tsv")]
    return tuple(sorted(filter(_DOMAIN.match, names)))
