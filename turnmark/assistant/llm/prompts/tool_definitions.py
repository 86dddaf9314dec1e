"""What the tools of a model share: their definitions and results, the sources that they compute, and short texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from turnmark.assistant.llm.calls.protocols import Tool
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.types import Passage

COUNT_ID, SQL_ID, LOOK_ID = "count:", "sql:", "look:"
"""Prefixes of the id of a source that is no passage: a count or a list, the result of a statement, and what a model
says about a picture."""
MAX_NAME_CHARACTERS = 40
"""Maximum characters of a tool's name that a model made up."""
MAX_ARGUMENT_CHARACTERS = 120
"""Maximum characters of an argument that is repeated in a message."""
WHERE_DESCRIPTION = "only there: a folder, a document, or KEY=GLOB (title, section, page; case counts, * for any text)"


class Result(NamedTuple):
    """The result of a call: as text for the model, and in one line for the person."""

    text: str
    found: str


def define_tool(name: str, description: str, needed: str, **arguments: str) -> Tool:
    """Return the definition of a tool whose arguments are texts.

    Args:
        needed: the names of the required arguments, separated by spaces.
        arguments: name -> description.
    """
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": needed.split()}
    return Tool(name=name, description=description, parameters=schema)


def is_computed(identity: str) -> bool:
    """Return whether an id belongs to a count, a list, the result of a statement or a look at a picture."""
    return identity.startswith((COUNT_ID, SQL_ID, LOOK_ID))


NO_DOCUMENT = "in none of"
"""Words of the title of a count of something that no document has."""


def is_count_of_nothing(passage: Passage) -> bool:
    """Return whether a source is a count with the result zero."""
    return passage.id.startswith(COUNT_ID) and f": {NO_DOCUMENT}" in passage.title


def fitting_lines(made: Callable[[int], list[str]], most: int, tokens: int) -> list[str]:
    """Return the lines for the largest number of entries that fit.

    Args:
        made: returns the lines for a number of entries.
        most: maximum number of entries.
    """
    while most and count_tokens("\n".join(made(most))) > tokens:
        most -= max(1, most // 10)
    return made(most)


def short_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters."""
    return ellipsize(one_line(text), most)
