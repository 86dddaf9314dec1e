"""A model behind a scripted server that says something fit to whatever the commands of the pages ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.evaluation.synth.player import PHRASES, Player
from tests.servers import Say, Scripted

_PLAYER = Player()
_LABELS = {"A>>B": "A=B", "good, neutral or bad": "good", "yes, partial or no": "no", "yes or no": "yes"}
"""What a prompt says of its labels -> one of them."""


def speaker(body: dict[str, Any]) -> Scripted:
    """A reply: what a synthesis wants, an object of the schema that is asked for, a verdict, a rating, or an answer."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    if any(phrase in prompt for phrase in PHRASES.values()):
        return _PLAYER(body)
    response_format = body.get("response_format") or {}
    if "json_schema" in response_format:
        import json

        schema = response_format["json_schema"]["schema"]
        return Say(json.dumps(smallest(schema, schema)))
    if "Verdict: [[" in prompt:
        return Say(f"It is so.\nVerdict: [[{next(label for says, label in _LABELS.items() if says in prompt)}]]")
    if "Rating: [[" in prompt:
        return Say("Much like it.\nRating: [[7]]")
    return Say("Descale it with vinegar, then rinse it twice. [1]")


def smallest(node: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """A small value of a JSON schema: lists have one item, or as few as they may."""
    if "$ref" in node:
        return smallest(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    if "const" in node or "enum" in node:
        return node.get("const", (node.get("enum") or [None])[0])
    if "anyOf" in node:
        return smallest(node["anyOf"][0], root)
    kind = node.get("type")
    if kind == "object":
        return {name: smallest(inner, root) for name, inner in node.get("properties", {}).items()}
    if kind == "array":
        return [smallest(node["items"], root)] * max(1, node.get("minItems", 1))
    plain = {"string": "It is so.", "boolean": True, "null": None}
    return plain[kind] if kind in plain else max(1, node.get("minimum", 1))
