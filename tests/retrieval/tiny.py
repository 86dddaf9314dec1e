"""Small real models, made here with random weights: a sparse encoder, a cross-encoder, an embedder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LETTERS = [chr(code) for code in range(97, 123)]
WORDS = (
    "fuel tank winter hull bees sugar syrup autumn flour water bake loaf ferry sails nine oil the boat bread".split()
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]


def bert(folder: Path, kind: str, seed: int = 7, words: int = 0, **more: Any) -> Path:
    """A small model of a class of transformers, BERT or like it, with a vocabulary of letters and a few words.

    Args:
        words: size that the vocabulary is filled up to with words that no text has; 0: as it is.
        more: of its configuration, in place of what it has else.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    folder.mkdir(parents=True)
    vocabulary = [*VOCABULARY, *(f"[unused{n}]" for n in range(words - len(VOCABULARY)))]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    model_class = getattr(transformers, kind)
    usual = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    usual |= {"max_position_embeddings": 64, "initializer_range": 0.6, "pad_token_id": 0}
    config = model_class.config_class(vocab_size=len(vocabulary), **{**usual, **more})
    model_class(config).save_pretrained(folder)
    return folder


def splade(folder: Path, seed: int = 7, prompts: dict[str, str] | None = None, **more: Any) -> Path:
    """A sparse encoder; `more`: see `bert`."""
    import torch
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(str(bert(folder / "base", "BertForMaskedLM", seed, **more)), prompts=prompts, device="cpu")
    with torch.no_grad():
        # Most of the terms of a trained model are off for most texts.
        model.transformers_model.cls.predictions.bias.fill_(-4.0)
    model.save(str(folder / "model"))
    return folder / "model"


def cross(folder: Path, labels: int = 1) -> Path:
    """A cross-encoder."""
    from sentence_transformers import CrossEncoder

    base = bert(folder / "base", "BertForSequenceClassification", num_labels=labels)
    CrossEncoder(str(base), device="cpu").save(str(folder / "model"))
    return folder / "model"


def dense(folder: Path, name: str = "model", prompts: dict[str, str] | None = None, kind: str = "BertModel") -> Path:
    """An embedder in a folder called `name`."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(str(bert(folder / "base", kind)), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(16)], prompts=prompts, device="cpu").save(str(folder / name))
    return folder / name


def break_weights(folder: Path) -> None:
    """Make every weight of a saved model NaN."""
    import torch
    from safetensors.torch import load_file, save_file

    for path in folder.rglob("*.safetensors"):
        save_file({name: torch.full_like(weights, float("nan")) for name, weights in load_file(path).items()}, path)
