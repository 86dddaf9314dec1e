"""Load a language model with OpenVINO GenAI, convert GGUF files, and generate tokens.

Prompts are processed in steps of `PROMPT_CHUNK_TOKENS` tokens and replies token by token. Each step is one call of the
library, so an interruption takes effect after at most one step. The key-value cache of earlier prompts stays in memory
(prefix caching): if a prompt begins like an earlier one, only the rest is processed.

Source: openvinotoolkit.github.io/openvino.genai, `ContinuousBatchingPipeline`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnmark.assistant.llm.calls.cancellation import Slots
from turnmark.assistant.llm.calls.protocols import FinishReason, GeneratorError
from turnmark.assistant.types import Usage
from turnmark.core.console import notify
from turnmark.core.home import home, write_json

PROMPT_CHUNK_TOKENS = 128
"""Prompt tokens per step, which takes a second on two cores. 256 save 2% of the time, 64 cost 20% more."""
CACHE_GB = 1
"""Memory for the key-value cache of prompts, enough for 70,000 tokens of a model with 1.5B parameters."""
TOP_P = 0.9
"""Default for sampling if the model's folder has none."""
SOURCE_FILE = "source.json"
"""The file that a conversion writes last; its presence marks a complete conversion."""

OnTokens = Callable[[Sequence[int]], None]


@dataclass
class GeneratedTokens:
    """The tokens of a reply, without the end token, and their usage."""

    tokens: list[int] = field(default_factory=list)
    finish: FinishReason = "other"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Minimum number of prompt tokens that were cached; up to `PROMPT_CHUNK_TOKENS` - 1 more may have been."""

    @property
    def usage(self) -> Usage:
        """The usage of this call."""
        used = {name: getattr(self, name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
        return Usage(calls=1, **used)


class UnsupportedGrammar(Exception):
    """The library does not support this schema."""


class LocalModel:
    """A model from a GGUF file or an OpenVINO folder, shared by all generators of a path. Callers hold `slot`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slot = Slots(1)
        self._pipeline: Any = None
        self._tokenizer: Any = None
        self._number = 0

    def load(self) -> None:
        """Load the model if necessary; a GGUF file is converted at first use. The caller holds `slot`."""
        if self._pipeline is not None:
            return
        try:
            self._pipeline = _pipeline(self.path if self.path.is_dir() else convert(self.path))
            self._tokenizer = self._pipeline.get_tokenizer()
        except (RuntimeError, OSError) as error:
            raise GeneratorError("unavailable", f"{self.path} cannot be loaded: {_first_line(error)}") from None

    def prompt(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Encode a conversation with the model's chat template, up to the beginning of the reply."""
        try:
            text = self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=True)
        except RuntimeError as error:
            message = f"{self.path}: its chat template failed: {_first_line(error)}"
            raise GeneratorError("bad_request", message) from None
        return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False).input_ids.data[0]]

    def text(self, tokens: Sequence[int]) -> str:
        """Decode tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True)) if tokens else ""

    def generate(
        self,
        prompt: Sequence[int],
        limit: int,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        schema: str = "",
        check: Callable[[], None],
        on_tokens: OnTokens | None = None,
    ) -> GeneratedTokens:
        """Generate a reply. The caller holds `slot`.

        Args:
            limit: maximum tokens of the reply.
            schema: JSON schema that the reply must follow; empty if there is none.
            check: called before every step. An exception that it raises ends the generation and is raised again.
            on_tokens: called with all tokens so far after every step that wrote one.

        Raises:
            UnsupportedGrammar: the library cannot decode by the schema.
            GeneratorError: the prompt does not fit, or the library failed.
        """
        import numpy as np

        from turnmark.retrieval.embedding.openvino_runner import openvino

        config = self._config(limit, temperature, seed, schema)
        ends = {int(config.eos_token_id), *map(int, config.stop_token_ids)}
        result = GeneratedTokens(prompt_tokens=len(prompt))
        self._number += 1
        try:
            handle = self._pipeline.add_request(
                self._number, openvino().Tensor(np.array([prompt], dtype=np.int64)), config
            )
            try:
                self._write(handle, result, ends, check, on_tokens)
            finally:
                if self._pipeline.has_non_finished_requests():
                    handle.cancel()
                    self._pipeline.step()
        except RuntimeError as error:
            # After an error in a step the library refuses all further steps.
            self._pipeline = None
            if schema:
                raise UnsupportedGrammar(_first_line(error)) from None
            raise GeneratorError("unavailable", f"{self.path}: {_first_line(error)}") from None
        return result

    def _write(
        self,
        handle: Any,
        result: GeneratedTokens,
        ends: set[int],
        check: Callable[[], None],
        on_tokens: OnTokens | None,
    ) -> None:
        library = genai()
        steps = 0
        while self._pipeline.has_non_finished_requests():
            check()
            self._pipeline.step()
            steps += not result.completion_tokens
            while handle.can_read():
                for output in handle.read().values():
                    result.completion_tokens += len(output.generated_ids)
                    result.tokens += output.generated_ids
                    reason = output.finish_reason
                    if reason != library.GenerationFinishReason.NONE:
                        result.finish = "length" if reason == library.GenerationFinishReason.LENGTH else "stop"
                result.cached_tokens = max(0, result.prompt_tokens - steps * PROMPT_CHUNK_TOKENS)
                if result.tokens and result.tokens[-1] in ends:
                    result.tokens.pop()
                if on_tokens is not None:
                    on_tokens(result.tokens)
        if handle.get_status() == library.GenerationStatus.IGNORED:
            raise GeneratorError(
                "bad_request", f"{self.path}: a prompt of {result.prompt_tokens} tokens does not fit into {CACHE_GB} GB"
            )

    def _config(self, limit: int, temperature: float, seed: int, schema: str) -> Any:
        config = self._pipeline.get_config()
        config.max_new_tokens = limit
        config.apply_chat_template = False
        config.do_sample = temperature > 0
        if temperature > 0:
            config.temperature = temperature
            config.rng_seed = seed
            config.top_p = min(float(config.top_p), TOP_P)
        if schema:
            config.structured_output_config = genai().StructuredOutputConfig(json_schema=schema)
        return config


def genai() -> Any:
    """Import `openvino_genai`; its own import of `openvino` would report that to OpenVINO's makers."""
    from turnmark.retrieval.embedding.openvino_runner import openvino

    openvino()
    import openvino_genai

    return openvino_genai


