"""The models that a server offers: each is a language model that answers from an index, or from all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, count, product

from turnmark.assistant.config import EXTRACTIVE_SPEC, AssistantConfig
from turnmark.assistant.llm.calls.protocols import Generator, traits_of
from turnmark.assistant.llm.generators.registry import argument_without_folders, open_generator
from turnmark.assistant.serving.latest_answers import SentAnswers
from turnmark.assistant.serving.request_bodies import ChatRequest, RejectedRequest, short_name
from turnmark.assistant.serving.served_indexes import ServedIndexes, open_indexes
from turnmark.assistant.serving.turn_threads import Turns, turns_at_once
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.reopen import reopen_assistant
from turnmark.assistant.types import Event, Reply
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.specs import Spec, parse_spec


@dataclass(frozen=True)
class ServedGenerator:
    """A language model of a server.

    Attributes:
        name: its name for clients, without the address and the options of its spec.
        generator: the opened model, or None if answers are quotations.
    """

    name: str
    spec: str
    generator: Generator | None


@dataclass(frozen=True)
class ServedModel:
    """An index and a language model that answers from it, as requests choose them by `name`."""

    name: str
    index: str
    generator: str
    assistant: Callable[[], Assistant]
    turns: Turns
    sent: SentAnswers

    async def events(self, request: ChatRequest) -> AsyncGenerator[Event | Reply | RejectedRequest | None, None]:
        """Run a turn, as `Turns.events` does; earlier answers of this model come with their sources."""

        def assistant() -> Assistant:
            return reopen_assistant(self.assistant(), where=request.where) if request.where else self.assistant()

        request = request.model_copy(update={"history": self.sent.recall(request.history)})
        async with aclosing(self.turns.events(assistant, request)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    self.sent.remember(event)
                yield event


class ServedModels:
    """Every combination of the served indexes and language models.

    A model has the name of its index: `notes`, or `notes,work` for both together. With several language models,
    `notes/ollama:llama3.2` names one, and `notes` stands for the first one. The turns of a language model share one
    limit, whatever indexes they search.
    """

    def __init__(
        self,
        indexes: ServedIndexes,
        generators: Sequence[ServedGenerator],
        hides_details: bool = False,
        config: AssistantConfig = AssistantConfig(),
    ) -> None:
        self._generators, self._config = generators, config
        self._turns = {
            each.name: Turns(turns_at_once(each.generator), each.name if hides_details else "") for each in generators
        }
        self._models: dict[str, ServedModel] = {}
        self.serve(indexes)

    def serve(self, indexes: ServedIndexes) -> None:
        """Serve these indexes instead of the earlier ones; models with the same name keep their earlier answers."""
        self.indexes, earlier = indexes, self._models
        self._derived: dict[tuple[str, str], tuple[Assistant, Assistant]] = {}
        models: dict[str, ServedModel] = {}
        for generator, index in product(self._generators, indexes.choices):
            name = f"{index}/{generator.name}" if len(self._generators) > 1 else index
            sent = earlier[name].sent if name in earlier else SentAnswers()
            models[name] = self._model(name, index, generator, sent)
        self._models = models

    def _model(self, name: str, index: str, generator: ServedGenerator, sent: SentAnswers) -> ServedModel:
        def assistant() -> Assistant:
            return self._assistant(index, generator)

        return ServedModel(name, index, generator.name, assistant, self._turns[generator.name], sent)

    def _assistant(self, index: str, generator: ServedGenerator) -> Assistant:
        """Return the assistant of a model; assistants over one index share its open files."""
        newest = self.indexes.assistant(index)
        if generator is self._generators[0]:
            return newest
        known = self._derived.get((index, generator.name))
        if known is None or known[0] is not newest:
            config = newest.config.model_copy(update={"generator": generator.spec})
            known = newest, Assistant.from_parts(config, replace(newest.parts, generator=generator.generator))
            self._derived[index, generator.name] = known
        return known[1]

    @property
    def models(self) -> list[ServedModel]:
        """All models; the first one is the default."""
        return list(self._models.values())

    def reopen(self, names: Sequence[str], on_problem: Callable[[str], None]) -> None:
        """Open indexes with the configuration of the server, and serve them once they can be searched."""
        first = self._generators[0]
        opened = ServedIndexes({})
        if names:
            config = self._config.model_copy(update={"index": ",".join(names), "generator": first.spec})
            opened = open_indexes(config, first.generator, ErrorCollector(), on_problem)
            opened.warm_up()
        self.serve(opened)

    @property
    def generators(self) -> list[str]:
        """The names of the language models, the default first."""
        return [each.name for each in self._generators]

    def find(self, name: str) -> ServedModel:
        """Return the model that a request names, or the default if it names none.

        Raises:
            RejectedRequest: no model has this name.
        """
        if not self._models:
            message = "no document is indexed yet; ask again when the index is built, or add documents on the page"
            raise RejectedRequest(message, status=503, code="no_index")
        if not name:
            return self.models[0]
        if name in self._models:
            return self._models[name]
        default = next((model for model in self.models if model.index == name), None)
        if default is not None:
            return default
        message = f"The model {short_name(name)!r} does not exist; this server has {', '.join(map(repr, self._models))}"
        raise RejectedRequest(message, "model", 404, "model_not_found")

    def choose(self, index: str, generator: str) -> ServedModel:
        """Return the model that combines an index with a language model; raise RequestError for an unknown name."""
        name, chosen = self.indexes.name(index), generator or self.generators[0]
        if chosen not in self.generators:
            raise RequestError(
                f"generator: no model is called {short_name(chosen)!r}; choose one of: {', '.join(self.generators)}"
            )
        return next(model for model in self.models if (model.index, model.generator) == (name, chosen))

    def check(self) -> None:
        """Raise RequestError if a language model cannot fill the steps that the configuration asks for."""
        errors = ErrorCollector()
        for model in self.models:
            errors.collect(model.assistant)
        errors.raise_all()

    def warm_up(self) -> None:
        """Prepare every language model and search every index once.

        Without this, the first client would wait for them, and their errors would appear late.
        """
        self.indexes.warm_up()
        for generator in self._generators:
            if generator.generator is not None:
                traits_of(generator.generator).make_ready()

    def close(self) -> None:
        """Stop every turn."""
        for turns in self._turns.values():
            turns.close()

    def __str__(self) -> str:
        return f"{', '.join(self.indexes.choices)} ({', '.join(self.generators)})"


def open_models(
    config: AssistantConfig,
    specs: Sequence[str],
    errors: ErrorCollector,
    on_problem: Callable[[str], None],
    hides_details: bool = False,
) -> ServedModels:
    """Open every index of a configuration, which may have none yet, and every language model.

    Raise all problems, including those in `errors`.

    Args:
        specs: the generators, the default first.
        on_problem: as in `open_indexes`.
        hides_details: whether clients are told nothing about the endpoints, as with `shown_name` of `Turns`.
    """
    for spec in dict.fromkeys(specs):
        if list(specs).count(spec) > 1:
            errors.add(f"--generator {spec} is given twice; leave one out")
    opened = open_generators(specs, errors)
    first = next((each.generator for each in opened if each.spec == specs[0]), None)
    config = config.model_copy(update={"generator": specs[0]})
    if config.index:
        indexes = open_indexes(config, first, errors, on_problem)
    else:
        for each in opened:  # an index follows; a mistake is reported before it is built
            errors.collect(
                Assistant.from_config, config.model_copy(update={"generator": each.spec}), generator=each.generator
            )
        errors.raise_all()
        indexes = ServedIndexes({})
    models = ServedModels(indexes, opened, hides_details, config)
    models.check()
    return models


def open_generators(specs: Sequence[str], errors: ErrorCollector) -> list[ServedGenerator]:
    """Open language models; those with the same name are numbered."""
    opened: dict[str, ServedGenerator] = {}
    for spec in dict.fromkeys(specs):
        served = errors.collect(_open_generator, spec)
        if served is not None:
            names = chain([served.name], (f"{served.name}-{number}" for number in count(2)))
            name = next(name for name in names if name not in opened)
            opened[name] = replace(served, name=name)
    return list(opened.values())


def _open_generator(spec: str) -> ServedGenerator:
    generator = open_generator(spec)
    return ServedGenerator(_shown_name(generator.name if generator else EXTRACTIVE_SPEC), spec, generator)


def _shown_name(name: str) -> str:
    """Return the name of a generator for clients, without its address, its options and the folder of its file."""
    try:
        spec = parse_spec(name)
    except RequestError:  # the name of a plug-in may have any form
        return short_name(name)
    return str(Spec(spec.name, argument_without_folders(spec)))
