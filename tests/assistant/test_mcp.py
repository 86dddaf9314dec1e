"""`turnmark mcp` as clients see it, with the SDK's client over standard input and output and over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.assistant.exchanges import reply
from tests.assistant.manual import SECOND, write_manual
from tests.assistant.mcp_client import over_stdio, program
from tests.assistant.notes import notes, over
from tests.assistant.serving import write_token
from tests.conftest import DEMO, ROOT
from tests.opened import assistant_over
from tests.patience import PATIENCE
from tests.servers import Hang, Say, Scripted, ScriptedServer, Status
from turnmark.assistant.mcp import served_documents as collection_module
from turnmark.assistant.mcp.served_documents import ServedDocuments
from turnmark.assistant.mcp.tool_records import (
    AskResult,
    DocumentsArguments,
    ReadArguments,
    SearchArguments,
    schema_of,
)
from turnmark.assistant.serving.served_indexes import ServedIndexes
from turnmark.assistant.steps.verify.claim_support import stems
from turnmark.assistant.types import Reply
from turnmark.core.errors import RequestError
from turnmark.retrieval.index.build import build_index

TOKEN = "a-token-for-the-tests"
KNIFE = "handbook/sharpen-a-kitchen-knife.md"
ASK = "How do I sharpen a kitchen knife?"
TOOLS = ["search", "read", "documents", "tables", "sql", "ask"]


@contextmanager
def over_http(home: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server in its own process; yield its address and the process."""
    process = subprocess.Popen(
        program("--http", "--port", "0", *flags), cwd=ROOT, text=True, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, env={**os.environ, "TURNMARK_HOME": str(home)},
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        assert "http://" in line, line + process.stderr.read()
        yield "http://" + line.rpartition("http://")[2].split()[0], process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return its structured result, which must equal its text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def mistake(client: Client, tool: str, **arguments: Any) -> tuple[str, str]:
    """Make a call that fails; return the kind and message of its error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    error = result.structured_content["error"]
    assert result.content[0].text == error["message"]
    return error["kind"], error["message"]


# --- over standard input and output ----------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_return_what_the_commands_print(plain_home, home, turnmark, mode):
    """Runs with both versions of the protocol."""
    asked = [
        ({"query": ASK}, []),
        (
            {"query": "bees in September", "k": 3, "where": {"document": "handbook/*"}},
            ["-k", "3", "--where", "document=handbook/*"],
        ),
        ({"query": "bees", "where": '["document=handbook/*"]', "k": None}, ["--where", "document=handbook/*"]),
        ({"query": "bees", "where": {"date<": "1990"}}, ["--where", "date<1990"]),
        ({"query": "no such thing as zyxwvut", "where": None}, []),
    ]  # fmt: skip
    printed = [turnmark.json("search", args["query"], "--index", "demo", *flags) for args, flags in asked]
    answer = turnmark.json("ask", ASK, "--index", "demo")
    steps: list[str] = []

    async def work(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        for (arguments, _), expected in zip(asked, printed, strict=True):
            assert await called(client, "search", **arguments) == {"index": "demo", **expected}

        async def progress(_: float, __: float | None, message: str | None) -> None:
            steps.append((message or "").partition(":")[0])

        result = (await client.call_tool("ask", {"question": ASK}, progress_callback=progress)).structured_content
        trace = answer.pop("trace")
        assert trace["searches"]
        assert {**result, "timings": {}} == {"index": "demo", **answer, "timings": {}}

    log = over_stdio(plain_home, work, "--index", "demo", mode=mode)
    assert steps == ["understand", "retrieve", "decide", "answer", "verify"]
    assert log == "turnmark: serving demo (extractive) over standard input and output; Ctrl-C ends it\n"


@pytest.mark.server
def test_documents_are_resources_and_mistakes_are_explained(plain_home):
    async def work(client: Client) -> None:
        listed = (await client.list_resources()).resources
        files = sorted(path.relative_to(DEMO / "documents").as_posix() for path in DEMO.glob("documents/*/*"))
        assert [resource.name for resource in listed] == files
        read = await client.read_resource(f"turnmark://demo/{KNIFE}")
        text = read.contents[0].text
        assert text.split() == (DEMO / "documents" / KNIFE).read_text("utf-8").split()
        assert (await called(client, "read", document=KNIFE))["text"] == text
        for uri in ("turnmark://demo/handbook/../../secret", "turnmark://other/x", "file:///etc/passwd", "turnmark:x"):
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
            assert (raised.value.code, raised.value.data["kind"]) == (-32602, "request")
        with pytest.raises(MCPError, match="cursor: expected a cursor returned by this server"):
            await client.list_resources(cursor="-1")
        with pytest.raises(MCPError, match=f"unknown tool 'write' .expected one of: {', '.join(TOOLS)}"):
            await client.call_tool("write", {})
        kind, message = await mistake(client, "read", document="sharpen-kitchen-knife.md")
        assert kind == "request"
        assert message.startswith("document: index 'demo' has no document 'sharpen-kitchen-knife.md'; did you mean ")
        assert f"'{KNIFE}'" in message
        assert (await mistake(client, "read", document=KNIFE, section="Stepps"))[1].endswith("did you mean 'Steps'?")
        assert (await mistake(client, "ask", question=" ", index="x"))[1] == "question: is empty"
        assert (await mistake(client, "ask", question="Why?", index="x"))[
            1
        ] == "index: no index is called 'x'; there are: demo"
        _, message = await mistake(client, "search", query="a", k=0, colour="red", where={"date": "soon"})
        for part in (
            "where: --where date=soon: write a date",
            "k: Input should be greater",
            "colour: unknown argument",
        ):
            assert part in message

    assert "Traceback" not in over_stdio(plain_home, work, "--index", "demo")


@pytest.mark.server
def test_computes_over_the_tables_of_an_index(home, tmp_path):
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    rows = "".join(f"2024-0{n}-01,Miller,{n}0.50 €\n" for n in range(1, 7))
    (folder / "orders.csv").write_text(f"Ordered,Supplier,Amount\n{rows}", encoding="utf-8")
    build_index(folder, "n", retriever="bm25")

    async def work(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == TOOLS
        listed = await called(client, "tables", words="miller")
        [table] = listed["tables"]
        assert (table["name"], table["document"], table["rows"], listed["of"]) == ("orders", "orders.csv", 6, 1)
        assert table["columns"][2] == {
            "name": "amount", "label": "Amount", "type": "real", "unit": "€", "text_name": "amount_text",
            "low": 10.5, "high": 60.5,
        }  # fmt: skip
        assert table["first_rows"][0] == ["2024-01-01", "Miller", "10.50 €"]
        assert (await called(client, "tables", words="zebra"))["tables"] == []
        computed = await called(client, "sql", statement="SELECT sum(amount) AS s FROM orders WHERE amount > 30")
        assert (computed["columns"], computed["rows"], computed["left_out"]) == (["s"], [[182.0]], 0)
        [basis] = computed["basis"]
        assert (basis["table"], basis["count"], len(basis["rows"])) == ("orders", 4, 4)
        kind, message = await mistake(client, "sql", statement="SELECT price FROM orders")
        assert kind == "request"
        assert "amount" in message
        assert (await mistake(client, "sql", statement="DROP TABLE orders"))[0] == "request"

    assert "Traceback" not in over_stdio(home, work, "--index", "n")


@pytest.mark.server
def test_describes_the_tables_that_fit_and_names_the_others(home, tmp_path):
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    columns = ",".join(f"Measured value {n}" for n in range(12))
    for number in range(30):
        rows = "".join(f"{','.join(str(number + n + row) for n in range(12))}\n" for row in range(5))
        (folder / f"series-{number:02}.csv").write_text(f"{columns}\n{rows}", encoding="utf-8")
    build_index(folder, "n", retriever="bm25")

    async def work(client: Client) -> None:
        listed = await called(client, "tables")
        assert 1 <= len(listed["tables"]) < 10
        assert len(json.dumps(listed["tables"])) < 5000
        assert [each["name"] for each in listed["tables"]] + listed["further"] == [f"series_{n:02}" for n in range(30)]
        assert (listed["total"], listed["left_out"]) == (30, 0)

    assert "Traceback" not in over_stdio(home, work, "--index", "n")


@pytest.mark.server
def test_without_names_all_indexes_are_served(home, tmp_path):
    for name, text in (("cup", "The cup is blue."), ("pot", "The pot is green.")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "note.md").write_text(f"# Colour\n\n{text}\n", encoding="utf-8")
        build_index(folder, name, retriever="bm25")

    async def work(client: Client) -> None:
        found = await called(client, "search", query="Which colour is the pot?")
        assert found["hits"][0]["passage"]["document"] == "pot:note.md"

    assert "Traceback" not in over_stdio(home, work)


@pytest.mark.server
@pytest.mark.parametrize("names", [("n", "radio", "n"), ("n, radio",)])
def test_serves_several_indexes(kitchen_home, names):
    async def work(client: Client) -> None:
        assert "n (3 documents), radio (3 documents)" in client.instructions
        for tool in (await client.list_tools()).tools:
            assert tool.input_schema["properties"]["index"]["enum"] == ["n", "radio"]
            assert "index" not in tool.input_schema.get("required", ())
        everything = await called(client, "documents")
        assert (everything["index"], everything["of"]) == ("n,radio", 6)
        assert {entry["document"].partition(":")[0] for entry in everything["documents"]} == {"n", "radio"}
        found = await called(client, "search", query="How is the radio reset?")
        assert found["hits"][0]["passage"]["document"].startswith("radio:")
        document = found["hits"][0]["passage"]["document"]
        read = await called(client, "read", document=document)
        assert (
            read["text"] == (await called(client, "read", document=document.partition(":")[2], index="radio"))["text"]
        )
        answer = await called(client, "ask", question="How is the radio reset?")
        assert answer["index"] == "n,radio"
        assert {citation["index"] for citation in answer["citations"]} == {"radio"}
        listed = await called(client, "documents", index="radio")
        assert (listed["index"], listed["of"]) == ("radio", 3)
        answer = await called(client, "ask", index="radio", question="How is the radio reset?")
        assert answer["index"] == "radio"
        documents = {entry["document"] for entry in listed["documents"]}
        assert answer["citations"]
        assert {citation["document"] for citation in answer["citations"]} <= documents
        resources = (await client.list_resources()).resources
        assert {str(resource.uri).split("/")[2] for resource in resources} == {"n", "radio"}

    over_stdio(kitchen_home, work, *(word for name in names for word in ("--index", name)))


@pytest.mark.server
def test_incompatible_indexes_are_served_separately(tmp_path, home):
    for name, retriever in (("words", "bm25"), ("vectors", "dense")):
        build_index(notes(tmp_path / name, radio="The radio is reset with a pin."), name, retriever=retriever)

    async def work(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            assert "index" in tool.input_schema["required"]
        assert (await mistake(client, "documents"))[1] == (
            "index: these indexes cannot be searched together; choose one of: words, vectors"
        )
        assert (await called(client, "search", index="words", query="radio"))["index"] == "words"

    assert "every request must name one of them" in over_stdio(home, work, "--index", "words", "--index", "vectors")


def stalled(body: dict[str, Any]) -> Scripted:
    """An answer that never ends; the rules understand the message."""
    return Say("Sharp. [1]", stall=60) if body.get("stream") else Status(500)


async def call_and_leave(client: Client, endpoint: ScriptedServer) -> bool:
    """Ask, and cancel the call once the model is writing. Return whether it was canceled."""
    with anyio.move_on_after(60) as scope:

        async def leave() -> None:
            while not any(body.get("stream") for body in endpoint.bodies):
                await anyio.sleep(0.02)
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(leave)
            await client.call_tool("ask", {"question": ASK})
    return scope.cancelled_caught


@pytest.mark.server
def test_canceled_call_stops_its_turn(plain_home):
    async def work(client: Client) -> None:
        assert await call_and_leave(client, endpoint)
        assert await anyio.to_thread.run_sync(endpoint.disconnected.wait, 5), "the model is still writing"
        assert (await called(client, "documents"))["total"] == 80, "the server keeps running"

    with ScriptedServer(stalled) as endpoint:
        over_stdio(plain_home, work, "--index", "demo", "--generator", f"openai:tiny@{endpoint.url}")


@pytest.mark.server
def test_reports_the_kind_of_a_model_failure(plain_home):
    async def work(client: Client) -> None:
        kind, message = await mistake(client, "ask", question=ASK)
        assert kind == "timeout"
        assert "sent nothing for 0.3 s" in message

    with ScriptedServer(Hang(60)) as endpoint:
        spec = f"openai:tiny@{endpoint.url}?deadline=0.3"
        assert "Traceback" not in over_stdio(plain_home, work, "--index", "demo", "--generator", spec)


INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
NOISE = """
import os
from turnmark.assistant.serving.served_models import ServedModels
quiet = ServedModels.warm_up
def warm_up(models):
    print("noise of a library", flush=True)
    os.write(1, b"noise of its C code\\n")
    os.system("echo noise of its child")
    quiet(models)
ServedModels.warm_up = warm_up
"""


def started(home: Path, first: str = "") -> subprocess.Popen[str]:
    """Start a server, and wait until it has answered its first message."""
    process = subprocess.Popen(
        program("--index", "demo", first=first), cwd=ROOT, text=True, env={**os.environ, "TURNMARK_HOME": str(home)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert answer["result"]["serverInfo"]["name"] == "turnmark"
    return process


@pytest.mark.server
def test_standard_output_contains_only_the_protocol(plain_home):
    process = started(plain_home, NOISE)
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "documents", "arguments": {}}}
    process.stdin.write(
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}\nno JSON\n' + json.dumps(call) + "\n"
    )
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["structuredContent"]["total"] == 80
    out, errors = process.communicate(timeout=PATIENCE)  # closes standard input
    assert (process.returncode, out) == (0, "")
    for noise in ("a library", "its C code", "its child"):
        assert f"noise of {noise}\n" in errors
    assert "Traceback" not in errors


@pytest.mark.server
def test_server_ends_when_the_client_stops_reading(plain_home):
    process = started(plain_home)
    process.stdout.close()
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}) + "\n")
    process.stdin.flush()
    assert process.wait(timeout=PATIENCE) == 0
    assert len(process.stderr.read().splitlines()) == 1


@pytest.mark.server
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signal_ends_a_waiting_server(plain_home, number, code):
    process = started(plain_home)
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE) == code
    out, errors = process.communicate()
    assert out == ""
    assert errors.splitlines()[1:] == (["turnmark: interrupted; finished work is kept"] if code else [])


# --- over HTTP -------------------------------------------------------------------------------------------------------


def at(url: str, work: Callable[[Client], Awaitable[None]], mode: str = "auto", **headers: str) -> None:
    """Run a client with a server over HTTP."""

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            await work(client)

    anyio.run(talk)


async def every_tool(client: Client) -> None:
    """One call of each tool."""
    assert (await called(client, "search", query=ASK))["hits"][0]["passage"]["document"] == KNIFE
    assert (await called(client, "read", document=KNIFE, section="Steps"))["section"] == "Steps"
    assert (await called(client, "documents", words="kitchen knife"))["documents"][0]["document"] == KNIFE
    assert (await called(client, "ask", question=ASK))["citations"][0]["document"] == KNIFE


@pytest.mark.server
def test_http_without_a_token_serves_only_this_machine(plain_home):
    with over_http(plain_home, "--index", "demo") as (url, process):
        at(url, every_tool)
        at(url, every_tool, mode="legacy")
        headers = {"Accept": "application/json, text/event-stream"}
        for more, code in (({"Host": "evil.example.org"}, "host"), ({"Origin": "https://evil.example.org"}, "origin")):
            refused = httpx.post(url, json=INITIALIZE, headers={**headers, **more})
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, code)
        assert httpx.post(url, content=json.dumps(INITIALIZE), headers=headers).status_code == 400
        assert httpx.post(url, json={"x": "y" * 1_000_001}, headers=headers).status_code == 413
        assert httpx.get(url.replace("/mcp", "/etc")).status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
        assert process.stderr.read() == ""


@pytest.mark.server
def test_http_accepts_the_token(plain_home, tmp_path):
    with over_http(plain_home, "--index", "demo", "--token", write_token(tmp_path, TOKEN)) as (url, process):
        at(url, every_tool, Authorization=f"Bearer {TOKEN}")
        for credentials in ({}, {"Authorization": "Bearer another-token-here"}):
            refused = httpx.post(url, json=INITIALIZE, headers=credentials)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        with pytest.raises(BaseException):  # noqa: B017 what it raises is the client's choice
            at(url, every_tool)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130


@pytest.mark.server
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_canceled_call_over_http_stops_its_turn(plain_home, mode):
    async def work(client: Client) -> None:
        await call_and_leave(client, endpoint)
        assert await anyio.to_thread.run_sync(endpoint.disconnected.wait, 5), "the model is still writing"

    with (
        ScriptedServer(stalled) as endpoint,
        over_http(plain_home, "--index", "demo", "--generator", f"openai:tiny@{endpoint.url}") as (url, process),
    ):
        at(url, work, mode=mode)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0


# --- the command -----------------------------------------------------------------------------------------------------


def test_reports_all_wrong_flags_at_once(turnmark, home):
    ran = turnmark("mcp", "--index", "nowhere", "--index", "demo", "--port", "99999", "--generator", "nobody")
    assert ran.code == 2
    for problem in ("--port: only with --http", "--port 99999: expected a number", "'nowhere'", "'nobody'"):
        assert problem in ran.err
    ran = turnmark("mcp", "--index", "demo", "--http", "--host", "0.0.0.0")
    assert ran.code == 2
    assert "set a token with --token FILE or TURNMARK_TOKEN" in ran.err


# --- what the tools read and count -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(plain_home: Path) -> Iterator[ServedDocuments]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(plain_home))
        yield ServedDocuments(ServedIndexes({"demo": assistant_over("demo")}))


def test_answer_has_everything_that_ask_prints_except_the_trace():
    fields = set(Reply.model_fields) - {"trace"} | {"index"}
    assert set(schema_of(AskResult)["properties"]) == fields
    assert set(AskResult.of("demo", reply("It is red [1].", "kettle")).model_dump()) == fields


def test_schemas_contain_no_references():
    for record in (SearchArguments, ReadArguments, DocumentsArguments, AskResult):
        assert "$ref" not in json.dumps(schema_of(record))
    types = {each["type"] for each in schema_of(SearchArguments)["properties"]["where"]["anyOf"]}
    assert types == {"string", "array", "object"}


def test_reading_in_steps_returns_the_whole_document(demo, monkeypatch):
    for name, entry in demo.entries():
        text = demo.text(name, entry.document)
        assert len(text) == entry.characters
        for characters in (200, 777):
            monkeypatch.setattr(collection_module, "MAX_READ_CHARS", characters)
            pieces, start = [], 0
            while not pieces or pieces[-1].left_out:
                pieces.append(demo.read(ReadArguments(document=entry.document, start=start)))
                assert 0 < len(pieces[-1].text) <= characters
                start = pieces[-1].end
            assert "".join(piece.text for piece in pieces) == text
    with pytest.raises(RequestError, match=f"the document ends at character {entry.characters}"):
        demo.read(ReadArguments(document=entry.document, start=entry.characters))


def test_every_listed_section_can_be_read(demo):
    read = 0
    for name, entry in demo.entries():
        whole = demo.read(ReadArguments(document=entry.document))
        for section in whole.sections:
            part = demo.read(ReadArguments(document=entry.document, section=section))
            assert part.section == section
            assert section.rpartition(" › ")[2] in part.text[: part.text.find("\n") + 1]
            assert demo.text(name, entry.document)[part.start : part.end] == part.text
            read += 1
    assert read > 150


def test_section_includes_its_subsections(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    long = "\n\n".join(f"Paragraph {n} says that {'very ' * 60}much is to be read." for n in range(12))
    text = f"# Guide\n\nHello.\n\n## Care\n\n{long}\n\n### Oil\n\nOil it.\n\n### Rust\n\nScrub it.\n\n## Use\n\nCut.\n"
    guide = ServedDocuments(ServedIndexes({"n": over(tmp_path, guide=text)}))
    document = next(guide.entries())[1].document
    care = guide.read(ReadArguments(document=document, section="care"))
    assert care.text.startswith("## Care\n")
    assert care.text.rstrip().endswith("Scrub it.")
    assert care.sections == ("Care", "Care › Oil", "Care › Rust", "Use")
    for asked in ("Care › Oil", "Oil", "Guide › Care › Oil", "care › oil (continued)"):
        assert guide.read(ReadArguments(document=document, section=asked)).text.split() == ["###", "Oil", "Oil", "it."]


def test_finds_documents_regardless_of_accent_encoding(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    composed, apart = (unicodedata.normalize(form, "Übersicht") for form in ("NFC", "NFD"))
    served = ServedDocuments(ServedIndexes({"n": over(tmp_path, **{apart: "# Lamp\n\nLamps are green.\n"})}))
    for name in (composed, apart):
        assert "green" in served.read(ReadArguments(document=f"{name}.md")).text


def test_page_is_where_the_text_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    write_manual(tmp_path / "wheel.pdf")
    build_index(tmp_path / "wheel.pdf", "n", retriever="bm25")
    served = ServedDocuments(ServedIndexes({"n": assistant_over("n")}))
    second = served.text("n", "wheel.pdf").index(SECOND[:20])
    for start, page in ((0, 1), (second - 20, 1), (second, 2), (second + 20, 2)):
        assert served.read(ReadArguments(document="wheel.pdf", start=start)).page == page


@given(words=st.lists(st.sampled_from("bees honey knife lighthouse bread rye the old sharpening".split()), min_size=1))
def test_counts_words_over_all_documents(demo, words):
    """The counts equal those from reading every passage."""
    text = " ".join(words)
    if not stems(text):
        with pytest.raises(RequestError, match="too common"):
            demo.documents(DocumentsArguments(words=text))
        return
    expected: dict[str, int] = {}
    for page in demo.indexes.index("demo").store.pages():
        for _, _, passage in page:
            if stems(text) <= stems(passage.indexed_text):
                expected[passage.document] = expected.get(passage.document, 0) + 1
    found = demo.documents(DocumentsArguments(words=text))
    assert {match.document: match.matches for match in found.documents} == expected
    assert (found.total, found.of, found.left_out) == (len(expected), 80, 0)
