"""Reads lists of words from a TOML file next to the module that uses them."""

from __future__ import annotations

import tomllib
from pathlib import Path


def read_word_lists(module: str) -> dict[str, frozenset[str]]:
    """Return name -> words of the TOML file next to a module (`__file__`); white space separates the words."""
    lists = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
    return {name: frozenset(words.split()) for name, words in lists.items()}
