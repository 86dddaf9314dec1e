"""The JSON schema of a record, in the strict form that endpoints with structured output ask for."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

MOST_ITEMS = 100
"""Of a list without a bound, in a model without `most_items`."""
MOST_CHARACTERS, REASON_CHARACTERS = 4000, 300
"""Of a string without a bound; of the reasons of a verdict, which small models never end."""


def at_most(items: int) -> Any:
    """Annotates a list of a reply: the schema says that it has so many items at most.

    A grammar that lets a list go on is one that a small model may never leave: it writes items until the limit of its
    reply (vllm-project/vllm-ascend#13646; a SmolLM2 of 135M parameters did it with nearly every list). A reply with
    more of them, from an endpoint that does not keep to schemas, is not wrong by this.
    """
    return Field(json_schema_extra={"maxItems": items})


def short_text(characters: int = REASON_CHARACTERS) -> Any:
    """Annotates a string of a reply: the schema says that it has so many characters at most; see `at_most`."""
    return Field(json_schema_extra={"maxLength": characters})


def strict_schema(model: type[BaseModel], bounds: bool = True) -> dict[str, Any]:
    """The schema of `model`: no further properties, every property required, no defaults, titles or docstrings.

    Every list has a bound: its own (`at_most`), or the class attribute `most_items` of the model, or `MOST_ITEMS`;
    and every string: its own (`short_text`), or `MOST_CHARACTERS`.

    Args:
        bounds: False: none has one, for endpoints that take schemas without.

    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return dict(_strict(model.model_json_schema(), getattr(model, "most_items", MOST_ITEMS) if bounds else None))


def _strict(node: Any, max_items: int | None, names: bool = False) -> Any:
    """`names`: the keys of this node are names that the model chose, not words of JSON Schema."""
    if isinstance(node, list):
        return [_strict(part, max_items) for part in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(part, max_items) for key, part in node.items()}
    strict = {
        key: _strict(part, max_items, names=key in ("properties", "$defs"))
        for key, part in node.items()
        if key not in ("default", "title")
    }
    if "properties" in strict:
        strict.pop("description", None)
    if strict.get("type") == "array":
        bound = strict.pop("maxItems", max_items)
        if max_items is not None:
            strict["maxItems"] = bound
    if strict.get("type") == "string" and "enum" not in strict and "const" not in strict:
        length = strict.pop("maxLength", MOST_CHARACTERS)
        if max_items is not None:
            strict["maxLength"] = length
    if strict.get("type") == "object" and "properties" in strict:
        strict["additionalProperties"] = False
        strict["required"] = list(strict["properties"])
    return strict
