"""The models that `serve` and `mcp` offer: indexes alone and together, each with every language model."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.assistant.mcp_client import over_stdio
from tests.assistant.notes import notes
from tests.assistant.serving import Server, serving
from tests.servers import Say, Scripted, ScriptedServer, Status
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.assistant.serving.served_models import ServedModels, open_generators, open_models
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.retrieval.index.build import build_index

DISK = "From which disk is the server installed?"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home with the indexes `home` and `work`."""
    folder = tmp_path_factory.mktemp("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder))
        build_index(notes(folder / "h", oven="# Oven\n\nThe oven is set to 180 degrees.\n"), "home", retriever="bm25")
        build_index(
            notes(folder / "w", disk="# Disk\n\nThe server is installed from the red disk.\n"), "work", retriever="bm25"
        )
    return folder


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedServer]:
    with ScriptedServer(Say("As the notes say. [1]")) as running:
        yield running


@pytest.fixture(scope="module")
def server(home: Path, endpoint: ScriptedServer) -> Iterator[Server]:
    generators = ("--generator", "extractive", "--generator", f"openai:tiny@{endpoint.url}?retries=0")
    with serving(home, *generators, indexes=("home", "work")) as running:
        yield running


NAMES = [
    "home,work/extractive", "home/extractive", "work/extractive",
    "home,work/openai:tiny", "home/openai:tiny", "work/openai:tiny",
]  # fmt: skip


def test_models_are_listed_without_the_address_of_the_language_model(server, endpoint):
    listed = server.get("/v1/models")
    assert [model["id"] for model in listed.json()["data"]] == NAMES
    assert endpoint.url not in listed.text
    for model in listed.json()["data"]:
        assert server.get(f"/v1/models/{model['id']}").json() == model
    assert {model["turnmark"]["documents"] for model in listed.json()["data"]} == {1, 2}


@pytest.mark.parametrize(
    ("model", "answered", "generator"),
    [
        ("home,work", True, "extractive"),
        ("work", True, "extractive"),
        ("home", False, "extractive"),
        ("work/openai:tiny", True, "openai:tiny"),
    ],
)
def test_request_chooses_the_model_in_both_forms(server, model, answered, generator):
    chat = server.client.chat.completions.create(model=model, messages=[{"role": "user", "content": DISK}])
    response = server.client.responses.create(model=model, input=DISK)
    full_name = model if "/" in model else f"{model}/extractive"
    for reply in (chat, response):
        assert reply.model == full_name
        assert reply.turnmark["generator"].startswith(generator)
        assert any("red disk" in citation["text"] for citation in reply.turnmark["citations"]) is answered


def test_unknown_model_is_refused_with_all_names(server):
    for path, body in (
        ("chat/completions", {"messages": [{"role": "user", "content": DISK}]}),
        ("responses", {"input": DISK}),
    ):
        with pytest.raises(openai.NotFoundError) as raised:
            server.client.post(f"/{path}", body={"model": "gpt-4o", **body}, cast_to=object)
        assert raised.value.code == "model_not_found"
        assert raised.value.param == "model"
        assert all(repr(name) in raised.value.message for name in NAMES)


def test_documents_and_pictures_are_those_of_the_chosen_model(server):
    def listed(model: str) -> list[str]:
        return [row["title"] for row in server.get(f"/v1/documents?model={model}").json()["data"]]

    assert listed("") == listed("home,work") == ["Oven", "Disk"]
    assert listed("work") == listed("work/openai:tiny") == ["Disk"]
    assert "red disk" in server.get("/v1/document?model=work&document=disk.md").json()["text"]
    for path in ("documents", "document", "picture?document=disk.md&page=1&start=0&end=1"):
        refused = server.get(f"/v1/{path}{'&' if '?' in path else '?'}model=other")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")


def test_rating_is_stored_with_the_model_that_answered(server, home):
    body = {"model": "work/openai:tiny", "messages": [{"role": "user", "content": DISK}]}
    answer = server.post(body).json()["id"]
    rating = {"conversation": "0123456789abcdef", "answer": answer, "rating": "good"}
    stored = server.post_to("/v1/ratings", rating).json()["session"]
    first = json.loads((home / "sessions" / f"{stored}.jsonl").read_text().splitlines()[0])
    assert first["index"] == "work"
    assert first["generator"].startswith("openai:tiny")


def opened(home: Path, monkeypatch: pytest.MonkeyPatch, *specs: str, index: str = "home,work") -> ServedModels:
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    return open_models(AssistantConfig(index=index), specs, ErrorCollector(), pytest.fail)


