"""The settings of the assistant that `turnmark tune --try` found for an index: `tuned-settings.json` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.retrieval.search.opened_index import SearchableIndex, StoredIndex
from turnmark.retrieval.search.tuned_search import read_tuning


class TunedSettings(Record):
    """Settings with which the replies to a person's own questions are right more often, on held-out questions."""

    generator: str = Field(description="the model that they were measured with; with another one they are not used")
    settings: Mapping[str, Any] = Field(description="field of the assistant's configuration -> value")
    gain: float = Field(description="difference of the share of right replies from the default, on the test half")
    ci95: tuple[float, float]
    questions: int = Field(description="number of questions in both halves")
    created: str


def tuned_settings_file(index: StoredIndex) -> Path:
    """Return the path of the tuned settings of an index."""
    return index.folder / "tuned-settings.json"


def write_tuned_settings(index: StoredIndex, tuned: TunedSettings) -> None:
    """Write the tuned settings of an index."""
    write_atomic(tuned_settings_file(index), tuned.model_dump_json() + "\n")


def read_tuned_settings(index: SearchableIndex) -> TunedSettings | None:
    """Return the tuned settings of an index, or None if there are none, or several indexes."""
    return read_tuning(index, tuned_settings_file, TunedSettings)


def describe_tuned_settings(index: StoredIndex) -> str:
    """Return the tuned settings of an index, their model and what they gain; empty if there are none."""
    tuned = read_tuned_settings(index)
    if tuned is None:
        return ""
    low, high = tuned.ci95
    return (
        f"{tuned.created}: {words_of(tuned.settings)} with {tuned.generator}: "
        f"{tuned.gain:+.2f} right ({low:+.2f} to {high:+.2f})"
    )


def words_of(settings: Mapping[str, Any]) -> str:
    """Return settings as one writes them after `--try`."""
    pairs = ((name, each) for name, value in settings.items() for each in _values(value))
    return ", ".join(f"{'step' if name == 'steps' else name}={value}" for name, value in pairs)


def _values(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
