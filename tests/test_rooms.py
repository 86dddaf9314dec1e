"""The order of the rooms: imports point back along it, and no folder is too large to be seen at a glance."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from tests.imports import graph, modules

ORDER = {
    "turnmark": (
        "core", "corpora", "retrieval", "assistant", "evaluation", "local_state", "doctor", "app", "cli", "__main__",
    ),
    "turnmark.assistant": (
        "config", "types", "config_files", "llm", "citations", "wording", "sessions", "steps", "turn", "repl",
        "commands", "serving", "mcp",
    ),
    "turnmark.assistant.llm": (
        "calls", "prompts", "generators", "picture_describer",
    ),
    "turnmark.assistant.steps": (
        "turn_state", "step_results", "understand", "verify", "retrieve", "answer", "agent", "decide",
        "revise",
    ),
    "turnmark.corpora": (
        "demo", "downloads", "text", "types", "jsonl_rows", "tables", "chunking", "readers", "benchmarks",
        "commands",
    ),
    "turnmark.corpora.readers": (
        "registry", "report", "common", "folder", "isolation", "pictures", "markup", "pdf", "fingerprint", "office",
        "picture_descriptions", "worker", "json_documents", "llama_index", "calendar", "mail", "pandoc", "source_code",
    ),
    "turnmark.corpora.readers.pdf": (
        "page", "tables", "layout", "headings", "blocks", "figures", "extraction", "document", "page_picture",
    ),
    "turnmark.evaluation": (
        "benchmark_files", "metric_style", "model_names", "prompts", "records", "metrics", "storage", "scores",
        "tasks", "calls", "judging", "report", "agreement", "comparison", "runs", "synth", "api",
        "commands", "benchmarks", "report_commands", "check", "tune",
    ),
    "turnmark.evaluation.benchmarks": (
        "compound_qa", "inscoqa", "kiwi", "mtrag", "index_questions",
    ),
    "turnmark.evaluation.check": (
        "request", "result", "judged_figures", "index_runs", "sentence_sampling", "sentence_searches", "index_check",
        "console_report",
        "own_questions", "simulation", "command",
    ),
    "turnmark.evaluation.tune": (
        "request", "questions", "question_sources", "searches", "rankings", "gains", "contenders", "plan", "measuring",
        "verdict", "race", "forecast", "tune_run", "report", "tries", "command",
    ),
    "turnmark.retrieval": (
        "embedding", "ranking", "storage", "tables", "collection", "types", "search", "services", "index",
        "file_account", "commands",
    ),
}  # fmt: skip
"""Folder with rooms -> its rooms and modules. Each imports from itself and from those before it."""
MAX_MODULES = 15
PLUG_INS = ("turnmark.retrieval.services", "turnmark.evaluation.runs.ray_workers")
"""Rooms and modules for Ray, Elasticsearch and LlamaIndex. Specs name them, and functions import them when needed."""
READERS = "turnmark.corpora.readers"
BELOW_READERS = ("core", "corpora.types", "corpora.jsonl_rows", "corpora.text", "corpora.tables")
READERS_DOOR = {
    READERS: {
        "MAX_PROCESSES", "NOT_DESCRIBED", "SKIPPED_FOLDERS", "Globs", "ReadingReport", "SourceFile", "Unreadable",
        "describe_left_out", "describe_unread", "draw_page", "is_picture_file", "list_readers", "read_file",
        "read_rows", "read_source", "readers", "reason_to_skip", "shorten_title", "source_items",
    },
    f"{READERS}.fingerprint": {"readers_mark"},
    f"{READERS}.markup.markdown": {"blocks"},
    f"{READERS}.picture_descriptions": {"clean_description", "insert_descriptions"},
}  # fmt: skip
"""Module -> the names that code outside of the readers may import from it."""


def place(folder: str, module: str) -> int | None:
    """Return the place in the order of a folder of the room that contains a module; None outside of the folder."""
    inside = module.removeprefix(folder + ".")
    return None if inside == module else ORDER[folder].index(inside.split(".")[0])


def test_imports_point_back_along_the_rooms() -> None:
    """Imports in functions and those for typing alone count."""
    wrong = []
    for folder in ORDER:
        for name, targets in graph().items():
            here = place(folder, name)
            for target in targets:
                there = place(folder, target)
                if here is not None and there is not None and there > here:
                    wrong.append(f"{name} imports {target}")
    assert not wrong


def test_plug_ins_are_imported_only_when_they_are_used() -> None:
    """Imports under TYPE_CHECKING and in functions are allowed."""
    importers = set()
    for name, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and not name.startswith(PLUG_INS):
                targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                importers |= {name for target in targets if target.startswith(PLUG_INS)}
    assert not importers


def test_every_folder_with_rooms_has_an_order() -> None:
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert {name.rpartition(".")[0] for name in packages} - {""} == set(ORDER)


def test_folders_have_few_modules() -> None:
    paths = modules().values()
    sizes = Counter(path.parent for path in paths if path.name != "__init__.py")
    assert {folder.name: size for folder, size in sizes.items() if size > MAX_MODULES} == {}


def test_readers_could_be_a_library() -> None:
    """The readers import little of Turnmark, and other code imports only a few of their names."""
    below = tuple(f"turnmark.{name}" for name in BELOW_READERS)
    imported: set[str] = set()
    used: dict[str, set[str]] = defaultdict(set)
    for name, path in modules().items():
        if f"{name}.".startswith(f"{READERS}."):
            imported |= {target for target in graph()[name] if not f"{target}.".startswith(f"{READERS}.")}
            continue
        assert {target for target in graph()[name] if f"{target}.".startswith(f"{READERS}.")} <= set(READERS_DOOR), name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{READERS}."):
                used[str(node.module)] |= {alias.name for alias in node.names}
    assert [name for name in sorted(imported) if not f"{name}.".startswith(tuple(f"{each}." for each in below))] == []
    assert used == READERS_DOOR
