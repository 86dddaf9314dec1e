"""What a look at an installation finds, a line each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from turnmark.corpora.types import Record

State = Literal["ok", "absent", "warn", "broken"]


class Finding(Record):
    """One thing that was looked at. It never holds a secret: of a key, only whether it is set."""

    section: str = Field(description="versions, extras, models, endpoints, state, indexes or configuration")
    name: str
    state: State = Field(description="absent: not there and not needed; warn: works, with a drawback; broken: needed")
    detail: str = ""
    advice: str = Field(default="", description="what to do about it; empty where there is nothing to do")


def healthy(findings: list[Finding]) -> bool:
    """Whether nothing that is needed is broken."""
    return all(finding.state != "broken" for finding in findings)


def size_of(number: int) -> str:
    """Bytes for people: `12.3 MB`, in powers of ten."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
