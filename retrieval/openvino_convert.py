"""Converts a model for OpenVINO in a process of its own: `python -m turnmark.retrieval.openvino_convert`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from turnmark.core.child import module_process
from turnmark.core.errors import RequestError
from turnmark.retrieval.models import load_model
from turnmark.retrieval.openvino_export import NotConvertible, export


def export_apart(model: str, owner: str, folder: Path, with_int8: bool) -> None:
    """Convert a model in a process of its own: PyTorch's memory, about 700 MB, goes when that ends. See
    `turnmark.retrieval.openvino_export.export`.

    Args:
        model: a folder, or a name on the Hugging Face hub.
        owner: the component that needs the model, for messages.
    """
    request = {"model": model, "owner": owner, "folder": str(folder.absolute()), "with_int8": with_int8}
    command, environment = module_process("turnmark.retrieval.openvino_convert")
    done = subprocess.run(
        command,
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise NotConvertible(f"its conversion stopped (exit code {done.returncode})")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "request" in answer:
        raise RequestError(answer["request"])
    if "not_convertible" in answer:
        raise NotConvertible(answer["not_convertible"])


def main() -> None:
    """Answer the request of `export_apart` on standard input with a line of JSON."""
    request = json.load(sys.stdin)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    answer: dict[str, Any] = {}
    try:
        model = load_model("SentenceTransformer", request["model"], request["owner"], half=False)
        export(model, Path(request["folder"]), request["with_int8"])
    except RequestError as error:
        answer["request"] = error.problems
    except (NotConvertible, OSError) as error:
        answer["not_convertible"] = str(error)
    output.write(json.dumps(answer) + "\n")
    output.close()


if __name__ == "__main__":
    main()
