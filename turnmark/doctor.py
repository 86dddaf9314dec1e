"""`turnmark doctor` checks installation and configuration; `turnmark list` shows the names that specs can use."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnmark.assistant.config_files import CONFIG_NAME, PROJECT_NAME, ConfigFile, defaults_of, read_source_file
from turnmark.core.console import print_json
from turnmark.core.errors import RequestError, TurnmarkError, unknown_name
from turnmark.core.extras import EXTRAS, install_command, is_installed
from turnmark.core.flags import AsJson
from turnmark.core.home import file_sha256, home
from turnmark.core.specs import Entry
from turnmark.core.untrusted import one_line

KEY_PACKAGES = ("openvino", "tokenizers", "bm25s", "openai", "mcp", "pydantic", "numpy")
"""Packages whose versions belong in a bug report. Other packages are shown only if they have a problem."""
SECRET_VARIABLES = (
    "OPENAI_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY", "HF_TOKEN", "TURNMARK_CHROMA_TOKEN",
    "TURNMARK_ELASTIC_API_KEY", "TURNMARK_TOKEN",
)  # fmt: skip
"""Environment variables that contain secrets. `doctor` shows which are set, never their values."""
SERVER_TIMEOUT_SECONDS = 2.0
"""Timeout of a request to a server."""
STATE_MARKS = {"ok": ("ok", "green"), "absent": ("-", "dim"), "warn": ("!", "yellow"), "broken": ("BROKEN", "bold red")}


class Finding(NamedTuple):
    """The result of one check, with advice. It never contains a secret.

    States: `ok`; `absent` (missing, but not needed); `warn` (usable with a drawback); `broken` (needed, but not
    usable).
    """

    section: str
    name: str
    state: Literal["ok", "absent", "warn", "broken"]
    detail: str = ""
    advice: str = ""


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the installation: versions, extras, models, servers, indexes and configuration.

    Changes nothing; sends one GET to each configured server; never shows keys. Exits with 1 if something is broken.
    """
    configured, specs = configuration(context.find_root().command)
    files = [*_guard_check("endpoints", endpoints(specs)), *_guard_check("state", home_and_indexes())]
    findings = [*packages(), *models(), *files, *configured]
    broken = sum(entry.state == "broken" for entry in findings)
    if as_json:
        print_json({"healthy": not broken, "checks": [entry._asdict() for entry in findings]})
    else:
        _draw_findings(findings, broken)
    if broken:
        raise typer.Exit(1)


