"""What went wrong at an endpoint, in our words: which kind, whether another try may help, and how long to wait."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any

from turnmark.assistant.generators.base import ErrorKind, GeneratorError
from turnmark.corpora.text import printable

SHOWN = 300  # characters of an endpoint's own words

_RETRIED = frozenset((408, 409, 429))


class Fault(GeneratorError):
    """One request that failed.

    Attributes:
        retry: whether the same request may succeed later.
        retry_after: seconds that the endpoint asks to wait; None where it does not say.
        status: HTTP status; None where there was no answer.
        said: the endpoint's words, with nothing cut, to find out what it objects to.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retry: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        said: str = "",
    ) -> None:
        super().__init__(kind, message)
        self.retry, self.retry_after, self.status, self.said = retry, retry_after, status, said


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
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
            wait = email.utils.mktime_tz(parsed) - (time.time() if now is None else now)
        except (OverflowError, ValueError):
            return None
    return max(0.0, wait) if isfinite(wait) else None


def status_fault(status: int, body: Any, headers: Mapping[str, str], where: str, key_env: str, secret: str) -> Fault:
    """The fault behind an HTTP status that is no success.

    Args:
        body: what was answered, parsed where it was JSON.
        where: model and endpoint, for the message.
        key_env: name of the environment variable that holds the key.
        secret: its value, which endpoints echo; it is blotted out.
    """
    whole = blotted(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str), secret)
    said = shortened(blotted(_words(body), secret))
    told = f": {said}" if said else ""
    if status in (401, 403):
        # Not the endpoint's words: they quote the key, masked in ways that we cannot check.
        told = f"{where} does not accept the key ({status}); it is read from {key_env}"
        # OpenAI answers 403 where a model may not be asked for logprobs; that is no matter of the key.
        return Fault("auth", told, status=status, said=whole if status == 403 and "logprob" in whole else "")
    if status == 429:
        # An empty account answers 429 too, and stays empty however long one waits.
        spent = "insufficient_quota" in whole
        wait = retry_after(headers)
        return Fault(
            "rate_limited", f"{where} is rate limited (429){told}", retry=not spent, retry_after=wait, status=status
        )
    if status in _RETRIED or status >= 500:
        wait = retry_after(headers)
        failed = f"{where} failed ({status}){told}"
        return Fault("unavailable", failed, retry=True, retry_after=wait, status=status, said=whole)
    if "content_filter" in whole:
        return Fault("refused", f"{where} refused the prompt by its content filter{told}", status=status)
    hint = "; is the model's name right, and does the URL end in /v1?" if status == 404 else ""
    return Fault("bad_request", f"{where} did not accept the request ({status}){told}{hint}", status=status, said=whole)


@contextmanager
def faults(where: str, key_env: str, key: str) -> Iterator[None]:
    """Turn what the openai client raises inside it into faults.

    The original is dropped: its text is the endpoint's, and endpoints quote the key.

    Args:
        where: model and endpoint, for the message.
        key_env: name of the environment variable that holds the key.
        key: its value; blotted out of all that is quoted.
    """
    import httpx
    import openai

    from turnmark.assistant.generators.sizes import TooLarge

    try:
        yield
    except TooLarge as error:
        raise _too_large(where, error) from None
    except openai.APIStatusError as error:
        raise status_fault(error.status_code, error.body, error.response.headers, where, key_env, key) from None
    except (openai.APIConnectionError, httpx.TransportError) as error:
        if isinstance(error.__cause__, TooLarge):  # while a reply is read whole, the client takes it for a lost line
            raise _too_large(where, error.__cause__) from None
        raise Fault("unavailable", f"{where} cannot be reached, or broke off", retry=True) from None
    except openai.APIError as error:  # an error event inside a stream
        told = shortened(blotted(str(error.message), key))
        raise Fault("unavailable", f"{where} failed in the middle of its reply: {told}", retry=True) from None
    except (openai.OpenAIError, httpx.HTTPError, ValueError, RecursionError):
        raise Fault("bad_reply", f"{where} answered with something that is no chat completion") from None


def _too_large(where: str, error: Exception) -> Fault:
    # The same question would be answered at the same length again, and each answer is paid for.
    return Fault("bad_reply", f"{where} sent {error}, which is not read")


def blotted(text: str, secret: str) -> str:
    """The text with the secret made unreadable."""
    return text.replace(secret, "***") if secret else text


def shortened(text: str) -> str:
    """An endpoint's words, safe to print: one line, of limited length."""
    text = " ".join(printable(text).split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _words(body: Any) -> str:
    """The message inside an error's body."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    if isinstance(body, str):
        return body
    return json.dumps(body, ensure_ascii=False, default=str) if body else ""
