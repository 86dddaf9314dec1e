"""vLLM: `vllm:MODEL@URL[|URL…]`, servers that run; `vllm:MODEL`, the one on the usual port, or one of our own.

What starts a server is configured by whoever owns this machine, never by a spec, which may come with somebody else's
run: `TURNMARK_VLLM_COMMAND`, or `[vllm] command` in the configuration; `vllm serve` without. A spec may set the engine
arguments of `ENGINE`, which choose how a model is run, not what is run; `[vllm] arguments` may be any.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from pydantic import Field, field_validator

from turnmark.assistant.generators.base import (
    CONTEXT_TOKENS,
    CallOptions,
    Completion,
    ConfiguredGenerator,
    Generator,
    GeneratorError,
    PromptMessage,
    flag,
    seconds,
)
from turnmark.assistant.generators.endpoints import Endpoint, read_endpoint
from turnmark.assistant.generators.openai import OpenAIGenerator
from turnmark.assistant.generators.tools import Tool, ToolMessage, ToolReply
from turnmark.assistant.generators.vllm_server import COMMAND_ENV, USUAL_PORT, Plan, Server, obtain
from turnmark.assistant.settings import section
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.specs import Spec
from turnmark.corpora.types import Record

_OURS = frozenset(("--host", "--port", "--served-model-name", "--api-key", "--uds"))
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class VllmSettings(Record):
    """`[vllm]` of the configuration. `start`: seconds that a server may take until it answers."""

    command: str = "vllm serve"
    arguments: list[str] = Field(default_factory=list)
    start: float = Field(default=600.0, gt=0, le=86_400)

    @field_validator("arguments")
    @classmethod
    def _not_ours(cls, arguments: list[str]) -> list[str]:
        names = [argument.partition("=")[0] for argument in arguments]
        if ours := [name for name in names if name.replace("_", "-") in _OURS]:
            raise ValueError(f"{', '.join(ours)}: not for you to set; it is ours")
        return arguments


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError("letters, digits, '.', '_', '+' and '-', beginning with a letter or digit")
    return text


def _count(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text):
        raise ValueError("a whole number, 1 or more")
    return text


def _adapter(text: str) -> str:
    """`NAME:PATH` of a LoRA adapter, with the whole path where it is a folder here."""
    name, _, path = text.partition(":")
    # vLLM would read a comma or a brace as another way to write it.
    if not _WORD.fullmatch(name) or not re.fullmatch(r"[^-,{}\s\x00-\x1f][^,{}\x00-\x1f]*", path):
        raise ValueError("NAME:PATH, a name of letters, digits, '.', '_', '+', '-', and a folder or a name on the hub")
    folder = Path(path).expanduser()
    if folder.is_dir():
        return f"{name}:{folder.resolve()}"
    if path.startswith(("/", ".", "~")):
        raise ValueError("there is no such folder")
    return text


ENGINE: Mapping[str, Callable[[str], str | bool]] = {
    "data_parallel": _count,
    "dtype": _word,
    "enforce_eager": flag,
    "gpu_memory_utilization": _word,
    "max_lora_rank": _count,
    "max_model_len": _word,
    "max_num_seqs": _count,
    "pipeline_parallel": _count,
    "quantization": _word,
    "tensor_parallel": _count,
}
"""Options of a spec that become arguments of the engine: `max_model_len=4096` is `--max-model-len 4096`."""


def open_vllm(spec: Spec) -> Generator:
    """`vllm:MODEL[@URL]`; `VLLM_API_KEY` is sent, where it is set, and a server that is started asks for it.

    Raises:
        RequestError: the spec, `TURNMARK_VLLM_COMMAND` or `[vllm]` of the configuration is wrong.
    """
    if spec.url:
        return read_endpoint(spec, preset_url="", key_env="VLLM_API_KEY").generator()
    errors = ErrorCollector()
    extra = {**ENGINE, "start": seconds, "lora": _adapter}
    endpoint = errors.collect(
        read_endpoint, spec, preset_url=f"http://127.0.0.1:{USUAL_PORT}/v1", key_env="VLLM_API_KEY", extra_options=extra
    )
    if spec.argument.startswith("-"):
        errors.add(f"generator 'vllm': a model is called {spec.argument!r}? A name does not begin with '-'")
    settings = errors.collect(section, "vllm", VllmSettings)
    command = errors.collect(_command, settings.command if settings else VllmSettings().command)
    errors.raise_all()
    if endpoint is None or settings is None or command is None:
        raise AssertionError("what is None was a mistake")
    adapter, _, path = endpoint.more.get("lora", "").partition(":")
    lora = ("--enable-lora", "--lora-modules", f"{adapter}={path}") if adapter else ()
    plan = Plan(
        command=command,
        model=endpoint.model,
        arguments=(*settings.arguments, *_engine_arguments(endpoint.more), *lora),
        key=endpoint.key,
        start=endpoint.more.get("start", settings.start),
        served_name=adapter or endpoint.model,
    )
    return VllmGenerator(replace(endpoint, model=plan.served_name), plan)


def _engine_arguments(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of a spec as the engine's arguments, in order of their names."""
    arguments: list[str] = []
    for name, value in sorted(options.items()):
        if name in ENGINE:
            argument = (f"{name}_size" if name.endswith("_parallel") else name).replace("_", "-")
            if isinstance(value, bool):
                arguments.append(f"--{argument}" if value else f"--no-{argument}")
            else:
                arguments += [f"--{argument}", value]
    return tuple(arguments)


