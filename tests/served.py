"""A real `transformers serve` in a process of its own, with a tiny random model made on the spot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    pytest.fail(f"transformers serve did not start:\n{log.read_text(errors='replace')[-3000:]}")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The spec of the served model, while the server runs; its files lie in `folder`."""
    model, log, port = make_model(folder / "tiny"), folder / "log", free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            stdout=output, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", process, log)
            yield f"openai:{model}@http://127.0.0.1:{port}/v1?max_tokens=24"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
