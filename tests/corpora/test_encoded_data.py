"""Data in base64 inside text, Markdown and mail: long data are left out and counted, short examples stay."""

from __future__ import annotations

import random
from base64 import b64encode, encodebytes
from collections import Counter
from pathlib import Path

import pytest

from tests.corpora.made import read_one
from turnmark.corpora.readers.common.encoded_data import without_encoded_data
from turnmark.corpora.readers.markup.markdown import parse_markdown


def data_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def wrapped(size: int, width: int = 64, lead: str = "") -> str:
    data = b64encode(data_of(size)).decode()
    return "\n".join(lead + data[at : at + width] for at in range(0, len(data), width))


BLOCKS = {
    "certificate": f"-----BEGIN CERTIFICATE-----\n{wrapped(4000)}\n-----END CERTIFICATE-----",
    "attachment": f"Content-Transfer-Encoding: base64\n\n{encodebytes(data_of(9000)).decode()}",
    "quoted attachment": f"> On Monday you sent:\n>\n{wrapped(3000, 76, '> ')}",
    "data URI": f"The logo is data:image/png;base64,{b64encode(data_of(900)).decode()} here.",
    "wrapped data URI": f"logo: data:image/png;base64,\n{wrapped(900)}\n\nNext.",
    "one line": f'{{"picture": "{b64encode(data_of(5000)).decode()}"}}',
    "indented": f"data:\n{wrapped(3000, 60, '    ')}",
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("suffix", [".txt", ".md", ".eml"])
def test_leaves_out_long_data_and_counts_them(tmp_path: Path, name: str, suffix: str) -> None:
    head = "Subject: Keys\nFrom: ann@example.org\n\n" if suffix == ".eml" else ""
    path = tmp_path / f"a{suffix}"
    path.write_text(f"{head}Before the data.\n\n{BLOCKS[name]}\n\nAfter the data.\n")
    document = read_one(path)
    assert "Before the data." in document.text
    assert "After the data." in document.text
    assert max(map(len, document.text.split())) < 60
    assert document.text.count("…") == 1
    assert document.left_out == {"embedded data": 1}


@pytest.mark.parametrize(
    "text",
    [
        f"-----BEGIN PUBLIC KEY-----\n{wrapped(294)}\n-----END PUBLIC KEY-----",
        f"-----BEGIN CERTIFICATE-----\n{wrapped(900)}\n-----END CERTIFICATE-----",
        f"ssh-ed25519 {b64encode(data_of(51)).decode()} ann@example.org",
        "![dot](x.png) and data:image/gif;base64,R0lGODlhAQABAAAAACw= is one dot.",
        "\n".join("GATTACAGATTACCAGATTACAGATTACCAGATTACAGATTACCAGATTACAGATTACCAGG" for _ in range(60)),
        "\n".join(f"{number:064x}" for number in range(60)),
        "\n".join(f"src/main/java/org/example/mill/Gate{'Wheel' * (number % 7)}Keeper" for number in range(99)),
        "Gate " * 900,
    ],
)
def test_short_data_and_other_long_words_stay(text: str) -> None:
    left_out: Counter[str] = Counter()
    assert without_encoded_data(text, left_out) == text
    assert left_out == {}


def test_text_after_data_stays() -> None:
    text = f"{wrapped(3000)}\nThe end of it.\n\ndata:image/png;base64,{b64encode(data_of(300)).decode()}\nNext line.\n"
    assert parse_markdown(text, "a.md").text == "…\nThe end of it.\n\ndata:image/png;base64,…\nNext line.\n"


def test_file_of_data_alone_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(wrapped(5000))
    with pytest.raises(AssertionError, match="only data in base64"):
        read_one(tmp_path / "a.txt")
