"""What an endpoint answers: replies, faults, refusals to learn from. Anybody may have written it."""

from __future__ import annotations

import email.utils
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any

from turnmark.assistant.generators.base import ErrorKind, FinishReason, GeneratorError
from turnmark.corpora.text import printable

# Why a reply ended, in the words of several servers, in lower case.
_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("content_filter", "safety", "blocklist", "prohibited_content", "refusal"), "content_filter"),
}


def finish_reason(word: object) -> FinishReason:
    """Why a reply ended; "other" where that is said in words we do not know, or not at all."""
    return _FINISH.get(str(word).lower(), "other")


def first_choice(reply: Any) -> Any:
    """The first choice of a completion or a chunk; None where there is none."""
    choices = field_of(reply, "choices")
    return choices[0] if isinstance(choices, list) and choices else None


def usage_of(reply: Any) -> dict[str, int] | None:
    """Tokens as reported; None where either number is missing."""
    usage = field_of(reply, "usage")
    reported = {key: field_of(usage, key) for key in ("prompt_tokens", "completion_tokens")}
    counts = {key: value for key, value in reported.items() if isinstance(value, int) and value >= 0}
    if len(counts) < len(reported):
        return None
    cached = field_of(field_of(usage, "prompt_tokens_details"), "cached_tokens")
    return {**counts, "cached_tokens": cached} if isinstance(cached, int) and cached > 0 else counts


def model_of(reply: Any) -> str:
    """The model as the endpoint names it; empty where it does not."""
    model = field_of(reply, "model")
    return model if isinstance(model, str) else ""


def first_tokens(choice: Any) -> list[tuple[str, float]]:
    """The likeliest first tokens of a choice with the logarithms of their probabilities; empty where none are told."""
    content = field_of(field_of(choice, "logprobs"), "content")
    listed = field_of(content[0], "top_logprobs") if isinstance(content, list) and content else None
    pairs = [(field_of(row, "token"), field_of(row, "logprob")) for row in (listed if isinstance(listed, list) else [])]
    valid = all(
        isinstance(token, str) and isinstance(value, float | int) and not isnan(value) for token, value in pairs
    )
    return [(token, min(0.0, value)) for token, value in pairs] if valid else []


def field_of(value: Any, name: str) -> Any:
    """A field of an object or of a dict; None where it is not there."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


QUOTED = 300  # characters of an endpoint's own words

_RETRIED = frozenset((408, 409, 429))


class Fault(GeneratorError):
    """One request that failed.

    Attributes:
        retry: whether the same request may succeed later.
        retry_after: seconds that the endpoint asks to wait; None where it does not say.
        status: HTTP status; None where there was no answer.
        words: the endpoint's words, with nothing cut, to find out what it objects to.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        words: str = "",
    ) -> None:
        super().__init__(kind, message)
        self.retry, self.retry_after, self.status, self.said = retry, retry_after, status, words


def retry_after(headers: Mapping[str, str], time_now: float | None = None) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or an HTTP date, RFC 9110 10.2.3), never below 0."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        wait = float(text)
    except ValueError:
        parsed = email.utils.parsedate_tz(text)
        if parsed is None:
            return None
        try:
            wait = email.utils.mktime_tz(parsed) - (time.time() if time_now is None else time_now)
        except (OverflowError, ValueError):
            return None
    return max(0.0, wait) if isfinite(wait) else None


def status_fault(status: int, body: Any, headers: Mapping[str, str], label: str, key_env: str, secret: str) -> Fault:
    """The fault behind an HTTP status that is no success.

    Args:
        body: what was answered, parsed where it was JSON.
        label: model and endpoint, for the message.
        key_env: name of the environment variable that holds the key.
        secret: its value, which endpoints echo; it is blotted out.
    """
    body_text = blotted(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str), secret)
    words = shortened(blotted(_words(body), secret))
    detail = f": {words}" if words else ""
    if status in (401, 403):
        # Not the endpoint's words: they quote the key, masked in ways that we cannot check.
        detail = f"{label} does not accept the key ({status}); it is read from {key_env}"
        # OpenAI answers 403 where a model may not be asked for logprobs; that is no matter of the key.
        return Fault("auth", detail, status=status, words=body_text if status == 403 and "logprob" in body_text else "")
    if status == 429:
        # An empty account answers 429 too, and stays empty however long one waits.
        spent = "insufficient_quota" in body_text
        wait = retry_after(headers)
        return Fault(
            "rate_limited", f"{label} is rate limited (429){detail}", retry=not spent, retry_after=wait, status=status
        )
    if status in _RETRIED or status >= 500:
        wait = retry_after(headers)
        failed = f"{label} failed ({status}){detail}"
        return Fault("unavailable", failed, retry=True, retry_after=wait, status=status, words=body_text)
    if "content_filter" in body_text:
        return Fault("refused", f"{label} refused the prompt by its content filter{detail}", status=status)
    hint = "; is the model's name right, and does the URL end in /v1?" if status == 404 else ""
    return Fault(
        "bad_request", f"{label} did not accept the request ({status}){detail}{hint}", status=status, words=body_text
    )