def _guard_check(section: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of a check; report a folder that cannot be read as broken, so that the other checks run."""
    try:
        yield from findings
    except (OSError, TurnmarkError) as error:
        advice = "make it readable, or set TURNMARK_HOME to another folder"
        yield Finding(section, "files", "broken", f"cannot be read ({error})", advice)


def _draw_findings(findings: list[Finding], broken: int) -> None:
    console = Console(highlight=False)
    for section, group in groupby(findings, key=lambda entry: entry.section):
        grid = Table(box=None, show_header=False, pad_edge=False)
        for entry in group:
            mark, style = STATE_MARKS[entry.state]
            detail = Text(one_line(entry.detail))
            if entry.advice:
                detail.append(f"\n→ {one_line(entry.advice)}", style="cyan")
            grid.add_row(Text(f"  {mark:6}", style=style), Text(one_line(entry.name)), detail)
        console.print(Text(section, style="bold"), grid, sep="\n")
    verdict = f"{broken} broken; see BROKEN above" if broken else "everything that is needed is installed and works"
    console.print(Text(verdict, style="bold red" if broken else "bold green"))


def packages() -> Iterator[Finding]:
    """Yield the findings of the sections `versions` and `extras`."""
    from packaging.requirements import Requirement

    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("versions", "python", "ok", python)
    problems_by_extra: dict[str, list[str]] = {}
    for requirement in map(Requirement, requires("turnmark") or []):
        problem = ""
        try:
            installed = version(requirement.name)
            if not requirement.specifier.contains(installed, prereleases=True):
                problem = f"{installed} is installed, {requirement.specifier} is needed"
        except PackageNotFoundError:
            problem = "not installed"
        extra_match = re.search(r"""extra\s*==\s*["']([^"']+)["']""", str(requirement.marker))
        if extra_match:
            extra_problems = problems_by_extra.setdefault(extra_match[1], [])
            if problem:
                extra_problems.append(f"{requirement.name}: {problem}")
        elif problem:
            pip = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding("versions", requirement.name, "broken", problem, pip)
        elif requirement.name in KEY_PACKAGES:
            yield Finding("versions", requirement.name, "ok", installed)
    for extra, (_, adds) in EXTRAS.items():
        problems = problems_by_extra.get(extra, [])
        detail = f"{adds} ({'; '.join(problems)})" if problems else adds
        if problems or not is_installed(extra):
            yield Finding("extras", extra, "absent", detail, install_command(extra))
        else:
            yield Finding("extras", extra, "ok", detail)


def models() -> Iterator[Finding]:
    """Yield the finding of the section `models`: whether the weights of the bundled all-MiniLM-L6-v2 have the expected
    SHA-256. `turnmark model list` shows the other models.
    """
    from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, WEIGHTS_SHA256

    digest = file_sha256(MINILM_FOLDER / "model.safetensors")
    if digest == WEIGHTS_SHA256:
        yield Finding("models", "minilm (bundled)", "ok", f"SHA-256 {digest[:12]}… as expected")
    else:
        detail = f"SHA-256 {digest}, expected {WEIGHTS_SHA256}"
        advice = "pip install --force-reinstall --no-deps turnmark"
        yield Finding("models", "minilm (bundled)", "broken", detail, advice)


def endpoints(specs: dict[str, str]) -> Iterator[Finding]:
    """Yield the findings of the section `endpoints`: configured servers, and which keys are set.

    Args:
        specs: source of a generator spec (an environment variable, or a key of a file) -> the spec.
    """
    from turnmark.assistant.llm.generators.openai import OFFICIAL_URL
    from turnmark.core.specs import parse_spec
    from turnmark.retrieval.search.opened_index import list_indexes

    default_urls = {
        "openai": os.environ.get("OPENAI_BASE_URL", "").strip() or OFFICIAL_URL,
        "ollama": "http://localhost:11434/v1",
    }
    urls: dict[str, tuple[str, str]] = {}  # address -> its users, and the variable that contains its key
    for source, text in specs.items():
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # reported when the generator is opened
        url = spec.url or default_urls.get(spec.name, "")
        if spec.name in ("openai", "ollama", "vllm") and url:
            key = spec.options.get("api_key_env") or f"{spec.name.upper()}_API_KEY"
            urls.setdefault(f"{url.rstrip('/')}/models", (f"{source}: {spec.name}:{spec.argument}", key))
    for manifest in list_indexes(internal=True):
        if manifest.server:
            path = "/api/v2/heartbeat" if manifest.server.kind == "chroma" else ""
            urls.setdefault(f"{manifest.server.url.rstrip('/')}{path}", (f"index {manifest.name}", ""))
    for url, (user, key) in urls.items():
        yield _check_server(url, user, key)
    if not urls:
        yield Finding("endpoints", "none", "absent", "no server is configured, and none is needed")
    keys = [name for name in SECRET_VARIABLES if os.environ.get(name)]
    detail = f"set: {', '.join(keys)}" if keys else "no variable with a key is set"
    yield Finding("endpoints", "keys", "ok" if keys else "absent", detail)


def _check_server(url: str, user: str, key_env: str) -> Finding:
    """Send one GET to a server and report its status; the body is not read."""
    import httpx

    from turnmark.assistant.llm.generators.openai import url_without_secrets

    key = os.environ.get(key_env, "").strip()
    address = url_without_secrets(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.stream("GET", url, timeout=SERVER_TIMEOUT_SECONDS, follow_redirects=False, headers=headers) as reply:
            status = reply.status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        detail = f"{address} did not answer within {SERVER_TIMEOUT_SECONDS:g} s ({type(error).__name__})"
        return Finding("endpoints", user, "broken", detail, "start the server, or correct the address")
    if status in (401, 403) and key_env:
        return Finding(
            "endpoints", user, "broken", f"{address} refuses requests without a valid key ({status})", f"set {key_env}"
        )
    # Some servers do not list their models, so any status below 500 is fine.
    return Finding("endpoints", user, "ok" if status < 500 else "broken", f"{address} answers ({status})")


def home_and_indexes() -> Iterator[Finding]:
    """Yield the findings of the sections `state` and `indexes`; `turnmark index verify` checks an index's contents."""
    from turnmark.retrieval.index.components import has_all_components
    from turnmark.retrieval.search.opened_index import StoredIndex
    from turnmark.retrieval.search.rebuild_commands import rebuild_command
    from turnmark.retrieval.storage.manifest import FORMAT, read_manifest

    folder = home()
    nearest_existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    usable = nearest_existing.is_dir() and os.access(nearest_existing, os.W_OK)
    advice = "" if usable else "the folder cannot be written; set TURNMARK_HOME to a folder that you can write to"
    yield Finding("state", "home", "ok" if usable else "broken", str(folder), advice)
    for path in sorted((folder / "indexes").glob("*")):
        if not path.is_dir():
            continue
        try:
            manifest = read_manifest(path)
            complete = (
                manifest is not None and manifest.format == FORMAT and has_all_components(StoredIndex(path, manifest))
            )
        except TurnmarkError as error:
            yield Finding("indexes", path.name, "broken", str(error))
            continue
        if manifest is None:
            advice = f"run the same build command to continue, or remove it: turnmark index remove {path.name}"
            yield Finding("indexes", path.name, "warn", "a build was interrupted", advice)
        elif not complete:
            yield Finding(
                "indexes",
                path.name,
                "broken",
                "the index has another format or is incomplete",
                rebuild_command(manifest),
            )
        else:
            yield Finding("indexes", path.name, "ok", f"{manifest.passages} passages")


def configuration(root: Any) -> tuple[list[Finding], dict[str, str]]:
    """Return the findings of the section `configuration`, and the configured generator specs by source.

    Args:
        root: typer's root command.
    """
    section = "configuration"
    variables = sorted(name for name in os.environ if name.startswith("TURNMARK_") and name not in SECRET_VARIABLES)
    detail = f"set: {', '.join(variables)}" if variables else "no TURNMARK_ variable is set"
    findings = [Finding(section, "1 environment", "ok" if variables else "absent", detail)]
    files: list[ConfigFile] = []
    problems: dict[str, None] = {}
    for name, path in (("2 project file", Path(PROJECT_NAME).absolute()), ("3 user file", home() / CONFIG_NAME)):
        try:
            source = read_source_file(path, trusted=name == "3 user file")
        except (RequestError, OSError) as error:
            findings.append(Finding(section, name, "broken", str(error)))
            continue
        if source is None:
            findings.append(Finding(section, name, "absent", f"none at {path}"))
        else:
            findings.append(Finding(section, name, "ok", f"{path}: {', '.join(source.content) or 'empty'}"))
            files.append(source)
    for command in root.commands:
        try:
            defaults_of(root, command, files)
        except RequestError as error:
            problems |= dict.fromkeys(error.problems)
    findings += [Finding(section, "mistake", "broken", problem, "correct it") for problem in problems]
    specs: dict[str, str] = {}
    generator = os.environ.get("TURNMARK_GENERATOR", "").strip()
    if generator:
        specs["TURNMARK_GENERATOR"] = generator
    for source in files:
        for table in source.content:
            for key in ("generator", "judge"):
                spec = source.table(table).get(key)
                if isinstance(spec, str):
                    specs[f"{source.path.name}: {table}.{key}"] = spec
    return findings, specs


# --- turnmark list ---------------------------------------------------------------------------------------------------


def names_by_role() -> dict[str, dict[str, Entry]]:
    """Return the names of each role (plural), without importing their code."""
    from turnmark.assistant.llm.generators.registry import GENERATORS
    from turnmark.assistant.turn.step_forms import all_forms
    from turnmark.corpora.readers import list_readers
    from turnmark.evaluation.benchmarks.mtrag.data import MODE_DESCRIPTIONS
    from turnmark.retrieval.embedding.embedders import EMBEDDERS
    from turnmark.retrieval.search.rerankers import RERANKERS
    from turnmark.retrieval.search.retriever_kinds import RETRIEVERS

    tables = {"retrievers": RETRIEVERS, "rerankers": RERANKERS, "embedders": EMBEDDERS, "generators": GENERATORS}
    # A query mode has no factory and takes no options: --query looks it up in its own table.
    modes = {name: Entry("", summary) for name, summary in MODE_DESCRIPTIONS.items()}
    forms: dict[str, Entry] = {}
    for step, entries in all_forms().items():
        for form, entry in entries.items():
            forms[f"{step}={form}"] = entry
    return {
        **{role: table.entries() for role, table in tables.items()},
        "queries": modes,
        "steps": forms,
        "readers": list_readers(),
    }


def list_names(
    role: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROLE]",
            help="Role: retrievers, rerankers, embedders, generators, queries, steps or readers; default: all",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the retrievers, rerankers, embedders, generators, query modes, forms of steps and document readers."""
    by_role = names_by_role()
    if role is not None and role not in by_role:
        raise RequestError(unknown_name("role", role, by_role))
    shown = by_role if role is None else {role: by_role[role]}
    if as_json:
        summaries: dict[str, dict[str, str]] = {}
        for name, entries in shown.items():
            summaries[name] = {key: entry.summary for key, entry in entries.items()}
        print_json(summaries)
        return
    for name, entries in shown.items():
        grid = Table(box=None, show_header=False, pad_edge=False)
        for key, entry in entries.items():
            needs = f"  (extra: {entry.extra})" if entry.extra else ""
            grid.add_row(Text(f"  {one_line(key)}", style="bold"), Text(one_line(entry.summary + needs)))
        Console(highlight=False).print(Text(name, style="bold"), grid, sep="\n")


def add_doctor_commands(app: typer.Typer) -> None:
    """Mount `list` and `doctor`."""
    app.command("list", epilog="Example: turnmark list retrievers")(list_names)
    app.command("doctor", epilog="Example: turnmark doctor --json")(doctor)
