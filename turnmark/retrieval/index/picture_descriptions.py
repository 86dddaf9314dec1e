"""What a build needs from the model that describes pictures, and how it gets it.

The model itself is in the package above (`turnmark.assistant.llm.picture_describer`), which `turnmark/__init__.py`
injects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import Field

from turnmark.core import hooks
from turnmark.core.console import Progress
from turnmark.core.errors import RequestError
from turnmark.core.plural import count_phrase
from turnmark.core.record import Record
from turnmark.corpora.types import Picture

NO_DESCRIBER = "none"
"""The spec that builds an index without descriptions, even if the index has had some."""


class PictureTask(NamedTuple):
    """A picture to describe, and what is known about it.

    Attributes:
        file: the stored picture.
        place: file and page of its first occurrence, for messages.
        title: title of the document.
        heading: the last heading above it; empty if there is none.
    """

    picture: Picture
    file: Path
    place: str
    title: str
    heading: str


class DescribingPlan(Record):
    """What describing the pictures of a build will take; `turnmark index build --dry-run --json` prints it."""

    pictures: int = Field(description="different pictures in new and changed files")
    cached: int = Field(description="those of them that were described before, so that they cost nothing")
    prompt_tokens: int = Field(description="estimated tokens of the prompts, pictures included")
    completion_tokens: int = Field(description="estimated tokens of the descriptions")
    cost: float | None = Field(default=None, description="estimated cost, or None if no price is configured")
    currency: str | None = Field(default=None, description="currency of the cost")

    @property
    def missing(self) -> int:
        """The number of pictures that the model has to describe."""
        return self.pictures - self.cached

    def in_words(self) -> str:
        """Describe the plan in one line."""
        words = count_phrase(self.pictures, "picture")
        words += f", {self.cached:,} of them described before" if self.cached else ""
        if not self.missing:
            return words
        words += f"; {self.missing:,} to describe: about {self.prompt_tokens:,} tokens in and "
        words += f"{self.completion_tokens:,} out"
        return words if self.cost is None else f"{words}, {self.cost:.4f} {self.currency}"


class Descriptions(NamedTuple):
    """The descriptions of pictures.

    Attributes:
        texts: SHA-256 of a picture -> its description; an empty one belongs to a decoration, which is left out.
        failures: SHA-256 of a picture -> why it has none.
        described: number of pictures that the model described now.
        spent: what that took, in words.
    """

    texts: Mapping[str, str]
    failures: Mapping[str, str]
    described: int
    spent: str


class PictureDescriber(Protocol):
    """A model that describes pictures."""

    @property
    def spec(self) -> str:
        """The spec in normal form, without secrets, for the manifest."""
        ...

    @property
    def model(self) -> str:
        """The name of the model in the mark above each description."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that differs if the model or its prompt does."""
        ...

    def plan(self, tasks: Sequence[PictureTask]) -> DescribingPlan:
        """Estimate what describing some pictures takes; calls no model."""
        ...

    def describe(self, tasks: Sequence[PictureTask], progress: Progress, required: bool) -> Descriptions:
        """Describe pictures; each finished description is kept for later builds at once.

        Args:
            required: whether it is an error if the model cannot describe pictures, or no call succeeds. Otherwise the
                pictures count as failed.

        Raises:
            TurnmarkError: see `required`.
        """
        ...


def open_describer(spec: str, budget: str | None = None) -> PictureDescriber:
    """Open the model of a spec.

    Args:
        budget: limit of what a build may spend, or None for no limit.

    Raises:
        RequestError: the spec or the budget is wrong.
    """
    describer: PictureDescriber = hooks.describer_opener(spec, budget)
    return describer


def describer_to_use(spec: str | None, kept: str, budget: str | None = None) -> PictureDescriber | None:
    """Open the model that a build describes pictures with, or return None if pictures are not described.

    Args:
        spec: the requested spec; `none`: pictures are no longer described, or None if `kept` is used.
        kept: the spec with which the index was built; empty if there is none.

    Raises:
        RequestError: the spec or the budget is wrong.
    """
    if spec is not None:
        return open_describer(spec, budget) if spec != NO_DESCRIBER else None
    try:
        return open_describer(kept, budget) if kept else None
    except RequestError as error:
        hint = f"the index was built with --describe {kept}; --describe none builds it without descriptions"
        raise RequestError([*error.problems, hint]) from error
