"""The base class of all records."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base class of all records: immutable; an undeclared field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
