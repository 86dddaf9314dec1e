"""`turnmark check` as a user runs it: sentences left out without a model, questions with a scripted one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evaluation.synth.player import Player
from tests.servers import ScriptedServer
from turnmark.corpora.text.segmentation import sentences
from turnmark.evaluation.check.index_check import near_copies, rank_of
from turnmark.evaluation.check.result import share
from turnmark.evaluation.check.sentence_sampling import draw_sentences
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.storage.corpus_passages import CorpusTexts
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.changed_copy import copy_with_passages
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Query

GOLDEN = Path(__file__).parent / "golden"
UNKNOWN = "The documents do not say that."
_SECTION = re.compile(r"^\[(\d+)\]\n((?:>.*\n?)+)", re.MULTILINE)


class Reader(Player):
    """Writes questions as a `Player`, and answers with the sentence whose words a question has, if it is shown one."""

    def _unknown(self, parts: dict[str, list[str]], prompt: str) -> str:
        question = re.findall(r"What is known about .*\?", prompt)[-1]
        if "say what the message asks for" in prompt:
            part = {"question": question, "search": [question]}
            return json.dumps({"kind": "question", "leans": False, "rewrite": question, "parts": [part]})
        wanted = set(re.findall(r"[A-Za-z]{4,}", question.removeprefix("What is known about ")))
        for number, quoted in _SECTION.findall(prompt):
            text = quoted.replace("\n>", "\n").removeprefix(">")
            for start, end in sentences(text):
                if wanted <= set(re.findall(r"[A-Za-z]{4,}", text[start:end])):
                    return f"{' '.join(text[start:end].split())} [{number}]"
        return UNKNOWN


@pytest.fixture
def here(in_demo_home: None, tmp_path: Path) -> Path:
    """An empty working directory, and the home with the index `demo`."""
    return tmp_path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """An endpoint that writes questions and answers them."""
    with ScriptedServer(Reader()) as started:
        yield started


def spec(server: ScriptedServer, options: str = "") -> str:
    return f"openai:writer@{server.url}?retries=0{options}"


def masked(screen: str, folder: Path) -> str:
    """A screen without what differs from run to run: seconds, port, hashes."""
    screen = re.sub(r"\d+ s;", "N s;", screen.replace(str(folder), "HERE"))
    screen = re.sub(r"127\.0\.0\.1:\d+", "HOST", screen)
    return re.sub(r"-[0-9a-f]{12}", "-HASH", screen)


def test_removing_a_sentence_in_a_copy_changes_no_other_passage(here):
    index = open_index("demo")
    (left, *_) = draw_sentences(index, 5, seed=0)
    copy = copy_with_passages(index, {left.passage.id: left.rest}, here / "copy")
    row = copy.store.rows_of([left.passage.id])[left.passage.id]
    (passage,) = copy.store.by_rows([row])
    assert left.sentence not in " ".join(passage.text.split())
    assert copy.manifest.passages == index.manifest.passages
    others = [Query(text="how long does sourdough rise"), Query(text="winter ferry timetable")]

    def found(opened: StoredIndex) -> list[list[tuple[str, float]]]:
        lists = open_retriever("dense", opened).search(others, 10)
        return [
            [(hit.passage.id, round(hit.score, 5)) for hit in hits if hit.passage.id != passage.id] for hits in lists
        ]

    assert [hits[:9] for hits in found(copy)] == [hits[:9] for hits in found(index)]
    best = open_retriever("bm25", index).search([Query(text=left.sentence)], 1)[0][0]
    assert best.passage.id == left.passage.id  # with its sentence, finding it would be no test


def test_draws_unique_sentences_of_different_documents_by_seed(here):
    index = open_index("demo")
    drawn = draw_sentences(index, 30, seed=0)
    assert len({left.passage.document for left in drawn}) == 30
    texts = [" ".join(passage.text.split()) for page in index.store.pages() for _, _, passage in page]
    for left in drawn:
        assert sum(left.sentence in text for text in texts) == 1
        assert not left.sentence.startswith(("-", "1.", "|", "#"))
    assert drawn == draw_sentences(index, 30, seed=0)
    assert drawn != draw_sentences(index, 30, seed=1)


def test_repeated_sentences_are_not_drawn(tmp_path):
    sentence = "The kettle stands in the hall beside the stairs and is heated in the evening."
    text = f"{sentence} {'Nobody has ever found out ' * 8}why. {sentence}\n"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "kettle.md").write_text(text, "utf-8")
    build_index(tmp_path / "notes", "twice-check", retriever="bm25")
    assert draw_sentences(open_index("twice-check"), 5, seed=0) == []


def test_checks_retrieval_without_a_model(turnmark, here):
    words = ("check", "demo", "--n", 8, "--out", "mine", "--retriever")
    ran = turnmark(*words, "hybrid")
    assert ran.code == 0, ran.err
    assert masked(ran.out, here) == (GOLDEN / "check-retrieval.txt").read_text("utf-8")
    (file,) = (here / "mine").glob("sentences-*.json")
    first = json.loads(file.read_text("utf-8"))
    assert first["retriever"] == "hybrid"
    found = sum((one["rank"] or 9) <= 3 for one in first["asked"])
    assert f"{found} of 8" in ran.out
    other = turnmark.json(*words, "bm25")
    (compared,) = other["compared"]
    assert (compared["retriever"], compared["found"]["count"]) == ("hybrid", found)
    assert compared["difference"] == (other["found"]["count"] - found) / 8
    assert compared["ci95"][0] <= compared["difference"] <= compared["ci95"][1]
    assert f"hybrid found {found} of 8 of the same sentences" in " ".join(turnmark(*words, "bm25").out.split())


def test_checks_answers_with_a_model(turnmark, here, server):
    words = ("check", "demo", "--n", 5, "--generator", spec(server), "--out", "mine", "--retriever")
    ran = turnmark(*words, "hybrid", "--concurrency", 1)
    assert ran.code == 0, ran.err
    assert masked(ran.out, here) == (GOLDEN / "check-answers.txt").read_text("utf-8")
    before = len(server.seen)
    result = turnmark.json(*words, "hybrid")
    assert len(server.seen) == before  # the same command asks nothing
    assert (result["found"]["n"], result["recognised"]["n"]) == (4, 1)
    # What answers it was hidden, so this reader says that it does not know.
    assert result["recognised"]["count"] == 1
    second = turnmark.json(*words, "bm25")
    assert second["other_runs"] == [result["run"]]
    compared = turnmark("compare", result["run"], second["run"])
    assert compared.code == 0, compared.err


def test_unsupported_answers_are_among_the_worst_questions(turnmark, here):
    class Babbling(Reader):
        def _unknown(self, parts: dict[str, list[str]], prompt: str) -> str:
            reply = super()._unknown(parts, prompt)
            return reply if reply.startswith("{") else "Submarines from Atlantis patrol Neptune. [1]"

    with ScriptedServer(Babbling()) as babbling:
        result = turnmark.json("check", "demo", "--n", 5, "--generator", spec(babbling), "--retriever", "bm25")
    assert (result["supported"]["count"], result["agreeing"]["count"]) == (0, 0)
    assert result["recognised"]["count"] == 0
    assert len(result["worst"]) == 5
    assert result["worst"][0]["kind"] == "hidden"
    assert all("hardly supported" in " ".join(one["why"]) for one in result["worst"])


def test_asking_back_does_not_count_as_an_answer(turnmark, here):
    class Asking(Reader):
        def _unknown(self, parts: dict[str, list[str]], prompt: str) -> str:
            reply = super()._unknown(parts, prompt)
            return reply if reply.startswith("{") else "Which one do you mean?"

    with ScriptedServer(Asking()) as asking:
        ran = turnmark("check", "demo", "--n", 5, "--generator", spec(asking), "--retriever", "bm25")
    assert ran.code == 0, ran.err
    assert "1, of which 0 recognized, 0 hedged, 1 asked back, 0 answered anyway." in " ".join(ran.out.split())


def test_reports_all_mistakes_of_a_check_at_once(turnmark, here):
    ran = turnmark("check", "nope", "--generator", "opnai:x", "--judge", "nobody", "--n", 0, "--budget", "much")
    assert ran.code == 2
    for word in ("nope", "opnai", "nobody", "--n 0", "much"):
        assert word in ran.err
    ran = turnmark("check", "demo", "--judge", "openai:x")
    assert ran.code == 2
    assert "--judge is for answers" in ran.err


def test_refuses_a_folder_with_another_index_or_number(turnmark, here):
    assert turnmark("check", "demo", "--n", 2, "--retriever", "bm25", "--out", "mine").code == 0
    ran = turnmark("check", "demo", "--n", 3, "--retriever", "bm25", "--out", "mine")
    assert ran.code == 2
    assert "n: 2 there, 3 here" in ran.err


def test_notes_that_a_small_index_has_fewer_sentences(turnmark, tmp_path):
    (tmp_path / "notes").mkdir()
    for name in ("kettle", "boiler"):
        words = f"The {name} stands in the hall beside the stairs and is heated by whoever comes."
        more = "Nobody has ever found out " * 8
        (tmp_path / "notes" / f"{name}.md").write_text(f"# The {name}\n\n{words} {more}why.\n", "utf-8")
    build_index(tmp_path / "notes", "small-check", retriever="bm25")
    result = turnmark.json("check", "small-check")
    assert result["found"]["n"] == 2
    assert "2 sentences, not 30" in result["notes"][0]


@pytest.mark.parametrize(("count", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (9, 10, 0.5958, 0.9821)])
def test_interval_is_wilsons(count, n, low, high):
    # Newcombe 1998, method 3, by hand.
    assert share(count, n).ci95 == pytest.approx((low, high), abs=1e-3)
    assert share(0, 0).ci95 is None


@pytest.mark.reader
def test_small_model_writes_and_answers_questions(turnmark, here, reader_path):
    result = turnmark.json("check", "demo", "--n", 2, "--generator", f"local:{reader_path}")
    assert result["found"]["n"] >= 1
    assert result["usage"]["questions, generator"]["calls"] >= 2
    assert Path(result["run"], "report.html").is_file()


def test_joined_section_has_the_text_and_rank_of_its_passages(tmp_path):
    texts = {"a.md-0-4": "# To", "a.md-6-10": "Boil", "a.md-13-18": "Drain", "b-1.md-0-4": "Salt"}
    corpus = tmp_path / "corpus.jsonl"
    rows = (json.dumps({"_id": name, "title": "T", "text": text}) + "\n" for name, text in texts.items())
    corpus.write_text("".join(rows), encoding="utf-8")
    passages = CorpusTexts(corpus)
    joined = passages.get("a.md-6-18")
    assert joined is not None
    assert joined.text.split() == ["Boil", "Drain"]
    assert [passages.get(name) for name in ("a.md-6-17", "a.md-5-18", "c.md-0-4", "count:a.md")] == [None] * 4
    # Sections are shown in the order of their document; the rank is by score.
    shown = [ContextRef(document_id=name, score=score) for name, score in
             (("a.md-0-4", 1.0), ("a.md-6-18", 3.0), ("b-1.md-0-4", 2.0))]  # fmt: skip
    assert [rank_of(shown, [name]) for name in ("a.md-13-18", "b-1.md-0-4", "a.md-0-4", "a.md-20-24")] == [
        1,
        2,
        3,
        None,
    ]


def test_near_copy_of_a_section_is_found_like_the_section():
    text = "Press the red button for 5 seconds. The lamp blinks twice. Then close the lid and wait until it is cold."
    shown = {
        "v2.md-0-9": text.replace("5 seconds", "8 seconds"),  # 3 of its 19 runs of three words are different
        "v3.md-0-9": "Press the red button. Whatever else is to be done is in another chapter of this manual.",
        "none.md-0-9": "",
    }
    assert list(near_copies(text, shown)) == ["v2.md-0-9"]
    assert list(near_copies("", shown)) == []
