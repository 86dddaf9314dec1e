"""Pictures in messages: how they are sent to an endpoint, and how its refusal of pictures is recognized."""

from __future__ import annotations

import re
from typing import Any

from turnmark.assistant.llm.calls.protocols import PromptMessage
from turnmark.core.untrusted import valid_text

# vLLM: "At most 0 image(s) may be provided", "… is not a multimodal model". OpenAI: "image_url is only supported by
# certain models". DeepSeek: "unknown variant `image_url`, expected `text`". llama.cpp: "image input is not supported …
# you may need to provide the mmproj". Ollama: "this model is missing data required for image input". OpenRouter: "No
# endpoints found that support image input". LM Studio: "Model does not support images".
_PICTURE = re.compile(r"image|picture|vision|visual|multi-?modal|mmproj", re.IGNORECASE)
_NEGATION = re.compile(
    r"at most 0\b|\b(?:not?|never|unable|cannot|without|missing|lacks?|only|disabled)\b|n't\b|unsupported"
    r"|unknown variant|unexpected|invalid content type|extra inputs",
    re.IGNORECASE,
)
# Servers that know no parts at all. Groq: "content must be a string". Pydantic: "Input should be a valid string".
_ONLY_TEXT = re.compile(
    r"content.{0,60}(?:must|should|has to|expected to) be (?:a |of type )?(?:valid )?(?:string|text)"
    r"|should be a valid string|invalid type: sequence, expected a string|cannot unmarshal array.{0,80}string"
    r"|expected (?:a )?string.{0,40}(?:array|list|sequence)",
    re.IGNORECASE | re.DOTALL,
)
# An objection to one picture, e.g. "image exceeds 5 MB maximum" or "Could not process image".
_ONE_PICTURE = re.compile(
    r"too (?:large|big|small|long|many)|exceed|base64|corrupt|decod|could not (?:process|load|open|read)|dimension"
    r"|pixel|resolution|(?:image|file|media|mime).?(?:format|type)|format|truncated|cannot identify",
    re.IGNORECASE,
)


def refuses_pictures(words: str) -> bool:
    """Return whether an error says that a model or its server takes no pictures at all."""
    if _ONLY_TEXT.search(words) or re.search(r"at most 0\b.{0,20}image", words, re.IGNORECASE):
        return True
    if re.search(r"unknown variant.{0,5}image_url|mmproj|not a multi-?modal", words, re.IGNORECASE):
        return True
    return bool(_PICTURE.search(words) and _NEGATION.search(words) and not _ONE_PICTURE.search(words))


def wire_content(message: PromptMessage) -> str | list[dict[str, Any]]:
    """Return the content of a message for an endpoint: its text, or parts if it has pictures."""
    # A lone surrogate (from a document with encoding errors) cannot be sent as UTF-8.
    text = valid_text(message.content)
    if not message.pictures:
        return text
    pictures = [{"type": "image_url", "image_url": {"url": picture.data_uri}} for picture in message.pictures]
    return [*pictures, {"type": "text", "text": text}]
