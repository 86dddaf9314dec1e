"""The replacements of the placeholders on the pages, and the examples that tests cannot run."""

from __future__ import annotations

from tests.conftest import DEMO
from tests.docs.pages import Example

WORDS: dict[str, str | tuple[str, ...]] = {
    "demo ~/notes": "written",
    "index build island": str(DEMO / "documents"),
    "--embedder multilingual-e5-small": "minilm",
    "--retriever SPEC": "bm25",
    "STEP=FORM": "verify=extractive",
    "index build FOLDER": "documents",
    "FOLDER": "exported",
    "SOURCE": "documents",
    "NAME": "notes",
    "SESSION": "kept",
    "DIR": "inscoqa",
    "CLONE": "mt-rag-benchmark",
    "eval kiwi DIR": "kiwi",
    "--html FILE": "written.html",
    "--markdown FILE": "written.md",
    "RUN": "runs/a",
    "RUN…": "runs/b",
    "RUN|FILE…": "human_evaluations.json",
    "synth/mtrag-0123456789ab": "synth/mtrag",
    "--judge …": "embedded",
    "BENCHMARK": "mtrag",
    "--n 50": "2",
    "--out refs": ("refs", "--limit", "3"),
    "--domains clapnq": "almanac",
    "--domains fiqa": "handbook",
    "--domains clapnq,fiqa": "almanac",
    "COMMAND": "ask",
    "score mtrag answers.jsonl": "mtrag.jsonl",
    "remove sessions/NAME": "sessions/kept",
    "remove NAME": "sessions/kept",
    "eval …": "mtrag",
    "ask …": ("How is a kettle descaled?", "--index", "notes"),
    "score mtrag …": ("--predictions", "mtrag.jsonl"),
    "…": (),
}
"""The replacement of each placeholder, if necessary with the flag or the command before it."""

PARTS = {
    r"(?<![\w/-])(?:SPEC|STRONG|JUDGE|A|B)(?!\w)": "openai:tiny@URL",
    r"(?<=:)MODEL(?=@)": "tiny",
    r"(?<=@)URL\b": "SERVER",
    r"https?://(?:localhost:80[08]0|gpu1:8000|gateway\.example)/v1": "SERVER",
    r"^ollama:[\w.]+$": r"\g<0>@SERVER",
}
"""The replacement of each part of a word. SERVER is the scripted server."""

NOT_RUN = {
    "--engine ray": "no Ray cluster; tests/test_ray.py starts one",
    "chroma+http": "no Chroma server; tests/retrieval/test_chroma_server.py starts one",
    "elasticsearch+http": "no Elasticsearch",
    "--judge bertscore --judge": "a model of three gigabytes",
    "model get": "fetches a large model; tests/corpora/test_models.py fetches small ones",
    "rerank=cross": "a model of 1.1 GB; tests/retrieval/test_rerank.py runs a tiny one",
    "vllm:": "no GPUs; tests/assistant/test_vllm.py starts a stand-in",
    "local:qwen": "a model of 1.1 GB; tests/assistant/test_local.py runs it",
    "--fail-under right=.9": "the scene has other questions; tests/evaluation/test_own_questions.py runs it",
    "turnmark tune": "its index has no vectors; tests/evaluation/test_tune.py runs it",
    "--install-completion": "writes into the shell's own files",
    "turnmark eval all": "takes minutes; tests/evaluation/test_commands.py runs it",
    "turnmark serve": "runs until it is stopped: `test_what_is_served` types it",
    "turnmark index build ~/notes --name notes --watch": "runs until it is stopped; tests/retrieval/test_watch.py",
    "turnmark mcp": "runs until it is stopped; tests/assistant/test_mcp.py talks to it",
}
"""Why an example that contains this text is parsed but not run."""

PAGE_ENVIRONMENT = {
    "README.md": {"TURNMARK_INDEX": "notes"},
    "docs/chat.md": {"TURNMARK_INDEX": "notes"},
    "docs/tutorial.md": {"TURNMARK_INDEX": "demo"},
}
"""Variables of the examples of a page. A command without `--index` takes the only index, but the scene has several."""


def reason(example: Example) -> str | None:
    """Return why an example is not run."""
    return next((why for holds, why in NOT_RUN.items() if holds in example.typed), None)
