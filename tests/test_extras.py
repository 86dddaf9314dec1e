"""Without the extras the base commands run, and a command that needs one says which before it does any work."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import DEMO, ROOT
from tests.patience import PATIENCE
from turnmark.core import extras
from turnmark.core.extras import EXTRAS, is_installed

NEEDED = {module.partition(".")[0] for extra in EXTRAS.values() for module in extra.modules}
BLOCKED = sorted(NEEDED - {"opentelemetry"})
"""Optional packages. The base has the API of OpenTelemetry, which `mcp` imports."""
ALSO_BLOCKED = [
    "pandas",
    "sklearn",
    "sympy",
    "nltk",
    "safetensors",
    "sqlalchemy",
    "kubernetes",
    "grpc",
    "opentelemetry.sdk",
]
RUN_BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED or name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Blocked())
from turnmark.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["turnmark", *line.split("|")]
    try:
        main()
    except SystemExit as left:
        print(line, left.code)
        if left.code:
            raise
"""
LINES = f"""\
index|build|{DEMO / "documents" / "handbook"}|--name|notes|--include|*ferry*
search|when does the ferry leave?|--index|notes|--json
ask|When does the ferry leave?|--index|notes|--json
check|notes|--n|2|--json
eval|mtrag|--limit|2|--json
list
doctor
"""


def test_base_commands_need_no_extra(tmp_path: Path) -> None:
    environment = {**os.environ, "TURNMARK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", RUN_BLOCKED, ",".join([*BLOCKED, *ALSO_BLOCKED])],
        input=LINES, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "[1]" in ran.stdout
    for extra in EXTRAS:
        assert f'pip install "turnmark[{extra}]"' in ran.stdout, extra


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        ("torch", "index build DOCUMENTS --name n --retriever splade:some/model"),
        ("torch", "index build DOCUMENTS --name n --embedder sentence-transformers:some/model"),
        ("torch", "search tea --index n --retriever conversational?rerank=cross:some/model"),
        ("chroma", "index build DOCUMENTS --name n --retriever chroma+http://h:8000"),
        ("elasticsearch", "index build DOCUMENTS --name n --retriever elasticsearch+http://h/i"),
        ("llama-index", "search tea --index n --retriever llama-index:some.module:factory"),
        ("llama-index", "ask tea --index n --generator llama-index:some.module:factory"),
        ("local", "ask tea --index n --generator local:qwen2.5-coder-1.5b"),
        ("ray", "index build DOCUMENTS --name n --engine ray"),
        ("ray", "eval mtrag --engine ray"),
        ("bertscore", "eval mtrag --judge bertscore"),
        ("ragas", "eval mtrag --judge ragas:openai:tiny@http://h/v1"),
    ],
)
def test_names_the_missing_extra_before_any_work(extra, line, turnmark, tmp_path, monkeypatch):
    missing = EXTRAS[extra].modules
    present = extras._is_there
    monkeypatch.setattr(extras, "_is_there", lambda module: module not in missing and present(module))
    turnmark.ok("index", "build", DEMO / "documents", "--name", "n", "--retriever", "bm25", "--include", "*ferry*")
    before = sorted(path for path in (tmp_path, Path(os.environ["TURNMARK_HOME"])) for path in path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    words = [str(DEMO / "documents") if word == "DOCUMENTS" else word for word in line.split()]
    assert f'pip install "turnmark[{extra}]"' in turnmark.refused(*words)
    after = sorted(path for path in (tmp_path, Path(os.environ["TURNMARK_HOME"])) for path in path.rglob("*"))
    assert after == before


def test_an_extra_with_one_module_missing_is_not_installed(monkeypatch):
    monkeypatch.setitem(EXTRAS, "ocr", EXTRAS["ocr"]._replace(modules=("json", "not_there.at_all")))
    assert not is_installed("ocr")
    monkeypatch.setitem(EXTRAS, "ocr", EXTRAS["ocr"]._replace(modules=("json", "json.decoder")))
    assert is_installed("ocr")


def test_declares_the_packages_of_each_extra():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert declared.keys() - {"all", "bench", "dev"} == EXTRAS.keys()
    [everything] = declared["all"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == EXTRAS.keys() - {"vllm"}
