"""Options that `ask` and `chat` share."""

from __future__ import annotations

from typing import Annotated

import typer

Generator = Annotated[
    str,
    typer.Option(
        "--generator",
        envvar="TURNMARK_GENERATOR",
        help="extractive (no language model), openai:MODEL[@URL], ollama:MODEL, vllm:MODEL, local:MODEL, replay:FILE …",
    ),
]
Retriever = Annotated[
    str | None, typer.Option(help="default: conversational; splade:MODEL or bm25 where the index holds only those")
]
Step = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP=FORM",
        help="another form of a step than by default, e.g. decide=llm; may be repeated",
        show_default=False,
    ),
]
