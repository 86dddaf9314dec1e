"""A GGUF file as a folder that vLLM and transformers load: safetensors in bf16, configuration and tokenizer.

    pip install gguf
    python -m tests.tools.gguf_to_safetensors MODEL.gguf FOLDER

So one set of weights can be compared in process (`local:MODEL.gguf`) and behind a server (`vllm:FOLDER`). The weights
are those that the file's quantised blocks stand for, not the ones that they were made from. Transformers dequantises
them, in twice the memory of the result or more: 7 GB for 1.5 billion parameters.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path


def convert(source: Path, folder: Path) -> None:
    """Write the folder.

    Raises:
        OSError, ValueError: transformers cannot read the file, or does not know its architecture.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place, name = str(source.parent), source.name
    tokenizer = AutoTokenizer.from_pretrained(place, gguf_file=name)
    # Without being told to dequantise, transformers 5 keeps the file's blocks, which no safetensors of vLLM hold.
    model = AutoModelForCausalLM.from_pretrained(
        place, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: list[str] | None = None) -> int:
    """Convert what the command line names. 2: the request was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a GGUF file")
    parser.add_argument("folder", type=Path, help="an empty folder, or one that is not there yet")
    request = parser.parse_args(arguments)
    errors = []
    if not request.source.is_file():
        errors.append(f"{request.source}: no such file")
    if request.folder.exists() and (not request.folder.is_dir() or any(request.folder.iterdir())):
        errors.append(f"{request.folder}: expected an empty folder")
    if find_spec("gguf") is None:
        errors.append("the package gguf is not installed: pip install gguf")
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 2
    convert(request.source, request.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
