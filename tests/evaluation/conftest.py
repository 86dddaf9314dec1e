"""A benchmark of seven queries in two domains, in the official layout, and a retriever that counts shared words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation import compared
from tests.evaluation.compared import IDS, shifted
from tests.evaluation.reported import write_run
from tests.run_checker import problems_of_run
from turnmark.corpora.types import Passage
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.storage import corpus_passages
from turnmark.retrieval.types import Hit, Query, Retriever

# conversation, turn, domain, question, rewrite, answerability, question types, multi-turn, relevant passages
TURNS: list[tuple[str, int, str, str, str, str, list[str], str, list[str]]] = [
    ("c1", 1, "clapnq", "who made the bell", "who made the bell", "ANSWERABLE", ["Factoid"], "N/A", ["p1"]),
    ("c1", 2, "clapnq", "when was it cast", "when was the bell cast", "ANSWERABLE", ["Factoid", "Keyword"], "Follow-up",
     ["p2", "p3"]),
    ("c1", 3, "clapnq", "thanks a lot", "thanks a lot", "CONVERSATIONAL", ["Non-Question"], "Follow-up", []),
    ("c2", 1, "clapnq", "how tall is the tower", "how tall is the tower", "PARTIAL", ["Factoid"], "N/A", ["p4"]),
    ("c2", 2, "clapnq", "who owns it now", "who owns the tower now", "UNANSWERABLE", ["Factoid"], "Follow-up", []),
    ("c3", 1, "fiqa", "what is a bond", "what is a bond", "ANSWERABLE", ["Explanation"], "N/A", ["f1", "f2"]),
    ("c3", 2, "fiqa", "is it safe", "is a bond safe", "ANSWERABLE", ["Opinion"], "Clarification", ["f2"]),
    ("c4", 1, "fiqa", "what is a share", "what is a share", "ANSWERABLE", ["Explanation"], "N/A", ["f3"]),
    ("c4", 2, "fiqa", "and a dividend", "what is a dividend", "PARTIAL", ["Explanation"], "Follow-up", ["f4"]),
]  # fmt: skip
# Reference answers; in later turns' histories the system said "answer N".
REFERENCES = {
    "c1<::>1": "A founder in London made the bell.", "c1<::>2": "The bell was cast in 1858.",
    "c1<::>3": "You're welcome.", "c2<::>1": "It is 96 metres tall.", "c2<::>2": "I do not know.",
    "c3<::>1": "A bond is a loan.", "c3<::>2": "It is safe if the company is.",
    "c4<::>1": "A share is a part of a company.", "c4<::>2": "It is paid on shares.",
}  # fmt: skip
PASSAGES = {
    "clapnq": {
        "p1": "the bell was made by a founder in London", "p2": "the bell was cast in 1858",
        "p3": "cast twice, in fact", "p4": "the tower is 96 metres tall", "p5": "a tower has a clock",
        "p6": "who made the clock",
    },
    "fiqa": {
        "f1": "a bond is a loan to a company", "f2": "a bond is safe if the company is",
        "f3": "a share is a part of it",
        "f4": "a dividend is paid on each share", "f5": "what is safe is dull",
    },
}  # fmt: skip


def _write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_benchmark(root: Path, turns: list[Any] = TURNS) -> Path:
    """Write the benchmark as `mtrag-human` and, with MTRAG-UN's spellings, as `mtragun-human`."""
    for folder, key in (("mtrag-human", "Answerability"), ("mtragun-human", "answerability")):
        rows, history = [], {}
        for conversation, turn, domain, question, _, answerability, kinds, multi, relevant in turns:
            name = f"{conversation}<::>{turn}"
            contexts = [
                {"document_id": passage_id, "title": "", "text": PASSAGES[domain][passage_id]}
                for passage_id in relevant
            ]
            messages = [*history.get(conversation, []), {"speaker": "user", "text": question}]
            rows.append({
                "conversation_id": conversation, "task_id": name, "turn": str(turn),
                "contexts": contexts, "input": messages,
                "targets": [{"speaker": "agent", "text": REFERENCES.get(name, f"answer {turn}")}],
                "Question Type": kinds, "Multi-Turn": [multi], key: [answerability],
                "Collection": f"mt-rag-{domain}-elser-512-100-20240503" if key[0] == "A" else domain,
            })  # fmt: skip
            history[conversation] = [*messages, {"speaker": "agent", "text": f"answer {turn}"}]
        _write(root / folder / "generation_tasks/reference.jsonl", rows)
    for domain in PASSAGES:
        mine = [row for row in turns if row[2] == domain and row[8]]
        labels = [f"{row[0]}<::>{row[1]}\t{passage}\t1\n" for row in mine for passage in row[8]]
        qrels = "query-id\tcorpus-id\tscore\n" + "".join(labels)
        human = root / "mtrag-human/retrieval_tasks" / domain
        for path in (human / "qrels/dev.tsv", root / f"mtragun-human/retrieval_tasks/qrels/{domain}.tsv"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(qrels, encoding="utf-8")
        ids = [f"{row[0]}<::>{row[1]}" for row in mine]
        texts = [{"_id": i, "text": f"|user|: {row[3]}"} for i, row in zip(ids, mine, strict=True)]
        _write(human / f"{domain}_lastturn.jsonl", texts)
        texts = [{"_id": i, "text": f"|user|: {row[4]}"} for i, row in zip(ids, mine, strict=True)]
        _write(human / f"{domain}_rewrite.jsonl", texts)
        passages = [{"_id": key, "title": "", "text": text} for key, text in PASSAGES[domain].items()]
        _write(root / f"corpora/passage_level/{domain}.jsonl", passages)
    return root


class WordCount(Retriever):
    """Scores a passage by the words it shares with the query; remembers every query."""

    name = "word-count"

    def __init__(self, corpus: Path) -> None:
        self.passages = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
        self.asked: list[Query] = []

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        self.asked.extend(queries)
        return [self._one(set(re.findall(r"\w+", query.text)), top_k) for query in queries]

    def _one(self, words: set[str], k: int) -> list[Hit]:
        hits = []
        for row in self.passages:
            shared = words & set(re.findall(r"\w+", row["text"]))
            passage = Passage(id=row["_id"], document=row["_id"], title="", text=row["text"], start=0, end=1)
            hits += [Hit(passage=passage, score=len(shared))] if shared else []
        return sorted(hits, key=lambda hit: -hit.score)[:k]


class Opener:
    """Stands in for `open_corpus`, counting how often it is asked."""

    def __init__(self) -> None:
        self.opened: list[WordCount] = []

    def __call__(self, corpus: Path, retriever: str, embedder: str) -> tuple[WordCount, str]:
        self.opened.append(WordCount(corpus))
        return self.opened[-1], f"index of {corpus.stem}"

    @property
    def asked(self) -> list[str]:
        return [query.text for retriever in self.opened for query in retriever.asked]


def searched(plan: Plan, opener: Callable[..., Any]) -> Any:
    """What `run_plan` gives, with a stand-in for what opens a corpus."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_passages, "open_corpus", opener)
        return benchmark_run.run_plan(plan)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go there where no place is named. A scripted endpoint takes any key, and waits for no retry."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)
    monkeypatch.setattr("turnmark.assistant.llm.generators.openai.BROKEN_REPLY_WAIT_SECONDS", 0.02)


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def benchmark_root(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "mt-rag-benchmark")


@pytest.fixture
def check_run() -> Callable[[Path], None]:
    """Asserts that a run folder keeps the contract for files."""

    def check(run: Path) -> None:
        assert problems_of_run(run) == []

    return check


@pytest.fixture
def stored_run(tmp_path: Path) -> Path:
    """The folder of a finished run, as far as reports read it."""
    return write_run(tmp_path / "run")


@pytest.fixture
def three_runs(tmp_path: Path) -> list[Path]:
    """Finished runs over the same samples: a base, a better one, and one that is a little better."""
    shifts = {"base": 0, "better": 0.3, "little": 0.1}
    return [
        compared.write_run(tmp_path / name, {**shifted(shift), "answer_words": dict.fromkeys(IDS, 40.0 + index)})
        for index, (name, shift) in enumerate(shifts.items())
    ]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and a vocabulary of a few words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    words = "the a ferry boat leaves sails at noon eleven dog on deck and is free of charge bell was made in".split()
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def searching(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Retrievers that count shared words, and what they were asked."""
    monkeypatch.setattr(corpus_passages, "open_corpus", opener)
    return opener
