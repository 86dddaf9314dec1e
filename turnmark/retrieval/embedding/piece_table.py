"""Cuts short texts into the tokens of a large vocabulary without loading all of it.

The library `tokenizers` takes a second and 300 MB to load the 250,000 pieces of a multilingual vocabulary. The tokens
of a text (Unigram: Kudo, arXiv:1804.10959) depend only on the pieces that are substrings of it, and on the lowest score
of all, from which the score of unknown characters follows. A tokenizer with only these pieces therefore returns the
same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from turnmark.core.home import file_sha256
from turnmark.retrieval.embedding.array_types import measured_arrays

MIN_FILE_BYTES = 5_000_000
"""Size of a tokenizer's file from which on its vocabulary is not loaded for short texts."""
MAX_CHARACTERS = 20_000
"""Characters of all texts of a process beyond which the vocabulary is loaded after all, because that is faster then."""
FORMAT = 1


class Tokens(NamedTuple):
    """The ids of a text's tokens, and where each begins and ends in the text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def open_pieces(path: Path, load: Callable[[], Any]) -> Any:
    """Return the tokenizer of a `tokenizer.json`: a `PieceTable` if its vocabulary is large, otherwise the complete
    one.

    Args:
        load: returns the complete tokenizer.
    """
    if path.stat().st_size < MIN_FILE_BYTES:
        return load()
    table = measured_arrays(f"pieces/{file_sha256(path)[:24]}-{FORMAT}", lambda: _read_pieces(path))
    return PieceTable(table, load) if table else load()


class PieceTable:
    """A tokenizer with the methods of `tokenizers.Tokenizer` that Turnmark calls. Safe to call from many threads.

    Args:
        table: the `pieces`, sorted, their `ids` and `scores`, the length of the `longest`, and the `settings` of the
            tokenizer as JSON.
        load: returns the complete tokenizer.
    """

    def __init__(self, table: dict[str, Any], load: Callable[[], Any]) -> None:
        self._load, self._lock = load, threading.Lock()
        self._complete: Any = None
        self._characters = 0
        self._pieces, self._ids, self._scores = table["pieces"], table["ids"], table["scores"]
        self._longest = int(table["longest"])
        self._settings = json.loads(table["settings"].tobytes())
        self._added = [token["content"] for token in self._settings["added_tokens"]]
        self._lowest = int(self._scores.argmin())

    def encode(self, text: str, add_special_tokens: bool = True) -> Tokens:
        """Return the tokens of a text."""
        return self.encode_batch([text], add_special_tokens)[0]

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[Tokens]:
        """Return the tokens of each text."""
        self._characters += sum(map(len, texts))
        if self._complete is None and self._characters <= MAX_CHARACTERS and not self._have_added(texts):
            tokenizer, ids = self._small_tokenizer(texts)
            encodings = tokenizer.encode_batch(list(texts), add_special_tokens=add_special_tokens)
            return [Tokens(ids[encoding.ids].tolist(), encoding.offsets) for encoding in encodings]
        with self._lock:
            if self._complete is None:
                self._complete = self._load()
        encodings = self._complete.encode_batch(list(texts), add_special_tokens=add_special_tokens)
        return [Tokens(encoding.ids, encoding.offsets) for encoding in encodings]

    def _have_added(self, texts: Sequence[str]) -> bool:
        """Return whether a text contains a special token in writing, which divides its words."""
        return any(token in text for token in self._added for text in texts)

    def _small_tokenizer(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """Return a tokenizer with the pieces in some texts, and the ids of its tokens in the vocabulary."""
        rules, longest = self._rules, self._longest
        words = {
            word
            for text in texts
            for word, _ in rules.pre_tokenizer.pre_tokenize_str(rules.normalizer.normalize_str(text))
        }
        parts: set[str] = set()
        for word in words:
            for start in range(len(word)):
                parts.update(word[start:end] for end in range(start + 1, min(len(word), start + longest) + 1))
        wanted = np.array(sorted(part.encode() for part in parts), dtype=self._pieces.dtype)
        places = np.searchsorted(self._pieces, wanted).clip(max=len(self._pieces) - 1)
        return self._tokenizer(places[self._pieces[places] == wanted])

    @cached_property
    def _rules(self) -> Any:
        """A tokenizer without pieces, for its normalization and its division into words."""
        return self._tokenizer(np.zeros(0, dtype=np.int64))[0]

    def _tokenizer(self, places: Any) -> tuple[Any, Any]:
        """Return a tokenizer with the special tokens and the pieces at these places of the table."""
        from tokenizers import Tokenizer

        settings = json.loads(json.dumps(self._settings))
        names = np.array([name.encode() for name in self._added], dtype=self._pieces.dtype)
        special = np.searchsorted(self._pieces, names)
        rest = np.setdiff1d([self._lowest, *places.tolist()], special)
        chosen = np.concatenate([special, rest])
        ids = self._ids[chosen]
        small = {int(number): position for position, number in enumerate(ids)}
        pieces = [self._pieces[place].decode() for place in chosen]
        settings["model"]["vocab"] = list(zip(pieces, self._scores[chosen].tolist(), strict=True))
        settings["model"]["unk_id"] = small[settings["model"]["unk_id"]]
        for token in settings["added_tokens"]:
            token["id"] = small[token["id"]]
        for token in settings["post_processor"]["special_tokens"].values():
            token["ids"] = [small[number] for number in token["ids"]]
        return Tokenizer.from_str(json.dumps(settings)), ids


def _read_pieces(path: Path) -> dict[str, Any]:
    """Return the arrays of a `PieceTable`; none if the tokenizer is of another kind."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    kinds = [
        (settings.get(part) or {}).get("type") for part in ("model", "normalizer", "pre_tokenizer", "post_processor")
    ]
    if (
        kinds[0] != "Unigram"
        or kinds[3] != "TemplateProcessing"
        or None in kinds
        or settings["model"].get("byte_fallback")
    ):
        return {}
    vocabulary = settings["model"].pop("vocab")
    added = {token["id"]: token["content"] for token in settings["added_tokens"]}
    if settings["model"]["unk_id"] not in added or any(vocabulary[number][0] != text for number, text in added.items()):
        return {}
    pieces = np.array([piece.encode() for piece, _ in vocabulary])
    order = np.argsort(pieces)
    settings |= {"truncation": None, "padding": None}
    return {
        "pieces": pieces[order],
        "ids": order.astype(np.int32),
        "scores": np.array([score for _, score in vocabulary])[order],
        "longest": np.array(max(len(piece) for piece, _ in vocabulary)),
        "settings": np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8),
    }
