"""LlamaIndex's chat engine as a system: its requests and its failed turns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conversations import llama_index
from tests.conversations.conftest import FERRY
from tests.conversations.labels import LabelledTurn
from tests.conversations.opening import open_system
from tests.conversations.runner import Corpus, Journal, hold_all
from tests.conversations.scoring import score
from tests.conversations.systems import PASSAGES, CountedGenerator
from tests.servers import USAGE, Say, ScriptedServer, Status
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.core.console import NoProgress
from turnmark.core.errors import RequestError

pytestmark = pytest.mark.server

FIRST, SECOND = (each.say for each in FERRY.turn)


def messages(server: ScriptedServer) -> list[list[dict[str, Any]]]:
    """Return role and text of the messages of each request."""
    return [[{"role": each["role"], "content": each["content"]} for each in body["messages"]] for body in server.bodies]


def test_follow_up_is_condensed_searched_and_answered(demo: Corpus) -> None:
    replies = Say("It is 21 metres tall."), Say("Who keeps the lighthouse?"), Say("You're welcome.")
    with ScriptedServer(*replies) as server:
        spec = f"llama-index+openai:tiny@{server.url}?context=8192"
        (held,) = hold_all(spec, {"demo": demo}, {"demo": [FERRY]}, NoProgress())
        (again,) = hold_all(spec, {"demo": demo}, {"demo": [FERRY]}, NoProgress())
    assert [(each.text, each.decision, each.rewrite, each.prompt_tokens) for each in held.answers] == [
        ("It is 21 metres tall.", None, FIRST, USAGE["prompt_tokens"]),
        ("You're welcome.", None, "Who keeps the lighthouse?", 2 * USAGE["prompt_tokens"]),
    ]
    assert again == held
    first, condense, second = messages(server)
    assert [each["role"] for each in first] == ["system", "user"]
    assert "Stack Nell" in first[0]["content"]
    assert first[0]["content"].count("file_path: ") == PASSAGES
    assert [each["role"] for each in condense] == ["user"]
    assert "It is 21 metres tall." in condense[0]["content"]
    assert [each["content"] for each in second[1:]] == [FIRST, "It is 21 metres tall.", SECOND]


def test_generator_gets_the_same_requests_as_the_llama_index_client(demo: Corpus) -> None:
    from llama_index.llms.openai_like import OpenAILike

    def asked(client_of_llama_index: bool) -> list[list[dict[str, Any]]]:
        with ScriptedServer(Say("It is 21 metres tall."), Say("Who keeps it?"), Say("The Board.")) as server:
            generator = open_generator(f"openai:tiny@{server.url}?context=8192")
            assert generator is not None
            system = llama_index.LlamaIndexChat(demo.index, CountedGenerator(generator))
            if client_of_llama_index:
                limits = {"context_window": generator.context_tokens, "max_tokens": generator.reply_tokens}
                system._llm = OpenAILike(model="tiny", api_base=server.url, api_key="x", is_chat_model=True, **limits)
            ask = system.converse()
            assert [ask(FIRST).text, ask("and who keeps it?").text] == ["It is 21 metres tall.", "The Board."]
            return messages(server)

    assert asked(client_of_llama_index=False) == asked(client_of_llama_index=True)


def test_failed_turn_is_kept_and_the_conversation_continues(demo: Corpus) -> None:
    with ScriptedServer(Status(400, "no such model"), Say("You're welcome.")) as server:
        spec = f"llama-index+openai:tiny@{server.url}?context=8192"
        (held,) = hold_all(spec, {"demo": demo}, {"demo": [FERRY]}, NoProgress())
    failed, answered = held.answers
    assert "no such model" in failed.error
    assert (answered.text, answered.rewrite) == ("You're welcome.", SECOND)
    assert not Journal(spec).path.exists()


def test_exception_of_llama_index_fails_the_turn(demo: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("no vector")

    with ScriptedServer(Say("never asked")) as server:
        spec = f"llama-index+openai:tiny@{server.url}?context=8192"
        monkeypatch.setattr(llama_index.MiniLM, "_get_query_embedding", broken)
        (held,) = hold_all(spec, {"demo": demo}, {"demo": [FERRY]}, NoProgress())
    assert [each.error for each in held.answers] == ["LlamaIndex failed: ValueError: no vector"] * 2
    assert server.bodies == []


def test_refusal_requested_by_its_prompt_is_recognized(demo: Corpus) -> None:
    with ScriptedServer(Say("Don’t know.")) as server:
        system = open_system(f"llama-index+openai:tiny@{server.url}?context=8192", demo.index)
        answer = system.converse()(FIRST)
    assert score(LabelledTurn(say=FIRST, kind="unknown"), answer, None).right


@pytest.mark.parametrize("inner", ["", "extractive"])
def test_llama_index_needs_a_language_model(demo: Corpus, inner: str) -> None:
    with pytest.raises(RequestError, match=r"needs a language model: llama-index\+local:"):
        open_system(f"llama-index+{inner}", demo.index)
