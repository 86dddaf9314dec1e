"""Servers in processes of their own, and a real `transformers serve` with a tiny random model made on the spot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
START_SECONDS = 90


def make_model(folder: Path) -> Path:
    """A Llama of some ten thousand parameters and random weights, with a tokenizer trained on a sentence."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    text = ["Descale the kettle with vinegar, then rinse it twice."] * 4
    trained.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=letters)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, pad_token="<|pad|>", eos_token="<|end|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(13)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16384, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ServerProcess:
    """A server in a process of its own, which can be killed and started again; what it prints goes to a log.

    Args:
        command: starts it.
        health: a URL that answers as soon as it is ready.
        more_environment: variables beside those of this process.
    """

    def __init__(self, command: Sequence[str | Path], health: str, log: Path, more_environment: dict[str, str]) -> None:
        self._command, self._health, self._log = command, health, log
        self._environment = {**os.environ, **more_environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, env=self._environment
            )
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self._health, timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        pytest.fail(f"{self._command[0]} did not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The spec of the served model, while the server runs; its files lie in `folder`."""
    model, port = make_model(folder / "tiny"), free_port()
    address = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    server = ServerProcess(
        [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model), *address],
        f"http://127.0.0.1:{port}/health",
        folder / "log",
        {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "CUDA_VISIBLE_DEVICES": ""},
    )
    try:
        server.start()
        yield f"openai:{model}@http://127.0.0.1:{port}/v1?max_tokens=24"
    finally:
        server.kill()
