"""A small packed model, and a reader of packed models that shares no code with the product's."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DIMENSION, INNER, LAYERS, HEADS, POSITIONS = 64, 96, 2, 4, 48
PIECES = (
    ("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁tea", -3.0), ("pot", -3.5),
    ("s", -2.5), ("t", -5.0), ("ea", -5.5), ("1", -4.0), ("2", -4.0), ("⁄", -4.0), ("fi", -3.0), ("n", -4.0),
    ("▁que", -3.0), ("ry", -3.0), (":", -2.0), ("▁passage", -3.0), ("茶", -3.0),
)  # fmt: skip
CHARACTERS = {"½": "1⁄2", "ﬁ": "fi", "\t": " ", "\x07": "", "\ufeff": " "}


def write_packed(path: Path) -> None:
    """Write a model with random weights."""
    rng = np.random.default_rng(0)
    tensors: list[tuple[str, int, int, bytes]] = []

    def blocks(name: str, rows: int, columns: int) -> None:
        data = b"".join(
            struct.pack("<e", rng.uniform(0.005, 0.05)) + rng.integers(0, 256, 16, dtype=np.uint8).tobytes()
            for _ in range(rows * columns // 32)
        )
        tensors.append((name, 1, rows * columns, data))

    def floats(name: str, values: NDArray[np.float64]) -> None:
        tensors.append((name, 0, values.size, values.astype("<f4").tobytes()))

    blocks("emb.word", len(PIECES) + 3, DIMENSION)
    floats("emb.pos", rng.normal(0, 0.1, POSITIONS * DIMENSION))
    floats("emb.type", rng.normal(0, 0.1, 2 * DIMENSION))
    norms = ["emb.ln", *(f"l{layer}.{part}" for layer in range(LAYERS) for part in ("aln", "oln"))]
    for name in norms:
        floats(f"{name}.w", rng.normal(1, 0.1, DIMENSION))
        floats(f"{name}.b", rng.normal(0, 0.1, DIMENSION))
    for layer in range(LAYERS):
        for part, rows, columns in [
            *((part, DIMENSION, DIMENSION) for part in ("q", "k", "v", "ao")),
            ("fi", INNER, DIMENSION), ("fo", DIMENSION, INNER),
        ]:  # fmt: skip
            blocks(f"l{layer}.{part}.w", rows, columns)
            floats(f"l{layer}.{part}.b", rng.normal(0, 0.1, rows))
    path.write_bytes(_head(tensors) + b"".join(data for *_, data in tensors))


def _head(tensors: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    sizes = (DIMENSION, LAYERS, HEADS, INNER, len(PIECES) + 3, POSITIONS, 2)
    blob = b"".join(piece.encode() for piece, _ in PIECES)
    ends = np.cumsum([0, *(len(piece.encode()) for piece, _ in PIECES)])
    changes = b"".join(
        struct.pack(f"<IB{len(to)}I", ord(character), len(to), *map(ord, to))
        for character, to in sorted(CHARACTERS.items())
    )
    head = b"E5S1" + struct.pack("<I7ifi", 1, *sizes, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob)) + ends.astype("<u4").tobytes()
    head += np.array([score for _, score in PIECES], dtype="<f4").tobytes() + blob
    head += struct.pack("<iI", len(CHARACTERS), len(changes)) + changes + struct.pack("<i", len(tensors))
    start = len(head) + sum(2 + len(name) + 1 + 4 + 8 + 8 for name, *_ in tensors)
    for name, kind, count, data in tensors:
        head += struct.pack(f"<H{len(name)}sBIQQ", len(name), name.encode(), kind, count, start, len(data))
        start += len(data)
    return head


class Reference:
    """Runs a packed model in NumPy, one text at a time.

    Args:
        path: of the packed file.
    """

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.width, self.layers, self.heads, *_ = struct.unpack_from("<7i", self.data, 8)
        self._tensors = dict(self._directory())

    def _directory(self) -> list[tuple[str, tuple[int, int, int]]]:
        at = 44
        (count,) = struct.unpack_from("<i", self.data, at)
        (blob,) = struct.unpack_from("<Q", self.data, at + 20)
        at += 28 + 4 * (count + 1) + 4 * count + blob
        at += 8 + struct.unpack_from("<I", self.data, at + 4)[0]
        found = []
        (number,) = struct.unpack_from("<i", self.data, at)
        at += 4
        for _ in range(number):
            (length,) = struct.unpack_from("<H", self.data, at)
            name = self.data[at + 2 : at + 2 + length].decode()
            kind, weights, start, _ = struct.unpack_from("<BIQQ", self.data, at + 2 + length)
            found.append((name, (kind, weights, start)))
            at += 2 + length + 21
        return found

    def tensor(self, name: str, columns: int = 1, row: int | None = None) -> Floats:
        """Return a tensor, or one of its rows, with the weights of a block unpacked one by one."""
        kind, count, start = self._tensors[name]
        first, rows = (0, count // columns) if row is None else (row, 1)
        if kind == 0:
            values = np.frombuffer(self.data, "<f4", rows * columns, start + 4 * first * columns)
        else:
            raw = np.frombuffer(self.data, np.uint8, rows * columns // 32 * 18, start + first * columns // 32 * 18)
            raw = raw.reshape(-1, 18)
            scales = raw[:, :2].copy().view("<f2").astype(np.float32)
            low, high = raw[:, 2:] % 16, raw[:, 2:] // 16
            values = ((np.hstack([low, high]).astype(np.float32) - 8) * scales).ravel()
        return values.reshape(rows, columns) if columns > 1 else values

    def vector(self, ids: Sequence[int]) -> Floats:
        """Return the vector of a text from its token ids: the mean of the tokens, scaled to length 1."""
        from scipy.special import erf, softmax

        width, size = self.width, self.width // self.heads
        x = np.vstack([self.tensor("emb.word", width, row) for row in ids])
        x = x + self.tensor("emb.pos", width)[: len(ids)] + self.tensor("emb.type", width)[0]
        x = self._normalized(x, "emb.ln")
        for layer in range(self.layers):
            name = f"l{layer}."
            q, k, v = (self._linear(x, name + part).reshape(len(ids), self.heads, size) for part in "qkv")
            attention = softmax(np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size), axis=-1)
            mixed = np.einsum("hqk,khd->qhd", attention, v).reshape(len(ids), width)
            x = self._normalized(x + self._linear(mixed, name + "ao"), name + "aln")
            inner = self._linear(x, name + "fi")
            inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
            x = self._normalized(x + self._linear(inner, name + "fo"), name + "oln")
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self.tensor(f"{name}.w", x.shape[1]).T + self.tensor(f"{name}.b")

    def _normalized(self, x: Floats, name: str) -> Floats:
        centered = x - x.mean(axis=1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-12)
        return scaled * self.tensor(f"{name}.w") + self.tensor(f"{name}.b")
