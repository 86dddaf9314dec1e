"""Citations of descriptions of pictures: in replies, in a terminal, and on the page of `serve`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from rich.console import Console
from starlette.testclient import TestClient

from tests.assistant.manual import write_manual
from tests.drawn import DescribesPictures, draw_bars
from tests.opened import assistant_over, served_models
from tests.servers import ScriptedServer
from turnmark.assistant.repl.screen import TurnView
from turnmark.assistant.serving.app import make_app
from turnmark.assistant.serving.citation_pictures import PictureRequest, cited_picture
from turnmark.assistant.sessions.conversation import picture_url
from turnmark.assistant.types import Reply
from turnmark.corpora.readers.pdf.page_picture import FRAME, page_picture
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Return an index over a page with two described pictures."""
    folder = tmp_path_factory.mktemp("kettle") / "notes"
    weeks = draw_bars(folder / "weeks.png", 60, 20)
    lid = draw_bars(folder / "lid.png", 10, 90)
    (folder / "kettle.md").write_text(
        "# Kettle\n\nA kettle boils water.\n\n![The lid](lid.png)\n\nIts care:\n\n![Weeks by water](weeks.png)\n"
    )
    (folder / "lamp.md").write_text("# Lamp\n\nA lamp gives light.\n")
    replies = {
        weeks: "A chart: with soft water descale every twelve weeks.",
        lid: "A photo of a steel lid, 14 cm wide.",
    }
    with ScriptedServer(DescribesPictures(replies)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder.parent / "home"))
        build_index(folder, "notes", retriever="bm25", describe=f"openai:eyes@{server.url}")
        return Index.open("notes")


def asked(index: Index, question: str) -> Reply:
    return assistant_over(index).reply([], question)


def test_citation_names_the_picture_that_the_answer_is_about_first(index):
    citation = asked(index, "How often descale with soft water?").citations[0]
    assert [(picture.caption, picture.model) for picture in citation.pictures] == [
        ("Weeks by water", "eyes"), ("The lid", "eyes"),
    ]  # fmt: skip
    assert asked(index, "How wide is the steel lid?").citations[0].pictures[0].caption == "The lid"


def test_citation_of_a_text_has_no_field_about_pictures(index):
    citation = asked(index, "What gives light?").citations[0]
    assert citation.document == "lamp.md"
    assert "pictures" not in citation.model_dump()


def test_terminal_shows_and_links_the_picture_of_a_source(index):
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="standard")
    with TurnView(console, streaming=False, index=index) as view:
        view.finish(asked(index, "How often descale with soft water?"))
    [picture, _] = sorted(index.parts[0].pictures.of_document("kettle.md"), key=lambda each: each.alt, reverse=True)
    assert "picture “Weeks by water”, described by eyes; 1 more" in out.getvalue()
    assert f"{picture.sha256}.png" in out.getvalue()


def test_citation_over_several_indexes_names_and_finds_its_picture(index, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "car.md").write_text("# Car\n\nA car drives.\n")
    build_index(tmp_path / "more", "more", retriever="bm25")
    both = Index.join([Index.open("more"), index])
    citation = asked(both, "How often descale with soft water?").citations[0]
    assert (citation.index, citation.pictures[0].caption) == ("notes", "Weeks by water")
    assert picture_url(both, citation).endswith(f"{citation.pictures[0].sha256}.png")
    request = PictureRequest(document=citation.document, index="notes", picture=citation.pictures[0].sha256)
    assert cited_picture(both, request).media_type == "image/png"


def test_serve_sends_the_picture_of_a_citation_and_nothing_else(index):
    picture = asked(index, "How often descale with soft water?").citations[0].pictures[0]
    app = make_app(served_models(assistant_over(index)), "localhost", None, lambda: None)
    with TestClient(app, base_url="http://localhost") as client:
        answer = client.get("/v1/picture", params={"document": "kettle.md", "picture": picture.sha256})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
        assert answer.content == (Path(index.manifest.source) / "weeks.png").read_bytes()
        elsewhere = client.get("/v1/picture", params={"document": "lamp.md", "picture": picture.sha256})
        assert elsewhere.status_code == 404
        for path in ("../passages.db", "weeks.png", "%2e%2e%2fmanifest.json"):
            assert client.get("/v1/picture", params={"document": "kettle.md", "picture": path}).status_code == 400


def test_changed_picture_is_not_sent(index):
    picture = index.parts[0].pictures.of_document("kettle.md")[0]
    file = index.parts[0].pictures.file_of(picture)
    original = file.rename(file.with_suffix(".original"))
    file.write_bytes(b"<svg onload=alert(1)>")
    app = make_app(served_models(assistant_over(index)), "localhost", None, lambda: None)
    try:
        with TestClient(app, base_url="http://localhost") as client:
            answer = client.get("/v1/picture", params={"document": "kettle.md", "picture": picture.sha256})
    finally:
        original.replace(file)
    assert answer.status_code == 404
    assert "is damaged" in answer.json()["error"]["message"]


def test_picture_of_a_page_has_a_frame_around_its_box(tmp_path):
    write_manual(tmp_path / "wheel.pdf")
    image = Image.open(io.BytesIO(page_picture(tmp_path / "wheel.pdf", 1, "", [(0.5, 0.5, 0.75, 0.6)]))).convert("RGB")
    difference = ImageChops.difference(image, Image.new("RGB", image.size, FRAME)).convert("L")
    left, _, right, _ = difference.point(lambda value: 255 * (value == 0)).getbbox()
    assert left == pytest.approx(0.5 * image.width, abs=6)
    assert right == pytest.approx(0.75 * image.width, abs=6)
    assert image.getpixel((int(0.6 * image.width), int(0.55 * image.height))) == (255, 255, 255)
