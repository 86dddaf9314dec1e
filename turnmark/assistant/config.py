"""The configuration of an assistant: every setting that can change a reply, in one record.

A setting is declared here and nowhere else. The flags of `ask`, `chat`, `serve`, `mcp`, `check` and `eval`, the keys of
`[defaults]` in a configuration file, the keywords of `tm.Assistant` and the table in docs/configuration.md come from
this record.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, ValidationError

from turnmark.core.errors import ErrorCollector, unknown_name
from turnmark.core.flags import FlagMark, FlattenMark, reasons
from turnmark.core.record import Record
from turnmark.retrieval.storage.filters import WHERE_HELP, where_texts

if TYPE_CHECKING:
    from turnmark.retrieval.search.opened_index import SearchableIndex

EXTRACTIVE_SPEC = "extractive"
"""Generator spec that means "no language model"."""
DEFAULT_TOKENS = 3000
"""Default number of tokens of sections that a large model reads."""
DEFAULT_QUOTE_WORDS = 60
MAX_HISTORY_MESSAGES = 100
"""Number of earlier messages that a turn reads, so that its cost does not grow with the conversation."""


def _join_names(names: Any) -> Any:
    """Join several names by commas."""
    return ",".join(names) if isinstance(names, list | tuple) else names


def _list_choices(choices: Any) -> Any:
    """Write a mapping from steps to forms as `STEP=FORM` each."""
    return tuple(f"{step}={form}" for step, form in choices.items()) if isinstance(choices, Mapping) else choices


class AssistantConfig(Record):
    """The configuration of an assistant, which `Assistant.from_config` opens.

    Two assistants with the same configuration send a model the same messages.
    """

    index: Annotated[
        str,
        BeforeValidator(_join_names),
        FlagMark.REPEATABLE,
        typer.Option(
            metavar="NAME",
            envvar="TURNMARK_INDEX",
            show_envvar=False,
            show_default="the only index",
            help="Index to search, e.g. notes; repeatable: several are searched together",
        ),
    ] = Field(default="", description="names separated by commas; empty if a benchmark provides the passages")
    generator: Annotated[
        str,
        FlagMark.SPEC,
        typer.Option(
            metavar="SPEC",
            envvar="TURNMARK_GENERATOR",
            show_envvar=False,
            help="Language model, e.g. openai:gpt-4o-mini, ollama:llama3.2; extractive: none",
        ),
    ] = EXTRACTIVE_SPEC
    retriever: Annotated[
        str | None,
        FlagMark.SPEC,
        typer.Option(metavar="SPEC", show_default="what the index was built for", help="Retriever, e.g. bm25"),
    ] = None
    embedder: Annotated[
        str | None,
        FlagMark.SPEC,
        typer.Option(
            metavar="SPEC", show_default="the embedder of the index", help="Embedding model, e.g. minilm", hidden=True
        ),
    ] = None
    top_k: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default="6; for a large model 10",
            help="Passages to retrieve for a question, or for each part of one",
            hidden=True,
        ),
    ] = Field(default=None, ge=1, validation_alias=AliasChoices("top_k", "passages"))  # `passages` in older files
    tokens: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Approximate tokens of sections for a large model; tools may add up to five times as many",
            hidden=True,
        ),
    ] = Field(default=DEFAULT_TOKENS, ge=1)
    quote_words: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Approximate words of a quotation; three times as many for steps, 2.5 times for a small model",
            hidden=True,
        ),
    ] = Field(default=DEFAULT_QUOTE_WORDS, ge=1, exclude_if=lambda words: words == DEFAULT_QUOTE_WORDS)
    sure_from: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            show_default="measured on the index",
            help="Cosine from which an answer without a model is sure, 0 to 1; up to .12 below, it is hedged",
            hidden=True,
        ),
    ] = Field(default=None, ge=0, le=1, exclude_if=lambda level: level is None)
    prompts: Annotated[
        Path | None,
        AfterValidator(lambda folder: folder and folder.expanduser()),
        typer.Option(
            metavar="DIR", help="Folder with prompts that replace the built-in ones, e.g. answer.txt", hidden=True
        ),
    ] = None
    steps: Annotated[
        tuple[str, ...],
        BeforeValidator(_list_choices),
        FlagMark.SPEC,
        typer.Option(
            "--step",
            metavar="STEP=FORM",
            show_default="by who reads",
            help="Another form of a step, e.g. retrieve=read; repeatable",
            hidden=True,
        ),
    ] = ()

    where: Annotated[
        tuple[str, ...], BeforeValidator(where_texts), typer.Option(metavar="KEY=GLOB", help=WHERE_HELP)
    ] = Field(default=(), exclude_if=lambda where: not where)  # so that nothing is new in older files

    @classmethod
    def build(cls, values: Mapping[str, Any], errors: ErrorCollector) -> AssistantConfig:
        """Build a configuration. A wrong value is added to `errors` and replaced by its default."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            wrong = reasons(error)
        for name, reason in wrong.items():
            known = name in cls.model_fields
            unknown = unknown_name("setting", name, sorted(cls.model_fields))
            errors.add(f"{name}={values[name]!r}: {reason}" if known else unknown)
        return cls.model_validate({name: value for name, value in values.items() if name not in wrong})

    def shown(self) -> dict[str, Any]:
        """Return the configuration as JSON without local paths, to show it to others."""
        return self.model_dump(mode="json", exclude={"prompts"})


ConfigOverIndex = Annotated[AssistantConfig, FlattenMark(without=("embedder",))]
"""The configuration in a request that searches an index; the embedder is the one of the index."""
ConfigOfAll = Annotated[AssistantConfig, FlattenMark(without=("embedder", "where"))]
"""The same for a request that is about all documents; clients of a server filter for themselves."""


Generators = Annotated[
    tuple[str, ...],
    typer.Option(
        metavar="SPEC",
        envvar="TURNMARK_GENERATOR",
        show_envvar=False,
        help="Language model, e.g. openai:gpt-4o-mini, ollama:llama3.2; extractive: none; repeatable",
    ),
]
"""The generators in a request that takes several."""


def split_generators(given: Sequence[str]) -> list[str]:
    """Return the spec of each generator. The environment variable contains one spec, which may have spaces."""
    variable = os.environ.get("TURNMARK_GENERATOR", "")
    return [variable.strip()] if list(given) == variable.split() else list(given)


def with_tuned_settings(config: AssistantConfig, index: SearchableIndex) -> AssistantConfig:
    """Return the configuration with the settings that `turnmark tune --try` found for an index and for its model.

    A setting that the configuration has already stays.
    """
    from turnmark.retrieval.search.tuned_settings import read_tuned_settings

    tuned = read_tuned_settings(index)
    if tuned is None or tuned.generator != config.generator:
        return config
    fields = AssistantConfig.build(tuned.settings, ErrorCollector())
    defaults = AssistantConfig()
    unset = [name for name in tuned.settings if getattr(config, name) == getattr(defaults, name)]
    return config.model_copy(update={name: getattr(fields, name) for name in unset})


def without_index(config: AssistantConfig) -> AssistantConfig:
    """Return the configuration without an index, to check everything else before a folder is indexed."""
    return config.model_copy(update={"index": ""})


def with_index(config: AssistantConfig, errors: ErrorCollector, every: bool = False) -> AssistantConfig:
    """Return the configuration with the only index if it names none, or with every index."""
    from turnmark.retrieval.search.opened_index import list_indexes, only_index

    if config.index:
        return config
    names = [manifest.name for manifest in list_indexes()] if every else []
    return config.model_copy(update={"index": ",".join(names) or errors.collect(only_index) or ""})
