"""The page of a citation: its number, a link to it and a picture of it."""

from __future__ import annotations

import io
import re
from importlib.resources import files
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image
from rich.console import Console
from starlette.testclient import TestClient

from tests.assistant.manual import FIRST, SECOND, write_manual
from tests.corpora.made import scan
from tests.corpora.reading import read_pdf
from tests.opened import served_models
from turnmark.assistant.citations.cited_places import cited_page, cited_text
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.repl.screen import TurnView
from turnmark.assistant.serving.added_files import AddedFiles
from turnmark.assistant.serving.app import PAGE_SCRIPTS, make_app
from turnmark.assistant.serving.citation_pictures import PictureRequest, cited_picture
from turnmark.assistant.serving.request_bodies import RejectedRequest, parse
from turnmark.assistant.serving.served_builds import ServedBuilds
from turnmark.assistant.sessions.conversation import source_url
from turnmark.assistant.steps.retrieve.retrieve_sections import join_passages
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Checks, Judgment, Reply, Trace
from turnmark.core.record import Record
from turnmark.corpora.chunking import chunk, regex_tokens
from turnmark.corpora.readers.pdf.page_picture import HIGHLIGHT_COLOR, page_picture
from turnmark.corpora.types import Document, Passage
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("car")
    (folder / "notes").mkdir()
    write_manual(folder / "notes" / "wheel.pdf")
    (folder / "notes" / "tyres.md").write_text("# Tyres\n\nWinter tyres go on in October.\n")
    (folder / "secret.pdf").write_bytes(b"%PDF")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder / "home"))
        build_index(folder / "notes", "car", retriever="bm25")
        return Index.open("car")


def test_passage_knows_where_its_pages_begin() -> None:
    text = "one one\n\ntwo two\n\nfour four"
    document = Document(id="a", title="A", text=text, pages=(0, 9, 18, 18))
    (passage,) = chunk(document, regex_tokens)
    assert passage.page_texts() == [(1, "one one\n\n"), (2, "two two\n\n"), (3, ""), (4, "four four")]


def test_joined_passages_know_all_of_their_pages() -> None:
    text = "one one\n\ntwo two"
    pages = (0, 9)
    document = Document(id="a", title="A", text=text, pages=pages)
    first = Passage(id="a-0-7", document="a", title="A", text=text[:7], start=0, end=7, page=1)
    second = Passage(id="a-9-16", document="a", title="A", text=text[9:], start=9, end=16, page=2)
    joined = join_passages([first, second])
    assert joined.text == document.text
    assert joined.page_texts() == [(1, "one one\n\n"), (2, "two two")]


def test_citation_has_the_page_of_its_sentence(index: Index) -> None:
    assistant = Assistant.from_config(AssistantConfig(index="car"), index=index)
    pages = {
        question: assistant.reply([], question).citations[0].page
        for question in ("When do I loosen the wheel nuts?", "How many newton metres for the wheel nuts?")
    }
    assert set(pages.values()) <= {1, 2}
    stored = index.store.of_document("wheel.pdf")
    joined = join_passages(stored)
    assert cited_page(joined, 1, f"{FIRST} [1]\n\n{SECOND} [2]") == 1
    assert cited_page(joined, 1, f"{FIRST} [2]\n\n{SECOND} [1]") == 2
    assert cited_page(joined, 1, "It says so. [1]") == 1


def test_mark_covers_the_paragraphs_before_it() -> None:
    answer = "Title\nOne.\n\nTwo.\n\n[1]\n\nThree. [2]"
    assert cited_text(answer, 1).split() == ["Title", "One.", "Two."]
    assert cited_text(answer, 2) == "Three."


def test_source_in_a_terminal_links_to_its_page(index: Index) -> None:
    assistant = Assistant.from_config(AssistantConfig(index="car"), index=index)
    reply = assistant.reply([], "How are the wheel nuts tightened crosswise?")
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="standard")
    with TurnView(console, streaming=False, index=index) as view:
        view.finish(reply)
    file = (Path(index.manifest.source) / "wheel.pdf").as_uri()
    assert f";{file}#page=" in out.getvalue()
    tyres = assistant.reply([], "When do winter tyres go on?").citations[0]
    assert source_url(index, tyres) == (Path(index.manifest.source) / "tyres.md").as_uri()


def test_links_never_leave_the_source_folder(index: Index) -> None:
    secret = Path(index.manifest.source).parent / "secret.pdf"
    assert secret.exists()
    assert [index.parts[0].source_file(path) for path in ("../secret.pdf", str(secret), "gone.pdf", "")] == [None] * 4


