"""Separate the reasoning of a model from its reply, in the forms in which models and their servers write it.

Reasoning is a block at the beginning of a reply, such as `<think>…</think>`, `[THINK]…[/THINK]` or the channel
`analysis` of gpt-oss. If the chat template of a server has put the opening tag into the prompt, the reply has only the
closing one. A tag in code or in the middle of a sentence is only mentioned, so it stays in the answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from turnmark.core.untrusted import code_spans, is_in_code

_NAMES = (
    r"(?:seed:|ant)?(?:think(?:ing)?|thoughts?)|reasoning(?:_content)?|reflection|scratchpad|analysis|inner_monologue"
)
_TAG = rf"<(?P<name>{_NAMES})(?:\s[^<>]*)?>"
# Opening and closing marks: the closing one of a tag in angle brackets has the same name.
_PAIRS: tuple[tuple[str, str], ...] = (
    (r"\[THINK(?:ING)?\]", r"\[/THINK(?:ING)?\]"),
    (r"◁think▷", r"◁/think▷"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<details\s+type=[\"']reasoning[\"'][^<>]*>", r"</details>"),
)
_FLAGS = re.IGNORECASE | re.DOTALL
_OPENINGS = [re.compile(rf"\s*(?:{opening})", _FLAGS) for opening, _ in _PAIRS]
_CLOSINGS = [re.compile(closing, _FLAGS) for _, closing in _PAIRS]
_TAG_OPENING = re.compile(rf"\s*{_TAG}", _FLAGS)
_DANGLING_TAG = re.compile(rf"</(?:{_NAMES})\s*>|\[/THINK(?:ING)?\]|◁/think▷|<\|END_THINKING\|>", _FLAGS)
# "<think> is the tag of …" is a sentence about the tag.
_MENTION = re.compile(r"[ \t]+(?:is|are|was|and|or|means|marks|tags?|blocks?|elements?)\b|[ \t]*[,;:.)`\"'”]")
# "It is red. <think>Check that.</think> It is round." and reasoning that a limit cut off, but not "the tag <think>".
_LATER_BLOCK = re.compile(
    rf"(?:(?<=[.!?:\])*。！？\n])|\A)[ \t]*{_TAG}(?P<thought>.*?</(?P=name)\s*>|(?=\s*\w).*\Z)", _FLAGS
)
_QUOTES = "`\"'“”„«»‘’([{"
_ENDS_OF_SENTENCES = '.!?…。！？:)]}*"”'
_WRAPPED_ANSWER = re.compile(
    r"\s*(?:<(?:answer|response|output|final_answer)>|<\|START_RESPONSE\|>)(.*?)(?:</\w+>|<\|END_RESPONSE\|>|\Z)\s*\Z",
    _FLAGS,
)
"""The tags that some models write around the answer after their reasoning."""
# The channels of gpt-oss.
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?(?P<recipient>\s+to=[\w.:-]+)?\s*<\|channel\|>\s*(?P<channel>\w+)(?P<head>[^<]*)"
    r"(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<text>.*?)(?:<\|(?:end|return|call)\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
_KNOWN_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?:analysis|commentary|final)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_UNFINISHED_CHANNEL = re.compile(r"(?:<\|start\|>assistant|<\|channel\|>)(?:(?!<\|message\|>).)*\Z", re.DOTALL)
_END_TOKENS = re.compile(
    r"\s*(?:<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|eos)\|>|<end_of_turn>|<｜end▁of▁sentence｜>)"
    r"\s*(?:<\|.*|<start_of_turn>.*|<)?\Z",
    re.DOTALL,
)


class ReasoningSplit(NamedTuple):
    """A reply without its reasoning.

    Attributes:
        unfinished: whether a block of reasoning was opened and not closed, so that there is no text.
        dangling: whether reasoning was closed that had not been opened.
    """

    reasoning: str
    text: str
    unfinished: bool = False
    dangling: bool = False


def split_reasoning(text: str) -> ReasoningSplit:
    """Separate the reasoning of a model from the reply that follows it."""
    if _has_channels(text):
        return _split_channels(text)
    thoughts: list[str] = []
    rest = text
    dangling = False
    while True:
        opening, closing = _leading_block(rest)
        if opening is not None:
            end = _find_closing(closing, rest, opening.end())
            if end is None:
                thoughts.append(rest[opening.end() :].strip())
                return ReasoningSplit("\n\n".join(filter(None, thoughts)), "", unfinished=True)
            thoughts.append(rest[opening.end() : end.start()].strip())
        else:
            end = _dangling_end(rest)
            if end is None:
                break
            thoughts.append(rest[: end.start()].strip())
            dangling = not thoughts[:-1]
        rest = rest[end.end() :].lstrip()
    rest, inner = _without_blocks(rest)
    if (thoughts or inner) and (wrapped := _WRAPPED_ANSWER.match(rest)):
        rest = wrapped[1].strip()
    reasoning = "\n\n".join(filter(None, [*thoughts, *inner]))
    return ReasoningSplit(reasoning, without_end_tokens(rest), dangling=dangling)


def _has_channels(text: str) -> bool:
    """Return whether a text has channels of gpt-oss, and does not only mention their marks."""
    if text.lstrip().startswith(("<|channel|>", "<|start|>")):
        return True
    match = _KNOWN_CHANNEL.search(text)
    return match is not None and not is_in_code(match.start(), code_spans(text))


def _leading_block(text: str) -> tuple[re.Match[str] | None, re.Pattern[str]]:
    """Return the opening mark of a block at the beginning of a text, and the pattern of its closing mark."""
    tag = _TAG_OPENING.match(text)
    if tag:
        name = "think(?:ing)?" if tag["name"].lower().startswith("think") else re.escape(tag["name"])
        return (None if _MENTION.match(text, tag.end()) else tag), re.compile(rf"</{name}\s*>", re.IGNORECASE)
    opened = ((opening.match(text), closing) for opening, closing in zip(_OPENINGS, _CLOSINGS, strict=True))
    return next((found for found in opened if found[0]), (None, _DANGLING_TAG))


def _find_closing(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """Return the first closing mark, but not one that the reasoning only quotes, if another one follows."""
    marks = list(pattern.finditer(text, start))
    unquoted = [mark for mark in marks if text[mark.start() - 1] not in _QUOTES]
    return next(iter(unquoted or marks), None)


def _dangling_end(text: str) -> re.Match[str] | None:
    """Return the last closing mark that ends reasoning which the prompt had opened."""
    marks = list(_DANGLING_TAG.finditer(text))
    if not marks:
        return None
    code = code_spans(text, finished=True)
    for mark in reversed(marks):
        opened = re.search(_TAG, text[: mark.start()], _FLAGS)
        if not is_in_code(mark.start(), code) and not opened and _is_boundary(text, mark):
            return mark
    return None


def _is_boundary(text: str, mark: re.Match[str]) -> bool:
    """Return whether a closing mark ends reasoning, and is not mentioned in a sentence."""
    before, after = text[: mark.start()], text[mark.end() :]
    if before[-1:] in tuple(_QUOTES) or after[:1] in tuple("`\"'”’.,;:)"):
        return False
    line_before, line_after = before.rpartition("\n")[2].strip(), after.partition("\n")[0].strip()
    is_inline = line_before and line_after and before[-1].isspace() and after[0].isspace()
    return not is_inline or before.rstrip()[-1] in _ENDS_OF_SENTENCES


def _without_blocks(text: str) -> tuple[str, list[str]]:
    """Remove blocks of reasoning that begin a later line or sentence of a reply; return the text and the blocks."""
    blocks: list[str] = []
    code = code_spans(text)

    def remove(match: re.Match[str]) -> str:
        is_quoted = is_in_code(match.start(), code) or is_in_code(match.end() - 1, code)
        if is_quoted or _MENTION.match(text, match.start("thought")):
            return match.group()
        blocks.append(re.sub(rf"</(?:{_NAMES})\s*>\Z", "", match["thought"], flags=_FLAGS).strip())
        return ""

    return _LATER_BLOCK.sub(remove, text), blocks


def _split_channels(text: str) -> ReasoningSplit:
    """Separate the channels of gpt-oss. A call of a function stays in the text, since it is read from there."""
    thoughts: list[str] = []
    shown: list[str] = []
    end = 0
    for match in _CHANNEL.finditer(text):
        between = text[end : match.start()].strip()
        if between and not shown:
            thoughts.append(re.sub(r"<\|\w+\|>", "", between).strip())
        if match["recipient"] or "to=" in match["head"]:
            shown.append(match.group())
        elif match["channel"] == "final":
            shown.append(match["text"])
        else:
            thoughts.append(match["text"].strip())
        end = match.end()
    if not end:  # a mark without a message: nothing of it is known yet
        return ReasoningSplit("", "", unfinished=True)
    rest = _UNFINISHED_CHANNEL.sub("", text[end:])
    if shown and rest.strip():
        shown.append(rest)
    reply = without_end_tokens("".join(shown))
    return ReasoningSplit("\n\n".join(filter(None, thoughts)), reply, unfinished=not reply.strip())


def without_end_tokens(text: str) -> str:
    """Remove the token that ends a reply, if a server shows it, and what the model wrote after it."""
    return _END_TOKENS.sub("", text) if text.rstrip().endswith(">") or "<|" in text else text


# --- streams ---------------------------------------------------------------------------------------------------------

_MAY_OPEN = re.compile(r"\s*(?:<[^<>\n]{0,60}|\[[A-Z/]{0,9}|◁\w{0,8})?\Z", re.IGNORECASE)
_REASONING_MODEL = re.compile(
    r"think|reason|\br1\b|-r1|qwq|qwen-?3|gpt-oss|magistral|deepseek|nemotron|glm-?[45z]|minimax|kimi|seed-oss|exaone|"
    r"marco-o1|skywork-o|\bo1\b|hunyuan|ernie|granite-?3\.[23]|cogito|smollm3|olmo-?3",
    re.IGNORECASE,
)
_SELF_TALK = re.compile(
    r"\A\W*(?:okay|ok|alright|well|so|first(?:ly)?|right|thinking|analysis|d'accord|bon|хорошо)\b|\A\W*(?:好的|嗯|首先)"
    r"|\b(?:the user|user(?:'s| is| wants| asks)|i (?:need|should|have|must|will|want|think|can see)|i'(?:ll|m)|"
    r"let me|let's|we (?:need|should|have to|must|are asked)|(?:the|this) question|"
    r"wait|hmm|looking at|so the answer|step by step)\b|用户|我需要|我们"
)
"""Words with which a model talks to itself, in lower case."""
MIN_UNKNOWN_CHARACTERS = 120
"""Characters of the first reply of an unknown model that are held back in any case."""
MAX_JUDGED_CHARACTERS = 400
"""Characters of such a reply in which the model may be found talking to itself."""


class ReasoningHabit:
    """How a model begins its replies, as far as it is known.

    Only a reply in one piece shows whether its beginning was reasoning that the prompt had opened. A stream is
    therefore held back until the closing tag, or until its end, if an earlier reply of the model had such reasoning, or
    if there was no earlier reply and the model's name or its first sentences are those of reasoning.

    Args:
        name: name of the model.
    """

    def __init__(self, name: str) -> None:
        self._suspect = bool(_REASONING_MODEL.search(name))
        self._dangles: bool | None = None

    def note(self, split: ReasoningSplit, conclusive: bool) -> None:
        """Learn from a complete reply.

        Args:
            conclusive: whether the reply was free to begin with reasoning; one that follows a schema is not.
        """
        if split.dangling:
            self._dangles = True
        elif conclusive and self._dangles is None and split.text.strip():
            self._dangles = False

    def holds(self, text: str) -> bool:
        """Return whether the beginning of a reply, in which no reasoning was found, may be reasoning nevertheless."""
        if _MAY_OPEN.fullmatch(text):
            return True
        if self._dangles is not None:
            return self._dangles
        # The first sentences of an unknown model are held back as well: they show whether it talks to itself.
        start = text.lstrip().lower()
        return (
            self._suspect
            or len(start) < MIN_UNKNOWN_CHARACTERS
            or _SELF_TALK.search(start[:MAX_JUDGED_CHARACTERS]) is not None
        )