@contextmanager
def faults(label: str, key_env: str, key: str) -> Iterator[None]:
    """Turn what the openai client raises inside it into faults.

    The original is dropped: its text is the endpoint's, and endpoints quote the key.

    Args:
        label: model and endpoint, for the message.
        key_env: name of the environment variable that holds the key.
        key: its value; blotted out of all that is quoted.
    """
    import httpx
    import openai

    from turnmark.assistant.generators.client import TooLarge

    try:
        yield
    except TooLarge as error:
        raise _too_large(label, error) from None
    except openai.APIStatusError as error:
        raise status_fault(error.status_code, error.body, error.response.headers, label, key_env, key) from None
    except (openai.APIConnectionError, httpx.TransportError) as error:
        if isinstance(error.__cause__, TooLarge):  # while a reply is read whole, the client takes it for a lost line
            raise _too_large(label, error.__cause__) from None
        raise Fault("unavailable", f"{label} cannot be reached, or broke off", retry=True) from None
    except openai.APIError as error:  # an error event inside a stream
        detail = shortened(blotted(str(error.message), key))
        raise Fault("unavailable", f"{label} failed in the middle of its reply: {detail}", retry=True) from None
    except (openai.OpenAIError, httpx.HTTPError, ValueError, RecursionError):
        raise Fault("bad_reply", f"{label} answered with something that is no chat completion") from None


def _too_large(label: str, error: Exception) -> Fault:
    # The same question would be answered at the same length again, and each answer is paid for.
    return Fault("bad_reply", f"{label} sent {error}, which is not read")


def blotted(text: str, secret: str) -> str:
    """The text with the secret made unreadable."""
    return text.replace(secret, "***") if secret else text


def shortened(text: str) -> str:
    """An endpoint's words, safe to print: one line, of limited length."""
    text = " ".join(printable(text).split())
    return text if len(text) <= QUOTED else text[:QUOTED] + "…"


def _words(body: Any) -> str:
    """The message inside an error's body."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    if isinstance(body, str):
        return body
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""


# An objection to the number ("max_tokens is too large for the context of this model"), not to the parameter's name.
_TOO_MANY = re.compile("too (large|long|big|many)|context|exceed|maximum|at most|less than|at least|greater")


@dataclass
class Dialect:
    """What an endpoint has been seen to refuse; True and `max_tokens` until then."""

    limit: str = "max_tokens"
    temperature: bool = True
    stream_usage: bool = True
    schema: bool = True
    bounds: bool = True
    logprobs: bool = True
    seed: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def learn(self, request: Mapping[str, Any], words: str) -> bool:
        """Take note of what a refusal objects to; True when the request can be put otherwise.

        Args:
            request: the body of the request that was refused.
            words: the endpoint's words, with nothing cut.
        """
        words = words.lower()
        with self.lock:
            if "logprobs" in request and "logprob" in words:
                self.logprobs = False
            elif (
                "max_tokens" in request and re.search("max_(completion_)?tokens", words) and not _TOO_MANY.search(words)
            ):
                self.limit = "max_completion_tokens"
            elif "stream_options" in request and re.search("stream_options|include_usage", words):
                self.stream_usage = False
            elif "response_format" in request and self.bounds and re.search("maxitems|maxlength", words):
                self.bounds = False
            elif "response_format" in request and re.search("response_format|json_schema|guided|structured", words):
                self.schema = False
            elif "seed" in request and re.search(r"\bseed\b", words):
                self.seed = False
            elif "temperature" in request and "temperature" in words:
                self.temperature = False
            else:
                return False
            return True
