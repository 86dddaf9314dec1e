"""What is wrong in specs of vLLM and in its configuration; nothing is started."""

from __future__ import annotations

import pytest

from turnmark.assistant.generators import open_generator
from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home


def opened(options="", model="org/tiny"):
    generator = open_generator(f"vllm:{model}{options}")
    assert generator is not None
    return generator


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("?tensor_parallel=0", "tensor_parallel='0'"),
        ("?tensor_parallel_size=2", "no option 'tensor_parallel_size'"),
        ("?lora=polite", "NAME:PATH"),
        ("?lora=-x:p", "NAME:PATH"),
        ("?lora=x:-p", "NAME:PATH"),
        ("?lora=x:a,b", "NAME:PATH"),
        ("?lora=x:{a}", "NAME:PATH"),
        ("?lora=x:/no/such/folder", "no such folder"),
        ("@http://h:1/v1?lora=x:p", "no option 'lora'"),
    ],
)
def test_wrong_options_of_parallel_engines_and_adapters(options, problem):
    with pytest.raises(RequestError) as raised:
        opened(options)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ("vllm", ["needs a model"]),
        ("vllm:--config", ["does not begin with '-'"]),
        ("vllm:m?command=rm&dtype=a;b&enforce_eager=yes", ["no option 'command'", "dtype=", "1 (yes) or 0 (no)"]),
        ("vllm:m?trust_remote_code=1&host=0.0.0.0", ["'trust_remote_code'", "'host'"]),
        ("vllm:m@http://localhost:1/v1?dtype=half", ["no option 'dtype'"]),
        ("vllm:m?start=nan&seed=-1&cache=yes", ["start", "seed", "cache"]),
    ],
)
def test_wrong_specs_name_all_their_mistakes(spec, problems):
    with pytest.raises(RequestError) as raised:
        open_generator(spec)
    for words in problems:
        assert words in str(raised.value)


def test_a_wrong_configuration_is_told_with_all_its_mistakes(monkeypatch):
    monkeypatch.setenv("TURNMARK_VLLM_COMMAND", "vllm 'serve")
    home().mkdir(parents=True, exist_ok=True)
    path = home() / "config.toml"
    path.write_text('[vllm]\narguments = ["--port=1", "--api_key", "x"]\nstart = "soon"\n', encoding="utf-8")
    with pytest.raises(RequestError) as raised:
        open_generator("vllm:m?nonsense=1")
    for words in ("TURNMARK_VLLM_COMMAND: No closing quotation", "--port", "--api_key", "vllm.start", "'nonsense'"):
        assert words in str(raised.value)
    path.write_text("[vllm]\nstat = 1\n", encoding="utf-8")
    with pytest.raises(RequestError, match="did you mean 'start'"):
        open_generator("vllm:m")
