"""Reads the words of drawings (.svg)."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from turnmark.corpora.readers.common.prose import (
    Unreadable,
    WrongFileType,
    first_line,
    parse_text,
    title_from_name,
)
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document

_WORDED_TAGS = ("{*}title", "{*}desc", "{*}text", "{*}flowRoot", "{*}foreignObject")


def read_svg(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read the title, the description and the labels of a drawing. Raises WrongFileType if it has no words."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    try:
        tree = etree.fromstring(path.read_bytes(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Unreadable(f"a broken drawing ({first_line(error)}); save it again") from error
    words = (
        " ".join(" ".join(tag.itertext()).split()) for tag in (tree.iter(*_WORDED_TAGS) if tree is not None else ())
    )
    lines = [line for line in dict.fromkeys(words) if any(map(str.isalpha, line))]
    if not lines:
        raise WrongFileType
    title = tree.findtext("{*}title") or title_from_name(relative)
    return parse_text("\n\n".join(lines) + "\n", relative).model_copy(update={"title": " ".join(title.split())})
