"""Write `docs/reference.md`, the reference of the Python API, from the docstrings of the public names.

python docs/reference.py
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import turnmark  # noqa: E402
from turnmark.assistant.types import Checks, Citation, Event, ProcedureStep, Reply  # noqa: E402
from turnmark.core.errors import RequestError  # noqa: E402
from turnmark.corpora.types import Message, Passage  # noqa: E402
from turnmark.evaluation.api import Comparison  # noqa: E402
from turnmark.evaluation.records import MetricSummary  # noqa: E402
from turnmark.evaluation.report.plots import Plot  # noqa: E402
from turnmark.evaluation.runs.request_options import keywords  # noqa: E402
from turnmark.retrieval.types import Hit, Query  # noqa: E402

NAMES = (
    "Index", "Assistant", "Chat", "AssistantConfig", "evaluate", "score", "compare", "Run", "Retriever", "Generator",
    "TurnmarkError",
)  # fmt: skip
"""The public names, in the order in which a reader meets them."""
OTHERS = (
    Reply, ProcedureStep, Citation, Checks, Event, Message, Passage, Hit, Query, MetricSummary, Plot, Comparison,
    RequestError,
)  # fmt: skip
"""Classes of values that the public names return, accept or raise."""
COMMANDS: dict[str, Literal["eval", "score"]] = {"evaluate": "eval", "score": "score"}
"""The functions whose keywords are the flags of a command."""
INTERNAL = {
    "Assistant.from_parts", "Assistant.using", "AssistantConfig.build", "Index.part", "MetricSummary.shown",
    "Passage.as_stored", "Passage.content_hash", "Passage.indexed_text", "Passage.page_at", "Passage.page_texts",
    "Reply.revises",
}  # fmt: skip
"""Members that only this project's own modules use."""
BEGINNING = """# Python API

    import turnmark as tm

The public names are {names}. Everything else may change with any version. The
[README](../README.md#from-python) shows them together. `docs/reference.py` writes this page from the docstrings.
"""
FIELDS_ON_OTHER_PAGE = {"AssistantConfig": "[Configuration](configuration.md#the-assistant) lists the fields."}
"""Records whose fields another page describes, and the sentence that says so."""
_PART = re.compile(r"(Args|Attributes|Raises|Returns):")
_ITEM = re.compile(r"(\w+(?:, \w+)*): (.*)")
_MODULE = re.compile(r"\b(?:\w+\.)+(?=\w)")


def render() -> str:
    """Return the text of `docs/reference.md`."""
    linked = [f"[`{name}`](#{name.lower()})" for name in NAMES]
    lines = [BEGINNING.format(names=f"{', '.join(linked[:-1])} and {linked[-1]}")]
    for name in NAMES:
        lines += described(getattr(turnmark, name), "##")
    lines += ["## Other classes", ""]
    for other in OTHERS:
        lines += described(other, "###")
    return "\n".join(lines).rstrip() + "\n"


def described(member: Any, heading: str) -> Iterator[str]:
    """Yield the lines about a class with its fields and methods, or about a function."""
    yield from (f"{heading} `{member.__name__}`", "")
    if not inspect.isclass(member) or "Args:" in member.__doc__:
        yield from (signature(member.__name__, member), "")
    yield from docstring(member)
    if inspect.isclass(member):
        yield from values(member)
        yield from methods(member, f"{heading}#")


def methods(kind: type, heading: str) -> Iterator[str]:
    """Yield the lines about the documented methods that a class itself defines."""
    for called, member in members(kind):
        if not isinstance(member, property):
            yield from (f"{heading} `{called}`", "", signature(called, getattr(kind, called.partition(".")[2])), "")
            yield from docstring(member)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented methods and properties that a class itself defines, each with its name after the class."""
    for name, member in vars(kind).items():
        called = f"{kind.__name__}.{name}"
        ours = isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)
        if ours and not name.startswith("_") and called not in INTERNAL and member.__doc__:
            yield called, member


def signature(called: str, function: Callable[..., Any]) -> str:
    """Return a call with its parameters, their defaults and the type of its result."""
    derived = keywords(COMMANDS[called]).keys() if called in COMMANDS else ()
    shown, starred = [], False
    own = inspect.signature(function)
    for name, parameter in own.parameters.items():
        if name in ("self", *derived):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or mark == "*"
        default = "" if parameter.default is parameter.empty else f"={default_of(parameter.default)}"
        shown.append(f"{mark}{name}{default}")
    shown += ["**options"] if derived else []
    result = "" if own.return_annotation in (own.empty, "None") or inspect.isclass(function) else own.return_annotation
    return f"`{called}({', '.join(shown)})" + (f" -> {result}`" if result else "`")


def values(kind: type) -> Iterator[str]:
    """Yield a list item for each field of a record, with its type, and for each property of a class."""
    items = []
    if sentence := FIELDS_ON_OTHER_PAGE.get(kind.__name__):
        yield from (sentence, "")
        return
    for name, field in getattr(kind, "model_fields", {}).items():
        if f"{kind.__name__}.{name}" not in INTERNAL:
            flag = next((mark.help for mark in field.metadata if getattr(mark, "help", "")), "")
            written = _MODULE.sub("", inspect.formatannotation(field.annotation))
            items.append(f"- `{name}` (`{written}`): {field.description or flag}")
    for called, member in members(kind):
        if isinstance(member, property):
            items.append(f"- `{called.partition('.')[2]}`: {' '.join(docstring(member)).strip()}")
    if items:
        yield from ("Values:", "", *items, "")


def default_of(value: Any) -> str:
    """Return a default as Python; an object that has no short form is replaced by dots."""
    return "…" if callable(value) or isinstance(value, BaseModel) else repr(value)


def docstring(member: Any) -> Iterator[str]:
    """Yield the paragraphs of a docstring; arguments, attributes and errors as lists."""
    listed = False
    for line in inspect.cleandoc(member.__doc__ or "").splitlines():
        if part := _PART.fullmatch(line):
            listed = True
            yield from (f"{part[1] if part[1] != 'Args' else 'Arguments'}:", "")
        elif listed and (item := _ITEM.fullmatch(line.removeprefix("    "))):
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            yield f"- {names}: {item[2]}"
        else:
            yield f"  {line.strip()}" if listed and line else line
    yield ""


if __name__ == "__main__":
    (HERE / "reference.md").write_text(render(), encoding="utf-8")
