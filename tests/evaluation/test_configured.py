"""The configuration files as defaults: what comes first, what a project may not say, mistakes with their fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.conftest import DEMO
from turnmark.app import app
from turnmark.assistant.config_files import COMMANDS, COMMON_KEYS, defaults_of, options, sources
from turnmark.core.errors import RequestError
from turnmark.core.home import home

ROOT_COMMAND = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch):
    monkeypatch.delenv("TURNMARK_INDEX", raising=False)


def user(text):
    path = home() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def project(text):
    path = Path("turnmark.toml").absolute()
    path.write_text(text, encoding="utf-8")
    return path


def found(command):
    return defaults_of(ROOT_COMMAND, command, sources())


def problems(command="eval"):
    with pytest.raises(RequestError) as caught:
        found(command)
    return list(caught.value.problems)


def test_every_command_with_flags_may_have_a_table_and_each_default_is_a_flag():
    commands = ROOT_COMMAND.commands  # type: ignore[attr-defined]
    flags = {name: set(options(command)) for name, command in commands.items()}
    assert {name for name in flags if flags[name]} - {"remove"} <= set(COMMANDS) <= set(commands)
    assert set(COMMON_KEYS) <= set().union(*flags.values())


def test_the_project_counts_before_the_user_and_a_command_before_the_defaults():
    user(
        '[defaults]\nindex = "u"\nretriever = "bm25"\nconcurrency = 2\n[eval]\nlimit = 1\nseed = 4\n'
        '[search]\nretriever = "dense"\ntop-k = 3\n[index.build]\nretriever = "hybrid"\n'
    )
    assert found("search") == {"index": ["u"], "retriever": "dense", "top_k": "3"}
    assert found("index") == {"build": {"retriever": "hybrid"}}
    path = project('[defaults]\nindex = "p"\nretriever = "conversational"\n[eval]\nlimit = 3\n')
    assert found("ask") == {"index": ["p"], "retriever": "conversational"}
    assert found("search") == {"index": ["p"], "retriever": "conversational", "top_k": "3"}
    assert found("eval") == {"retriever": "conversational", "concurrency": "2", "limit": "3", "seed": "4"}
    path.rename(path.parent.parent / "turnmark.toml")  # one above the working folder is not read
    assert found("ask") == {"index": ["u"], "retriever": "bm25"}


@pytest.mark.usefixtures("in_demo_home")
def test_a_flag_counts_before_the_environment_before_a_file(turnmark, monkeypatch):
    project('[search]\nindex = "demo"\nretriever = "bm25"\ntop-k = 2\n')
    first = turnmark.json("search", "ginger")
    assert (first["retriever"], len(first["hits"])) == ("bm25", 2)
    monkeypatch.setenv("TURNMARK_INDEX", "nowhere")
    assert "'nowhere'" in turnmark("search", "ginger", "--json").err
    ran = turnmark("search", "ginger", "--index", "demo", "--retriever", "bm25", "--json")
    assert json.loads(ran.out)["hits"]


def test_paths_are_from_the_file_and_many_values_may_be_one(turnmark):
    path = user('[defaults]\njudge = "embedded"\ndata = "bench"\nbudget = 200000\n[eval]\nonly = ["a", "b"]\n')
    assert found("eval") == {
        "judge": ["embedded"], "data": str(path.parent / "bench"), "budget": "200000", "only": ["a", "b"],
    }  # fmt: skip
    user('[defaults]\njudge = ["a", "b"]\n[eval]\nlimit = "x"\nchain = true\nseed = 1.5\nprotocol = "odd"\n')
    assert "judge" not in found("synth").get("mtrag", {}), "it takes one"
    message = turnmark.refused("eval", "mtrag", "--sample", "0")
    for mistake in ("--limit x: expected a whole number", "--seed 1.5", "--protocol odd", "--sample 0"):
        assert mistake in message


def test_every_mistake_has_its_file_and_field():
    path = user('[defaults]\nconcurency = 3\n\n[eval]\ntsak = "a"\nseed = [1, 2]\n[what]\n')
    messages = problems()
    assert [message.removeprefix(f"{path}: ").partition(":")[0] for message in messages] == [
        "what", "defaults.concurency", "eval.tsak", "eval.seed",
    ]  # fmt: skip
    assert "no table is called 'what' (did you mean 'chat'?); there are: defaults" in messages[0]
    assert "there are: budget, concurrency" in messages[1]
    user("[index]\nbuild = 1\n")
    assert problems("index") == [f"{path}: index.build: a table was expected"]


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("defaults", 'generator = "python:os:system"'), ("defaults", 'generator = "llama-index:a.b:c"'),
        ("eval", 'generator = "openai:m@http://elsewhere/v1"'),
        ("defaults", 'generator = "openai:m?api_key_env=AWS_SECRET_ACCESS_KEY"'),
        ("defaults", 'judge = ["extractive", "openai:m@http://elsewhere/v1"]'),
        ("eval", 'retriever = "chroma+http://elsewhere:8000"'),
        ("serve", 'host = "0.0.0.0"'), ("serve", "port = 80"),
    ],
)  # fmt: skip
def test_a_projects_file_may_not_open_doors_name_code_or_say_where_keys_go(table, line):
    command = table if table == "serve" else "eval"
    path = project(f"[{table}]\n{line}\n")
    (message,) = problems(command)
    assert message.startswith(f"{path}: {table}.")
    assert "a project's file may not" in message
    path.unlink()
    user(f"[{table}]\n{line}\n")
    found(command)


def test_a_retrieval_takes_a_generator_only_if_it_writes_queries_and_never_a_judge(turnmark):
    data = DEMO / "mt-rag-benchmark"
    words = ("eval", "mtrag", "--task", "retrieval", "--data", data, "--retriever", "bm25", "--dry-run", "--query")
    user('[defaults]\ngenerator = "nobody"\njudge = "nobody"\nconcurrency = 3\nbudget = "5k"\n')
    assert "no generator is called 'nobody'" in turnmark.refused(*words, "assistant")
    plain = turnmark.json(*words, "last-turn")
    assert (plain["specs"], plain["estimated"]) == ({"retriever": "bm25", "embedder": "", "query": "last-turn"}, {})
    endpoint = "openai:m@http://127.0.0.1:1/v1"
    user(f'[defaults]\ngenerator = "{endpoint}"\njudge = "nobody"\nbudget = "5k"\n')
    by_model = turnmark.json(*words, "assistant")
    assert by_model["specs"] == {**plain["specs"], "query": "assistant", "generator": endpoint}
    assert set(by_model["estimated"]) == {"understand"}


def test_help_and_doctor_work_with_a_broken_file(turnmark):
    path = project("[defaults\n")
    turnmark.ok("eval", "--help")
    ran = turnmark("doctor")
    assert (ran.code, "not TOML" in ran.out) == (1, True)
    refused = turnmark("index", "list")
    assert (refused.code, refused.err.startswith(f"turnmark: {path}: not TOML")) == (2, True)
