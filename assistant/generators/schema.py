"""The JSON schema of a record, in the strict form that endpoints with structured output ask for."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model`: no further properties, every property required, no defaults and no titles.

    Source: platform.openai.com/docs/guides/structured-outputs, "Supported schemas".
    """
    return dict(_strict(model.model_json_schema()))


def _strict(node: Any, names: bool = False) -> Any:
    """`names`: the keys of this node are names that the model chose, not words of JSON Schema."""
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: _strict(part) for key, part in node.items()}
    kept = {
        key: _strict(part, names=key in ("properties", "$defs"))
        for key, part in node.items()
        if key not in ("default", "title")
    }
    if kept.get("type") == "object" and "properties" in kept:
        kept["additionalProperties"] = False
        kept["required"] = list(kept["properties"])
    return kept
