"""Run a small language model in this process with OpenVINO GenAI: `local:NAME`, `local:FILE.gguf`, `local:FOLDER`."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from turnmark.assistant.llm.calls.cancellation import current_stop
from turnmark.assistant.llm.calls.protocols import (
    CACHE_OPTION,
    CONTEXT_TOKENS,
    LOCAL_DEADLINE_SECONDS,
    SETTINGS,
    CallOptions,
    CallSettings,
    Completion,
    ConfiguredGenerator,
    GeneratorError,
    OnText,
    PromptMessage,
    SchemaRefused,
)
from turnmark.assistant.llm.calls.reply_schemas import strict_schema
from turnmark.assistant.llm.generators.openvino_model import LocalModel, UnsupportedGrammar, model_at
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.specs import Spec, check_options
from turnmark.core.untrusted import valid_text
from turnmark.corpora.downloads.small_models import MODELS, resolve_model

_OPTIONS = {name: SETTINGS[name] for name in ("context", "deadline", "max_tokens", "seed", "temperature")} | {
    **CACHE_OPTION
}


class LocalGenerator(ConfiguredGenerator):
    """A model in this process, which runs one call at a time. The deadline of a call counts from its start."""

    at_once = 1

    def __init__(self, name: str, model: LocalModel, context: int, settings: CallSettings) -> None:
        super().__init__(name, settings)
        self._model, self.context_tokens = model, context
        self._refused: set[str] = set()

    @property
    def identity(self) -> dict[str, Any]:
        path, state = self._model.path, self._model.path.stat()
        return {"local": path.name, "size": state.st_size, "changed": state.st_mtime_ns, "seed": self._settings.seed}

    def make_ready(self) -> None:
        """Load the model now."""
        with self._loaded():
            pass

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """Return one reply; see `Generator.complete`."""
        call, stop = self._call(options), current_stop()
        form = json.dumps(strict_schema(call.schema)) if call.schema is not None else ""
        if form in self._refused:
            raise SchemaRefused(f"{self.name} takes no such schema")
        with self._loaded():
            prompt, stream, latest = self._prompt(messages), _Stream(self._model, call.on_text), time.monotonic()

            def check() -> None:
                stop.check()
                if time.monotonic() - latest >= call.deadline:
                    hint = "; ?deadline=SECONDS in its spec gives it longer" if call.deadline >= self.deadline else ""
                    message = f"{self.name} wrote nothing for {call.deadline:g} s{hint}"
                    raise GeneratorError("timeout", message, Usage(calls=1))

            def on_tokens(tokens: Sequence[int]) -> None:
                nonlocal latest
                latest = time.monotonic()
                stream.show(tokens)

            try:
                generated = self._model.generate(
                    prompt,
                    min(call.limit, self.context_tokens - len(prompt)),
                    temperature=call.temperature,
                    seed=random.getrandbits(31) if self._settings.seed is None else self._settings.seed,
                    schema=form,
                    check=check,
                    on_tokens=on_tokens,
                )
            except UnsupportedGrammar as error:
                self._refused.add(form)
                raise SchemaRefused(f"{self.name} cannot decode by this schema: {error}", Usage(calls=1)) from None
            return Completion(
                text=stream.finish(generated.tokens),
                finish_reason=generated.finish,
                usage=generated.usage,
                model=self._model.path.stem,
                max_tokens=call.limit,
            )

    def _prompt(self, messages: Sequence[PromptMessage]) -> list[int]:
        chat = [{"role": message.role, "content": valid_text(message.content)} for message in messages]
        prompt, most = self._model.prompt(chat), self.context_tokens
        if len(prompt) >= most:
            message = f"a prompt of {len(prompt)} tokens does not fit into the context of {self.name} ({most} tokens)"
            raise GeneratorError("bad_request", message)
        return prompt

    @contextmanager
    def _loaded(self) -> Iterator[None]:
        """Give the loaded model to this thread exclusively."""
        with self._model.slot.hold():
            self._model.load()
            yield


class _Stream:
    """A stream of text, passed on as tokens come, without incomplete characters."""

    def __init__(self, model: LocalModel, on_text: OnText | None) -> None:
        self._model, self._on_text, self._text = model, on_text, ""

    def show(self, tokens: Sequence[int]) -> None:
        """Decode all tokens so far, and pass on the new text."""
        if self._on_text is not None:
            self._send(self._model.text(tokens).rstrip("\ufffd"))

    def finish(self, tokens: Sequence[int]) -> str:
        """Pass on the rest of the text; return all of it."""
        text = valid_text(self._model.text(tokens))
        self._send(text)
        return text

    def _send(self, text: str) -> None:
        if len(text) > len(self._text) and self._on_text is not None:
            piece, self._text = text[len(self._text) :], text
            self._on_text(valid_text(piece))


def open_local(spec: Spec) -> LocalGenerator:
    """Open `local:NAME`, `local:FILE.gguf` or `local:FOLDER`; loads nothing yet, and never downloads."""
    errors = ErrorCollector()
    if spec.url:
        errors.add("generator 'local' takes no url: the model runs in this process")
    path = errors.collect(_path, spec.argument)
    options = errors.collect(check_options, spec, _OPTIONS, "generator")
    model_context = errors.collect(_context_length, path) if path is not None else None
    errors.raise_all()
    assert path is not None, "a None marks a mistake that was reported"
    settings = CallSettings(**{"deadline": LOCAL_DEADLINE_SECONDS, "size": "small", **(options or {})})
    context = min(filter(None, (settings.context, model_context)), default=CONTEXT_TOKENS)
    return LocalGenerator(str(spec), model_at(path), context, settings)


def _path(argument: str) -> Path:
    path = Path(resolve_model(argument)).expanduser()
    names = ", ".join(MODELS)
    if not argument or not path.exists():
        raise RequestError(
            f"generator 'local': no model and no file is called {argument!r}; "
            f"expected a GGUF file, an OpenVINO folder or one of: {names}"
        )
    if path.is_dir() and not (path / "openvino_model.xml").is_file():
        raise RequestError(f"generator 'local': the folder {argument} has no openvino_model.xml")
    return path


def _context_length(path: Path) -> int | None:
    """Return the context length in tokens from the model's files, or None if they do not say."""
    try:
        if path.is_dir():
            config = path / "config.json"
            length = json.loads(config.read_text("utf-8")).get("max_position_embeddings") if config.is_file() else None
        else:
            fields = read_header(path)
            length = fields.get(f"{fields.get('general.architecture')}.context_length")
    except (OSError, ValueError, AttributeError) as error:
        raise RequestError(f"generator 'local': {path}: {error}") from None
    return length if isinstance(length, int) and length > 0 else None


_NUMBER_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING_TYPE = 8
_MAX_STRING_BYTES = 1 << 20
_MAX_FIELDS = 1000


def read_header(path: Path) -> dict[str, Any]:
    """Return the fields of a GGUF file, by name, before its first list (the vocabulary), including the context length.

    Raises:
        ValueError: the file is not GGUF, or its header is damaged.

    Source: github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """

    def read_exactly(size: int) -> bytes:
        data = file.read(size) if size <= _MAX_STRING_BYTES else b""
        if len(data) < size:
            raise ValueError("the header ends early, or is damaged")
        return data

    def number(form: str) -> Any:
        return struct.unpack(form, read_exactly(struct.calcsize(form)))[0]

    fields: dict[str, Any] = {}
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("not a GGUF file")
        read_exactly(12)  # the version, and the number of tensors
        for _ in range(min(number("<Q"), _MAX_FIELDS)):
            name, kind = read_exactly(number("<Q")).decode("utf-8", "replace"), number("<I")
            if kind == _STRING_TYPE:
                fields[name] = read_exactly(number("<Q")).decode("utf-8", "replace")
            elif kind in _NUMBER_FORMATS:
                fields[name] = number(_NUMBER_FORMATS[kind])
            else:
                break
    return fields
