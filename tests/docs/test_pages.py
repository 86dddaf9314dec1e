"""Tests of what the pages name: blocks, links, flags, files, modules and variables."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Turnmark
from tests.docs.commandline import commands, flags, parsed
from tests.docs.pages import anchors, blocks, forms, links, name_of, pages, spans, tokens

OWN_PAGE = {
    "serve": "docs/serve.md", "mcp": "docs/mcp.md",
    "synth": "docs/data.md", "agreement": "docs/judging.md", "compare": "docs/report.md",
    "report": "docs/report.md", "data": "docs/data.md", "sessions": "docs/chat.md", "chat": "docs/chat.md",
    "index": "docs/documents.md", "doctor": "docs/configuration.md", "check": "docs/check.md",
    "tune": "docs/check.md",
}  # fmt: skip
"""The page that documents the flags of a command, other than docs/commands.md."""
SHARED_FLAGS = {"--json"}
"""Flags that are documented once for all commands."""
OTHERS_FLAGS = {
    "--host", "--port", "--tensor-parallel-size", "--enable-lora", "--lora-modules", "--max-lora-rank",
    "--trust-remote-code", "--model", "--demo", "--signals", "--write", "--quick", "--only", "--kills",
    "--minutes", "--seed", "--parser", "--timeout", "--systems", "--half", "--show", "--transport", "--header",
}  # fmt: skip
"""Flags of vLLM, Claude Code and the programs in tests/."""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
PATH = re.compile(r"(?:corpora|retrieval|assistant|evaluation|tests|docs|turnmark)/[\w./-]+")
FIGURE = re.compile(r"(?<![\w.])[.\d][\d.,]*\d|(?<![\w.])\d")
MODULE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*\w+\.py(?![\w])")
DOTTED = re.compile(r"\bturnmark\.(?:core|corpora|retrieval|assistant|evaluation)(?:\.\w+)*")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_every_block_is_of_a_kind_that_is_run_or_read() -> None:
    assert len(blocks()) > 50
    unknown = [f"{block.place}: {block.lines[0]}" for block in blocks() if block.kind == "unknown"]
    assert not unknown, "neither typed nor read by anything; see tests/docs/pages.py"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_have_a_target(page: Path) -> None:
    wrong = []
    for line, target in links(page):
        path, _, anchor = target.partition("#")
        if target.startswith(("https://", "http://")):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            wrong.append(f"{name_of(page)}:{line}: no {target}")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{name_of(page)}:{line}: no heading for #{anchor} in {path or 'this page'}")
    assert not wrong


def test_tables_are_separate() -> None:
    """Without an empty line before it, a second table is shown as rows of the first one."""
    wrong = [name_of(page) for page in pages() for token in tokens(page) if re.fullmatch("-{3,}", token.content)]
    assert not wrong


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {target.partition("#")[0] for _, target in links(ROOT / "README.md")}
    assert {name_of(page) for page in pages()} - {"README.md"} <= linked


@pytest.mark.parametrize("name", commands())
def test_documents_every_flag(name: str) -> None:
    text = text_of("docs/commands.md") + text_of(OWN_PAGE.get(name.split()[0], "docs/commands.md"))
    missing = {flag for flag in flags(commands()[name]) - SHARED_FLAGS if not re.search(rf"{flag}(?![\w-])", text)}
    assert not missing, f"{name}: in neither docs/commands.md nor its own page"


def test_names_no_unknown_flag() -> None:
    names = set().union(*map(flags, commands().values())) | OTHERS_FLAGS | {"--help", "--version"}
    names |= {"--install-completion", "--show-completion"}
    wrong = [
        f"{page}:{line}: {flag}"
        for page, line, text in spans()
        for flag in FLAG.findall(text)
        if page != "CHANGELOG.md"
        and flag not in names
        and not text.startswith(("vllm ", "opentelemetry", "transformers "))
    ]
    assert not wrong


@pytest.mark.parametrize("name", commands())
def test_help_fits_one_screen_and_has_a_valid_example(
    name: str, turnmark: Turnmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert turnmark.ok(*name.split(), "--help").out.count("\n") <= 45
    typed = [part.strip() for part in (commands()[name].epilog or "").partition(": ")[2].split("·")]
    assert any(part.startswith(f"turnmark {name}") for part in typed)
    for part in typed:
        if part.startswith("turnmark "):
            (example,) = forms("--help", part)
            parsed(example.words[1:])


def test_named_files_exist() -> None:
    wrong = []
    for page, line, text in spans():
        if page == "CHANGELOG.md":
            continue  # it names removed files
        for path in PATH.findall(text):
            path = path.rstrip("/.")
            if not (ROOT / path).exists() and not list(ROOT.glob(path.replace("NAME", "*").replace("…", "*"))):
                wrong.append(f"{page}:{line}: {path}")
    assert not wrong


def test_named_modules_exist() -> None:
    """A page may name a module by the end of its path, e.g. `core/flags.py`; CHANGELOG.md may name removed ones."""
    modules = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    wrong = [
        f"{page}:{line}: {name}"
        for page, line, text in spans()
        if page != "CHANGELOG.md"
        for name in MODULE.findall(text)
        if not any(f"/{module}".endswith(f"/{name}") for module in modules)
    ]
    assert not wrong


def test_named_members_of_the_package_exist() -> None:
    wrong = []
    for page, line, text in spans():
        for name in DOTTED.findall(text) if page != "CHANGELOG.md" else ():
            try:
                pkgutil.resolve_name(name)
            except (ImportError, AttributeError) as error:
                wrong.append(f"{page}:{line}: {error}")
    assert not wrong


def test_installation_lists_the_extras() -> None:
    from turnmark.core.extras import EXTRAS

    rows = [[cell.strip() for cell in row.split("|")[1:3]] for row in text_of("docs/install.md").splitlines()]
    listed = {row[0].strip("`"): row[1] for row in rows if len(row) == 2 and row[0].strip("`") in EXTRAS}
    assert listed == {name: extra.adds for name, extra in EXTRAS.items()}


def test_readme_results_use_only_figures_of_measured() -> None:
    results = text_of("README.md").split("## Results\n")[1].split("\n## ")[0]
    measured = set(FIGURE.findall(text_of("docs/measured.md")))
    cells = [cell for row in results.splitlines() if row.startswith("| ") for cell in row.split("|")[2:]]
    figures = {figure for cell in cells for figure in FIGURE.findall(cell)}
    assert len(figures) > 10
    assert figures - measured == set()


def test_documents_exactly_the_environment_variables_that_are_read() -> None:
    in_code, in_docs = set(), set()
    for path in (ROOT / "turnmark").rglob("*.py"):
        in_code |= set(re.findall(r"\"(TURNMARK_[A-Z_]+)\"", path.read_text("utf-8")))
    for page in pages():
        in_docs |= set(re.findall(r"\bTURNMARK_[A-Z_]+\b", page.read_text("utf-8")))
    of_tests = {"TURNMARK_TEST_CACHE", "TURNMARK_UPDATE_GOLDEN", "TURNMARK_NO_SKIP"}
    assert in_code - in_docs == set()
    assert in_docs - in_code - of_tests == set()


def test_documents_the_names_of_specs() -> None:
    from turnmark.doctor import names_by_role

    texts = {text for _, _, text in spans()} | {block.text for block in blocks()}
    missing = []
    for role, named in names_by_role().items():
        for name in named:
            # The form of a step is in the column next to the name of the step.
            pattern = re.compile(rf"{re.escape(name.rpartition('=')[2])}(?![a-z-])")
            missing += [] if any(map(pattern.match, texts)) else [f"{role}: {name}"]
    assert not missing


def test_documents_the_tables_and_keys_of_the_configuration() -> None:
    from turnmark.assistant.config_files import COMMON_KEYS, TABLES

    texts = {text for page, _, text in spans() if page == "docs/configuration.md"}
    assert set(TABLES) <= texts
    assert set(COMMON_KEYS) <= texts


def test_documents_the_commands_of_the_chat() -> None:
    from turnmark.assistant.repl.chat_commands import COMMANDS

    text = " ".join(text for page, _, text in spans() if page == "docs/chat.md")
    assert [name for name in COMMANDS if f"/{name.lstrip('/')}" not in text] == []
