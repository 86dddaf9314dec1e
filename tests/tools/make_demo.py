"""Regenerate the demo's `mt-rag-benchmark/` folder from `documents/` and `conversations.json`.

The folder has the layout and the field spelling of IBM/mt-rag-benchmark, so the code that reads the real
benchmark reads this one unchanged. The output depends on nothing but the two sources: no clock, no random
number, no order of a directory listing.
"""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEMO_ROOT = Path(__file__).resolve().parents[2] / "turnmark" / "corpora" / "demo"
LIMIT = 1200
"""Maximum characters of a section; a longer one is split at the end of a paragraph or list."""
DATASET = "Turnmark demo"
DOMAINS = ("handbook", "almanac")
SPLITS = ("mtrag-human", "mtragun-human", "mtrag-synthetic")
WITH_PASSAGES = ("ANSWERABLE", "PARTIAL")
ANSWERABILITY = (*WITH_PASSAGES, "UNANSWERABLE", "UNDERSPECIFIED", "CONVERSATIONAL")
FOLLOWING = ("Follow-up", "Clarification")
QUESTION_TYPES = {"Comparative", "Composite", "Explanation", "Factoid", "How-To", "Keyword", "Non-Question", "Opinion"}
QUESTION_TYPES |= {"Summarization", "Troubleshooting"}
TURN_FIELDS = {"user", "agent", "rewrite", "standalone", "answerability", "question_type", "multi_turn", "relevant"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Passage:
    """A stretch of one document; `body` is the document from `start` to `end`, counted in characters."""

    document: str
    section: str
    title: str
    start: int
    end: int
    body: str

    @property
    def id(self) -> str:
        return f"{Path(self.document).stem}-{self.start}-{self.end}"

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.body}"


def headings(raw: str) -> Iterator[tuple[int, int, int, str]]:
    """Level, start, end and text of each first- and second-level heading, `#` or underlined, outside code fences."""
    offset, before, fenced = 0, "", False
    for line in raw.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        elif not fenced and (match := re.fullmatch(r"(##?) +(.+)", bare)):
            yield len(match[1]), offset, offset + len(line), match[2]
        elif not fenced and before.strip() and re.fullmatch(r"=+|-{3,}", bare):
            yield 1 if bare[0] == "=" else 2, offset - len(before), offset + len(line), before.strip()
        before = line
        offset += len(line)


def pieces(raw: str, start: int, body: int, end: int) -> Iterator[tuple[int, int]]:
    """The offsets of a section's passages: as few as the limit allows; a heading stays with what it heads."""
    first, last = start, start
    for stop in [*(body + m.start() for m in re.finditer(r"\n\s*\n", raw[body:end])), end]:
        if stop - first > LIMIT and last > first:
            yield first, last
            first = last + len(raw[last:end]) - len(raw[last:end].lstrip())
        last = stop
    yield first, end


def passages(folder: Path, document: str) -> list[Passage]:
    """One document's passages: the lead (section "") and each second-level section, outer white space left out."""
    raw = (folder / document).read_text(encoding="utf-8")
    title, *sections = list(headings(raw)) or [(0, 0, 0, "")]
    if title[0] != 1 or any(level != 2 for level, *_ in sections):
        raise ValueError(f"{document}: wants one first-level heading, before all second-level ones")
    starts = [(title[2], title[2], "")] + [(start, end, text) for _, start, end, text in sections]
    parts = []
    for (start, body, section), (stop, *_) in zip(starts, [*starts[1:], (len(raw), 0, "")], strict=True):
        start += len(raw[start:stop]) - len(raw[start:stop].lstrip())
        body = max(start, body + len(raw[body:stop]) - len(raw[body:stop].lstrip()))
        stop = start + len(raw[start:stop].rstrip())
        if start < stop:
            cuts = pieces(raw, start, body, stop)
            parts += [Passage(document, section, title[3], begin, right, raw[begin:right]) for begin, right in cuts]
    return parts


