"""The configuration files as defaults: what comes first, what a project may not say, mistakes with their fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.conftest import DEMO
from turnmark.assistant.settings import COMMANDS, sources
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home
from turnmark.evaluation.app import app
from turnmark.evaluation.configured import COMMON, defaults_of, options

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


def test_every_command_with_flags_may_have_a_table():
    commands = ROOT_COMMAND.commands  # type: ignore[attr-defined]
    groups = {name for name, command in commands.items() if getattr(command, "commands", None)}
    flagged = {name for name, command in commands.items() if options(command)}
    assert set(COMMANDS) - {"serve", "synth"} <= flagged | groups
    assert not flagged - set(COMMANDS) - {"serve"}


def test_each_key_of_the_defaults_is_a_flag_of_some_command():
    commands = ROOT_COMMAND.commands  # type: ignore[attr-defined]
    flags = {name for command in commands.values() for name in options(command)}
    assert set(COMMON) <= flags


def test_the_first_file_that_has_a_value_gives_it():
    user('[defaults]\nindex = "u"\nretriever = "bm25"\nconcurrency = 2\n[eval]\nlimit = 1\nseed = 4\n')
    project('[defaults]\nindex = "p"\n[eval]\nlimit = 3\n')
    assert found("ask") == {"index": "p", "retriever": "bm25"}
    assert found("eval") == {"retriever": "bm25", "concurrency": 2, "limit": 3, "seed": 4}


def test_a_table_of_one_command_counts_before_the_defaults():
    user('[defaults]\nretriever = "bm25"\n[search]\nretriever = "dense"\nk = 3\n[index.build]\nretriever = "hybrid"\n')
    assert found("search") == {"retriever": "dense", "k": 3}
    assert found("ask") == {"retriever": "bm25"}
    assert found("index") == {"build": {"retriever": "hybrid"}}


def test_the_project_counts_before_the_user_whatever_the_table():
    user('[search]\nretriever = "dense"\nk = 3\n')
    project('[defaults]\nretriever = "bm25"\n')
    assert found("search") == {"retriever": "bm25", "k": 3}


@pytest.mark.usefixtures("in_demo_home")
def test_a_flag_counts_before_all(turnmark, monkeypatch):
    project('[search]\nindex = "demo"\nretriever = "bm25"\n')
    assert turnmark.json("search", "ginger")["retriever"] == "bm25"
    monkeypatch.setenv("TURNMARK_INDEX", "nowhere")
    assert "'nowhere'" in turnmark("search", "ginger", "--json").err
    ran = turnmark("search", "ginger", "--index", "demo", "--retriever", "bm25", "--json")
    assert json.loads(ran.out)["hits"]


def test_paths_are_from_the_file_and_many_values_may_be_one():
    path = user('[defaults]\njudge = "embedded"\ndata = "bench"\nbudget = 200000\n[eval]\nonly = ["a", "b"]\n')
    values = found("eval")
    assert values["judge"] == ["embedded"]
    assert values["data"] == str(path.parent / "bench")
    assert values["budget"] == "200000"
    assert values["only"] == ["a", "b"]


def test_every_mistake_has_its_file_and_field():
    path = user('[defaults]\nconcurency = 3\n\n[eval]\nlimit = "x"\nchain = 1\nseed = 1.5\ntsak = "a"\n[what]\n')
    messages = problems()
    assert [message.removeprefix(f"{path}: ").partition(":")[0] for message in messages] == [
        "what", "defaults.concurency", "eval.tsak", "eval.chain", "eval.limit", "eval.seed",
    ]  # fmt: skip
    assert "no such table; there are: defaults" in messages[0]
    assert "there are: budget, concurrency" in messages[1]
    assert "a valid integer" in messages[4]
    assert "true or false was expected" in messages[3]


@pytest.mark.parametrize(
    "line",
    [
        'generator = "python:os:system"', 'generator = "llama-index:a.b:c"',
        'generator = "openai:m@http://elsewhere/v1"', 'generator = "openai:m?api_key_env=AWS_SECRET_ACCESS_KEY"',
        'judge = ["extractive", "openai:m@http://elsewhere/v1"]', 'retriever = "chroma+http://elsewhere:8000"',
    ],
)  # fmt: skip
def test_a_projects_file_may_not_say_what_is_run_or_where_keys_go(line):
    path = project(f"[defaults]\n{line}\n")
    assert "a project's file may not" in problems()[0]
    assert problems()[0].startswith(f"{path}: ")
    path.unlink()
    user(f"[defaults]\n{line}\n")
    found("eval")


@pytest.mark.parametrize("line", ['host = "0.0.0.0"', "port = 80"])
def test_a_projects_file_may_not_say_who_may_ask(line):
    path = project(f"[serve]\n{line}\n")
    assert "a project's file may not" in problems("serve")[0]
    assert problems("serve")[0].startswith(f"{path}: ")
    path.unlink()
    user(f"[serve]\n{line}\n")
    found("serve")


def test_a_project_file_above_is_not_read(tmp_path, monkeypatch):
    project("[what]\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert found("eval") == {}


def test_a_retrieval_takes_nothing_that_is_for_a_model(turnmark):
    user(
        '[defaults]\ngenerator = "openai:m@http://127.0.0.1:1/v1"\njudge = "embedded"\nconcurrency = 3\nbudget = "5k"\n'
    )
    data = DEMO / "mt-rag-benchmark"
    turnmark.ok("eval", "mtrag", "--task", "retrieval", "--data", data, "--retriever", "bm25", "--dry-run", "--json")


def test_help_and_doctor_work_with_a_broken_file(turnmark):
    path = project("[defaults\n")
    turnmark.ok("eval", "--help")
    ran = turnmark("doctor")
    assert ran.code == 1
    assert "not TOML" in ran.out
    refused = turnmark("index", "list")
    assert (refused.code, refused.err.startswith(f"turnmark: {path}: not TOML")) == (2, True)


def test_a_command_s_name_with_a_value_is_told_that_a_table_was_expected(turnmark, tmp_path):
    path = tmp_path / "turnmark.toml"
    path.write_text("[index]\nbuild = 1\n", encoding="utf-8")
    message = turnmark.refused("index", "list")
    assert f"{path}: index.build: a table was expected" in message
