"""A judge behind a scripted endpoint, for tests of `--judge` end to end, and what they read of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import Turnmark
from tests.evaluation import writer
from tests.servers import Say, ScriptedServer, Status
from turnmark.evaluation.records import Summary

UNKNOWN = "I'm sorry, I don't know."
ANSWERS = {"c1<::>1": "The bell was made in London.", "c1<::>2": UNKNOWN, "c2<::>1": "It is tall.", "c2<::>2": UNKNOWN,
           "c1<::>3": "You're welcome."}  # fmt: skip
FEW = "metrics=rb_llm,rl_f,idk"


def official(path: Path, answers: Mapping[str, Any]) -> Path:
    """Write answers in the official form: an answer by task, or an answer with the ids and texts of its passages."""
    rows = []
    for name, answer in answers.items():
        text, contexts = answer if isinstance(answer, tuple) else (answer, None)
        row: dict[str, Any] = {"task_id": name, "predictions": [{"text": text}]}
        if contexts is not None:
            row["contexts"] = [{"document_id": key, "text": text} for key, text in contexts.items()]
        rows.append(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def kind_of(body: dict[str, Any]) -> str:
    """Which of the judges' prompts a request is."""
    system = body["messages"][0]["content"]
    for kind, words in {
        "rb_llm": "a reference answer that a person wrote", "rl_mtb": "faithful, appropriate, concise", "claims":
        "apart into the claims", "verdicts": "You check claims", "questions": "guess that question", "idk":
        "enough information to answer", "clarification": "finds out what the user means",
    }.items():  # fmt: skip
        if words in system:
            return kind
    raise AssertionError(system)


def judge(rating: int = 7, **overrides: str) -> Callable[[dict[str, Any]], Say]:
    """A judge that rates all alike, finds one claim of two supported, and knows an "I don't know" when it sees one."""

    def reply(body: dict[str, Any]) -> Say:
        kind, request = kind_of(body), body["messages"][-1]["content"]
        idk = "yes" if UNKNOWN in request.partition("Response:")[2] else "no"
        replies = {
            "rb_llm": f"Fair.\nRating: [[{rating}]]", "rl_mtb": f"Rating: [[{rating}]]",
            "claims": json.dumps({"claims": [] if UNKNOWN in request else ["one", "two"]}),
            "verdicts": '{"verdicts": [{"claim": 1, "supported": true}, {"claim": 2, "supported": false}]}',
            "questions": '{"questions": ["who made the bell"], "evasive": false}', "idk": f"So.\nVerdict: [[{idk}]]",
            "clarification": f"Verdict: [[{'yes' if 'which one' in request else 'no'}]]",
        }  # fmt: skip
        return Say((replies | overrides)[kind])

    return reply


def spec_of(server: ScriptedServer, model: str = "tiny", options: str = FEW) -> str:
    return f"openai:{model}@{server.url}?{options}"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def values(out: Path, metric: str) -> dict[str, Any]:
    return {row["id"]: row["value"] for row in lines(out / "scores.jsonl") if row["metric"] == metric}


def reasons(out: Path, metric: str) -> dict[str, Any]:
    return {row["id"]: row["reason"] for row in lines(out / "scores.jsonl") if row["metric"] == metric}


def done(turnmark: Turnmark, *words: Any) -> Summary:
    ran = turnmark(*words, "--json")
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)
    printed.pop("run")
    return Summary.model_validate(printed)


def score_words(root: Path, tmp_path: Path, *more: Any, answers: dict[str, str] = ANSWERS) -> list[Any]:
    """What scores these answers into the folder `r`."""
    file = official(tmp_path / "x.jsonl", answers)
    return ["score", "mtrag", "--data", root, "--predictions", file, "--out", tmp_path / "r", *more]


def eval_words(root: Path, out: Path, *more: Any) -> list[Any]:
    return ["eval", "mtrag", "--data", root, "--domains", "clapnq", "--generator", writer.SPEC, "--out", out, *more]


def compound_replies(body: dict[str, Any]) -> Say | Status:
    """Answers questions; as a judge holds ours for better in either order, but for one question where it fails."""
    text = "\n".join(message["content"] for message in body["messages"])
    if "Reply A:" in text:
        ours = "forty words" in text.partition("\nReply A:\n")[2].partition("\nReply B:\n")[0]
        return Say(f"Verdict: [[{'A>B' if ours else 'B>A'}]]")
    if "You check a reply" in text:
        return Say('{"omitted": [], "merged": [], "wrong_language": false}')
    if "You copy out of a reply" in text:
        return Say("forty words")
    return Say("A reference." if body["model"] == "refs" else "An answer of forty words.")
