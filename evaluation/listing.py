"""`turnmark list`: the names that specs can use, by role."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from turnmark.corpora.console import inert, print_json
from turnmark.corpora.errors import RequestError
from turnmark.corpora.flags import AsJson
from turnmark.corpora.specs import Entry


def names_by_role() -> dict[str, dict[str, Entry]]:
    """Role in the plural -> its names. Nothing that a name stands for is imported."""
    from turnmark.assistant.forms import all_forms
    from turnmark.assistant.generators import GENERATORS
    from turnmark.evaluation.benchmarks.mtrag_queries import MODES
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
    wanted_roles = {name: entries for name, entries in by_role.items() if role in (None, name)}
    if as_json:
        print_json(
            {name: {key: entry.summary for key, entry in entries.items()} for name, entries in wanted_roles.items()}
        )
        return
    for name, entries in wanted_roles.items():
        grid = Grid(box=None, show_header=False, pad_edge=False)
        for key, entry in entries.items():
            needs = f"  (extra: {entry.extra})" if entry.extra else ""
            grid.add_row(Text(f"  {inert(key)}", style="bold"), Text(inert(entry.summary + needs)))
        Console(highlight=False).print(Text(name, style="bold"), grid, sep="\n")


def add_list_command(app: typer.Typer) -> None:
    """Mount `list`."""
    app.command("list", epilog="Example: turnmark list retrievers")(list_names)
