"""Read tool calls that a model wrote as text, because its server does not parse the model's own form of a call.

Calls between marks (`<tool_call>…</tool_call>`, `[TOOL_CALLS]…`, `<function=…>`, the channel `commentary` of gpt-oss)
are recognized anywhere outside code, a JSON object of a call only if the reply is nothing else or the call names an
offered tool. Other JSON is part of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from turnmark.assistant.llm.calls.protocols import ToolCall
from turnmark.core.untrusted import code_spans, is_in_code, valid_text

_FLAGS = re.DOTALL | re.IGNORECASE
_NAME = r"(?:functions?[.:])?(?P<call>[A-Za-z_][\w.-]*)"
_MARKED_CALL = re.compile(
    r"<(?P<tag>tool_calls?|function_calls?|toolcall|tool_use|tools?)>(?P<tagged>.*?)(?:</(?P=tag)>|\Z)"
    r"|(?P<function><function=[\w.-]+>.*?(?:</function>|\Z))"
    r"|\[TOOL_CALLS?\](?P<mistral>.*)\Z"
    r"|<\|(?:python_tag|tool_calls?|START_ACTION)\|>(?P<piped>.*?)(?:<\|/?\w+\|>|\Z)"
    r"|(?:<\|start\|>assistant ?)?(?:<\|channel\|>)?(?:(?:assistant|commentary|analysis)\s{0,3}){0,3}"
    r"\b(?P<channel>to=functions\..*?)(?:<\|call\|>|<\|end\|>|\Z)",
    _FLAGS,
)
_CHANNEL_CALL = re.compile(
    rf"to={_NAME}[^{{]{{0,200}}?(?:<\|message\|>|json|\s)\s*(?P<arguments>\{{.*\}})\s*\Z", _FLAGS
)
_FUNCTION = re.compile(r"<function=(?P<call>[\w.-]+)>(?P<body>.*?)(?:</function>|\Z)", _FLAGS)
_PARAMETER = re.compile(
    r"<parameter=(?P<name>[\w.-]+)>(?P<value>.*?)(?:</parameter>|\Z)"
    r"|<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<arg>.*?)(?:</arg_value>|\Z)",
    _FLAGS,
)
_NAMED_JSON = re.compile(rf"\s*{_NAME}\s*(?:\[ARGS\]|\[CALL_ID\]\w*\[ARGS\])?\s*(?P<arguments>\{{.*\}})\s*\Z", _FLAGS)
_FENCE = re.compile(
    r"```[ \t]*(?:json5?|jsonc|tool_calls?|tool_use|tool|function_calls?|xml)?[ \t]*\n(?P<body>.*?)(?:\n[ \t]*```|\Z)",
    _FLAGS,
)
_WHOLE_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)(?:\n?```)?\s*\Z", re.DOTALL)
_NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs", "params")
_OTHER_KEYS = frozenset(("id", "type", "call_id", "tool_call_id", "index", "thought", "reasoning"))


class TextCalls(NamedTuple):
    """The calls in a reply, and the reply without them."""

    calls: tuple[ToolCall, ...]
    text: str


WrittenCall = tuple[str, str]
"""Name and arguments (as JSON) of a call."""


def read_calls(text: str, names: Collection[str]) -> TextCalls:
    """Read the tool calls in a reply.

    Args:
        names: names of the offered tools.
    """
    found: list[WrittenCall] = []
    rest = _take_marked(text, found)
    if not found:
        rest = _take_fenced(rest, names, found)
    if not found:
        rest = _take_bare(rest, names, found)
    calls = [
        ToolCall(id=f"call-{number}", name=name, arguments=valid_text(arguments))
        for number, (name, arguments) in enumerate(found, 1)
    ]
    return TextCalls(tuple(calls), rest.strip() if found else rest)


def _take_marked(text: str, found: list[WrittenCall]) -> str:
    """Remove the calls between marks from a text, and add them to `found`."""
    whole = _WHOLE_FENCE.match(text)
    searched = whole[1] if whole and _MARKED_CALL.match(whole[1].lstrip()) else text
    code = code_spans(searched)

    def take(match: re.Match[str]) -> str:
        calls = [] if is_in_code(match.start(), code) else list(_marked_calls(match))
        found.extend(calls)
        return "" if calls else match.group()

    rest = _MARKED_CALL.sub(take, searched)
    return rest if rest != searched else text


def _marked_calls(match: re.Match[str]) -> Iterator[WrittenCall]:
    if match["channel"] is None:
        parts = (match[part] for part in ("tagged", "function", "mistral", "piped"))
        yield from _parse_calls(next(part for part in parts if part is not None))
    elif call := _CHANNEL_CALL.match(match["channel"]):
        yield call["call"], call["arguments"]


def _take_fenced(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove fenced blocks that are calls of offered tools, or a call that is the complete reply."""
    for fence in _FENCE.finditer(text):
        calls = list(_parse_calls(fence["body"]))
        rest = text.replace(fence.group(), "").strip()
        if calls and (not rest or all(name in names for name, _ in calls)):
            found.extend(calls)
            text = rest
    return text


