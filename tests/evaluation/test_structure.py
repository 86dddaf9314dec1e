"""Only the folder of a benchmark knows the benchmark."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

EVALUATION = ROOT / "turnmark" / "evaluation"
BENCHMARK = re.compile(r"mtrag|inscoqa|compound|kiwi", re.IGNORECASE)


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(EVALUATION.rglob("*.py")):
        yield path.relative_to(EVALUATION), ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield the module path below `turnmark.evaluation` of every import, in functions and for typing too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names = f"{node.module}.{alias.name}".split(".")
                if names[:2] == ["turnmark", "evaluation"]:
                    yield tuple(names[2:])


def prose(tree: ast.Module) -> set[ast.Constant]:
    """Return the strings that stand by themselves: docstrings of modules, classes, functions and attributes."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def words(tree: ast.Module) -> Iterator[str]:
    """Yield all names and strings of the code. Docstrings and comments may name the source of a formula."""
    docstrings = prose(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            if isinstance(word := getattr(node, field, None), str):
                yield word


def test_only_the_folder_of_a_benchmark_names_it():
    naming = [
        f"{path}: {word}"
        for path, tree in modules()
        if path.parts[0] != "benchmarks"
        for word in words(tree)
        if BENCHMARK.search(word)
    ]
    assert not naming


def test_the_folders_of_benchmarks_do_not_import_each_other():
    folders = {path.name for path in (EVALUATION / "benchmarks").iterdir() if path.is_dir()}
    crossing = [
        f"{path} imports {'.'.join(target)}"
        for path, tree in modules()
        if path.parts[0] == "benchmarks" and len(path.parts) > 2
        for target in imports(tree)
        if target[0] == "benchmarks" and target[1] in folders - {path.parts[1]}
    ]
    assert not crossing
