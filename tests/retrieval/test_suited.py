"""The embedder of an index fits the languages of its documents, or the build says what to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.assistant.notes import over
from tests.conftest import Turnmark
from tests.corpora.packed import write_packed
from turnmark.corpora.downloads.packed_bert import convert_packed
from turnmark.corpora.downloads.small_models import MODELS, MULTILINGUAL, ModelFile, models_folder
from turnmark.retrieval.embedding.centering import Center, CenteredEmbedder
from turnmark.retrieval.embedding.choose_embedder import foreign_languages
from turnmark.retrieval.embedding.embedders import Embedder, open_embedder
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.storage.manifest import Manifest

GERMAN = (
    "Der Wasserkocher wird jeden Monat mit Essig entkalkt, damit er schneller kocht.",
    "Die Teekanne gehört nicht in die Spülmaschine, weil die Glasur sonst matt wird.",
    "Grüner Tee zieht zwei Minuten in Wasser, das nicht mehr sprudelnd kocht.",
)
ENGLISH = "Descale the kettle with vinegar every month, so that it boils faster than before."
COMMAND = f"turnmark model get {MULTILINGUAL.name}"


@pytest.fixture
def german(tmp_path: Path) -> Path:
    folder = tmp_path / "tee"
    folder.mkdir()
    for number, text in enumerate(GERMAN):
        (folder / f"{number}.md").write_text(f"{text}\n", encoding="utf-8")
    return folder


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a small model in the place of multilingual-e5-small."""
    open_embedder.cache_clear()
    write_packed(tmp_path / "small.bin")
    folder = models_folder() / MULTILINGUAL.name
    convert_packed(tmp_path / "small.bin", folder)
    data = (folder / "config.json").read_bytes()
    pinned = ModelFile(name="config.json", size=len(data), sha256=hashlib.sha256(data).hexdigest())
    monkeypatch.setitem(MODELS, MULTILINGUAL.name, MULTILINGUAL.model_copy(update={"converted": (pinned,)}))
    yield folder
    open_embedder.cache_clear()


def built(turnmark: Turnmark, folder: Path, *more: str) -> dict[str, object]:
    ran = turnmark("index", "build", str(folder), "--name", "tee", "--json", *more)
    assert ran.code == 0
    report: dict[str, object] = json.loads(ran.out)
    return report | {"err": " ".join(ran.err.split())}


def manifest() -> Manifest:
    return open_index("tee").manifest


def spec() -> str:
    embedder = manifest().embedder
    return embedder.spec if embedder else ""


def test_build_over_german_documents_names_the_command_once(turnmark: Turnmark, german: Path):
    report = built(turnmark, german)
    assert spec() == "minilm"
    assert report["advice"] == (
        "3 of 3 passages are in languages that the embedder minilm does not know (de); for better search: "
        f"{COMMAND}, then the same build again"
    )
    assert str(report["err"]).count(COMMAND) == 1


def test_same_build_again_uses_the_fetched_embedder(turnmark: Turnmark, german: Path, request: pytest.FixtureRequest):
    built(turnmark, german)
    request.getfixturevalue("fetched")
    report = built(turnmark, german)
    assert (spec(), report["advice"], report["embedded"]) == (MULTILINGUAL.name, "", report["passages"])
    assert built(turnmark, german)["unchanged"]


def test_build_in_python_warns(german: Path, caplog: pytest.LogCaptureFixture):
    Index.build(german, "tee")
    assert [record.getMessage() for record in caplog.records if record.name == "turnmark"] == [
        "index tee: 3 of 3 passages are in languages that the embedder minilm does not know (de); for better search: "
        f"{COMMAND}, then the same build again"
    ]


@pytest.mark.usefixtures("fetched")
def test_first_build_uses_the_fetched_embedder_for_german_and_minilm_for_english(turnmark: Turnmark, german: Path):
    built(turnmark, german)
    assert spec() == MULTILINGUAL.name
    english = german.with_name("tea")
    english.mkdir()
    (english / "kettle.md").write_text(ENGLISH, encoding="utf-8")
    assert turnmark("index", "build", str(english), "--name", "tea").code == 0
    embedder = open_index("tea").manifest.embedder
    assert embedder is not None
    assert embedder.spec == "minilm"


@pytest.mark.usefixtures("fetched")
def test_named_embedder_is_kept_and_the_advice_names_the_other(turnmark: Turnmark, german: Path):
    report = built(turnmark, german, "--embedder", "minilm")
    assert spec() == "minilm"
    assert str(report["advice"]).endswith(f"the build with --embedder {MULTILINGUAL.name}")


def test_index_without_vectors_gets_no_advice(turnmark: Turnmark, german: Path):
    assert built(turnmark, german, "--retriever", "bm25")["advice"] == ""


def test_first_question_in_another_language_than_the_documents_names_the_command(tmp_path: Path):
    note = (
        "the question is in German and most documents are in English, which the embedder minilm does not compare; for "
        f"better search: {COMMAND}, then turnmark index build FOLDER --name n --embedder {MULTILINGUAL.name}"
    )
    files = {f"page{number}": f"# Page {number}\n\n{ENGLISH} This is number {number}.\n" for number in range(9)}
    assistant = over(tmp_path, retriever="conversational", tee=f"# Tee\n\n{GERMAN[2]}\n", **files)
    chat = assistant.chat()
    answered = chat.ask("Wie lange zieht grüner Tee?")
    assert (answered.decision, answered.notes) == ("answer", (note,))
    assert chat.ask("Wie lange zieht grüner Tee?").notes == ()
    assert note in chat.ask("Wie wird der Wasserkocher entkalkt?").notes, "it is said wherever the answer is not sure"
    assert assistant.chat().ask("How is the kettle descaled?").notes == ()


def test_a_fifth_of_the_passages_decides():
    assert foreign_languages("minilm", {"en": 8, "de": 2}) == ("de",)
    assert foreign_languages("minilm", {"en": 9, "de": 1}) == ()
    assert foreign_languages("minilm", {"": 9}) == ()
    assert foreign_languages(MULTILINGUAL.name, {"de": 9}) == ()


def test_centered_vectors_lack_the_common_direction_and_that_of_the_language():
    common, language, topic = np.eye(3, dtype=np.float32)
    means = np.tile(common, (2, 2, 1))
    center = Center(means, language[None])
    vectors = center.texts(np.stack([common + language + topic, common - language + topic]), "query")
    assert np.allclose(vectors, [topic, topic])
    assert np.allclose(center.tokens((common + 2 * topic)[None], "passage"), topic)


def test_unrelated_texts_have_low_cosines_after_centering(fetched: Path):
    plain, centered = Embedder(fetched, "small"), CenteredEmbedder(fetched, "small")
    texts = [*GERMAN, ENGLISH, "teapots", "½ tea"]
    before, after = plain.encode(texts, "passage"), centered.encode(texts, "passage")
    others = ~np.eye(len(texts), dtype=bool)
    assert (after @ after.T)[others].mean() < (before @ before.T)[others].mean() - 0.1
    assert np.allclose(np.linalg.norm(after, axis=1), 1, atol=1e-5)
    assert np.allclose(CenteredEmbedder(fetched, "small").encode(texts, "passage"), after, atol=1e-4)  # from the cache
    vectors, tokens, ids = centered.encode_both(texts, "passage")
    assert np.allclose(vectors, after, atol=1e-2)
    assert [len(rows) for rows in tokens] == [len(numbers) for numbers in ids]