def _command(configured: str) -> tuple[str, ...]:
    """What starts a server, as this machine has it.

    Raises:
        RequestError: it is no command.
    """
    from_env = os.environ.get(COMMAND_ENV, "").strip()
    source = COMMAND_ENV if from_env else "config.toml: vllm.command"
    try:
        command = tuple(shlex.split(from_env or configured))
    except ValueError as error:
        raise RequestError(f"{source}: {error}") from error
    if not command:
        raise RequestError(f"{source}: a command such as 'vllm serve' was expected")
    return command


class VllmGenerator(ConfiguredGenerator):
    """A model behind a vLLM of our own, which is found or started when it is first needed.

    Args:
        endpoint: what the spec says; its URL counts for nothing.
        plan: the server.
    """

    def __init__(self, endpoint: Endpoint, plan: Plan) -> None:
        super().__init__(endpoint.name, endpoint.settings)
        self._endpoint, self._plan = endpoint, plan
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._generator: OpenAIGenerator | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """See `GeneratorBase.identity`; without the port, which is chance."""
        engine = [*self._plan.command, *self._plan.arguments]
        return {"vllm": self._plan.model, "engine": engine, "seed": self._settings.seed}

    @property
    def context_tokens(self) -> int:
        """See `Generator.context_tokens`; starts the server. 8192 where it does not start: the call will say so."""
        if self._settings.context is not None:
            return self._settings.context
        try:
            return self._served().context_tokens
        except GeneratorError:
            return CONTEXT_TOKENS

    def make_ready(self) -> None:
        """Find or start the server now.

        Raises:
            GeneratorError: `unavailable`: there is none, and none could be started.
        """
        self._served().make_ready()

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """One reply; see `Generator.complete`. A server that ended is started anew, before the call or once in it."""
        streamed, on_text = False, options.get("on_text")

        def on_piece(piece: str) -> None:
            nonlocal streamed
            streamed = True
            if on_text is not None:
                on_text(piece)

        if on_text is not None:
            options["on_text"] = on_piece
        generator = self._served()
        try:
            return generator.complete(messages, **options)
        except GeneratorError as error:
            if error.kind != "unavailable" or streamed:
                raise
            if self._server is None or not self._server.broke(self._plan):
                raise
            self._server = None
            reply = self._served().complete(messages, **options)
            return reply.model_copy(update={"usage": error.usage + reply.usage})

    def converse(self, messages: Sequence[ToolMessage], tools: Sequence[Tool], **options: Any) -> ToolReply:
        """See `ToolGenerator.converse`; the server needs vLLM's `--enable-auto-tool-choice` and a parser."""
        return self._served().converse(messages, tools, **options)

    def _served(self) -> OpenAIGenerator:
        """The endpoint, with a server behind it that has not ended as far as is known.

        Raises:
            GeneratorError: `unavailable`: there is none, and none could be started.
        """
        with self._lock:
            if self._server is None or self._generator is None or self._server.ended:
                self._server = obtain(self._plan)
                self._generator = self._endpoint.generator(self._server.url)
            return self._generator
