"""`turnmark doctor`: what is whole, what is broken, and that it changes and tells nothing that it should not."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from tests.servers import Say, ScriptedServer
from turnmark.doctor import SECRET_VARIABLES

SECRET = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in SECRET_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def checks(turnmark):
    ran = turnmark("doctor", "--json")
    printed = json.loads(ran.out)
    return ran.code, printed["healthy"], {(row["section"], row["name"]): row for row in printed["checks"]}


def states(rows, section):
    return {name: row["state"] for (row_section, name), row in rows.items() if row_section == section}


@pytest.mark.usefixtures("in_demo_home")
def test_complete_installation_is_healthy(turnmark):
    code, healthy, rows = checks(turnmark)
    assert (code, healthy) == (0, True)
    assert rows["versions", "python"]["state"] == "ok"
    assert rows["models", "minilm (bundled)"]["detail"].endswith("SHA-256 4589e8cef7eb… as expected")
    assert rows["indexes", "demo"]["detail"].endswith(" passages")
    assert rows["endpoints", "none"]["state"] == "absent"
    assert states(rows, "configuration") == {
        "1 environment": "ok", "2 project file": "absent", "3 user file": "absent",
    }  # fmt: skip
    ran = turnmark.ok("doctor")
    assert "everything that is needed is installed and works" in ran.out


@pytest.mark.usefixtures("in_demo_home")
def test_checks_the_indexes(turnmark, demo_home, tmp_path, monkeypatch):
    mine = tmp_path / "home"
    for name in ("whole", "lacks", "garbled", "half"):
        shutil.copytree(demo_home / "indexes" / "demo", mine / "indexes" / name)
    (mine / "indexes" / "lacks" / "g0001" / "passages.db").unlink()
    (mine / "indexes" / "garbled" / "manifest.json").write_text("{", encoding="utf-8")
    (mine / "indexes" / "half" / "manifest.json").unlink()
    monkeypatch.setenv("TURNMARK_HOME", str(mine))
    code, _, rows = checks(turnmark)
    assert code == 1
    assert states(rows, "indexes") == {"garbled": "broken", "half": "warn", "lacks": "broken", "whole": "ok"}
    assert rows["indexes", "lacks"]["advice"].startswith("turnmark index remove demo, then turnmark index build ")


def test_unreadable_home_is_broken_and_the_other_checks_run(turnmark, tmp_path, monkeypatch):
    home = tmp_path / ("x" * 300)  # the system refuses to look at a name of this length, even for root
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    code, _, rows = checks(turnmark)
    assert code == 1
    assert rows["state", "files"]["state"] == "broken"
    assert "set TURNMARK_HOME to another folder" in rows["state", "files"]["advice"]
    assert rows["configuration", "3 user file"]["state"] == "broken"
    assert rows["models", "minilm (bundled)"]["state"] == "ok"


def test_endpoint_gets_one_request_and_keys_stay_secret(turnmark, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with ScriptedServer(Say("x"), models=[{"id": "tiny"}]) as server:
        monkeypatch.setenv("TURNMARK_GENERATOR", f"openai:tiny@{server.url}")
        ran = turnmark("doctor", "--json")
        drawn = turnmark("doctor")
        models_asked, prompts = server.models_asked, server.seen
    rows = {row["name"]: row for row in json.loads(ran.out)["checks"]}
    assert rows["TURNMARK_GENERATOR: openai:tiny"]["state"] == "ok"
    assert rows["keys"]["detail"] == "set: OPENAI_API_KEY"
    assert (models_asked, prompts) == (2, [])
    for text in (ran.out, ran.err, drawn.out, drawn.err):
        assert SECRET not in text


def test_checks_the_weights_by_their_hash(turnmark, tmp_path, monkeypatch):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr("turnmark.retrieval.embedding.embedders.MINILM_FOLDER", tmp_path)
    code, _, rows = checks(turnmark)
    row = rows["models", "minilm (bundled)"]
    assert (code, row["state"]) == (1, "broken")
    assert hashlib.sha256(b"other weights").hexdigest() in row["detail"]


def test_package_of_another_version_is_broken(turnmark, monkeypatch):
    from turnmark import doctor

    true = doctor.requires
    monkeypatch.setattr(doctor, "requires", lambda name: [*true(name), "numpy>=99", "not-there-at-all>=1"])
    code, _, rows = checks(turnmark)
    assert code == 1
    assert ">=99 is needed" in rows["versions", "numpy"]["detail"]
    assert rows["versions", "not-there-at-all"]["detail"] == "not installed"
    assert rows["versions", "not-there-at-all"]["advice"] == "pip install 'not-there-at-all>=1'"
