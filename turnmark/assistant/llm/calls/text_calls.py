"""Read tool calls that a model wrote as text, because its server does not parse the model's own form of a call.

Calls between marks (`<tool_call>…</tool_call>`, `[TOOL_CALLS]…`, `<function=…>`, the channel `commentary` of gpt-oss …)
are recognized anywhere outside code, a JSON object of a call only if the reply is nothing else or the call names an
offered tool. Other JSON is part of the answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from turnmark.assistant.llm.calls.protocols import ToolCall
from turnmark.core.untrusted import code_spans, is_in_code, valid_text

MAX_PYTHON_CHARACTERS = 2000
"""Maximum characters of calls in the form of Python, since a parser of deeply nested text is slow."""
_FLAGS = re.DOTALL | re.IGNORECASE
_NAME = r"(?:functions?[.:])?(?P<call>[A-Za-z_][\w.-]*)"
_MARKED_CALL = re.compile(
    r"<(?P<tag>tool_calls?|function_calls?|toolcall|tool_use|tools?)>(?P<tagged>.*?)(?:</(?P=tag)>|\Z)"
    r"|<function=(?P<function>[\w.-]+)>(?P<body>.*?)(?:</function>|\Z)"
    r"|<(?:antml:)?invoke\s.*?(?:</(?:antml:)?invoke>|\Z)"
    r"|\[TOOL_CALLS?\](?P<mistral>.*)\Z"
    r"|<\|tool_calls_section_begin\|>.*?(?:<\|tool_calls_section_end\|>|\Z)"
    r"|<｜tool▁calls?▁begin｜>.*?(?:<｜tool▁calls▁end｜>|\Z)"
    r"|<\|tool_calls?(?:_begin|_start)?\|?>(?P<piped>.*?)(?:<\|?/?tool_calls?(?:_end)?\|>|\Z)"
    r"|<\|START_ACTION\|>(?P<action>.*?)(?:<\|END_ACTION\|>|\Z)"
    r"|<\|python_(?:tag|start)\|>(?P<python>.*?)(?:<\|python_end\|>|<\|eom_id\|>|\Z)"
    r"|functools(?P<functools>\[.*)\Z"
    r"|(?:<\|start\|>assistant ?)?(?:<\|channel\|>)?(?:(?:assistant|commentary|analysis)\s{0,3}){0,3}\bto=functions\."
    r".*?"
    r"(?:<\|call\|>|<\|end\|>|\Z)",
    _FLAGS,
)
_CHANNEL_CALL = re.compile(
    rf"to={_NAME}[^{{]{{0,200}}?(?:<\|message\|>|json|\s)\s*(?P<arguments>\{{.*\}})(?:<\|\w+\|>)?\s*\Z", _FLAGS
)
_SEPARATED_CALL = re.compile(
    rf"(?:<｜tool▁call▁begin｜>|<\|tool_call_begin\|>)\s*(?:function\s*<｜tool▁sep｜>)?\s*{_NAME}(?::\d+)?\s*"
    r"(?:<｜tool▁sep｜>|<\|tool_call_argument_begin\|>|\n)\s*(?:```(?:json)?)?\s*(?P<arguments>.*?)\s*(?:```)?\s*"
    r"(?:<｜tool▁call▁end｜>|<\|tool_call_end\|>|\Z)",
    _FLAGS,
)
_INVOKE_CALL = re.compile(
    r"<(?:antml:)?invoke\s+name=[\"'](?P<call>[\w.-]+)[\"'][^>]*>(?P<body>.*?)(?:</(?:antml:)?invoke>|\Z)", _FLAGS
)
_FUNCTION = re.compile(r"<function=(?P<call>[\w.-]+)>(?P<body>.*?)(?:</function>|\Z)", _FLAGS)
_PARAMETER = re.compile(
    r"<(?:antml:)?parameter(?:=|\s+name=[\"'])(?P<name>[\w.-]+)[\"']?[^>]*>(?P<value>.*?)(?:</(?:antml:)?parameter>|\Z)"
    r"|<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<arg>.*?)(?:</arg_value>|\Z)",
    _FLAGS,
)
_NAMED_JSON = re.compile(rf"\s*{_NAME}\s*(?:\[ARGS\]|\[CALL_ID\]\w*\[ARGS\])?\s*(?P<arguments>\{{.*\}})\s*\Z", _FLAGS)
_FENCE = re.compile(
    r"```[ \t]*(?:json5?|jsonc|tool_calls?|tool_code|tool_use|tool|function_calls?|python|xml)?[ \t]*\n(?P<body>.*?)"
    r"(?:\n[ \t]*```|\Z)",
    _FLAGS,
)
_LANGUAGE_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)(?:\n?```)?\s*\Z", re.DOTALL)
_NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs", "params")
_OTHER_KEYS = frozenset(("id", "type", "call_id", "tool_call_id", "index", "thought", "reasoning"))
_ACTION = re.compile(r"\AAction:\s*", re.IGNORECASE)
# "Action: search" and "Action Input: kettle" on the next line, or "Action: search[kettle]", up to a line that only the
# program should have written.
_BOLD = r"(?:\*\*|__)?"
_REACT = re.compile(
    rf"^[ \t]*{_BOLD}Action(?: \d+)?:{_BOLD}[ \t]*`?(?P<call>[A-Za-z_][\w.-]*)`?"
    rf"(?:[ \t]*\[(?P<inline>[^\]\n]*)\]|[ \t]*\n\s*{_BOLD}Action Input(?: \d+)?:{_BOLD}[ \t]*(?P<input>.*?))"
    rf"[ \t]*(?=\n\s*{_BOLD}(?:Observation|Thought|Final Answer|Action|Question)\b|\n[ \t]*\n|\Z)",
    _FLAGS | re.MULTILINE,
)
_REACT_BEGINNING = re.compile(
    rf"^[ \t]*{_BOLD}(?:A|Ac|Act|Acti|Actio|Action ?\d*:?{_BOLD}[ \t]*`?[\w.-]*`?"
    r"(?:[ \t]*\[[^\]\n]*\]?|[ \t]*\n\s*[*_]{0,2}(?:A|Ac|Act|Acti|Actio|Action ?|Action I\w{0,3}|Action Input.*)?)?"
    r")\Z",
    re.DOTALL | re.MULTILINE,
)
# <search><query>kettle</query></search>: a tag with the name of a tool, or the complete reply with a query in it.
_TOOL_TAG = re.compile(
    r"<(?P<call>[A-Za-z_][\w.-]{0,60})>"
    r"(?P<inner>(?:\s{0,20}<\w{1,40}>[^<]{0,1000}</\w{1,40}>){1,8}\s{0,20})</(?P=call)>",
    _FLAGS,
)
_CHILD = re.compile(r"<(?P<name>\w+)>(?P<value>[^<]*)</(?P=name)>")
_QUERY_NAMES = frozenset(("query", "queries", "q", "question", "search_query", "keywords", "input", "text"))


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
        rest = _take_actions(rest, names, found)
    if not found:
        rest = _take_tool_tags(rest, names, found)
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
    whole = _LANGUAGE_FENCE.match(text)
    searched = whole[1] if whole and _MARKED_CALL.match(whole[1].lstrip()) else text
    code = code_spans(searched)

    def take(match: re.Match[str]) -> str:
        if is_in_code(match.start(), code):
            return match.group()
        calls = list(_calls_of(match))
        found.extend(calls)
        return "" if calls else match.group()

    rest = _MARKED_CALL.sub(take, searched)
    return rest if rest != searched else text


def _calls_of(match: re.Match[str]) -> Iterator[WrittenCall]:
    marked = match.group()
    if match["function"]:
        yield match["function"], _arguments_in(match["body"])
        return
    separated = list(_SEPARATED_CALL.finditer(marked))
    channel = _CHANNEL_CALL.search(marked)
    if separated:
        yield from ((call["call"], call["arguments"] or "{}") for call in separated)
    elif channel:
        yield channel["call"], channel["arguments"]
    else:
        parts = ("tagged", "mistral", "piped", "action", "python", "functools")
        yield from _parse_calls(next((match[part] for part in parts if match[part] is not None), marked))


def _take_actions(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove the actions of a reply in the form of ReAct, with what follows the first: the model invented it."""
    code = code_spans(text)
    for match in _REACT.finditer(text):
        name = _find_offered(match["call"], names)
        is_all = not names and match["input"] is not None and not text[: match.start()].strip()
        if (name or is_all) and not is_in_code(match.start(), code):
            found.append((name or match["call"], _as_arguments(match["inline"] or match["input"] or "")))
            return text[: match.start()]
    return text


