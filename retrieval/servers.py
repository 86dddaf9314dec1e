"""What the seams to other people's code and servers share: addresses that are checked, errors that keep secrets."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from turnmark.core.console import printable
from turnmark.core.errors import RequestError
from turnmark.core.home import write_atomic, write_json
from turnmark.core.record import Record
from turnmark.core.specs import Spec

LONGEST = 300
"""Characters of a foreign error message that are passed on."""

SECRET_LENGTH = 6
"""A shorter value of a variable named as a secret is too common a string to blot out."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SECRET_LOOK = re.compile(
    r"\b(?:sk|pk|ghp|hf|xox[a-z])[-_][\w-]{8,}|(?i:\b(?:bearer|basic|apikey)\s+)\S+|(?<=://)[^/@\s]+(?=@)"
)


def address(url: str, default_port: int, role: str, token: str) -> tuple[str, str]:
    """Scheme, host and port of a spec's URL, and the path that follows, without slashes around it.

    Args:
        default_port: where the URL names no port.
        role: who asks, for messages.
        token: the environment variable that credentials belong into.
    """
    problems = []
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or default_port
    except ValueError:
        raise RequestError(f"{role}: the address is not a URL with a valid host and port") from None
    if "@" in parts.netloc:
        # Not repeated: what is before '@' is a secret.
        problems.append(f"{role}: no user and password in the address; set {token} in the environment")
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", host):
        problems.append(f"{role}: the address has no valid host; write {role}://HOST:{default_port}")
    if parts.fragment:
        problems.append(f"{role}: an address ends before '#'")
    if problems:
        raise RequestError(problems)
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}:{port}", parts.path.strip("/")


def no_credentials(spec: Spec) -> None:
    """Make sure that a spec can be shown: its address has no user and password inside."""
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
    text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


NOTE = "server.json"
_TAG = ".server-tag"


class Served(Record):
    """Where a part lies on a server; `name` is that of the collection, in a note only."""

    kind: Literal["chroma"]
    url: str
    name: str = ""


def assign_name(part: Path, requested: Served) -> Served:
    """Choose the name of a new generation's part on a server, and note it before anything is there.

    Args:
        part: the part's folder, made here; its parent is the generation's folder, and that one's the index's.
    """
    tag_file = part.parent.parent / _TAG
    if not tag_file.is_file():
        write_atomic(tag_file, secrets.token_hex(4))
    tag = tag_file.read_text(encoding="utf-8").strip()
    name = f"turnmark-{part.parent.parent.name}-{part.parent.name}-{tag}"
    served = requested.model_copy(update={"name": name})
    part.mkdir(parents=True, exist_ok=True)
    write_json(part / NOTE, served.model_dump())
    return served


def read_note(part: Path) -> Served | None:
    """Where a part lies, if it lies on a server."""
    note = part / NOTE
    return Served.model_validate_json(note.read_text(encoding="utf-8")) if note.is_file() else None
