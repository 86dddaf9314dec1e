"""Small pictures for tests, and a model behind an endpoint that describes them by their hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tests.servers import Say, Scripted


def draw_bars(path: Path, *heights: int, size: tuple[int, int] = (160, 120)) -> str:
    """Draw a bar chart as a PNG, and return the hash of its bytes."""
    picture = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(picture)
    for number, height in enumerate(heights):
        pen.rectangle((12 + 30 * number, size[1] - 10 - height, 32 + 30 * number, size[1] - 10), fill="navy")
    pen.rectangle((0, 0, 6, 6), fill="red")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pictures_in(body: Mapping[str, Any]) -> list[bytes]:
    """Return the pictures of a request."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(";base64,")[2]) for url in urls]


class DescribesPictures:
    """A reply of a scripted server: the description of the picture in the request, or what the test has it reply.

    Args:
        replies: hash of a picture -> its description, or another reply.
    """

    def __init__(self, replies: Mapping[str, str | Scripted]) -> None:
        self.replies = dict(replies)
        self.asked: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Scripted:
        [picture] = pictures_in(body)
        sha256 = hashlib.sha256(picture).hexdigest()
        self.asked.append(sha256)
        reply = self.replies[sha256]
        return Say(reply) if isinstance(reply, str) else reply
