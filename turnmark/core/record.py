"""The base of every record."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base of every record: immutable, and a field that is not declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
