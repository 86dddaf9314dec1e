"""The shape of the house: no circle of imports, help loads nothing heavy, nothing of this machine is committed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.heavy import HEAVY
from tests.imports import graph, modules
from tests.patience import PATIENCE

HELPS = [
    [], ["index"], ["index", "build"], ["index", "list"], ["index", "info"], ["index", "remove"], ["index", "verify"],
    ["search"], ["ask"], ["chat"], ["sessions"], ["eval"], ["score"], ["report"], ["compare"], ["agreement"], ["list"],
    ["data"], ["data", "list"], ["data", "fetch"], ["data", "check"], ["model"], ["model", "list"],
    ["model", "get"], ["synth"],
    ["synth", "mtrag"], ["serve"], ["mcp"],
]  # fmt: skip


def circle(targets_of: dict[str, set[str]]) -> list[str]:
    """The modules of one circle of imports, the first one again at the end; empty where there is none."""
    finished: set[str] = set()

    def walk(name: str, trail: tuple[str, ...]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name not in finished:
            for target in sorted(targets_of[name]):
                if met := walk(target, (*trail, name)):
                    return met
            finished.add(name)
        return []

    return next((met for name in targets_of if (met := walk(name, ()))), [])


def test_modules_have_no_import_cycle():
    """Imports in functions and those for typing alone count."""
    assert len(graph()) > 100
    assert not circle(graph())


def test_help_loads_nothing_heavy():
    """Every `--help` in one fresh process: the modules loaded at the end are those of all of them."""
    script = (
        "import sys\n"
        "from turnmark.cli import main\n"
        f"for words in {HELPS!r}:\n"
        "    sys.argv = ['turnmark', *words, '--help']\n"
        "    try:\n        main()\n"
        "    except SystemExit as left:\n        assert left.code in (0, None), (words, left.code)\n"
        f"heavy = sorted(set(sys.modules) & set({HEAVY!r}))\n"
        "sys.stderr.write('HEAVY ' + ' '.join(heavy))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.endswith("HEAVY "), ran.stderr[-500:]
    for words in HELPS:
        assert f"turnmark {' '.join(words)}".strip() in ran.stdout


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_version_and_help_exit_with_0(turnmark, flag):
    ran = turnmark(flag)
    assert ran.code == 0
    assert "turnmark" in ran.out.lower()


def test_unknown_command_exits_with_2(turnmark):
    assert turnmark("indexx").code == 2


def test_no_committed_file_names_a_registry_host_or_a_local_path():
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split()
    if not files:
        files = [str(path.relative_to(ROOT)) for path in modules().values()]
    words = ("pypi" + ".org", "python" + "hosted", "/root" + "/", "/work" + "/", "/home" + "/")
    wrong = []
    for name in files:
        if not name.startswith("turnmark/corpora/demo/") and (ROOT / name).is_file():
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            wrong += [f"{name}: {word}" for word in words if word in text]
    assert not wrong


def test_no_test_file_imports_another() -> None:
    importing = re.compile(r"^\s*from tests[\w.]*(?:\.test_\w+ import| import test_)", re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")
    assert [path.name for path in files if importing.search(path.read_text(encoding="utf-8"))] == []


SHARED_NAMES: frozenset[str] = frozenset()
"""The exceptions, at most five."""


def class_names(path: Path) -> Iterator[str]:
    """Yield the names of the classes and type aliases of a file, without leading underscores."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    statements = list(tree.body)
    while statements:
        statement = statements.pop()
        if isinstance(statement, ast.If | ast.Try):  # an alias may be under TYPE_CHECKING
            statements += statement.body
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id.lstrip("_")
            if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name):
                yield name


def test_class_names_are_unique() -> None:
    """A type alias is a name like a class; so is a class whose name begins with an underscore."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules().items():
        for name in class_names(path):
            places[name].append(module)
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert len(SHARED_NAMES) <= 5
    assert {name: found for name, found in repeated.items() if name not in SHARED_NAMES} == {}