def problems(conversations: list[Row], sections: set[tuple[str, str]]) -> Iterator[str]:
    """Everything that is wrong with the conversations, one line each; `known` holds the (document, section) pairs."""
    names = [conversation["name"] for conversation in conversations]
    yield from (f"{name}: name used twice" for name in sorted({n for n in names if names.count(n) > 1}))
    documents = {document for document, _ in sections}
    for conversation in conversations:
        if conversation["split"] not in SPLITS or conversation["domain"] not in DOMAINS:
            yield f"{conversation['name']}: unknown split or domain"
        for number, turn in enumerate(conversation["turns"], 1):
            place = f"{conversation['name']}, turn {number}"
            if set(turn) != TURN_FIELDS:
                yield f"{place}: fields missing or unknown: {', '.join(sorted(set(turn) ^ TURN_FIELDS))}"
                continue
            if not all(turn[key].strip() for key in ("user", "agent", "rewrite")):
                yield f"{place}: an empty text"
            if turn["standalone"] != (turn["rewrite"] == turn["user"]):
                yield f"{place}: a turn is standalone exactly where its rewrite is the turn itself"
            if turn["answerability"] not in ANSWERABILITY:
                yield f"{place}: unknown answerability {turn['answerability']!r}"
            if not turn["question_type"] or set(turn["question_type"]) - QUESTION_TYPES:
                yield f"{place}: unknown or no question type: {turn['question_type']}"
            if turn["multi_turn"] not in (("N/A",) if number == 1 else FOLLOWING):
                yield f"{place}: multi_turn {turn['multi_turn']!r} (N/A on first turns, and only there)"
            if bool(turn["relevant"]) != (turn["answerability"] in WITH_PASSAGES):
                yield f"{place}: {turn['answerability']} with {len(turn['relevant'])} relevant sections"
            for document, section in ((r["document"], r["section"]) for r in turn["relevant"]):
                if document not in documents:
                    yield f"{place}: unknown document {document!r}"
                elif (document, section) not in sections:
                    yield f"{place}: no section {section!r} in {document}"
                elif not document.startswith(conversation["domain"] + "/"):
                    yield f"{place}: {document} is outside the domain {conversation['domain']}"


def speech(speaker: str, text: str) -> Row:
    """One turn as the benchmark spells it; the zero stands where the benchmark has a time stamp."""
    return {
        "speaker": speaker,
        "text": text,
        "metadata": {"author_type": "model", "author_id": "turnmark-demo", "created_at": 0},
    }


def task(conversation: Row, number: int, relevant: list[Passage]) -> Row:
    """One generation task: the turns up to `number`, its passages, its reference answer and its labels."""
    split, domain, turn = conversation["split"], conversation["domain"], conversation["turns"][number - 1]
    identifier = hashlib.sha1(conversation["name"].encode(), usedforsecurity=False).hexdigest()[:32]
    contexts: list[Row] = [{"document_id": p.id, "text": p.text, "title": p.title, "score": 1.0} for p in relevant]
    absent = {"mtrag-human": (), "mtragun-human": ("score",), "mtrag-synthetic": ("title", "score")}[split]
    synthetic_spelling = {"Follow-up": "Follow Up"} if split == "mtrag-synthetic" else {}
    utterances = [(speaker, t[speaker]) for t in conversation["turns"][:number] for speaker in ("user", "agent")]
    return {
        "conversation_id": identifier,
        "task_id": f"{identifier}<::>{number}",
        "task_type": "rag",
        "turn": str(number),
        "dataset": DATASET,
        "contexts": [{key: value for key, value in c.items() if key not in absent} for c in contexts],
        "input": [speech(*turn_said) for turn_said in utterances[:-1]],
        "targets": [speech(*utterances[-1])],
        "Multi-Turn": [synthetic_spelling.get(turn["multi_turn"], turn["multi_turn"])],
        "Question Type": turn["question_type"],
        "answerability" if split == "mtragun-human" else "Answerability": [turn["answerability"]],
        "Collection": domain if split == "mtragun-human" else f"mt-rag-{domain}-demo",
    }


