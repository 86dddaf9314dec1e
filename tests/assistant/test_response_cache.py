"""The cache of replies: keys, replies that are not cached, concurrency and damaged files."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tests.assistant.endpoint import ASK, Colour, opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import GeneratorError, PromptMessage
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.llm.generators.response_cache import (
    CachedGenerator,
    ResponseStore,
    default_store,
    for_repeat,
    with_cache,
)
from turnmark.assistant.types import Usage
from turnmark.core.home import home


class Shade(BaseModel):
    name: str


@pytest.fixture
def store(tmp_path):
    opened_store = ResponseStore(tmp_path / "cache" / "replies.db")
    yield opened_store
    opened_store.close()


def counted():
    """Return a script with a different reply for each request."""
    numbers = iter(range(1000))
    return lambda body: Say(f"reply {next(numbers)}")


def cached(server, store, options="", model="tiny", repeat=0):
    return CachedGenerator(opened(server, options, model), store, repeat)


def test_cached_reply_is_free_and_marked(store):
    text = 'Ä "1" \u2028 \U0001f600 </s>\n'
    with ScriptedServer(Say(text)) as server:
        first = cached(server, store).complete(ASK)
        again = cached(server, store).complete(ASK)  # another object, as in another run
        assert len(server.bodies) == 1
    assert again.text == first.text == text
    assert (first.saved, first.usage.calls, first.usage.prompt_tokens) == (None, 1, 11)
    assert again.usage == Usage()
    assert again.saved == first.usage
    assert again.model_copy(update={"saved": None, "usage": first.usage}) == first


def test_cached_reply_streams_in_one_piece(store):
    pieces = []
    with ScriptedServer(counted()) as server:
        generator = cached(server, store)
        generator.complete(ASK)
        reply = generator.complete(ASK, on_text=pieces.append)
        assert len(server.bodies) == 1
        generator.complete(ASK[1:], on_text=lambda piece: None)
        assert generator.complete(ASK[1:]).saved
    assert pieces == [reply.text] == ["reply 0"]


def test_key_covers_everything_that_can_change_a_reply(store):
    requests = [{}, {"max_tokens": 7}, {"temperature": 0.5}, {"schema": Colour}, {"schema": Shade}]
    with (
        ScriptedServer(lambda body: Say('{"name": "red"}')) as server,
        ScriptedServer(Say("x")) as second_server,
    ):
        plain = cached(server, store)
        calls = [lambda options=options: plain.complete(ASK, **options) for options in requests]
        calls += [
            lambda: plain.complete([PromptMessage(role="user", content="How are you?")]),
            lambda: plain.complete([ASK[0], PromptMessage(role="user", content="How are you? ")]),
            lambda: plain.complete([PromptMessage(role="user", content="Be brief."), ASK[1]]),
            lambda: cached(server, store, model="small").complete(ASK),
            lambda: cached(server, store, options="?seed=1").complete(ASK),
            lambda: cached(server, store, options="?seed=2").complete(ASK),
            lambda: cached(server, store, repeat=1).complete(ASK),
            lambda: cached(second_server, store).complete(ASK),
        ]
        assert [call().saved for call in calls] == [None] * len(calls)
        assert all(call().saved for call in calls)
        assert len(server.bodies) + len(second_server.bodies) == len(calls)


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        (Say("Half a", finish_reason="length"), {}),
        (Say("Filtered", finish_reason="content_filter"), {}),
        (Say(""), {}),
        (Say('{"nam": "red"}'), {"schema": Colour}),
        (Say(None, refusal="I cannot help with that."), {}),
        (Status(500), {}),
        (Status(400, "response_format is not supported"), {"schema": Colour}),
        (Say("one two", cut=1), {"on_text": lambda piece: None}),
    ],
)
def test_failed_and_incomplete_replies_are_not_cached(store, reply, options):
    with ScriptedServer(reply, Say('{"name": "red"}')) as server:
        try:
            assert cached(server, store, "?retries=0").complete(ASK, **options).saved is None
        except GeneratorError:
            pass
        assert cached(server, store, "?retries=0").complete(ASK, **options).saved is None
        assert len(server.bodies) == 2
        assert cached(server, store, "?retries=0").complete(ASK, **options).saved


def test_cache_option_does_not_change_the_name():
    with ScriptedServer(counted()) as server:
        spec = f"openai:tiny@{server.url}?seed=4"
        plain, cached_generator, off = (open_generator(spec + end) for end in ("", "&cache=1", "&cache=0"))
        assert {generator.name for generator in (plain, cached_generator, off)} == {spec}
        assert not isinstance(off, CachedGenerator)
        assert [cached_generator.complete(ASK).text for _ in range(2)] == ["reply 0"] * 2
        assert [plain.complete(ASK).text for _ in range(2)] == ["reply 1", "reply 2"]
        assert cached_generator.reply_tokens == plain.reply_tokens
        assert cached_generator.deadline == plain.deadline
        repeats = [for_repeat(cached_generator, repeat) for repeat in range(3)]
        assert [generator.complete(ASK).text for generator in repeats] == ["reply 0", "reply 3", "reply 4"]
        assert [for_repeat(with_cache(plain), repeat).complete(ASK).text for repeat in range(2)] == [
            "reply 0",
            "reply 3",
        ]
    path = home() / "cache" / "replies.db"
    assert path.stat().st_mode & 0o777 == 0o600
    default_store().close()


def _blocked(path):
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("not a folder", encoding="utf-8")


def _damaged(path):
    path.parent.mkdir()
    path.write_bytes(b"This is no database, " * 500)


@pytest.mark.parametrize("spoil", [_blocked, _damaged])
def test_unusable_cache_file_is_reported_once_and_ignored(tmp_path, spoil, capsys):
    store = ResponseStore(tmp_path / "cache" / "replies.db")
    spoil(store.path)
    with ScriptedServer(counted()) as server:
        replies = [cached(server, store).complete(ASK).text for _ in range(3)]
    assert replies == ["reply 0", "reply 1", "reply 2"]
    assert capsys.readouterr().err.count("turnmark: ") == 1


def test_evicts_the_oldest_replies_at_the_size_limit(tmp_path):
    store = ResponseStore(tmp_path / "r.db", limit=400_000)
    for number in range(200):
        store.put(f"key {number}", f"{number} " * 1000)
    present = [number for number in range(200) if store.get(f"key {number}") is not None]
    assert present == list(range(200 - len(present), 200))
    assert 20 < len(present) < 150
    store.close()
    assert (tmp_path / "r.db").stat().st_size < 500_000