def _pipeline(path: Path, **properties: object) -> Any:
    library = genai()
    scheduler = library.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = CACHE_GB
    scheduler.max_num_batched_tokens = PROMPT_CHUNK_TOKENS
    return library.ContinuousBatchingPipeline(path, scheduler, "CPU", properties)


# --- GGUF ------------------------------------------------------------------------------------------------------------


def convert(path: Path) -> Path:
    """Return the OpenVINO folder of a GGUF file; convert the file if it has none.

    It is next to the file, or in `$TURNMARK_HOME/cache/local` if that folder cannot be written.
    """
    from filelock import FileLock

    sibling = path.with_name(f"{path.stem}.openvino")
    stem = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    cached = home() / "cache" / "local" / f"{path.stem}-{stem}.openvino"
    for folder in (sibling, cached):
        if _source_of_conversion(folder) == _state(path):
            return folder
    folder = sibling if os.access(path.parent, os.W_OK) else cached
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if _source_of_conversion(folder) != _state(path):
            notify(f"converting {path.name} for OpenVINO, once; it takes a minute")
            _convert(path, folder)
    return folder


def _convert(path: Path, folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        # The library writes next to its input file.
        link = scratch / "model.gguf"
        link.symlink_to(path.resolve())
        genai().Tokenizer(link, enable_save_ov_model=True)
        _pipeline(link, enable_save_ov_model=True)
        link.unlink()
        write_json(scratch / SOURCE_FILE, _state(path))
        shutil.rmtree(folder, ignore_errors=True)
        scratch.replace(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _state(path: Path) -> dict[str, object]:
    """Return the mark of a conversion, which changes with the GGUF file and the version of the library."""
    from turnmark.retrieval.embedding.openvino_runner import openvino

    stat = path.stat()
    return {"size": stat.st_size, "changed": stat.st_mtime_ns, "openvino": openvino().__version__}


def _source_of_conversion(folder: Path) -> object:
    import json

    try:
        return json.loads((folder / SOURCE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _first_line(error: Exception) -> str:
    """Return the message of a library error, without positions in its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


# --- loaded models of this process -----------------------------------------------------------------------------------

_models: dict[Path, LocalModel] = {}
_models_lock = threading.Lock()


def model_at(path: Path) -> LocalModel:
    """Return the shared model of a path, without loading it."""
    with _models_lock:
        return _models.setdefault(path.resolve(), LocalModel(path.resolve()))
