"""An assistant over several indexes: on the command line, in Python, in a session and in the server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import turnmark as tm
from tests.assistant.serving import serving
from tests.retrieval.conftest import write
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.serving.citation_pictures import PictureRequest, cited_picture
from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.assistant.sessions.conversation import cite, source_url
from turnmark.assistant.sessions.session_files import list_sessions
from turnmark.assistant.turn.assistant import Assistant
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index

HOME = {"setup": "# Setup\n\nThe oven at home is set to 180 degrees with the left knob.\n"}
WORK = {
    "setup": "# Setup\n\nThe server is installed from the red disk in the archive room.\n",
    "hull": "# Boat\n\nWash the hull with water and drain the fuel tank before winter.\n",
}
OVEN, SERVER = "To how many degrees is the oven at home set?", "From which disk is the server installed?"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the documents of two indexes, and the home of these in `state`."""
    folder = tmp_path_factory.mktemp("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder / "state"))
        for name, documents in (("home", HOME), ("work", WORK)):
            build_index(write(folder / name, **documents), name, retriever="bm25")
    return folder


@pytest.fixture
def two(built: Path, in_home_of: Callable[[Path], Path]) -> Path:
    """Enter a new home with both indexes; return the folder of their documents."""
    in_home_of(built / "state")
    return built


BOTH = ("--index", "home", "--index", "work")


def test_ask_cites_the_index(turnmark, two):
    for question, index, word in ((OVEN, "home", "180"), (SERVER, "work", "red disk")):
        reply = json.loads(turnmark("ask", question, *BOTH, "--json").out)
        first = reply["citations"][0]
        assert (first["index"], first["document"]) == (index, "setup.md")
        assert first["id"] == f"setup.md-{first['start']}-{first['end']}"
        assert word in reply["answer"]
        assert f"[1] Setup, {index}: setup.md" in turnmark("ask", question, *BOTH).out


def test_citations_omit_a_single_index(turnmark, two):
    ran = turnmark("ask", SERVER, "--index", "work", "--json")
    assert all("index" not in citation for citation in json.loads(ran.out)["citations"])
    ran = turnmark("search", "server disk", "--index", "work", "--json")
    assert all("index" not in hit["passage"] for hit in json.loads(ran.out)["hits"])


def test_search_names_the_index_and_filters_by_it(turnmark, two):
    hits = json.loads(turnmark("search", "setup", *BOTH, "--json").out)["hits"]
    assert {(hit["passage"]["index"], hit["passage"]["document"]) for hit in hits} == {
        ("home", "setup.md"), ("work", "setup.md"),
    }  # fmt: skip
    assert all(hit["passage"]["id"].startswith("setup.md-") for hit in hits)
    hits = json.loads(turnmark("search", "setup", *BOTH, "--where", "index=work", "--json").out)["hits"]
    assert [hit["passage"]["index"] for hit in hits] == ["work"]
    assert "work: setup.md" in turnmark("search", "setup", *BOTH).out


def test_comma_list_and_environment_variable_are_equivalent(turnmark, two, monkeypatch):
    expected = turnmark("search", "setup", *BOTH, "--json").out
    assert turnmark("search", "setup", "--index", "home,work", "--json").out == expected
    monkeypatch.setenv("TURNMARK_INDEX", "home,work")
    assert turnmark("search", "setup", "--json").out == expected


def test_reports_every_missing_index(turnmark, two):
    ran = turnmark("ask", "", "--index", "home", "--index", "gone", "--index", "lost")
    assert ran.code == 2
    assert "the question is empty" in ran.err
    for name in ("gone", "lost"):
        assert f"no index is called '{name}'" in ran.err
        assert f"turnmark index build SOURCE --name {name}" in ran.err


def test_resumes_a_session_over_several_indexes(turnmark, two):
    assert turnmark("chat", *BOTH, stdin=f"{OVEN}\n").code == 0
    (session,) = list_sessions()
    assert session.index == "home,work"
    ran = turnmark("chat", "--resume", stdin=f"{SERVER}\n/why\n")
    assert ran.code == 0, ran.err
    assert "home,work" in ran.out
    assert "work: setup.md" in ran.out
    assert list_sessions()[0].turns == 2


def test_chat_with_a_folder_and_other_indexes(turnmark, two):
    ran = turnmark("chat", str(two / "home"), *BOTH, "--retriever", "bm25", stdin=f"{SERVER}\n")
    assert ran.code == 0, ran.err
    assert "home: nothing has changed" in ran.out
    assert "work: setup.md" in ran.out


def test_python_accepts_indexes_and_names(two):
    home = tm.Index.open("home")
    for indexes in ([home, "work"], ["home", tm.Index.open("work")], "home,work", tm.Index.open("home", "work")):
        assistant = tm.Assistant(indexes)
        assert assistant.config.index == "home,work"
        assert [citation.index for citation in assistant.chat().ask(SERVER).citations][:1] == ["work"]
    assert len(assistant.index) == 3
    assert [hit.passage.document for hit in assistant.index.search("setup")] == ["setup.md", "setup.md"]
    again = tm.Assistant.from_config(assistant.config)
    assert again.config == assistant.config


def test_links_and_pictures_belong_to_the_right_index(two):
    index = Index.open("home,work")
    for name, question in (("home", OVEN), ("work", SERVER)):
        citation = tm.Assistant("home,work").chat().ask(question).citations[0]
        assert cite(citation) == f"Setup, {name}: setup.md"
        assert source_url(index, citation) == (two / name / "setup.md").as_uri()
        assert source_url(index, citation.model_copy(update={"index": "gone"})) == ""
    for request in ({"index": "work", "document": "setup.md"}, {"document": "setup.md"}):
        with pytest.raises(RejectedRequest, match="no page can be drawn"):
            cited_picture(index, PictureRequest(**request, page=1, start=0, end=1))


def test_configuration_contains_the_names():
    assert AssistantConfig(index="home,work").shown()["index"] == "home,work"


@pytest.mark.parametrize(("typed", "name"), [("home, work,", "home,work"), ("work,work", "work")])
def test_spaces_in_a_list_of_indexes_are_ignored(two, typed, name):
    assert Assistant.from_config(AssistantConfig(index=typed)).config.index == name


@pytest.mark.server
def test_serves_a_list_of_indexes_with_spaces_under_its_name(two):
    with serving(two / "state", indexes=("home, work",)) as server:
        model, *_ = server.get("/v1/models").json()["data"]
        assert (model["id"], model["turnmark"]["documents"]) == ("home,work", 3)
        assert server.client.models.retrieve("home,work").id == "home,work"
        asked = [{"role": "user", "content": SERVER}]
        completion = server.client.chat.completions.create(model="home,work", messages=asked)
        response = server.client.responses.create(model="home,work", input=SERVER)
        for replied in (completion, response):
            assert replied.model_extra["turnmark"]["citations"][0]["index"] == "work"
        assert "work: setup.md" in completion.choices[0].message.content
        assert response.output_text == completion.choices[0].message.content
