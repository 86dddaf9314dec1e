"""The files of a model that was converted for OpenVINO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from turnmark.corpora.types import Record

FULL, INT8, ABOUT, TOKENIZER = "model.xml", "int8.xml", "about.json", "tokenizer.json"


class About(Record):
    """What is kept beside a converted model, so that it runs without loading the original."""

    dimension: int
    max_tokens: int
    pooling: str
    pad: int
    packs: (
        bool  # whether it takes several texts as one row, each token with its place in its text and the text's number
    )
    int8_cosine: float  # the least over the checked texts; 0 where there is no 8-bit form
    files: Mapping[str, int] = {}  # size in bytes of each file beside this one


def read_about(folder: Path) -> About:
    """What is kept about the converted model in `folder`."""
    return About.model_validate(json.loads((folder / ABOUT).read_text(encoding="utf-8")))
