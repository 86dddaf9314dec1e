"""Strict JSON schemas for structured replies, with a bound for every list and string."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

MAX_ITEMS = 100
"""Maximum items of a list without `limit_items`, in a model without `most_items`."""
MAX_CHARACTERS, MAX_REASON_CHARACTERS = 4000, 300
"""Maximum characters of a string without `limit_characters`, and of a verdict's reasons.

Without a limit, small models never end their reasons.
"""


def limit_items(items: int) -> Any:
    """Annotate a list of a reply with the maximum number of items in its schema.

    Without a bound, a small model may write items until the limit of its reply (vllm-project/vllm-ascend#13646; a
    SmolLM2 of 135M parameters did it with nearly every list). A reply with more items, from an endpoint that ignores
    schemas, is still valid.
    """
    return Field(json_schema_extra={"maxItems": items})


def limit_characters(characters: int = MAX_REASON_CHARACTERS) -> Any:
    """Annotate a string of a reply with the maximum number of characters in its schema; see `limit_items`."""
    return Field(json_schema_extra={"maxLength": characters})


def strict_schema(model: type[BaseModel], bounds: bool = True) -> dict[str, Any]:
    """Return the schema of `model` with every property required, and no further ones, defaults, titles or docstrings.

    Every list has a bound: that of `limit_items`, the class attribute `most_items` of the model, or `MAX_ITEMS`. Every
    string has one: that of `limit_characters`, or `MAX_CHARACTERS`.

    Args:
        bounds: False: leave out all bounds, for endpoints that do not support them.

    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return dict(_strict(model.model_json_schema(), getattr(model, "most_items", MAX_ITEMS) if bounds else None))


def _strict(node: Any, max_items: int | None, names: bool = False) -> Any:
    """Make a node of a schema strict.

    Args:
        max_items: maximum items of a list without a bound, or None for no bounds at all.
        names: the keys of this node are names of properties or definitions, not keywords of JSON Schema.
    """
    if isinstance(node, list):
        return [_strict(child, max_items) for child in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(child, max_items) for key, child in node.items()}
    strict = {
        key: _strict(child, max_items, names=key in ("properties", "$defs"))
        for key, child in node.items()
        if key not in ("default", "title")
    }
    if "properties" in strict:
        strict.pop("description", None)
    if strict.get("type") == "array":
        bound = strict.pop("maxItems", max_items)
        if max_items is not None:
            strict["maxItems"] = bound
    if strict.get("type") == "string" and "enum" not in strict and "const" not in strict:
        length = strict.pop("maxLength", MAX_CHARACTERS)
        if max_items is not None:
            strict["maxLength"] = length
    if strict.get("type") == "object" and "properties" in strict:
        strict["additionalProperties"] = False
        strict["required"] = list(strict["properties"])
    return strict
