"""Packs a normalization of characters in the form that SentencePiece and `tokenizers` read (`Precompiled`).

The form is a trie of the characters' UTF-8 bytes in a double array (Darts), followed by the replacements. A node's
children are at its base XOR their byte; the base itself contains the value of a key that ends there.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

_LEAF, _VALUE, _OFFSET_SHIFT = 1 << 8, 1 << 31, 10
_PAGE = 256  # a node and its children may be anywhere, but the children of a node share a page


def pack_charsmap(characters: Mapping[str, str]) -> str:
    """Return a normalization (character -> what replaces it) in base64, as tokenizer.json stores it."""
    replaced = bytearray()
    starts: dict[str, int] = {}
    trie: dict[int, dict[int, int]] = {0: {}}  # node -> byte -> child
    values: dict[int, int] = {}
    for character, replacement in sorted(characters.items()):
        if replacement not in starts:
            starts[replacement] = len(replaced)
            replaced += replacement.encode() + b"\0"
        node = 0
        for byte in character.encode():
            child = trie[node].setdefault(byte, len(trie))
            trie.setdefault(child, {})
            node = child
        values[node] = starts[replacement]
    units = _double_array(trie, values)
    packed = struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + bytes(replaced)
    return base64.b64encode(packed).decode()


def _double_array(trie: Mapping[int, Mapping[int, int]], values: Mapping[int, int]) -> list[int]:
    """Lay out a trie. No two nodes may have the same base, because their children would be confused."""
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()
    free = 1
    pending = [(0, 0)]  # (node, position)
    while pending:
        node, position = pending.pop()
        labels = [*trie[node], *([0] if node in values else [])]
        base = free
        while base in bases or any(base ^ label in units for label in labels):
            base += 1
        bases.add(base)
        while free in bases:
            free += 1
        units[position] |= (position ^ base) << _OFFSET_SHIFT
        if node in values:
            units[position] |= _LEAF
            units[base] = _VALUE | values[node]
        for label, child in trie[node].items():
            units[base ^ label] = label
            pending.append((child, base ^ label))
    size = -(-(max(units) + 1) // _PAGE) * _PAGE
    return [units.get(position, 0) for position in range(size)]