def test_one_language_model_shares_its_places_among_the_indexes(home, monkeypatch):
    models = opened(home, monkeypatch, "extractive")
    assert [model.name for model in models.models] == ["home,work", "home", "work"]
    assert len({id(model.turns) for model in models.models}) == 1


def test_assistants_over_one_index_share_its_files(home, monkeypatch, endpoint):
    models = opened(home, monkeypatch, "extractive", f"openai:tiny@{endpoint.url}")
    first, second = (models.find(f"work/{name}").assistant() for name in ("extractive", "openai:tiny"))
    assert first.retriever is second.retriever
    assert second.config.generator.startswith("openai:tiny@")
    assert second.top_k != first.top_k, "a large model reads more passages"
    assert models.find("work/openai:tiny").assistant() is second


def test_joint_index_follows_a_rebuild_of_one_of_its_indexes(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    build_index(notes(tmp_path / "a", pie="# Pie\n\nBake the pie.\n"), "a", retriever="bm25")
    folder = notes(tmp_path / "b", jam="# Jam\n\nBoil the jam.\n")
    build_index(folder, "b", retriever="bm25")
    models = opened(tmp_path, monkeypatch, "extractive", index="a,b")
    both = models.find("a,b").assistant()
    assert models.find("a,b").assistant() is both
    notes(folder, tea="# Tea\n\nThe tea is green.\n")
    build_index(folder, "b", retriever="bm25")
    newest = models.find("a,b").assistant()
    assert "green" in newest.reply((), "Which color has the tea?").answer
    assert newest.index.parts[1] is models.find("b").assistant().index.parts[0]
    assert newest.index.parts[0] is both.index.parts[0]


def test_language_models_with_one_name_are_numbered_and_files_lose_their_folder(tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "yes"}\n')
    specs = ["openai:a@http://127.0.0.1:1/v1", "openai:a@http://127.0.0.1:2/v1", f"replay:{script}"]
    names = [each.name for each in open_generators(specs, ErrorCollector())]
    assert names == ["openai:a", "openai:a-2", "replay:script.jsonl"]


def test_all_mistakes_are_reported_at_once(home, monkeypatch):
    with pytest.raises(RequestError) as raised:
        opened(home, monkeypatch, "opnai:x", "opnai:x", index="hom,work")
    text = "\n".join(raised.value.problems)
    assert text.count("opnai") == 2, "the unknown name, and that it is given twice"
    assert "did you mean 'home'" in text


def test_unknown_names_are_refused(home, monkeypatch):
    models = opened(home, monkeypatch, "extractive")
    with pytest.raises(RejectedRequest, match="this server has 'home,work', 'home', 'work'"):
        models.find("home/extractive")
    with pytest.raises(RequestError, match="choose one of: extractive"):
        models.choose("home", "openai:x")


def test_mcp_client_chooses_index_and_language_model(home, endpoint):
    async def work(client):
        tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "ask")
        assert tool.input_schema["properties"]["generator"]["enum"] == ["extractive", "openai:tiny"]
        assert tool.input_schema["properties"]["index"]["enum"] == ["home", "work"]
        for index, generator in (("work", ""), ("work", "openai:tiny"), ("", "openai:tiny")):
            asked = {"question": DISK, "index": index, "generator": generator}
            replied = (await client.call_tool("ask", asked)).structured_content
            assert replied["index"] == (index or "home,work")
            assert replied["generator"].startswith(generator or "extractive")
        failed = await client.call_tool("ask", {"question": DISK, "generator": "gpt"})
        assert "choose one of: extractive, openai:tiny" in failed.structured_content["error"]["message"]

    indexes = ("--index", "home", "--index", "work")
    over_stdio(home, work, *indexes, "--generator", "extractive", "--generator", f"openai:tiny@{endpoint.url}")


def test_clients_do_not_learn_the_endpoint_when_only_the_first_call_fails(home):
    def fails_to_understand(body: dict[str, Any]) -> Scripted:
        return Status(500) if "response_format" in body else Say("A red disk. [1]")

    with (
        ScriptedServer(fails_to_understand) as endpoint,
        serving(home, "--generator", f"openai:tiny@{endpoint.url}?retries=0", indexes=("work",)) as server,
    ):
        address = endpoint.url.removeprefix("http://").partition("/")[0]
        body = {"model": "work", "messages": [{"role": "user", "content": DISK}]}
        for more in ({}, {"stream": True, "turnmark": {"events": True}}):
            response = server.post({**body, **more})
            assert "A red disk." in response.text
            assert "understood by rules, since the server's language model failed" in response.text
            assert address not in response.text
        _, log = server.end(signal.SIGTERM)
        assert address in log
