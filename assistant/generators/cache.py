"""Replies that are not paid for twice: a generator in front of another, with what that said kept in a file.

The key is everything that can change a reply: what the generator is (model, endpoint, seed, engine arguments), the
messages, the limit, the temperature, the schema, whether logprobs are wanted, and the number of the repeat, so that
repeats of one sample stay samples. The deadline, retries, the key and whether it is streamed change nothing.

Only a reply that ended by itself is kept: one that was cut or filtered, that is empty, that is not of the form that was
asked for, and every failure is asked for anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from turnmark.assistant.generators.base import Completion, Generator, OnText, PromptMessage, make_ready
from turnmark.assistant.generators.behind import Behind
from turnmark.assistant.generators.schema import strict_schema
from turnmark.assistant.generators.store import ResponseStore, default_store
from turnmark.assistant.types import Usage

_FORM = 1
"""Of what is kept; raised when a change makes older replies unreadable, or their keys mean something else."""


class Cached(Behind):
    """Answers from a store what it has answered before.

    A reply from the store has `saved`, no calls and no tokens in its `usage`, and is streamed in one piece.

    Args:
        generator: is asked for what is not in the store. Its `identity`, where it has one, tells it from others;
            else its name does.
        store: keeps the replies.
        repeat: number of the repeat of a sample: each has replies of its own.
    """

    def __init__(self, generator: Generator, store: ResponseStore, repeat: int = 0) -> None:
        super().__init__(generator)
        self.store, self.repeat = store, repeat

    def __repr__(self) -> str:
        return f"Cached({self.generator!r}, repeat={self.repeat})"

    def make_ready(self) -> None:
        """See `turnmark.assistant.generators.base.make_ready`."""
        make_ready(self.generator)

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: type[BaseModel] | None = None,
        deadline: float | None = None,
        on_text: OnText | None = None,
        logprobs: bool = False,
    ) -> Completion:
        """The reply that is kept, else one from the generator; see `Generator.complete`."""
        heat = temperature if temperature is not None else getattr(self.generator, "temperature", None)
        key = self._key(
            messages=[[one.role, one.content] for one in messages],
            max_tokens=self.reply_tokens if max_tokens is None else max_tokens,
            temperature=None if heat is None else float(heat),
            schema=None if schema is None else [schema.__name__, strict_schema(schema)],
            logprobs=logprobs,
        )
        kept = self.store.get(key)
        if kept is not None and (reply := self._read(key, kept)) is not None:
            if on_text is not None:
                on_text(reply.text)
            return reply
        # Only what differs from a plain call is said: a generator of somebody else's may not know of logprobs.
        more: dict[str, Any] = {"logprobs": True} if logprobs else {}
        reply = self.generator.complete(
            messages, max_tokens=max_tokens, temperature=temperature, schema=schema, deadline=deadline,
            on_text=on_text, **more,
        )  # fmt: skip
        if _worth_keeping(reply, schema):
            self.store.put(key, reply.model_dump_json())
        return reply

    @property
    def choose(self) -> Any:
        """`ChoiceGenerator.choose` of the generator behind; nothing of it is kept.

        Raises:
            AttributeError: the generator behind has none.
        """
        return self.generator.choose  # type: ignore[attr-defined]

    def _key(self, **asked: Any) -> str:
        own = getattr(self.generator, "identity", None)
        identity = own if isinstance(own, Mapping) else {"name": self.generator.name}
        whole = {"form": _FORM, "generator": dict(identity), "repeat": self.repeat, **asked}
        # ASCII with escapes: half a surrogate pair in a prompt has no UTF-8, but a key of its own.
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode("ascii")).hexdigest()

    def _read(self, key: str, kept: str) -> Completion | None:
        try:
            reply = Completion.model_validate_json(kept)
        except ValidationError:
            self.store.drop(key)
            return None
        return reply.model_copy(update={"saved": reply.usage, "usage": Usage()})


def _worth_keeping(reply: Completion, schema: type[BaseModel] | None) -> bool:
    from turnmark.assistant.structured import parse_object

    if reply.finish_reason != "stop" or not reply.text.strip() or reply.saved is not None:
        return False
    return schema is None or not isinstance(parse_object(reply.text, schema), str)


def with_cache(generator: Generator, repeat: int = 0, store: ResponseStore | None = None) -> Cached:
    """The generator with the response cache in front of it; one that has it already, for another repeat.

    Args:
        repeat: number of the repeat of a sample.
        store: None: the file in the home, `cache/responses.db`.

    Raises:
        RequestError: `[cache]` of the configuration is wrong.
    """
    if isinstance(generator, Cached):
        return Cached(generator.generator, store or generator.store, repeat)
    return Cached(generator, store or default_store(), repeat)