def marked_share(png: bytes, top: float, bottom: float) -> float:
    """Return the share of highlighted pixels in a band of a picture."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    band = image.crop((0, int(top * image.height), image.width, int(bottom * image.height)))
    colours = band.getcolors(band.width * band.height) or []
    return sum(count for count, colour in colours if colour == HIGHLIGHT_COLOR) / (band.width * band.height)


def test_page_picture_marks_the_passage(index: Index) -> None:
    text = "\n".join(passage.text for passage in index.store.of_document("wheel.pdf"))
    start = index.store.of_document("wheel.pdf")[0].start
    end = start + text.index("A torque")
    png = cited_picture(index, PictureRequest(document="wheel.pdf", page=1, start=start, end=end)).content
    assert png.startswith(b"\x89PNG")
    assert marked_share(png, 0.37, 0.42) > 0.2
    assert marked_share(png, 0.7, 0.9) == 0


def test_rotated_page_is_marked_at_its_text(tmp_path: Path) -> None:
    write_manual(tmp_path / "manual.pdf")
    with pypdfium2.PdfDocument(tmp_path / "manual.pdf") as document:
        document[0].set_rotation(90)
        document.save(tmp_path / "turned.pdf")
    buffer = io.BytesIO(page_picture(tmp_path / "turned.pdf", 1, FIRST))
    image = Image.open(buffer)
    assert image.width > image.height
    column = image.crop((int(0.55 * image.width), 0, int(0.65 * image.width), image.height))
    assert HIGHLIGHT_COLOR in {
        colour for _, colour in column.convert("RGB").getcolors(column.width * column.height) or []
    }
    assert marked_share(buffer.getvalue(), 0, 1) < 0.1


def test_scanned_page_is_marked_where_ocr_found_the_text(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    scan(path, ["The mill has three gates.", "Each is shut at night.", "The keeper has fourteen keys."])
    assert marked_share(page_picture(path, 1, "Each is shut at night."), 0, 1) == 0
    assert "Each is shut at night." in read_pdf(path, path.name).text
    png = page_picture(path, 1, "Each is shut at night.")
    assert marked_share(png, 0.12, 0.16) > 0.05
    assert marked_share(png, 0, 0.115) == marked_share(png, 0.165, 1) == 0


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "document: Field required"),
        ({"document": "wheel.pdf"}, "expected a page or a picture"),
        ({"document": "wheel.pdf", "picture": "../../manifest.json"}, "picture: String should match pattern"),
        ({"document": "wheel.pdf", "picture": 64 * "a"}, "no such picture"),
        ({"document": "wheel.pdf", "page": "x", "start": "0", "end": "9"}, "page: Input should be a valid integer"),
        ({"document": "wheel.pdf", "page": "9", "start": "0", "end": "9"}, "has no page 9; it has 2"),
        ({"document": "tyres.md", "page": "1", "start": "0", "end": "9"}, "no page can be drawn"),
        ({"document": "../x.pdf", "page": "1", "start": "0", "end": "9"}, "no page can be drawn"),
    ],
)
def test_refuses_invalid_picture_requests(index: Index, parameters: dict[str, str], says: str) -> None:
    with pytest.raises(RejectedRequest) as raised:
        cited_picture(index, parse(PictureRequest.model_validate_strings, parameters))
    assert all(part in str(raised.value) for part in says.split("; "))


def page_scripts() -> list[str]:
    """Return the scripts of the page, in the order in which it loads them."""
    folder = files("turnmark.assistant.serving").joinpath("page")
    loaded = re.findall(r'<script src="([^"]+)"', folder.joinpath("index.html").read_text(encoding="utf-8"))
    assert tuple(loaded) == PAGE_SCRIPTS
    return [folder.joinpath(script).read_text(encoding="utf-8") for script in loaded]


def test_page_requests_only_addresses_that_the_server_has(index: Index) -> None:
    requested = set(re.findall(r"\b(v1/[a-z/]+)", "\n".join(page_scripts())))
    models = served_models(Assistant(index))
    builds = ServedBuilds(models, lambda _: None), AddedFiles([])
    served = make_app(models, "localhost", None, lambda: None, builds=builds)
    assert {"v1/chat/completions", "v1/document", "v1/files", "v1/build", "v1/watch", "v1/why"} < requested
    with TestClient(served, base_url="http://localhost") as client:
        answers = {path: client.get(f"/{path}?document=tyres.md").text for path in requested}
    assert [path for path, answer in answers.items() if "this address does not exist" in answer] == []


def test_page_scripts_use_only_elements_of_the_page() -> None:
    page = files("turnmark.assistant.serving").joinpath("page", "index.html").read_text(encoding="utf-8")
    used = set(re.findall(r'\$\("([\w-]+)"\)', "\n".join(page_scripts())))
    assert "message" in used
    assert used <= set(re.findall(r'id="([\w-]+)"', page))


@pytest.mark.parametrize(
    ("variable", "record"), [("reply", Reply), ("trace", Trace), ("judged", Judgment), ("reply.checks", Checks)]
)
def test_page_reads_only_fields_that_replies_have(variable: str, record: type[Record]) -> None:
    script = "\n".join(page_scripts())
    read = set(re.findall(rf"\b{re.escape(variable)}\.(\w+)", script))
    assert read
    assert read <= set(record.model_fields)
