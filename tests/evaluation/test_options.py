"""A benchmark declares its own options; the others are refused with the place where they belong."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Annotated

import pytest
import typer

import turnmark as tm
from turnmark.evaluation.runs.request_options import declared_options
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.request import EvalRequest, TaskOptions
from turnmark.evaluation.tasks.task import Task


class BellOptions(TaskOptions):
    """The options of a benchmark from another package."""

    bells: Annotated[int, typer.Option(metavar="N", help="Number of bells.")] = 2


class Bells(Task):
    options_type = BellOptions
    options: BellOptions

    def items(self) -> Iterator[Item]:
        for number in range(self.options.bells):
            yield Item(str(number), question="Who made the bell?", reference="A founder.")


BELLS = f"python:{__name__}:Bells"


@pytest.mark.parametrize("words", [("--help",), ("--help-all",)])
def test_help_shows_the_options_of_the_named_benchmark_only(turnmark, words):
    mtrag, kiwi = (turnmark("eval", name, *words).out for name in ("mtrag", "kiwi"))
    assert "--limit" in mtrag
    assert "--limit" in kiwi
    assert "--passages" in mtrag
    assert "--passages" not in kiwi
    assert "--chain" not in mtrag
    assert ("--chain" in kiwi) == (words == ("--help-all",))
    assert "--passages" not in turnmark("eval", *words).out


def test_refuses_options_of_another_benchmark_and_names_it(turnmark):
    refused = turnmark.refused("eval", "kiwi", "--counterfactual", "--types", "x")
    assert "--counterfactual: kiwi does not use it; it is for mtrag, mtrag-un, mtrag-s" in refused
    assert "--types: kiwi does not use it; it is for compound-qa" in refused
    assert "--chain is for kiwi; `all` runs" in turnmark.refused("eval", "all", "--chain")


def test_a_benchmark_of_another_package_has_its_own_options(turnmark):
    assert "--bells" in turnmark("eval", BELLS, "--help").out
    planned = json.loads(turnmark("eval", BELLS, "--bells", 3, "--dry-run", "--json").out)
    assert planned["n"] == 3
    assert "--chain: " in turnmark.refused("eval", BELLS, "--chain")


def test_the_general_request_has_no_field_of_a_single_benchmark():
    options = {name for declared in declared_options().values() for name in declared.model_fields}
    assert not options & EvalRequest.model_fields.keys()
    assert len(EvalRequest.model_fields) <= 27


def test_python_function_has_every_option_of_the_command():
    keywords = inspect.signature(tm.evaluate).parameters
    assert {"live", "queries", "references", "setting", "limit", "top_k", "steps", "engine"} <= keywords.keys()
    with pytest.raises(TypeError, match="unexpected keyword argument 'lives'"):
        tm.evaluate("mtrag", lives=True)
