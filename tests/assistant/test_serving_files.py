"""Files that are added to a server, the builds that index them, and what clients see of documents."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.assistant.notes import notes
from tests.opened import assistant_over, served_models
from tests.patience import PATIENCE
from turnmark.assistant.serving import added_files
from turnmark.assistant.serving.added_files import AddedFiles, added_index, safe_name
from turnmark.assistant.serving.app import make_app
from turnmark.assistant.serving.document_views import describe_documents, explain_file, read_document
from turnmark.assistant.serving.latest_answers import RatedAnswers, RatingRequest
from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.assistant.serving.served_builds import ServedBuilds
from turnmark.core.home import home
from turnmark.evaluation.check.own_questions.question_file import read_questions
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index

TOKEN = {"Authorization": "Bearer a-token-for-the-files"}
BINARY = {**TOKEN, "Content-Type": "application/octet-stream"}


@given(st.text(max_size=400))
def test_stored_name_is_never_a_path(given_name: str) -> None:
    name = safe_name(f"{given_name}/x{given_name}y.MD")
    assert Path(name).name == name
    assert not name.startswith(".")
    assert name.endswith(".md")
    assert len(name.encode()) < 200
    assert re.fullmatch(r"[\w .,()+@&=#-]+", name)


def test_different_names_are_stored_under_different_names() -> None:
    given_names = ["a/b.md", "a?b.md", "a*b.md", "../b.md", "b.md", "x" * 300 + ".md", "x" * 301 + ".md"]
    assert len({safe_name(each) for each in given_names}) == len(given_names)
    assert safe_name("trips/Ærø 2024.pdf") == "trips - Ærø 2024.pdf"


@pytest.mark.parametrize("name", ["", "..", ".md", "run.exe", "x.zip", "x.md\0.exe"])
def test_files_of_types_without_a_reader_are_refused(name: str) -> None:
    with pytest.raises(RejectedRequest, match="files of this type are not read") as refused:
        safe_name(name)
    assert refused.value.status == 415


def test_index_of_added_files_is_named_after_the_first_index() -> None:
    assert [added_index(names) for names in ([], ["notes", "work"], ["notes-added"])] == [
        "added",
        "notes-added",
        "notes-added",
    ]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A server of one index, with its builds."""
    build_index(notes(tmp_path / "n", oven="# Oven\n\nThe oven is set to 180 degrees.\n"), "notes", retriever="bm25")
    models = served_models(assistant_over("notes"))
    builds = ServedBuilds(models, lambda _: None)
    both = builds, AddedFiles(["notes"])
    app = make_app(models, "localhost", TOKEN["Authorization"].split()[1], builds.start, builds=both)
    with TestClient(app, base_url="http://localhost") as opened:
        yield opened
    builds.close()


def wait_for_build(client: TestClient) -> dict[str, object]:
    ends = time.monotonic() + PATIENCE
    while (state := client.get("/v1/build", headers=TOKEN).json())["state"] == "building":
        assert time.monotonic() < ends
        time.sleep(0.05)
    return dict(state)


def test_added_file_is_indexed_searched_replaced_and_removed(client: TestClient) -> None:
    name = "shelf/tea.md"
    for text, color in (("The tea is green.", "green"), ("The tea is red.", "red")):
        added = client.post("/v1/files", params={"name": name}, content=f"# Tea\n\n{text}\n", headers=BINARY)
        assert (added.status_code, added.json()["name"]) == (201, "shelf - tea.md")
        assert wait_for_build(client)["state"] == "idle"
        body = {"model": "", "messages": [{"role": "user", "content": "What color is the tea?"}]}
        answer = client.post("/v1/chat/completions", json=body, headers=TOKEN).json()
        assert color in answer["choices"][0]["message"]["content"]
    listed = client.get("/v1/documents", headers=TOKEN).json()["data"]
    assert {(one["index"], one["path"]) for one in listed} == {("notes", "oven.md"), ("notes-added", "shelf - tea.md")}
    assert client.delete("/v1/files", params={"name": "oven.md"}, headers=TOKEN).status_code == 404
    assert client.delete("/v1/files", params={"name": "shelf - tea.md"}, headers=TOKEN).status_code == 200
    wait_for_build(client)
    assert [one["id"] for one in client.get("/v1/models", headers=TOKEN).json()["data"]] == ["notes"]


def test_files_are_added_and_removed_only_with_the_token_and_as_bytes(client: TestClient) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    assert client.post("/v1/files?name=x.md", content=b"x", headers=kind).status_code == 401
    assert client.delete("/v1/files?name=x.md").status_code == client.post("/v1/build", json={}).status_code == 401
    other = {**BINARY, "Origin": "https://example.org"}
    assert client.post("/v1/files?name=x.md", content=b"x", headers=other).status_code == 403
    form = client.post("/v1/files?name=x.md", content=b"x", headers={**TOKEN, "Content-Type": "text/plain"})
    assert form.status_code == 415


