"""The gate that pages are written through: everything is escaped, and control characters go first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnmark.corpora.console import inert
from turnmark.corpora.text import printable

if TYPE_CHECKING:
    from jinja2 import Template


def markup(own: str) -> Any:
    """A text of ours that is written as it stands."""
    from markupsafe import Markup

    return Markup(own)


def page_template(path: Path) -> Template:
    """The template in a file. It has the macros of `macros.html.j2`.

    Its filters: `line`, a text on one line; `name`, one that may be broken before a bracket; `markup`.
    """
    from jinja2 import Environment, StrictUndefined

    engine = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    engine.filters["line"] = inert
    engine.filters["name"] = _name
    engine.filters["markup"] = markup
    macros = Path(__file__).with_name("macros.html.j2")
    return engine.from_string("".join(file.read_text(encoding="utf-8") for file in (macros, path)))


def _name(value: object) -> Any:
    from markupsafe import Markup, escape

    return Markup("<wbr>[").join(escape(part) for part in inert(value).split("["))


def _inert(value: Any) -> Any:
    """Whatever a template writes out comes through here, before it is escaped."""
    from markupsafe import Markup

    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
