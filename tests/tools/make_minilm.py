"""Makes the bundled model from the published all-MiniLM-L6-v2: its weights in fp16, and the ranges of its 8-bit form.

    python -m tests.tools.make_minilm FOLDER

FOLDER is a download of `sentence-transformers/all-MiniLM-L6-v2`. The ranges are measured with the published weights.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from turnmark.core.home import file_sha256
from turnmark.retrieval.embedding.bert_files import read_bert, read_weights
from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, PUBLISHED_SHA256
from turnmark.retrieval.embedding.int8_ranges import SHIPPED_FILE, find_ranges

COPIED = (
    "1_Pooling/config.json", "config.json", "config_sentence_transformers.json", "modules.json",
    "sentence_bert_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json",
)  # fmt: skip


def main() -> None:
    """Write the files, and print the SHA-256 of the weights."""
    published = Path(sys.argv[1])
    if file_sha256(published / "model.safetensors") != PUBLISHED_SHA256:
        raise SystemExit(f"{published} does not contain the published weights")
    for name in COPIED:
        (MINILM_FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(published / name, MINILM_FOLDER / name)
    weights = read_weights(published)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in sorted(weights.items()):
        halves = values.astype("<f2").tobytes()
        header[name] = {"dtype": "F16", "shape": values.shape, "data_offsets": [len(data), len(data) + len(halves)]}
        data += halves
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data is aligned
    target = MINILM_FOLDER / "model.safetensors"
    target.write_bytes(len(text).to_bytes(8, "little") + text + data)
    ranges = find_ranges(read_bert(published), weights)
    np.savez(MINILM_FOLDER / SHIPPED_FILE, **{name: np.stack(pair) for name, pair in ranges.items()})
    print(file_sha256(target))


if __name__ == "__main__":
    main()
