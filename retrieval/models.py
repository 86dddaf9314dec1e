"""Models of sentence-transformers, loaded quietly; what is wrong with one is said in words."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import file_sha256
from turnmark.corpora.specs import one_of
from turnmark.corpora.types import Record

Kind = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]

_CALLED: dict[Kind, str] = {
    "SentenceTransformer": "a sentence-transformers model",
    "SparseEncoder": "a sparse encoder (SPLADE)",
    "CrossEncoder": "a cross-encoder",
}


def load_model(kind: Kind, model: str, owner: str, precision: str) -> Any:
    """Load a model for inference.

    Args:
        kind: the class of sentence-transformers.
        model: a folder, or a name on the Hugging Face hub.
        owner: the part that asks, for messages ("reranker 'cross:…'").
        precision: `fp32`, `bf16`, or `auto`: bf16 where the hardware multiplies it (see
            `turnmark.retrieval.backends.requested_precision`).

    Raises:
        RequestError: it cannot be loaded, or what is there was never trained to be such a model.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Threads that spin while they wait make a model six times slower as soon as another program wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import sentence_transformers
    import torch
    from transformers.utils import logging as transformers_logging

    from turnmark.retrieval.backends import half_on_torch

    transformers_logging.disable_progress_bar()
    half = half_on_torch(precision, torch.cuda.is_available)
    try:
        loaded: Any = getattr(sentence_transformers, kind)(
            model, model_kwargs={"torch_dtype": torch.bfloat16 if half else torch.float32}
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RequestError(
            f"{owner} cannot be loaded: {first}; name a folder with {_CALLED[kind]}, or a hub model while the hub can "
            "be reached"
        ) from error
    # An embedder has no head that could have been made up.
    if kind != "SentenceTransformer" and (untrained := _untrained(loaded)):
        raise RequestError(f"{owner}: {model!r} is not {_CALLED[kind]}: {untrained} has no trained weights in it")
    loaded.eval()
    return loaded


def _untrained(loaded: Any) -> str:
    """The part of a model that was made up with random weights since the files lack it; empty where there is none.

    The library turns any model into any other by adding what it lacks, which then scores at random.
    """
    stored = getattr(loaded, "module_kwargs", None) or {}
    for name, module in loaded.named_children():
        if type(module).__name__ == "SparseAutoEncoder" and name not in stored:
            return "the sparse layer"
    inner = loaded.transformers_model
    made_for = getattr(getattr(inner, "config", None), "architectures", None) or ()
    if inner is not None and made_for and type(inner).__name__ not in made_for and not _headless(inner):
        return f"the head of {type(inner).__name__} (its configuration says {', '.join(made_for)})"
    return ""


def _headless(inner: Any) -> bool:
    """True for a bare encoder, which has no head of its own."""
    return getattr(inner, "base_model", None) is inner


precision_option = one_of("auto", "fp32", "bf16")


def weights_digest(model: str) -> str:
    """Digest of a local model's weights; empty for a hub name, whose name is all that is known of it."""
    folder = Path(model)
    paths = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    return hashlib.sha256("".join(map(file_sha256, paths)).encode()).hexdigest() if paths else ""


def check_finite(values: Any, source: str) -> None:
    """Raises TurnmarkError where a model's numbers are not all finite: NaN would sort anywhere."""
    if not np.isfinite(values).all():
        raise TurnmarkError(f"{source} gave numbers that are not finite (NaN or infinite); its weights are damaged")


class Prompts(Record):
    """What is put in front of a query and of a passage. None: nothing is said of it here."""

    query: str | None = None
    passage: str | None = None


NOTHING = Prompts()

# Name of the model without its owner -> prompts. The BGE table of FlagEmbedding's README ("query instruction for
# retrieval"; passages need none), and the E5 cards' first question.
_CARDS: tuple[tuple[re.Pattern[str], Prompts], ...] = (
    (
        re.compile(r"bge-(small|base|large)-en(-v1\.5)?"),
        Prompts(query="Represent this sentence for searching relevant passages: ", passage=""),
    ),
    (
        re.compile(r"bge-(small|base|large)-zh(-v1\.5)?"),
        Prompts(query="为这个句子生成表示以用于检索相关文章：", passage=""),
    ),
    (
        re.compile(r"(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?"),
        Prompts(query="query: ", passage="passage: "),
    ),
)


def card_prompts(model: str) -> Prompts:
    """What the card of a model prescribes; nothing where we know none.

    Args:
        model: a hub name, or a folder called like one; a snapshot in the hub's cache is known by its repository.
    """
    parts = Path(model).parts
    names = [part.rpartition("--")[2] for part in parts if part.startswith("models--")] or list(parts[-1:])
    for pattern, prompts in _CARDS:
        if names and pattern.fullmatch(names[-1].lower()):
            return prompts
    return NOTHING


def effective_prompts(
    model: str, configured: Mapping[str, str | None], overrides: Prompts = NOTHING
) -> tuple[str, str]:
    """What is put in front of a query and of a passage.

    That is what was asked for, or else what the model's configuration says; only where that says nothing at all, what
    its card does.

    Args:
        configured: the prompts of a sentence-transformers model by name. For passages the library takes `document`,
            which it makes up as empty where a model has only `passage` or `corpus`: here the first that is not empty.
    """
    query = configured.get("query") or ""
    passage = next(filter(None, (configured.get(name) for name in ("document", "passage", "corpus"))), "")
    if not query and not passage:
        card = card_prompts(model)
        query, passage = card.query or "", card.passage or ""
    return (
        query if overrides.query is None else overrides.query,
        passage if overrides.passage is None else overrides.passage,
    )
