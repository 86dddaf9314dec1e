"""The modules of the package, and which of them import which."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.conftest import ROOT


def modules() -> dict[str, Path]:
    """Module name -> file, of everything that is installed."""
    paths = {}
    for path in (ROOT / "turnmark").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


@cache
def graph() -> dict[str, set[str]]:
    """Module name -> our other modules that it imports, in functions and under TYPE_CHECKING too."""
    names = modules()
    imports: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imports[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imports[name] |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        imports[name] = imports[name] & set(names) - {name}
    return imports
