"""Python, `chat`, `serve` and `eval` open the same assistant and send a model the same messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import turnmark as tm
from tests.opened import assistant_over, served_models
from tests.servers import Say, ScriptedServer
from turnmark.assistant.serving.app import make_app
from turnmark.corpora.text.segmentation import strip_citations

PASSAGES = {
    "ferry-0-200": (
        "Ferry",
        "The ferry sails at eight in the morning and at five, on Sundays at ten.",
    ),
    "ferry-200-400": ("Ferry", "A ticket for the ferry costs four pounds; children under six go free of charge."),
    "harbour-0-200": ("Harbour", "The harbour office is open from nine to five and sells tickets for the ferry."),
    "light-0-200": ("Lighthouse", "The lighthouse was lit in 1868 and burned rape oil until 1922."),
    "light-200-400": ("Lighthouse", "The lighthouse is 31 metres high and stands on Stack Nell."),
    "sheep-0-200": ("Sheep", "The sheep are shorn in June, before the regatta, by two men from the mainland."),
    "bakery-0-200": ("Bakery", "The bakery bakes a sourdough loaf on Tuesdays and oatcakes on Fridays."),
    "school-0-200": ("School", "The school has eleven pupils and one teacher, who also runs the library."),
    "regatta-0-200": (
        "Regatta",
        "The regatta is on the last Saturday of July; boats are measured the day before.",
    ),
    "tide-0-200": ("Tides", "At spring tide the causeway is under water for four hours around noon."),
    "post-0-200": ("Post", "The post comes with the morning ferry and leaves with the one in the afternoon."),
    "well-0-200": ("Well", "The well by the church has hard water; the one at the school has soft water."),
}
QUESTIONS = (
    "when does the ferry sail?",
    "and what does a ticket cost, and who sells it?",
    "how high is the lighthouse?",
)
UNDERSTOOD: dict[str, dict[str, Any]] = {
    QUESTIONS[0]: {"parts": [{"question": QUESTIONS[0], "search": ["ferry departure times"]}]},
    QUESTIONS[1]: {
        "leans": True,
        "rewrite": "what does a ferry ticket cost, and who sells it?",
        "parts": [
            {"question": "what does a ferry ticket cost?", "search": ["ticket price"]},
            {"question": "who sells ferry tickets?", "search": ["ticket office"]},
        ],
    },
    QUESTIONS[2]: {"parts": [{"question": QUESTIONS[2], "search": ["height of the lighthouse"]}]},
}
ANSWERS = {
    QUESTIONS[0]: "The ferry sails at eight and at five [1].",
    QUESTIONS[1]: "It costs four pounds [1]. The harbour office sells it [2].",
    QUESTIONS[2]: "It is 31 metres high [1].",
}


def answering(body: dict[str, Any]) -> Say:
    """Choose the reply by the question at the end of the request."""
    text = body["messages"][-1]["content"]
    question = max(QUESTIONS, key=text.rfind)
    if "response_format" in body:
        return Say(json.dumps({"kind": "question", "leans": False, "rewrite": ""} | UNDERSTOOD[question]))
    return Say(ANSWERS[question])


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """Write the three turns as MTRAG tasks over a corpus of passages; the history has the scripted answers."""
    root = tmp_path / "mt-rag-benchmark"
    corpus = root / "corpora/passage_level/harbour.jsonl"
    tasks = root / "mtrag-human/generation_tasks/reference.jsonl"
    for path in (corpus, tasks):
        path.parent.mkdir(parents=True)
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spoken: list[dict[str, str]] = []
    lines = []
    for turn, question in enumerate(QUESTIONS, 1):
        spoken.append({"speaker": "user", "text": question})
        lines.append({
            "conversation_id": "c1", "task_id": f"c1<::>{turn}", "turn": str(turn), "contexts": [],
            "input": list(spoken), "targets": [{"speaker": "agent", "text": "It is."}],
            "Answerability": ["ANSWERABLE"], "Collection": "harbour",
        })  # fmt: skip
        spoken.append({"speaker": "agent", "text": strip_citations(ANSWERS[question])})
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


@pytest.fixture
def corpus_index(benchmark: Path) -> str:
    """An index over the corpus of the benchmark."""
    return tm.Index.build(benchmark / "corpora/passage_level/harbour.jsonl", "harbour").name


def sent(server: ScriptedServer) -> list[list[dict[str, Any]]]:
    return [body["messages"] for body in server.bodies]


def by_python(index: str, spec: str, *_: Any) -> None:
    chat = tm.Assistant(index, generator=spec).chat()
    for question in QUESTIONS:
        chat.ask(question)


def by_chat(index: str, spec: str, turnmark: Any, _: Path) -> None:
    turnmark.ok("chat", "--index", index, "--generator", spec, "--no-save", stdin="\n".join(QUESTIONS) + "\n")


def by_serve(index: str, spec: str, *_: Any) -> None:
    models = served_models(assistant_over(index, spec))
    app = make_app(models, "127.0.0.1", None, lambda: None)
    messages: list[dict[str, str]] = []
    with TestClient(app, base_url="http://127.0.0.1") as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            response = client.post("/v1/chat/completions", json={"model": index, "messages": messages})
            messages.append(response.raise_for_status().json()["choices"][0]["message"])
    models.close()


def by_eval(_: str, spec: str, turnmark: Any, root: Path) -> None:
    turnmark.ok("eval", "mtrag", "--data", root, "--setting", "rag", "--generator", spec, "--concurrency", "1")


def by_live_eval(_: str, spec: str, turnmark: Any, root: Path) -> None:
    turnmark.ok("eval", "mtrag", "--data", root, "--live", "--generator", spec, "--concurrency", "1")


@pytest.mark.parametrize("asking", [by_chat, by_serve, by_eval, by_live_eval])
def test_every_entry_point_sends_a_model_the_same_messages(
    asking, corpus_index, benchmark, turnmark, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    with ScriptedServer(answering) as first, ScriptedServer(answering) as second:
        by_python(corpus_index, f"openai:tiny@{first.url}")
        asking(corpus_index, f"openai:tiny@{second.url}", turnmark, benchmark)
    assert len(sent(first)) == 2 * len(QUESTIONS)
    assert ["tools" in body for body in second.bodies] == [False, True] * len(QUESTIONS), "the same tools, too"
    assert [json.dumps(messages) for messages in sent(second)] == [json.dumps(messages) for messages in sent(first)]


def test_eval_measures_the_configured_assistant(corpus_index, benchmark, turnmark, monkeypatch, tmp_path):
    """Passages, forms and prompts of an assistant in Python reach its evaluation, and its manifest says so."""
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(answering) as server:
        spec = f"openai:tiny@{server.url}"
        assistant = tm.Assistant(corpus_index, spec, "bm25", top_k=3, tokens=200, steps={"understand": "rules"})
        assistant.reply([], QUESTIONS[0])
        run = tm.evaluate("mtrag", assistant, data=benchmark, setting="rag", only=["c1<::>1"])
    assert sent(server)[0] == sent(server)[1]
    config = run.manifest.assistant
    assert config is not None
    assert (config.retriever, config.top_k, config.tokens, config.steps) == ("bm25", 3, 200, ("understand=rules",))


def test_eval_measures_the_retriever_of_an_index_without_vectors(benchmark, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    index = tm.Index.build(benchmark / "corpora/passage_level/harbour.jsonl", "plain", retriever="bm25")
    run = tm.evaluate("mtrag", tm.Assistant(index), data=benchmark, setting="rag", limit=1)
    assert run.manifest.specs["retriever"] == "bm25"
