"""Declarations of the benchmarks MTRAG, MTRAG-UN and MTRAG-S."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.synth.request import DeclaredSynthesis, SynthRequest
from turnmark.evaluation.tasks.declarations import DeclaredBenchmark, JudgePreset

_HERE = "turnmark.evaluation.benchmarks.mtrag"
_DATA = "turnmark.corpora.benchmarks.mtrag:locate"
_OPTIONS = f"{_HERE}.options:OptionsOfAllTasks"


def _panel(first: str) -> JudgePreset:
    """Return the panel of the paper. MTRAG appendix F.1 takes the median of four models for rb_llm, and F.3 uses the
    first of them for the IDK verdict; MTRAG-UN replaces the first. The model names are those of OpenAI and
    Hugging Face. The paper's section 8 tried and dropped `rl_mtb` and `rl_r`.
    """
    return JudgePreset(
        first,
        others=(
            "Qwen/Qwen2.5-72B-Instruct",
            "mistralai/Mixtral-8x22B-Instruct-v0.1",
            "meta-llama/Llama-3.1-405B-Instruct",
        ),
        shared=frozenset({"rb_llm"}),
        skipped=frozenset({"rl_mtb", "rl_r"}),
        bertscore=True,
    )


BENCHMARKS = (
    DeclaredBenchmark(
        "mtrag",
        tasks=f"{_HERE}.generation:TASKS",
        data=_DATA,
        options=_OPTIONS,
        main=True,
        suite={"mtrag-retrieval": ("retrieval", None), "mtrag-rag": (None, "rag")},
        judges=_panel("gpt-4o-mini-2024-07-18"),
        examples=(
            "eval mtrag --setting rag --data mt-rag-benchmark --limit 20 --dry-run",
            "eval mtrag --task retrieval --retriever bm25 --query last-turn",
        ),
    ),
    DeclaredBenchmark(
        "mtrag-un",
        tasks=f"{_HERE}.generation:UN_TASKS",
        data=_DATA,
        options=_OPTIONS,
        suite={"mtrag-un": (None, None), "mtrag-un-rag": (None, "rag")},
        judges=_panel("openai/gpt-oss-120b"),
        examples=(
            "score mtrag-un --data mt-rag-benchmark --predictions answers.jsonl",
            "score mtrag --task retrieval --data mt-rag-benchmark --predictions elser_clapnq_rewrite.trec",
        ),
    ),
    DeclaredBenchmark(
        "mtrag-s", tasks=f"{_HERE}.generation:TASKS", data=_DATA, options=_OPTIONS, suite={"mtrag-s": (None, None)}
    ),
)


class MtragSynthRequest(SynthRequest):
    """Make conversations in the form of MTRAG-S, of up to eight turns each."""

    turns: Annotated[int, typer.Option(metavar="N", help="Maximum number of turns per conversation, up to 8")] = 8


SYNTHESES = (DeclaredSynthesis("mtrag", f"{_HERE}.synthesis:Conversations", MtragSynthRequest),)
