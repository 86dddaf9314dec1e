"""What a chat completion of the OpenAI form says, read as something that anybody may have written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from turnmark.assistant.generators.base import LEAST_LOGPROB, FinishReason, TokenLogprob
from turnmark.corpora.console import valid_text

# Why a reply ended, in the words of several servers, in lower case.
_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "blocklist", "prohibited_content", "refusal"), "content_filter"),
}


@dataclass(frozen=True)
class Answered:
    """A reply as an endpoint gave it."""

    text: str
    finish: FinishReason
    usage: dict[str, int] | None
    model: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    first_tokens: tuple[TokenLogprob, ...] = ()


def finish_reason(said: object) -> FinishReason:
    """Why a reply ended; "other" where that is said in words we do not know, or not at all."""
    return _FINISH.get(str(said).lower(), "other")


def first_choice(reply: Any) -> Any:
    """The first choice of a completion or a chunk; None where there is none."""
    choices = _get(reply, "choices")
    return choices[0] if isinstance(choices, list) and choices else None


def usage_of(reply: Any) -> dict[str, int] | None:
    """Tokens as reported; None where either number is missing."""
    usage = _get(reply, "usage")
    found = {key: _get(usage, key) for key in ("prompt_tokens", "completion_tokens")}
    counts = {key: value for key, value in found.items() if isinstance(value, int) and value >= 0}
    if len(counts) < len(found):
        return None
    cached = _get(_get(usage, "prompt_tokens_details"), "cached_tokens")
    return {**counts, "cached_tokens": cached} if isinstance(cached, int) and cached > 0 else counts


def model_of(reply: Any) -> str:
    """The model as the endpoint names it; empty where it does not."""
    model = _get(reply, "model")
    return model if isinstance(model, str) else ""


def logprob_rows(choice: Any) -> list[Any]:
    """What stands under `logprobs.content` of a choice or of a chunk's choice: an entry a token."""
    rows = _get(_get(choice, "logprobs"), "content")
    return rows if isinstance(rows, list) else []


def token_logprobs(rows: Iterable[Any]) -> tuple[TokenLogprob, ...] | None:
    """The tokens of a reply and their logarithms; None where there are none, or one of them is no number.

    Half a list would shift every later token, so all is given or nothing. Infinity is the least logarithm, and what
    rounding lifted above 0 is 0.
    """
    found: list[TokenLogprob] = []
    for row in rows:
        token, value = _get(row, "token"), _get(row, "logprob")
        if not isinstance(token, str) or isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
            return None
        found.append(TokenLogprob(token=valid_text(token), logprob=min(0.0, max(LEAST_LOGPROB, value))))
    return tuple(found) or None


def first_tokens(rows: Sequence[Any]) -> tuple[TokenLogprob, ...]:
    """The likeliest first tokens: what stands under `top_logprobs` of the first entry; empty where nothing does."""
    listed = _get(rows[0], "top_logprobs") if rows else None
    return (token_logprobs(listed) or ()) if isinstance(listed, list) else ()


def _get(value: Any, name: str) -> Any:
    """A field of an object or of a dict; None where it is not there."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
