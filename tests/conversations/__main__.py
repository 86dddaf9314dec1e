"""Run the conversations and print the figures: `python -m tests.conversations` (`--help` lists the options).

`tests/conversations/collections.py` says where the documents are and how they are installed. A run that was stopped
continues with the same command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from tests.conversations.collections import COLLECTIONS, FETCHES, FURTHER, GROUPS, collections_named
from tests.conversations.command import exit_code_of
from tests.conversations.labels import LabelledConversation, read_labels
from turnmark.core.errors import ErrorCollector, RequestError


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conversations", description=__doc__)
    parser.add_argument("--half", choices=("tuning", "test", "all"), default="tuning", help="default: tuning")
    parser.add_argument(
        "--collections",
        metavar="A,B",
        help=f"of {', '.join(COLLECTIONS)} (default: all of these that are installed); of {', '.join(FURTHER)}; "
        f"or of the groups {', '.join(GROUPS)}",
    )
    parser.add_argument(
        "--systems",
        metavar="A,B",
        help="generator specs, simple:SPEC, llama-index+SPEC (default: extractive; if there is a local model, "
        "it and simple too)",
    )
    parser.add_argument("--step", metavar="STEP=FORM", action="append", default=[], help="of our turn; may be repeated")
    parser.add_argument(
        "--beside",
        metavar="STEP=FORM",
        action="append",
        default=[],
        help="hold every conversation with this form, too, in a column beside; may be repeated",
    )
    parser.add_argument("--show", choices=("wrong",), help="print each wrong turn too")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write figures and replies there")
    parser.add_argument(
        "--fetch", choices=tuple(FETCHES), action="append", default=[], help="download it first; may be repeated"
    )
    return parser.parse_args(words)


def chosen_labels(options: argparse.Namespace) -> tuple[dict[str, list[LabelledConversation]], list[str]]:
    """Return the conversations to run by collection, and the collections left out because they are not installed."""
    errors, absent = ErrorCollector(), ErrorCollector()
    collections = collections_named(options.collections.split(",")) if options.collections else COLLECTIONS
    labels: dict[str, list[LabelledConversation]] = {}
    for name, collection in collections.items():
        installed = (errors if options.collections else absent).collect(collection.documents)
        conversations = (errors.collect(read_labels, collection.labels) if installed else None) or ()
        half = [each for each in conversations if options.half in ("all", each.half)]
        if half:
            labels[name] = half
    errors.raise_all()
    if not labels:
        raise RequestError([*absent.problems, f"no conversation of half {options.half!r} can be held"])
    return labels, absent.problems


def run(options: argparse.Namespace) -> None:
    """Run the conversations, score the replies and print the figures."""
    from rich.console import Console

    from tests.conversations import tables
    from tests.conversations.opening import default_systems
    from tests.conversations.runner import Corpus, hold_all
    from turnmark.core.console import shown_progress

    for name in options.fetch:
        FETCHES[name]()
    labels, absent = chosen_labels(options)
    systems, note = (options.systems.split(","), "") if options.systems else default_systems()
    if note:
        sys.stderr.write(f"{note}\n")
    summaries, replies = {}, {}
    with shown_progress() as progress:
        corpora = {name: Corpus(collection, progress) for name, collection in collections_named([*labels]).items()}
        for spec, form in product(systems, ("", *options.beside)):
            name = f"{spec} {form}".rstrip()
            held = hold_all(spec, corpora, labels, progress, [*options.step, *([form] if form else [])])
            turns = tables.scored(held)
            summaries[name] = tables.summary(turns)
            replies[name] = [each.model_dump(mode="json") for each in held]
            if options.show:
                for paragraph in tables.wrong_turns(name, turns):
                    print(paragraph)
    Console(width=None if sys.stdout.isatty() else 60 + 40 * len(summaries)).print(tables.table(summaries))
    for problem in absent:
        print(f"left out: {problem}")
    if options.json:
        content = {"half": options.half, "left_out": absent, "systems": summaries, "replies": replies}
        options.json.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def main() -> int:
    """Return the exit code: 0, 2 for an invalid request, 1 for a failure, 130 after Ctrl-C."""
    options = arguments()
    return exit_code_of(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
