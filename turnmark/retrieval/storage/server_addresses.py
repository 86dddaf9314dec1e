"""The addresses of servers in specs, and the notes on the parts of an index that are stored on a server."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from turnmark.core.errors import RequestError
from turnmark.core.home import write_atomic, write_json
from turnmark.core.record import Record
from turnmark.core.specs import Spec


def address(url: str, default_port: int, role: str, token: str) -> tuple[str, str]:
    """Return scheme, host and port of a spec's URL, and its path without slashes at the ends.

    Args:
        default_port: the port if the URL names none.
        role: the component that uses the address, for messages.
        token: the environment variable for credentials.
    """
    problems = []
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or default_port
    except ValueError:
        raise RequestError(f"{role}: the address is not a URL with a valid host and port") from None
    if "@" in parts.netloc:
        # The address is not shown, because the part before '@' is a secret.
        problems.append(f"{role}: no user and password in the address; set {token} in the environment")
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", host):
        problems.append(f"{role}: the address has no valid host; write {role}://HOST:{default_port}")
    if parts.fragment:
        problems.append(f"{role}: the address must not contain '#'")
    if problems:
        raise RequestError(problems)
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}:{port}", parts.path.strip("/")


def no_credentials(spec: Spec) -> None:
    """Raise RequestError if a spec's address contains a user and password."""
    if "@" in spec.url.partition("://")[2].partition("/")[0]:
        raise RequestError(
            f"{spec.name}: no user and password in an address, where others would see them; set them in the environment"
        )


ELASTIC_KEY = "TURNMARK_ELASTIC_API_KEY"
"""Environment variable with the API key."""
ELASTIC_PORT = 9200


def elastic_address(spec: Spec) -> tuple[str, str]:
    """Return the address of a spec's Elasticsearch server, and the name of the index there."""
    role = f"retriever {spec.name!r}"
    base, name = address(spec.url, ELASTIC_PORT, spec.name, ELASTIC_KEY)
    # Only a single name is allowed: with a pattern, a passage could be found twice.
    if not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", name):
        raise RequestError(
            f"{role}: {name!r} is not the name of one Elasticsearch index; write {base}/INDEX, whose documents have "
            "the passages' ids as _id"
        )
    return base, name


NOTE_FILE = "server.json"
_TAG_FILE = ".server-tag"


class ServerLocation(Record):
    """The location of a component on a server. `name` is the name of the collection; only notes have it."""

    kind: Literal["chroma"]
    url: str
    name: str = ""


def assign_name(part: Path, requested: ServerLocation) -> None:
    """Choose the name of a new component's collection, and write a note with it before the collection exists.

    Args:
        part: the component's folder, which is created; its parent is the generation's folder.
    """
    tag_file = part.parent.parent / _TAG_FILE
    if not tag_file.is_file():
        write_atomic(tag_file, secrets.token_hex(4))
    tag = tag_file.read_text(encoding="utf-8").strip()
    name = f"turnmark-{part.parent.parent.name}-{part.parent.name}-{tag}"
    part.mkdir(parents=True, exist_ok=True)
    write_json(part / NOTE_FILE, requested.model_copy(update={"name": name}).model_dump())


def read_note(part: Path) -> ServerLocation | None:
    """Read the note in a component's folder, or return None if the component is not on a server."""
    note = part / NOTE_FILE
    return ServerLocation.model_validate_json(note.read_text(encoding="utf-8")) if note.is_file() else None