def _take_tool_tags(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove elements that have the name of an offered tool, or that are the complete reply and contain a query."""
    code = code_spans(text)

    def take(match: re.Match[str]) -> str:
        children = {child["name"]: child["value"].strip() for child in _CHILD.finditer(match["inner"])}
        is_query = not children.keys().isdisjoint(_QUERY_NAMES)
        is_all = is_query and not text.replace(match.group(), "").strip()
        name = _find_offered(match["call"], names)
        if not (name or is_all) or is_in_code(match.start(), code):
            return match.group()
        found.append((name or match["call"], json.dumps(children, ensure_ascii=False)))
        return ""

    return _TOOL_TAG.sub(take, text)


def _find_offered(name: str, names: Collection[str]) -> str:
    """Return the offered tool that a name stands for, whatever its case; "" for any other name."""
    return next((offered for offered in names if offered.lower() == name.lower()), "")


def _as_arguments(written: str) -> str:
    """Return the input of an action as JSON; a text that is no object is the query."""
    inner = _LANGUAGE_FENCE.match(written)
    text = (inner[1] if inner else written).strip()
    values = _json_values(text) or []
    if len(values) == 1 and isinstance(values[0], dict):
        return text
    return json.dumps({"query": text.strip("\"'` ")}, ensure_ascii=False)


def _take_fenced(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove fenced blocks that are calls of offered tools, or a call that is the complete reply."""
    for fence in _FENCE.finditer(text):
        calls = list(_parse_calls(fence["body"]))
        is_all = not _ACTION.sub("", text.replace(fence.group(), "").strip()).strip()
        if calls and (is_all or all(name in names for name, _ in calls)):
            found.extend(calls)
            text = _ACTION.sub("", text.replace(fence.group(), "").strip())
    return text


def _take_bare(text: str, names: Collection[str], found: list[WrittenCall]) -> str:
    """Remove a call that is written without marks: the complete reply, or its end if it names an offered tool."""
    calls = list(_parse_calls(text, names))
    if calls:
        found.extend(calls)
        return ""
    for match in re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE):
        calls = list(_parse_calls(text[match.end() :], names))
        if calls and all(name in names for name, _ in calls):
            found.extend(calls)
            return text[: match.start()]
    return text


