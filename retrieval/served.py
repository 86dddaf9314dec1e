"""Parts of an index that lie on a server. In the generation's folder stands a note that says where.

What a server holds for an index has a name of its own for each generation, so that a build never touches what can be
open, and a tag that is made once for each index, so that two indexes of one name do not meet on one server.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from turnmark.corpora.home import write_atomic, write_json
from turnmark.corpora.types import Record

NOTE = "server.json"
_TAG = ".server-tag"


class Served(Record):
    """A place on a server. In a manifest `name` is what the person asked for, in a note the whole name.

    `tenant` and `database` are of Chroma; empty: the server's default ones.
    """

    kind: Literal["chroma", "elasticsearch"]
    url: str
    name: str = ""
    tenant: str = ""
    database: str = ""

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As it was written before there were tenants: what an index is kept under is made from this."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value or key not in ("tenant", "database")}

    def __str__(self) -> str:
        within = "".join(f" in {what} {name!r}" for what, name in self.within)
        return f"{self.name!r}{within} at {self.url}"

    @property
    def within(self) -> list[tuple[str, str]]:
        """("database" or "tenant", its name), of those that are named."""
        return [pair for pair in (("database", self.database), ("tenant", self.tenant)) if pair[1]]


def assign(part: Path, wanted: Served, index: str) -> Served:
    """Choose the place for a part of a new generation, and note it before anything is there.

    Args:
        part: the part's folder, made here; its parent is the generation's folder, and that one's the index's.
        index: the index's name, for a place without one.
    """
    own = part.parent.parent / _TAG
    if not own.is_file():
        write_atomic(own, secrets.token_hex(4))
    tag = own.read_text(encoding="utf-8").strip()
    base = wanted.name or f"turnmark-{index}"
    name = f"{base}-{part.parent.name}-{tag}"
    place = wanted.model_copy(update={"name": name.lower() if wanted.kind == "elasticsearch" else name})
    part.mkdir(parents=True, exist_ok=True)
    write_json(part / NOTE, place.model_dump())
    return place


def noted(part: Path) -> Served | None:
    """Where a part lies, if it lies on a server.

    Raises:
        ValueError: the note cannot be read.
    """
    note = part / NOTE
    return Served.model_validate(json.loads(note.read_text(encoding="utf-8"))) if note.is_file() else None
