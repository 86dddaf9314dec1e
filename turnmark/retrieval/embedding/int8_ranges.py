"""Finds the ranges with which a BERT multiplies 8-bit integers, once per model, and keeps them in the cache. The ranges
of the bundled model come with it.

The linear layers' inputs are watched while the fp32 graph reads the demo documents. Then the vectors of both precisions
are compared, on other pieces of these documents and on very short texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnmark.retrieval.embedding.array_types import measured_arrays
from turnmark.retrieval.embedding.bert_files import WORD_VECTORS, BertConfig, Weights, token_ids
from turnmark.retrieval.embedding.bert_graph import Ranges, build_graph, build_watching_graph
from turnmark.retrieval.embedding.openvino_runner import Runner, lay_in_one_row, openvino

SHIPPED_FILE = "int8_ranges.npz"
"""File with the ranges in the folder of a model."""
FORMAT = 1
MIN_COSINE = 0.99
# Twice as many texts bring no vector closer: the lowest cosine over 131 pieces of manuals is .9932 either way.
CALIBRATION_TEXTS, CHECKED_TEXTS, TEXT_LENGTH = 20, 8, 900


def known_ranges(config: BertConfig, weights: Weights, key: str, announce: Callable[[], None]) -> Ranges | None:
    """Return the ranges from the folder of the model or from the cache, or find them. Return None if 8-bit integers
    would change its vectors by more than a cosine of .01.

    Args:
        key: identifies the model in the cache.
        announce: called before the ranges are searched for, which takes a few seconds.
    """

    def measure() -> dict[str, Any]:
        announce()
        return {name: np.stack(pair) for name, pair in find_ranges(config, weights).items()}

    digest = hashlib.sha256(f"{key}|{FORMAT}".encode()).hexdigest()
    if (config.folder / SHIPPED_FILE).is_file():
        with np.load(config.folder / SHIPPED_FILE, allow_pickle=False) as shipped:
            stored = dict(shipped)
    else:
        stored = measured_arrays(f"int8/{digest[:24]}", measure)
    return {name: (low, high) for name, (low, high) in stored.items()} or None


def find_ranges(config: BertConfig, weights: Weights) -> Ranges:
    """Return the ranges of a model; empty if its vectors would change too much."""
    calibration, checked = _sample_texts()
    ranges = _watched_ranges(config, weights, calibration)
    exact = Runner(build_graph(config, weights), weights[WORD_VECTORS], config, "fp32").encode(checked)[0]
    rounded = Runner(build_graph(config, weights, ranges), weights[WORD_VECTORS], config, "int8").encode(checked)[0]
    return ranges if (exact * rounded).sum(axis=1).min() >= MIN_COSINE else {}


def _watched_ranges(config: BertConfig, weights: Weights, texts: Sequence[str]) -> Ranges:
    """Return the lowest and highest value of each channel in the inputs of linear layers, over the texts."""
    graph, names = build_watching_graph(config, weights)
    compiled = openvino().Core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request, words = compiled.create_infer_request(), weights[WORD_VECTORS]
    ranges: Ranges = {}
    for ids in token_ids(config, texts):
        # Texts are run alone, because padding would have different ranges.
        inputs, _ = lay_in_one_row([ids], words, config)
        results = [np.array(values) for values in request.infer([array[:, : len(ids)] for array in inputs]).values()]
        for name, low, high in zip(names, results[::2], results[1::2], strict=True):
            known_range = ranges.get(name, (low, high))
            ranges[name] = np.minimum(known_range[0], low), np.maximum(known_range[1], high)
    return ranges


def _sample_texts() -> tuple[list[str], list[str]]:
    """Return texts of the demo documents: some for finding ranges, and others for checking."""
    from importlib.resources import files

    documents = Path(str(files("turnmark.corpora.demo"))) / "documents"
    texts = [path.read_text(encoding="utf-8") for path in sorted(documents.rglob("*.md"))]
    pieces = [text[start : start + TEXT_LENGTH] for text in texts for start in range(0, len(text), TEXT_LENGTH)]
    ranged, checked = pieces[::2][:CALIBRATION_TEXTS], pieces[1::2][:CHECKED_TEXTS]
    # Beginnings as long as questions, and texts with one word or no word, whose vectors are the most unusual.
    short = [[text[: 10 + 7 * number % 80] for number, text in enumerate(texts)] for texts in (ranged, checked)]
    return [*ranged, *short[0], "", "a", "What?"], [*checked, *short[1], "tea", " "]
