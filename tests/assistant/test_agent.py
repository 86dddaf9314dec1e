"""A model that searches and reads with tools, behind a real endpoint on loopback."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.assistant.notes import notes, over, script
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import ToolCall
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.steps.agent.document_tools import (
    DEFAULT_LINES,
    MAX_LINE_CHARACTERS,
    MAX_LINES,
    TOOLS,
    DocumentTools,
)
from turnmark.assistant.steps.agent.search_agent import (
    MAX_CALLS_PER_ROUND,
    MAX_ROUNDS,
    MIN_RESULT_TOKENS,
    RESULTS_FACTOR,
)
from turnmark.assistant.steps.retrieve.retrieve_sections import MIN_HITS
from turnmark.assistant.steps.step_results import Evidence
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.types import Event
from turnmark.corpora.types import Passage
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.types import Hit, RetrieverWrapper

KETTLE = "What colour is the kettle?"
UNDERSTOOD = Say("{}")
MANUAL = "# Manual\n\nWelcome to it.\n\n## Lamps\n\nLamps are green.\n\n## Doors\n\nDoors are brown.\n"
LONG = "# Long\n\n" + "".join(
    f"## Part {n}\n\n" + "".join(f"Sentence {n}.{m} says that door {n * m} is painted blue.\n\n" for m in range(40))
    for n in range(1, 6)
)


@pytest.fixture
def manual(kitchen, tmp_path):
    folder = notes(tmp_path / "m", manual=MANUAL, kettle="# Kettle\n\nThe kettle is red.\n", long=LONG)
    build_index(folder, "m", retriever="bm25")
    return assistant_over("m").retriever


def asked(index: str, *replies, message: str = KETTLE, options: str = "", **fields: Any):
    events: list[Event] = []
    with ScriptedServer(UNDERSTOOD, *replies) as server:
        generator = f"openai:tiny@{server.url}?retries=0{options}"
        assistant = assistant_over(index, generator, **{"top_k": 1, **fields})
        reply = assistant.reply([], message, events.append)
    return reply, server.bodies[1:], events


def tools_said(body: dict) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def calling(*calls: tuple[str, dict[str, str]], text: str = "") -> Say:
    return Say(text, calls=[(name, json.dumps(arguments)) for name, arguments in calls])


# --- who uses tools --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kitchen")
def test_agent_is_the_default_for_models_with_tools(tmp_path):
    with ScriptedServer(UNDERSTOOD, Say("Red [1].")) as server:
        spec = f"openai:tiny@{server.url}"
        forms = {
            name: assistant_over("n", spec + more).forms["retrieve"]
            for name, more in (("large", ""), ("small", "?size=small"))
        }
        assert forms == {"large": "agent", "small": "once"}
        assert assistant_over("n", spec, steps=("retrieve=read",)).forms["retrieve"] == "read"
    assert assistant_over("n", script(tmp_path, "x")).forms["retrieve"] == "read"
    assert assistant_over("n").forms["retrieve"] == "quote"


@pytest.mark.usefixtures("kitchen")
def test_immediate_answer_costs_no_extra_call():
    reply, bodies, _ = asked("n", Say("Ada Berg made it [1]."))
    assert (reply.answer, reply.decision) == ("Ada Berg made it [1].", "answer")
    assert [len(body["tools"]) for body in bodies] == [len(TOOLS)]
    assert sum(usage.calls for usage in reply.usage.values()) == 2
    assert (reply.trace.forms["retrieve"], reply.trace.calls) == ("agent", ())
    assert reply.notes == ()
    plain, without, _ = asked("n", Say("Ada Berg made it [1]."), steps=("retrieve=read",))
    assert plain.answer == reply.answer
    assert "tools" not in without[0]


@pytest.mark.usefixtures("manual")
def test_count_of_zero_can_be_cited():
    said = "None of 3 documents mentions it [1]."
    counting = calling(("grep", {"words": "unicorn"}))
    reply, bodies, _ = asked("m", counting, Say(said), message="Which pages mention unicorns?")
    assert '"None of 3 documents mentions it [9]."' in " ".join(bodies[0]["messages"][0]["content"].split())
    assert tools_said(bodies[1])[0].startswith("[1]\n> Count of “unicorn”: in none of 3 documents")
    assert (reply.answer, reply.decision, reply.checks.unsupported) == (said, "answer", ())
    assert reply.citations[0].title == "Count of “unicorn”: in none of 3 documents"


@pytest.mark.usefixtures("manual")
def test_refusal_with_a_count_has_its_sources_and_answers_no_part():
    said = "None of 3 documents mentions it [2]. The documents do not say who rides it [0]. Doors are brown [1]."
    counting = calling(("grep", {"words": "unicorn"}))
    reply, _, _ = asked("m", counting, Say(said), message="Who rides the doors with a unicorn?")
    assert (reply.decision, reply.checks.parts_answered) == ("unknown", None)
    assert [part.answered for part in reply.sub_questions] == [False]
    assert reply.answer.startswith("None of 3 documents mentions it [1].")
    assert [citation.n for citation in reply.citations] == [1, 2]
    assert reply.citations[0].title == "Count of “unicorn”: in none of 3 documents"


@pytest.mark.usefixtures("kitchen")
def test_given_evidence_is_answered_without_tools():
    given_passage = Passage(id="p", document="p", title="", text="The kettle is red.", start=0, end=18)
    with ScriptedServer(Say("Red [1].")) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}")
        reply = assistant.reply([], KETTLE, evidence=[Hit(passage=given_passage, score=1.0)])
    assert not any("tools" in body for body in server.bodies)
    assert reply.trace.forms["retrieve"] == "read"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "tiny does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (404, "No endpoints found that support tool use."),
        (422, "Extra inputs are not permitted: tools"),
    ],
)
@pytest.mark.usefixtures("kitchen")
def test_tools_are_not_sent_again_after_an_endpoint_refused_them(status, words):
    replies = [UNDERSTOOD, Status(status, words), Say("Ada Berg made it [1]."), UNDERSTOOD, Say("Red [1].")]
    with ScriptedServer(*replies) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}?retries=0")
        first, second = assistant.reply([], "Who made it?"), assistant.reply([], KETTLE)
    assert (first.answer, second.answer) == ("Ada Berg made it [1].", "Red [1].")
    assert first.notes == ("answered without tools: the endpoint takes none",)
    assert second.notes == ()
    assert ["tools" in body for body in server.bodies] == [False, True, False, False, False]
    assert (second.trace.forms["retrieve"], second.usage["answer"].calls) == ("read", 1)
    without = server.bodies[2]["messages"][0]["content"]
    assert "Searching on" not in without, "the prompt mentions no tools"


@pytest.mark.usefixtures("kitchen")
def test_tools_are_sent_again_after_a_prompt_was_too_long():
    words = (
        "This model's maximum context length is 900 tokens, you requested 950 (700 in the messages, 250 in the tools)"
    )
    replies = [UNDERSTOOD, Status(400, words), Say("Red [1]."), UNDERSTOOD, Say("Red [1].")]
    with ScriptedServer(*replies) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}?retries=0")
        first = assistant.reply([], KETTLE)
        assistant.reply([], KETTLE)
    assert first.answer == "Red [1]."
    assert ["tools" in body for body in server.bodies] == [False, True, False, False, True]


@pytest.mark.usefixtures("kitchen")
def test_small_context_gets_no_tools():
    reply, bodies, _ = asked("n", Say("Red [1]."), options="&context=4096")
    assert ("tools" in bodies[0], reply.notes) == (False, ())
    assert reply.trace.forms["retrieve"] == "read"


# --- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kitchen")
def test_sections_found_by_the_model_continue_the_numbering():
    calls = [("search", '{"query": "Ada Berg died"}')]
    reply, bodies, events = asked("n", Say("", calls=calls), Say("In 1931 [2]."))
    assert reply.answer == "".join(event.delta for event in events) == "In 1931 [1]."
    assert reply.decision == "answer"
    assert [(citation.n, citation.document) for citation in reply.citations] == [(1, "berg.md")]
    assert reply.trace.calls[0].found == "1 section [1]", "numbered as in the answer"
    [result] = tools_said(bodies[1])
    assert result.startswith("[2]\n> Ada Berg")
    assert [search.why for search in reply.trace.searches] == ["the message", "the model searches on"]
    assert [event.text for event in events if "tool" in event.detail] == [
        "search: Ada Berg died", "search: Ada Berg died → 1 section [2]",
    ]  # fmt: skip
    assert reply.usage["answer"].calls == 2
    assert bodies[1]["messages"][: len(bodies[0]["messages"])] == bodies[0]["messages"], "only appended to"
    system, user = bodies[0]["messages"]
    assert "a first search of 3 documents found" in " ".join(system["content"].split())
    assert user["content"].endswith(f"The user's message:\n{KETTLE}"), "the question comes last"
    assert reply.timings["answer"] > 0


@pytest.fixture
def pots(kitchen, tmp_path):
    """Ten notes that a search for pots finds, the first far better than the others, and a navigation page."""
    shelves = {n: "".join(f"Shelf {n * m} is near. " for m in range(40)) for n in range(1, 10)}
    text = {f"pot{n}": f"# Pot {n}\n\n{shelves[n]}It is a pot.\n" for n in shelves}
    text["pot0"] = "# Copper pot\n\nThe copper pot is polished with lemon: copper pot, lemon.\n"
    text["_Sidebar"] = "# Sidebar\n\n- Copper pot\n- Polished copper pot with lemon\n"
    build_index(notes(tmp_path / "p", **text), "p", retriever="bm25")


POLISH = "What is the copper pot polished with?"


@pytest.mark.usefixtures("pots")
def test_hits_far_from_the_best_are_only_named_until_they_are_read():
    reading = calling(("read", {"number": "#1"}))
    reply, bodies, _ = asked("p", reading, Say("With lemon [1]."), message=POLISH, top_k=8, tokens=900)
    prompt = bodies[0]["messages"][-1]["content"]
    shown = re.findall(r"^\[\d+\]\n> (.*) \(", prompt, re.MULTILINE)
    named = re.findall(r"^> #(\d+) (.+) \((.+)\): \d+ tokens$", prompt, re.MULTILINE)
    assert shown[0] == "Copper pot"
    assert len(shown) <= MIN_HITS
    assert [number for number, *_ in named] == [str(n) for n in range(1, len(named) + 1)]
    assert "Sidebar" in [title for _, title, _ in named]
    assert not {title for _, title, _ in named} & set(shown)
    assert f"[{len(shown) + 1}]\n> {named[0][1]} ({named[0][2]})" in tools_said(bodies[1])[0]
    assert reply.trace.calls[0].asked == "#1"


@pytest.mark.usefixtures("pots")
def test_further_sections_are_shown_while_there_is_room():
    shown = []
    for tokens in (900, 3000):
        _, bodies, _ = asked("p", Say("With lemon [1]."), message=POLISH, top_k=8, tokens=tokens)
        shown.append(re.findall(r"^\[\d+\]\n> (.*) \(", bodies[0]["messages"][-1]["content"], re.MULTILINE))
    assert MIN_HITS < len(shown[1]) < 8
    assert shown[0][0] == shown[1][0] == "Copper pot"


@pytest.mark.usefixtures("pots")
def test_first_hit_of_each_search_phrase_is_kept_and_late_hits_need_one():
    part = {"question": POLISH, "search": ["the sidebar", "shelf 81 is near"]}
    understood = Say(json.dumps({"parts": [part]}))
    with ScriptedServer(understood, Say("With lemon [1].")) as server:
        assistant = assistant_over("p", f"openai:tiny@{server.url}?retries=0", top_k=8, tokens=900)
        assistant.reply([], POLISH)
    prompt = server.bodies[1]["messages"][-1]["content"]
    assert "Pot 9 (pot9.md)" in prompt
    plain = asked("p", Say("With lemon [1]."), message=POLISH, top_k=8, tokens=900)[1][0]["messages"][-1]["content"]
    assert len(re.findall("^> #", prompt, re.MULTILINE)) <= len(re.findall("^> #", plain, re.MULTILINE))


@pytest.mark.usefixtures("pots")
def test_all_sections_are_shown_to_a_model_without_tools():
    refused = [Status(400, "tiny does not support tools"), Say("With lemon [1].")]
    _, (with_tools, without), _ = asked("p", *refused, message=POLISH, top_k=8, tokens=900)
    _, (plain,), _ = asked("p", Say("With lemon [1]."), message=POLISH, top_k=8, tokens=900, steps=("retrieve=read",))
    assert without["messages"] == plain["messages"]
    assert len(with_tools["messages"][-1]["content"]) < len(without["messages"][-1]["content"])
    assert "only named" not in without["messages"][-1]["content"]


@pytest.mark.usefixtures("kitchen")
def test_parallel_calls_are_answered_in_one_round():
    calls = [("search", {"query": "Ada Berg died"}), ("documents", {}), ("search", {"query": "Ada Berg died"})]
    reply, bodies, _ = asked("n", calling(*calls), Say("In 1931 [2]."))
    said = tools_said(bodies[1])
    assert len(said) == 3
    assert said[2].startswith("This was called before: what it found stands above.\n\n(Left: 7 rounds, about 14,")
    assert "(Left:" not in said[0] + said[1], "it is said once in a round"
    assert [call.round for call in reply.trace.calls] == [1, 1, 1]
    ids = [message["tool_call_id"] for message in bodies[1]["messages"] if message["role"] == "tool"]
    assert len(set(ids)) == 3


@pytest.mark.usefixtures("manual")
def test_distinguishes_similar_calls():
    calls = [("read", {"document": "long.md", "section": "2"}), ("read", {"document": "long.md", "after": "2"})]
    long = [("search", {"query": f"{'door ' * 40}{n}"}) for n in range(2)]
    reply, bodies, _ = asked("m", calling(*calls, *long), Say("Blue [1]."))
    assert not any("called before" in said for said in tools_said(bodies[1]))
    assert [call.asked for call in reply.trace.calls][:2] == ["long.md › 2", "long.md › behind [2]"]


@pytest.mark.usefixtures("kitchen")
def test_calls_beyond_the_limit_per_round_are_refused():
    calls = [("search", {"query": f"kettle {n}"}) for n in range(MAX_CALLS_PER_ROUND + 2)]
    _, bodies, _ = asked("n", calling(*calls), Say("Red [1]."))
    assert [said.startswith(f"At most {MAX_CALLS_PER_ROUND} calls") for said in tools_said(bodies[1])] == [
        False
    ] * MAX_CALLS_PER_ROUND + [True] * 2


@pytest.mark.usefixtures("kitchen")
def test_model_must_answer_after_the_last_round():
    rounds = [calling(("search", {"query": f"kettle {n}"})) for n in range(MAX_ROUNDS)]
    reply, bodies, _ = asked("n", *rounds, Say("Not known."))
    assert ["tools" in body for body in bodies] == [True] * MAX_ROUNDS + [False]
    assert tools_said(bodies[-1])[-1].endswith("(No calls are left: answer now.)")
    assert reply.answer == "Not known."
    assert reply.notes == ("the model had searched 8 rounds, and answered from what it had found",)


@pytest.mark.usefixtures("kitchen")
def test_repeated_call_ends_the_search():
    call = calling(("search", {"query": "kettle"}))
    reply, bodies, _ = asked("n", call, call, Say("Red [1]."))
    assert ["tools" in body for body in bodies] == [True, True, False]
    assert reply.notes == ("the model repeated its calls, and answered from what it had found",)


@pytest.mark.usefixtures("kitchen")
def test_model_that_keeps_calling_is_asked_to_answer_from_its_results():
    call = calling(("search", {"query": "Ada Berg died"}))
    reply, bodies, _ = asked("n", call, call, call, Say("In 1931 [2]."))
    assert reply.answer == "In 1931 [1]."
    assert "[2]\n> Ada Berg" in bodies[-1]["messages"][-1]["content"]


@pytest.mark.usefixtures("manual")
def test_results_stop_at_the_token_budget():
    """The budget is a multiple of the tokens of the first search; each result gets what is left of it."""
    tokens = 400
    numbers = iter(range(2, 30))

    def reading_on(body: dict[str, Any]) -> Say:
        calls = [("read", {"document": "long.md", "after": str(next(numbers))})]
        return calling(*calls) if "tools" in body else Say("Blue [1].")

    parts = calling(*(("read", {"document": "long.md", "section": f"Part {n}"}) for n in range(1, 6)))
    reply, bodies, _ = asked("m", parts, reading_on, tokens=tokens)
    said = tools_said(bodies[-1])
    assert RESULTS_FACTOR * tokens <= sum(map(count_tokens, said)) < (RESULTS_FACTOR + 1) * tokens
    assert "tools" not in bodies[-1]
    assert reply.notes == ("the model had read as much as it may in a turn, and answered from that (--tokens)",)
    assert f"about {RESULTS_FACTOR * tokens:,} tokens of results" in " ".join(
        bodies[0]["messages"][0]["content"].split()
    )
    assert RESULTS_FACTOR * tokens >= MIN_RESULT_TOKENS


@pytest.mark.usefixtures("kitchen")
def test_truncated_answer_is_requested_again_with_more_tokens():
    reply, bodies, _ = asked("n", Say("It is", "length"), Say("It is red [1]."))
    assert reply.answer == "It is red [1]."
    assert "tools" not in bodies[1]
    assert bodies[1]["max_tokens"] == 2 * bodies[0]["max_tokens"]


@pytest.mark.usefixtures("kitchen")
def test_answer_omits_thoughts_and_calls_are_cached():
    replies = [calling(("search", {"query": "Ada Berg died"})), Say("<think>Hm.</think>In 1931 [2].")]
    with ScriptedServer(UNDERSTOOD, *replies) as server:
        assistant = assistant_over("n", f"openai:tiny@{server.url}?cache=1", top_k=1)
        first, second = assistant.reply([], KETTLE), assistant.reply([], KETTLE)
        assert len(server.bodies) == 3
    assert first.answer == second.answer == "In 1931 [1]."
    assert second.usage["answer"].calls == 0


# --- results of tools -----------------------------------------------------------------------------------------------


def tools_over(retriever) -> DocumentTools:
    return DocumentTools(Turn("x", retriever=retriever), retriever, Evidence(()))


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=json.dumps(arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("read", {"document": "manual.md", "section": "doors"}, "Doors are brown."),
        ("read", {"document": "Manual", "section": "## Doors"}, "Doors are brown."),
        ("read", {"document": "manual.md", "section": "Roofs"}, "no such section in it; its sections: "),
        ("read", {"document": "../etc/passwd"}, "no document is called '../etc/passwd'; `documents` lists them."),
        ("read", {"document": "manual.md", "after": "7"}, "no section has the number '7'."),
        ("read", {}, "read needs a document, or number or after."),
        ("read", {"number": "#1"}, "no section is named '#1'."),
        ("read", {"number": "²"}, "no section is named '²'."),
        ("outline", {"document": "manual.md"}, "- Doors: 8 tokens"),
        ("grep", {"words": "the kettle"}, "Count of “the kettle”: 1 time in 1 section of 1 of 3 documents"),
        ("grep", {"words": "door blue"}, "in none of 3 documents"),
        ("grep", {"words": "no such thing|the kettle"}, "Count of `/no such thing|the kettle/`: 1 time in 1 section"),
        ("grep", {"words": "/door.? (are|\\d+)/"}, "Count of `/door.? (are|\\d+)/`: 201 times"),
        ("grep", {"words": "/(/"}, "/(/ is not a valid regular expression"),
        ("grep", {"words": "/(?R)/"}, "is recursive"),
        ("grep", {"words": "x" * 5000}, "is longer than 200 characters"),
        ("grep", {"words": "red", "where": "manual.md"}, "in none of 1 document in manual.md"),
        ("documents", {"words": "red kettle"}, "Documents: 1 of 3 documents hold all of “red kettle”"),
        ("documents", {}, "Documents: 3 documents"),
        ("documents", {"where": "nowhere/"}, "no document is in 'nowhere/'; leave `where` out."),
        ("search", {"query": "is red", "where": "title=Kettle"}, "[1]\n> Kettle"),
        ("search", {"query": "doors", "where": "colour=red"}, "no document is in 'colour=red'"),
        ("search", {"query": "zyzzyva quux"}, "Nothing was found."),
        ("delete", {"query": "x"}, "There is no tool 'delete'; there are: search, read, outline, grep, documents."),
    ],
)  # fmt: skip
def test_result_of_each_tool(manual, name, arguments, result):
    assert result in tools_over(manual).result(call(name, **arguments), 1500).text


def test_reports_arguments_that_are_not_json(manual):
    assert (
        tools_over(manual).result(ToolCall(id="1", name="search", arguments="{not"), 99).text.endswith("JSON object.")
    )


def test_long_section_is_read_in_pieces(manual):
    tools = tools_over(manual)
    text = tools.result(call("read", document="long.md", section="Part 2"), 300).text
    left = re.search(r"About ([\d,]+) tokens of it are left: read on with after=(\d+)\.$", text)
    assert left
    assert int(left[1].replace(",", "")) > 200
    seen = text
    while left := re.search(r"after=(\d+)\.$", text):
        text = tools.result(call("read", document="long.md", after=left[1]), 300).text
        seen += text
    assert all(f"Sentence {n}.{m} " in seen for n in range(2, 6) for m in range(40)), "up to the end of the document"
    assert "Sentence 1.39" not in seen


@given(st.lists(st.sampled_from(
    [("search", {"query": "door painted"}), ("search", {"query": "lamps doors"}), ("read", {"document": "long.md"}),
     ("read", {"document": "long.md", "section": "Part 3"}), ("read", {"document": "manual.md", "after": "1"}),
     ("read", {"document": "manual.md"})]), min_size=2, max_size=6))  # fmt: skip
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tools_show_no_text_twice(manual, calls):
    tools = tools_over(manual)
    shown = "\n".join(tools.result(call(name, **arguments), 700).text for name, arguments in calls)
    sentences = re.findall(r"Sentence \d+\.\d+ |Lamps are green|Doors are brown|The kettle is red", shown)
    assert len(sentences) == len(set(sentences))
    spans = [(hit.passage.document, hit.passage.start, hit.passage.end) for hit in tools.sources.hits]
    for document, start, end in spans:
        assert [span for span in spans if span[0] == document and span[1] < end and start < span[2]] == [
            (document, start, end)
        ]


def test_text_shown_before_is_referred_to_by_number(manual):
    tools = tools_over(manual)
    first = tools.result(call("read", document="manual.md"), 1500)
    again = tools.result(call("search", query="brown doors"), 1500)
    assert first.found == "1 section [1]"
    assert "Also found, and shown above: [1]." in again.text
    assert tools.result(call("read", document="manual.md", section="Doors"), 1500).text == "Shown above: [1]."


def test_outline_does_not_count_as_shown_text(manual):
    tools = tools_over(manual)
    outline = tools.result(call("outline", document="manual.md"), 1500)
    assert outline.text.startswith("[1]\n> Outline of Manual")
    assert "Welcome to it." in tools.result(call("read", document="manual.md"), 1500).text
    assert tools.result(call("read", document="manual.md", after="1"), 1500).text == "no section has the number '1'."


def test_folder_filter_does_not_match_a_name_prefix(kitchen, tmp_path):
    folder = tmp_path / "f"
    for name in ("tea/black.md", "tea-old/green.md", "tea.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("The kettle boils.\n", encoding="utf-8")
    (folder / "mail.jsonl").write_text('{"text": "A kettle."}\n{"text": "Red kettle."}\n', encoding="utf-8")
    build_index(folder, "f", retriever="bm25")
    tools = tools_over(assistant_over("f").retriever)
    for where, documents in (("tea", 1), ("tea/", 1), ("tea.md", 1), ("tea-old", 1), ("te", 3), ("mail.jsonl", 2)):
        found = tools.result(call("grep", words="kettle", where=where), 1500).found
        assert f"of {documents} document{'s'[: documents > 1]} in {where} (of 5 in all)" in found
    assert "> mail (mail.jsonl#2)" in tools.result(call("search", query="red"), 1500).text


def test_finds_documents_regardless_of_accent_encoding(kitchen, tmp_path):
    composed, apart = (unicodedata.normalize(form, "Übersicht") for form in ("NFC", "NFD"))
    build_index(notes(tmp_path / "u", **{apart: "# Lamp\n\nLamps are green.\n"}), "u", retriever="bm25")
    for name in (composed, apart):
        read = tools_over(assistant_over("u").retriever).result(call("read", document=f"{name}.md"), 1500)
        assert "Lamps are green." in read.text


def test_grep_accepts_a_list_of_words(manual):
    result = tools_over(manual).result(call("grep", words=["the", "kettle"]), 1500)
    assert "Count of “the kettle”: 1 time in 1 section of 1 of 3 documents" in result.text


def test_long_counts_say_how_many_lines_are_omitted(manual):
    tools = tools_over(manual)
    result = tools.result(call("grep", words="painted"), 1500)
    assert "Count of “painted”: 200 times in 5 sections of 1 of 3 documents" in result.text
    assert "\n> - long.md (Long): 200\n" in result.text
    for lines, shown in (("", DEFAULT_LINES), ("12", 12), ("500", MAX_LINES), ("all", DEFAULT_LINES)):
        text = tools.result(call("grep", words="painted", lines=lines), 1500).text
        assert text.count("\n> - long.md › Part") == shown
        assert f"… and {200 - shown} lines more" in text
    assert result.text.startswith("[1]\n")
    assert tools.sources.hits[0].passage.document == "3 documents"


@pytest.mark.parametrize("room", [80, 150])
def test_results_report_omitted_rows(kitchen, tmp_path, room):
    folder = notes(tmp_path / "w", **{f"pot{n:02}": f"# Pot {n}\n\nPot {n} is red.\n" for n in range(40)})
    build_index(folder, "w", retriever="bm25")
    tools = tools_over(assistant_over("w").retriever)
    for name, arguments in (("documents", {}), ("grep", {"words": "red"})):
        text = tools.result(call(name, **arguments), room).text
        rows = len(re.findall(r"^> - pot\d\d\.md \(", text, re.MULTILINE))
        lines = len(re.findall(r"^> - pot\d\d\.md: Pot", text, re.MULTILINE))
        assert 0 < rows < 40
        assert f"> … and {40 - rows} more documents" in text
        assert name == "documents" or f"> … and {40 - lines} lines more" in text


def test_long_line_is_shown_around_its_first_match(tmp_path):
    text = "The leaders were " + ", ".join(f"Name{number} Surname{number}" for number in range(60)) + "."
    tools = tools_over(over(tmp_path, leaders=text).retriever)
    quoted = tools.result(call("grep", words="Surname40"), 1500).text.rpartition("leaders.md: ")[2]
    assert quoted.startswith("…Name36 Surname36, ")
    assert "Name40 Surname40, Name41" in quoted
    assert len(quoted.strip()) <= MAX_LINE_CHARACTERS + 2
    assert "leaders.md: The leaders were Name0" in tools.result(call("grep", words="Surname1"), 1500).text


def test_result_respects_its_token_limit(manual):
    for name, arguments in (("grep", {"words": "painted"}), ("outline", {"document": "long.md"}), ("documents", {})):
        assert count_tokens(tools_over(manual).result(call(name, **arguments), 60).text) < 60 + 40


KEYS = st.sampled_from(["query", "document", "section", "after", "words", "where"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["manual.md", "Doors", "1", "/(a+)+$/", "document=*"]),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=5,
)


@given(st.sampled_from([tool.name for tool in TOOLS]), JSON.map(json.dumps) | st.text(max_size=30))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_arguments_produce_a_text_result(manual, name, arguments):
    result = tools_over(manual).result(ToolCall(id="1", name=name, arguments=arguments), 500)
    assert result.text.strip()
    assert "\n" not in result.found


def test_tool_definitions_are_short():
    """They are sent with every request, so an immediate answer costs little more than one without tools."""
    assert count_tokens(json.dumps([tool.model_dump() for tool in TOOLS])) < 600


def test_tools_that_count_need_all_passages(manual):
    class Bare(RetrieverWrapper):
        def collection(self):
            return None

    tools = tools_over(Bare(manual))
    assert [tool.name for tool in tools.tools] == ["search", "read"]
    assert tools.result(call("grep", words="red"), 500).found == "no such tool"
    assert "Doors are brown." in tools.result(call("read", document="manual.md"), 500).text
    assert "leave `where` out" in tools.result(call("search", query="doors", where="manual.md"), 500).text