def _parse_calls(body: str, names: Collection[str] | None = None) -> Iterator[WrittenCall]:
    """Yield the calls in a text that is nothing but calls; nothing if it is anything else.

    Args:
        names: names of the tools that a call in the form of Python, `search(query="…")`, may have, or None for any.
    """
    body = body.strip()
    if whole := _LANGUAGE_FENCE.match(body):
        body = whole[1].strip()
    if tagged := list(_FUNCTION.finditer(body)) or list(_INVOKE_CALL.finditer(body)):
        yield from ((call["call"], _arguments_in(call["body"])) for call in tagged)
        return
    values = _json_values(body)
    if values is not None:
        calls = [call for value in values for call in _calls_in(value)]
        yield from [call for call in calls if call is not None] if None not in calls else []
        return
    if pairs := re.match(rf"{_NAME}\s*(?=<arg_key>|<parameter)", body):
        yield pairs["call"], _arguments_in(body)
    elif match := _NAMED_JSON.match(body):
        if _json_values(match["arguments"]) is not None:
            yield match["call"], match["arguments"]
    else:
        yield from _python_calls(body, names)


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


def _python_calls(body: str, names: Collection[str] | None) -> Iterator[WrittenCall]:
    """Yield the calls of a text such as `search(query="kettle")` or `[search(query="kettle")]`."""
    body = re.sub(r"\Aprint\((.*)\)\Z", r"\1", body, flags=re.DOTALL)
    if not body.rstrip("]; \n").endswith(")") or len(body) > MAX_PYTHON_CHARACTERS:
        return
    try:
        tree = ast.parse(body, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        calls: list[WrittenCall] = []
        for node in nodes:
            if not isinstance(node, ast.Call) or node.args:
                return
            name = ast.unparse(node.func).rpartition(".")[2]
            if names is not None and name not in names:
                return
            arguments = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in node.keywords}
            calls.append((name, json.dumps(arguments, ensure_ascii=False)))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return
    yield from calls


# --- streams ---------------------------------------------------------------------------------------------------------

_CALL_BEGINNING = re.compile(
    r"<(?:tool|function|(?:antml:)?invoke|\|tool|\|python|\|START_ACTION|｜tool|\|channel|\|start)|\[TOOL_CALL|functools\["
    r"|(?:(?:assistant|commentary)\s{0,3}){0,3}\bto=functions\.|\A\s*(?:\{|\[\s*(?:\{|\w+\()|Action:)"
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
    word = re.match(r"\s*\[?\s*([\w.]*)(\(?)", rest)
    if word and word[2]:
        is_call = word[1] in names
    else:
        is_call = word is not None and rest == word.group() and any(name.startswith(word[1]) for name in names)
    return "" if is_call else rest[: _shown_length(rest, names)]


def _shown_length(text: str, names: Collection[str]) -> int:
    code = code_spans(text, finished=True)
    tags = re.compile("|".join(rf"<{re.escape(name)}\b" for name in names) or "(?!)", re.IGNORECASE)
    for pattern in (_CALL_BEGINNING, _REACT_BEGINNING, tags):
        for match in pattern.finditer(text):
            if not is_in_code(match.start(), code):
                return match.start()
    partial = _PARTIAL_MARK.search(text)
    return partial.start() if partial else len(text)