def write(path: Path, lines: Iterable[str | Row]) -> None:
    """Write one JSON row per line, always UTF-8 with line feeds, so that the bytes are the same everywhere."""
    texts = (line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="\n")


def build(source: Path, target: Path) -> None:
    """Write the benchmark folder to `target`, or exit with all mistakes in `source` and write nothing."""
    folder = source / "documents"
    complaints: list[str] = []
    corpus: dict[str, list[Passage]] = {domain: [] for domain in DOMAINS}
    for file in (file for domain in DOMAINS for file in sorted((folder / domain).glob("*.md"))):
        try:
            corpus[file.parent.name] += passages(folder, f"{file.parent.name}/{file.name}")
        except ValueError as error:
            complaints.append(str(error))
    conversations: list[Row] = json.loads((source / "conversations.json").read_text(encoding="utf-8"))
    sections: dict[tuple[str, str], list[Passage]] = {}
    for passage in (p for domain in DOMAINS for p in corpus[domain]):
        sections.setdefault((passage.document, passage.section), []).append(passage)
    if complaints := [*complaints, *problems(conversations, set(sections))]:
        raise SystemExit("\n".join(["demo corpus refused:", *complaints]))

    tasks: dict[str, list[Row]] = {split: [] for split in SPLITS}
    retrieval: dict[tuple[str, str], list[tuple[Row, Row]]] = {(s, d): [] for s in SPLITS for d in DOMAINS}
    for conversation in conversations:
        for number, turn in enumerate(conversation["turns"], 1):
            keys = dict.fromkeys((r["document"], r["section"]) for r in turn["relevant"])
            row = task(conversation, number, [p for key in keys for p in sections[key]])
            tasks[conversation["split"]].append(row)
            if row["contexts"]:
                retrieval[conversation["split"], conversation["domain"]].append((row, turn))

    for split in SPLITS:
        name = "synthetic" if split == "mtrag-synthetic" else "reference"
        write(target / split / "generation_tasks" / f"{name}.jsonl", tasks[split])
    for domain in DOMAINS:
        rows = ({"_id": p.id, "title": p.title, "text": p.text} for p in corpus[domain])
        write(target / "corpora" / "passage_level" / f"{domain}.jsonl", rows)
        for split, qrels in (("mtrag-human", f"{domain}/qrels/dev.tsv"), ("mtragun-human", f"qrels/{domain}.tsv")):
            asked_here = (row for row, _ in retrieval[split, domain])
            judged = (f"{row['task_id']}\t{c['document_id']}\t1" for row in asked_here for c in row["contexts"])
            write(target / split / "retrieval_tasks" / qrels, ["query-id\tcorpus-id\tscore", *judged])
        queries: dict[str, list[Row]] = {"lastturn": [], "rewrite": [], "questions": []}
        for row, turn in retrieval["mtrag-human", domain]:
            questions = [s["text"] for s in row["input"] if s["speaker"] == "user"]
            for kind, texts in (("lastturn", questions[-1:]), ("rewrite", [turn["rewrite"]]), ("questions", questions)):
                queries[kind].append({"_id": row["task_id"], "text": "\n".join(f"|user|: {text}" for text in texts)})
        for kind, entries in queries.items():
            write(target / "mtrag-human" / "retrieval_tasks" / domain / f"{domain}_{kind}.jsonl", entries)


def main() -> None:
    """Build next to the old folder first, so that a refused source leaves the old one unchanged."""
    fresh, target = DEMO_ROOT / ".mt-rag-benchmark.new", DEMO_ROOT / "mt-rag-benchmark"
    shutil.rmtree(fresh, ignore_errors=True)
    build(DEMO_ROOT, fresh)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    sys.stderr.write(f"wrote {target}\n")


if __name__ == "__main__":
    main()
