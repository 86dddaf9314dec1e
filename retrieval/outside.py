"""What the seams to other people's code and servers share: addresses that are checked, errors that keep secrets."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec
from turnmark.corpora.text import printable
from turnmark.corpora.types import Record

SHOWN = 300
"""Characters of a foreign error message that are passed on."""

SECRET_LENGTH = 6
"""A shorter value of a variable named as a secret is too common a string to blot out."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SECRET_LOOK = re.compile(
    r"\b(?:sk|pk|ghp|hf|xox[a-z])[-_][\w-]{8,}|(?i:\b(?:bearer|basic|apikey)\s+)\S+|(?<=://)[^/@\s]+(?=@)"
)


class Address(Record):
    """Where a server is: `base` is scheme, host and port; `path` what follows, without slashes around it."""

    base: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.base}/{self.path}" if self.path else self.base


def address(url: str, default_port: int, role: str, token: str) -> Address:
    """The address that a spec's URL gives.

    Args:
        default_port: where the URL names no port.
        role: who asks, for messages.
        token: the environment variable that credentials belong into.

    Raises:
        RequestError: no host, a port that is none, credentials inside, or a fragment; all of it at once.
    """
    problems = []
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or default_port
    except ValueError:
        raise RequestError(f"{role}: the address is not a URL with a valid host and port") from None
    if "@" in parts.netloc:
        # Not repeated: what stands before '@' is a secret.
        problems.append(f"{role}: no user and password in the address; set {token} in the environment")
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", host):
        problems.append(f"{role}: the address has no valid host; write {role}://HOST:{default_port}")
    if parts.fragment:
        problems.append(f"{role}: an address ends before '#'")
    if problems:
        raise RequestError(problems)
    shown = f"[{host}]" if ":" in host else host
    return Address(base=f"{parts.scheme}://{shown}:{port}", path=parts.path.strip("/"))


def no_credentials(spec: Spec) -> None:
    """Make sure that a spec can be shown: its address has no user and password inside.

    Raises:
        RequestError: it has; the message does not repeat them.
    """
    if "@" in spec.url.partition("://")[2].partition("/")[0]:
        raise RequestError(
            f"{spec.name}: no user and password in an address, where everybody would see them; they belong into the "
            "environment"
        )


def redact(error: BaseException) -> str:
    """Type and words of somebody else's error, in one line of limited length; what is or looks like a secret is not."""
    text = " ".join(printable(str(error)).split())
    for name, value in os.environ.items():
        if len(value) >= SECRET_LENGTH and _SECRET_NAME.search(name.upper()):
            text = text.replace(value, "***")
    text = _SECRET_LOOK.sub("***", text)
    text = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