def _take_bare(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove a call that is written without marks: the complete reply, or its end if it names an offered tool."""
    calls = list(_parse_calls(text))
    if calls:
        found.extend(calls)
        return ""
    for match in re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE):
        calls = list(_parse_calls(text[match.end() :]))
        if calls and all(name in names for name, _ in calls):
            found.extend(calls)
            return text[: match.start()]
    return text


def _parse_calls(body: str) -> Iterator[WrittenCall]:
    """Yield the calls in a text that is nothing but calls; nothing if it is anything else."""
    body = body.strip()
    if whole := _WHOLE_FENCE.match(body):
        body = whole[1].strip()
    if tagged := list(_FUNCTION.finditer(body)):
        yield from ((call["call"], _arguments_in(call["body"])) for call in tagged)
        return
    values = _json_values(body)
    if values is not None:
        calls = [call for value in values for call in _calls_in(value)]
        yield from [call for call in calls if call is not None] if None not in calls else []
    elif pairs := re.match(rf"{_NAME}\s*(?=<arg_key>)", body):
        yield pairs["call"], _arguments_in(body)
    elif (match := _NAMED_JSON.match(body)) and _json_values(match["arguments"]) is not None:
        yield match["call"], match["arguments"]


def _json_values(body: str) -> list[Any] | None:
    """Return the JSON values that a text consists of, or None if it is not only JSON objects and lists."""
    decoder = json.JSONDecoder(strict=False)
    values: list[Any] = []
    position = 0
    while position < len(body):
        if body[position] in " \t\r\n,;":
            position += 1
            continue
        if body[position] not in "[{":
            return None
        try:
            value, position = decoder.raw_decode(body, position)
        except (ValueError, RecursionError):
            return None
        values.append(value)
    return values or None


def _calls_in(value: Any) -> list[WrittenCall | None]:
    """Return the calls of a JSON value, with None for what is no call."""
    if isinstance(value, list):
        return [call for item in value for call in _calls_in(item)] or [None]
    if not isinstance(value, dict):
        return [None]
    if isinstance(value.get("tool_calls"), list) and len(value) <= 3:
        return _calls_in(value["tool_calls"])
    if isinstance(value.get("function"), dict):
        return _calls_in(value["function"])
    names = [key for key in _NAME_KEYS if isinstance(value.get(key), str)]
    arguments = [key for key in _ARGUMENT_KEYS if isinstance(value.get(key), dict | str)]
    known = {*_NAME_KEYS, *_ARGUMENT_KEYS, *_OTHER_KEYS}
    if len(names) != 1 or len(arguments) != 1 or not value.keys() <= known or not value[names[0]].strip():
        return [None]
    given = value[arguments[0]]
    return [(value[names[0]].strip(), given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))]


def _arguments_in(body: str) -> str:
    """Return the arguments of a call as JSON, from JSON or from tags."""
    body = body.strip()
    values: dict[str, str] = {}
    for match in _PARAMETER.finditer(body):
        name, value = (match["name"], match["value"]) if match["name"] else (match["key"], match["arg"])
        values[name.strip()] = value.strip()
    return json.dumps(values, ensure_ascii=False) if values or not body else body


# --- streams ---------------------------------------------------------------------------------------------------------

_CALL_BEGINNING = re.compile(
    r"<(?:tool|function|\|tool|\|python|\|START_ACTION|\|channel|\|start)|\[TOOL_CALL"
    r"|(?:(?:assistant|commentary)\s{0,3}){0,3}\bto=functions\.|\A\s*(?:\{|\[\s*\{)"
    r"|^[ \t]*\{\s*\"(?:name|tool|function|action)"
    r"|```[ \t]*(?:json5?|tool\w*|function\w*)?[ \t]*(?:\n\s*(?:[\[{<][^`]*)?)?\Z",
    re.IGNORECASE | re.MULTILINE,
)
_PARTIAL_MARK = re.compile(
    r"(?:<[^<>\n]{0,24}|\[[A-Z_]{0,10}|`{1,3}\w{0,12}|\bto=?\w*|(?:^|\n)[ \t]*)\Z", re.IGNORECASE
)


def without_unfinished_calls(text: str, names: Collection[str]) -> str:
    """Return the beginning of an unfinished reply that is certainly not part of a call."""
    rest = read_calls(text, names).text
    code = code_spans(rest, finished=True)
    begun = (match for match in _CALL_BEGINNING.finditer(rest) if not is_in_code(match.start(), code))
    first = next(begun, None) or _PARTIAL_MARK.search(rest)
    return rest[: first.start()] if first else rest
