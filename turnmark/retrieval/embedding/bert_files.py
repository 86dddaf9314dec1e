"""Reads BERT embedding models from the files that sentence-transformers saves, without PyTorch.

Supported are BERT and RoBERTa (the same layers, but positions that begin after the padding's id) with mean or CLS
pooling, in one `model.safetensors`: all-MiniLM, multilingual-e5, BGE and most others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.embedding.piece_table import open_pieces

# Model types whose positions begin at 0, and those whose positions begin after the padding's id.
_BERT_TYPES, _ROBERTA_TYPES = ("bert",), ("roberta", "xlm-roberta", "camembert")
_SAVED_TYPES = {"F32": np.float32, "F16": np.float16}
Weights = Mapping[str, "NDArray[np.float32] | NDArray[np.float16]"]
"""The weights of a model by name, as they are stored."""
WORD_VECTORS = "embeddings.word_embeddings.weight"
"""Name of the vectors of the vocabulary, of shape (tokens, dimension)."""
_NO_LIMIT = 10**6  # transformers writes 10^30 where a tokenizer has no limit


class NotBert(TurnmarkError):
    """The model cannot run here as a BERT; the message says why."""


@dataclass(frozen=True)
class BertConfig:
    """What a model's configuration says.

    Attributes:
        folder: the folder with the model.
        prompts: prompts by name, as configured.
        pooling: mean or cls.
        first_position: the position of a text's first token.
        pad: the id of the padding token.
    """

    folder: Path
    dimension: int
    heads: int
    layers: int
    epsilon: float
    max_tokens: int
    first_position: int
    pad: int
    pooling: str
    prompts: dict[str, str]


def read_bert(folder: Path) -> BertConfig:
    """Read the configuration of a model; raise `NotBert` for a model of another form."""
    config = _read_json(folder / "config.json")
    kind = config.get("model_type")
    if kind not in _BERT_TYPES + _ROBERTA_TYPES:
        raise NotBert(f"its type is {kind!r}")
    for name, usual in {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}.items():
        if config.get(name, usual) != usual:
            raise NotBert(f"its {name} is {config[name]!r}")
    for name in ("model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            raise NotBert(f"it has no {name}")
    saved = _read_json(folder / "sentence_bert_config.json")
    if saved.get("do_lower_case"):
        raise NotBert("it lowercases its texts")
    pad = int(config.get("pad_token_id") or 0)
    first_position = pad + 1 if kind in _ROBERTA_TYPES else 0
    limits = (saved.get("max_seq_length"), _read_json(folder / "tokenizer_config.json").get("model_max_length"))
    limit = next((int(known) for known in limits if known), _NO_LIMIT)
    return BertConfig(
        folder=folder,
        dimension=int(config["hidden_size"]),
        heads=int(config["num_attention_heads"]),
        layers=int(config["num_hidden_layers"]),
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        max_tokens=min(limit, int(config["max_position_embeddings"]) - first_position),
        first_position=first_position,
        pad=pad,
        pooling=_pooling(folder),
        prompts=_read_json(folder / "config_sentence_transformers.json").get("prompts") or {},
    )


def _pooling(folder: Path) -> str:
    """Return how the model pools its tokens; a folder without modules pools by mean, as sentence-transformers does."""
    modules = json.loads((folder / "modules.json").read_text("utf-8")) if (folder / "modules.json").is_file() else []
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if kinds not in ([], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise NotBert(f"its modules are {', '.join(kinds)}, not Transformer, Pooling, Normalize")
    if not kinds:
        return "mean"
    if modules[0]["path"]:
        raise NotBert("its transformer is in a separate folder")
    config = _read_json(folder / str(modules[1]["path"]) / "config.json")
    # Older versions of the library save a flag per mode.
    older = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens"}
    flags = [name for name, on in config.items() if name.startswith("pooling_mode_") and on]
    mode = config.get("pooling_mode") or next((short for short, name in older.items() if flags == [name]), flags)
    if mode not in older or not config.get("include_prompt", True):
        raise NotBert(f"its pooling is {mode!r}")
    return str(mode)


@lru_cache(maxsize=4)
def read_tokenizer(folder: Path) -> Any:
    """Return the model's tokenizer (`tokenizers.Tokenizer` or `PieceTable`), which does not cut texts."""
    path = folder / "tokenizer.json"

    def load() -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    return open_pieces(path, load)


def token_ids(config: BertConfig, texts: Sequence[str]) -> list[NDArray[np.int32]]:
    """Return the ids of the tokens of each text, cut to the model's limit, with the special tokens around them."""
    limit, ids = config.max_tokens, []
    for encoding in read_tokenizer(config.folder).encode_batch(list(texts)):
        all_ids = encoding.ids
        ids.append(np.asarray(all_ids if len(all_ids) <= limit else [*all_ids[: limit - 1], all_ids[-1]], np.int32))
    return ids


def read_weights(folder: Path) -> Weights:
    """Return the weights by name, without the name of the model before them.

    They are views of the mapped file, so that only the weights in use are read.
    """
    try:
        raw = np.memmap(folder / "model.safetensors", dtype=np.uint8, mode="c")
        start = 8 + int(raw[:8].view(np.uint64)[0])
        header: dict[str, Any] = json.loads(bytes(raw[8:start]))
        header.pop("__metadata__", None)
        prefix = next(name for name in header if name.endswith(WORD_VECTORS)).removesuffix(WORD_VECTORS)
        weights = {}
        for name, entry in header.items():
            if name.startswith(prefix) and entry["dtype"] in _SAVED_TYPES:
                first, end = entry["data_offsets"]
                stored = raw[start + first : start + end].view(_SAVED_TYPES[entry["dtype"]])
                weights[name.removeprefix(prefix)] = stored.reshape(entry["shape"])
    except (ValueError, KeyError, IndexError, StopIteration) as error:
        raise NotBert("its model.safetensors does not contain a BERT") from error
    return weights


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; empty if there is no file."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NotBert(f"its {path.name} cannot be read: {error}") from error
    return values