def test_folder_is_watched_while_the_switch_is_on(client: TestClient) -> None:
    def switch(watching: object) -> object:
        return client.post("/v1/watch", json={"watching": watching}, headers=TOKEN).json().get("watching")

    def indexed() -> list[str]:
        return [one["path"] for one in client.get("/v1/documents", headers=TOKEN).json()["data"]]

    assert client.get("/v1/build", headers=TOKEN).json()["watching"] is False
    assert switch(True) is switch(True) is client.get("/v1/build", headers=TOKEN).json()["watching"] is True
    folder = Path(Index.open("notes").manifest.source)
    (folder / "tea.md").write_text("# Tea\n\nGreen.\n")
    ends = time.monotonic() + PATIENCE
    while "tea.md" not in indexed():
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert switch(False) is False
    assert not [thread for thread in threading.enumerate() if thread.name == "turnmark-watch"]
    assert client.post("/v1/watch", json={"watching": True}).status_code == 401
    assert client.post("/v1/watch", json={"watching": "yes"}, headers=TOKEN).status_code == 400


def test_size_and_number_of_added_files_are_limited(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_files, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(added_files, "MAX_FILES", 1)
    assert client.post("/v1/files?name=x.md", content=b"x" * 11, headers=BINARY).status_code == 413
    assert not list(AddedFiles(["notes"]).folder.iterdir()), "nothing of it stays"
    assert client.post("/v1/files?name=x.md", content=b"x" * 10, headers=BINARY).status_code == 201
    assert client.post("/v1/files?name=y.md", content=b"x", headers=BINARY).status_code == 413
    assert client.post("/v1/files?name=x.md", content=b"y", headers=BINARY).status_code == 201
    wait_for_build(client)


def test_documents_say_what_was_left_out_and_unread_files_why(tmp_path: Path) -> None:
    folder = notes(tmp_path / "n", oven="# Oven\n\nHot.\n")
    (folder / "broken.pdf").write_text("no PDF")
    (folder / "x.xyz").write_text("x")
    build_index(folder, "notes", retriever="bm25")
    index = Index.open("notes")
    listed = describe_documents(index, {})
    assert [(one["path"], one["reader"], one["language"]) for one in listed["data"]] == [
        ("oven.md", "Markdown", "English")
    ]
    reasons = {one["path"]: one["reason"] for one in listed["unread"]}
    assert reasons.keys() == {"broken.pdf", "x.xyz"}
    assert "not a PDF" in reasons["broken.pdf"]
    for file in ("/etc/passwd", "../n/oven.md", "oven.txt"):
        lines = explain_file(index, {"file": file})["lines"]
        assert lines
        assert not [line for line in lines if str(tmp_path) in line], "clients are not told where the folder is"


def test_lines_of_a_passage_are_found_in_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [f"## Part {number}\n\n{'word ' * 60}and 🫖 {number}.\n" for number in range(12)]
    build_index(notes(tmp_path / "n", long="# Long\n\n" + "\n".join(parts)), "notes", retriever="bm25")
    index = Index.open("notes")
    for limit, is_cut in ((300_000, False), (1_500, True)):
        monkeypatch.setattr("turnmark.assistant.serving.document_views.MAX_READ_CHARACTERS", limit)
        for passage in index.store.of_document("long.md"):
            place = {"document": "long.md", "start": str(passage.start), "end": str(passage.end)}
            read = read_document(index, place)
            first, last = read["lines"]
            assert "\n".join(read["text"].split("\n")[first : last + 1]).strip() == passage.text.strip()
            assert read["cut"] is is_cut


def test_rated_answers_become_questions_for_check(tmp_path: Path) -> None:
    build_index(notes(tmp_path / "n", oven="# Oven\n\nThe oven is set to 180 degrees.\n"), "notes", retriever="bm25")
    assistant, rated = assistant_over("notes"), RatedAnswers()
    questions = ("How hot is the oven?", "Who painted the moon purple in 1820?", "And the oven?")
    for number, question in enumerate(questions):
        rated.remember(str(number), assistant.config, question, assistant.reply([], question))
    for number, rating in ((0, "bad"), (0, "good"), (1, "good"), (2, "bad")):
        before = tuple(map(str, range(number)))
        rated.rate(RatingRequest(conversation="0" * 16, answer=str(number), before=before, rating=rating))
    kept = read_questions(home() / "feedback" / "notes.jsonl")
    assert [one.question for one in kept] == list(questions)
    assert [one.conditions for one in kept] == [("document", "agrees"), ("unknown",), ()]
    assert (kept[0].document, "[1]" in kept[0].answer) == ("oven.md", False)
    assert len({one.conversation for one in kept}) == 1


def test_libraries_of_the_page_are_those_that_were_checked() -> None:
    folder = files("turnmark.assistant.serving").joinpath("page", "vendor")
    sums = dict(reversed(line.split()) for line in folder.joinpath("SHA256SUMS").read_text().splitlines())
    scripts = {each.name for each in folder.iterdir() if each.name.endswith(".js")}
    assert {name: hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() for name in scripts} == sums
    assert {f"{name.split('.')[0]}.LICENSE" for name in scripts} <= {each.name for each in folder.iterdir()}


def test_page_has_no_inline_code() -> None:
    page = files("turnmark.assistant.serving").joinpath("page", "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", page, re.IGNORECASE)
