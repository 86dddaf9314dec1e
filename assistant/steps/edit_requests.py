"""Short English requests to change the last reply ("as a list please", "only the first two"), read by strict rules; and
whether a message is an instruction to revise at all.

The whole message must be such a request: a message revises only if its words say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from turnmark.assistant.steps.instructions import CHANGE, NUMBER, QUOTED, UNQUOTED_CHANGE, length_asked, number_in
from turnmark.corpora.types import Message, Record

EditKind = Literal[
    "list", "text", "shorter", "sentences", "words", "only", "without", "remove", "keep", "reverse", "move", "reword"
]
Unit = Literal["", "sentence", "paragraph"]


class EditRequest(Record):
    """One change of the last reply.

    `only`, `without`: the units at `places`. `remove`, `keep`: what is about `topic`. `move`: either. `reword`: other
    words, which takes a language model.
    """

    kind: EditKind
    count: int = 0
    """`sentences`, `words`: at most. `text`: paragraphs."""
    share: float = 0.5
    places: tuple[int, ...] = ()
    """0-based; negative ones count from the end."""
    unit: Unit = ""
    """What is counted; "": list items where there are any, else sentences."""
    numbered: bool = False
    topic: str = ""
    to_end: bool = False


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

_LEAD = (
    r"(?:(?:ok(?:ay)?|great|thanks|thank you|good|no|sorry|hm+|and|but|now|then|so|also|please|pls|fine|cool|nice"
    r"|perfect|well|actually|(?:(?:that|it|this)(?:'s| is|s)? )?(?:still )?(?:way |far |a bit |much |a little )?too "
    r"(?:long|verbose|wordy|much(?: text)?))[\s,.;:!]+)*"
)
_ASK = re.compile(
    rf"{_LEAD}(?P<ask>(?:can|could|would|will) you (?:please |just |maybe |also )*|(?:can|could|may) i (?:have|get"
    rf"|see) "
    r"|do you have |(?:i(?:'d| would) (?:like|prefer)|i(?: only| just)? (?:want|need)) (?:you to )?"
    r"|(?:please |just )*(?:give|show|tell) (?:me|us) |let me have )?",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:[\s,]*\b(?:please|pls|thanks|thank you|instead|now|then|again|for me|if possible|if you can))*[\s.!]*$", re.I
)
_THAT = (
    r"(?:all (?:of )?)?(?:it|this|that|these|those|them|everything|(?:the|that|this|your) (?:whole |entire |last "
    r"|previous )?"
    r"(?:thing|answer|reply|response|text|list|steps|one|summary))"
)
_UNIT = r"(?P<unit>sentences?|paragraphs?|steps?|points?|items?|bullets?|lines?|entries|ones?|parts?)"
_ORDINAL = rf"(?P<ordinal>{'|'.join(ORDINALS)}|last|final|\d{{1,2}}(?:st|nd|rd|th))"
_COUNTED = rf"(?:the )?{_ORDINAL}(?: (?P<many>{NUMBER}))?(?: {_UNIT})?"
_NUMBERED = (
    r"(?P<numbered_unit>sentence|paragraph|step|point|item|bullet|line|number) (?:no\.? ?|number )?(?P<number>\d{1,2})"
)
_PLACE = rf"(?:{_COUNTED}|{_NUMBERED})"
_PLACE_ANYWHERE = re.compile(rf"\b{_PLACE}(?! (?:about|on|that|which)\b)", re.IGNORECASE)
_PART = r"(?:parts?|bits?|sections?|sentences?|steps?|points?|paragraphs?|items?|stuff|things?|lines?|mentions?|ones?)"
_ABOUT = r"(?:about|on|of|regarding|concerning|describing|mentioning|with|for|in|that (?:mentions?|says?|describes?))"
_DROP = (
    r"(?:without|remove|delete|drop|omit|skip|leave out|take out|cut(?: out)?|lose|get rid of|except(?: for)?"
    r"|minus|exclude)"
)
_TURN = (
    r"(?:make|turn|put|format|write|rewrite|present|convert|show|give|break|split|have|do|get|see|organi[sz]e|say"
    r"|tell|sum"
    r"|summari[sz]e|express|phrase|explain|condense|shorten|compress|reduce|cut|keep|merge|combine)"
)
_BULLETS = r"(?:bullets|bullet points?|bullet(?:ed)? list|numbered list|ordered list|list form|list format)"
_LIST = (
    r"(?:an? |one |the form of an? )?(?P<style>(?:(?:short|simple|numbered|ordered|bullet(?:ed)?|bullet-point|plain"
    r"|flat"
    rf"|step[- ]by[- ]step) )*)(?P<layout>list|steps|{_BULLETS})"
)
_MORE = r"(?:(?:a (?:bit|little|lot)|much|even|rather|somewhat|way) )?"
_SHORT = (
    rf"{_MORE}(?:shorter|briefer|more (?:briefly|brief|concise|concisely|succinct|succinctly|compact|to the point)"
    rf"|crisper"
    r"|less (?:verbose|wordy|text|long)|half as long|in fewer words|in short|in brief|in a nutshell)"
)

_Reader = Callable[[re.Match[str]], EditRequest | None]


def edit_request(message: str) -> EditRequest | None:
    """The change that a message asks of the last reply; None where it is no such request as a whole."""
    text = " ".join(message.split()).replace("’", "'")
    if len(text) > 200:
        return None
    asks = text.endswith("?")
    text = text.rstrip("? ")
    lead = _ASK.match(text)
    start = lead.end() if lead else 0
    ask = (lead["ask"] or "").lower() if lead else ""
    body, text = (_TAIL.sub("", part).strip(" ,") for part in (text[start:], text))
    for pattern, reader, fragment in _READERS:
        match = pattern.fullmatch(body) or pattern.fullmatch(text)
        if match is None or (asks and not fragment and not re.match(r"(?:can|could|would|will)\b", ask)):
            continue
        if request := reader(match):
            return request
    return None


def _listed(match: re.Match[str]) -> EditRequest:
    style = f"{match['style']} {match['layout']}".lower()
    return EditRequest(kind="list", numbered=bool(re.search(r"number|order|step", style)))


def _sentences(match: re.Match[str]) -> EditRequest | None:
    count = number_in(re.search(rf"\b{NUMBER}\b", match["count"], re.IGNORECASE))
    return EditRequest(kind="sentences", count=count) if count else None


def _words(match: re.Match[str]) -> EditRequest | None:
    count = number_in(re.search(rf"\b{NUMBER}\b", match["count"], re.IGNORECASE))
    below = re.search(r"\b(?:under|below|less than|fewer than)\b", match.group(), re.IGNORECASE)
    return EditRequest(kind="words", count=max(count - bool(below), 1)) if count else None


def _shorter(match: re.Match[str]) -> EditRequest:
    word_limit, _ = length_asked(match.group(), 1000, 1000)
    return EditRequest(kind="shorter", share=0.5 if word_limit == 600 else word_limit / 1000)


def _places(match: re.Match[str]) -> tuple[tuple[int, ...], Unit] | None:
    """The units that a description counts out; None where it could as well name something else."""
    groups = match.groupdict()
    if groups.get("number"):
        return (int(groups["number"]) - 1,), _unit(groups["numbered_unit"])
    ordinal, number, unit = groups["ordinal"].lower(), groups.get("many"), groups.get("unit")
    if not number and not unit:
        return None
    count = number_in(re.match(NUMBER, number, re.IGNORECASE)) or 1 if number else 1
    if ordinal in ("last", "final"):
        return tuple(range(-count, 0)), _unit(unit)
    first = ORDINALS.index(ordinal) if ordinal in ORDINALS else int(re.sub(r"\D", "", ordinal)) - 1
    return tuple(range(first, first + count)), _unit(unit)


def places_in(target: str) -> tuple[tuple[int, ...], Unit] | None:
    """The units that a description counts out ("the last two sentences"), if it does."""
    matches = (_places(match) for match in _PLACE_ANYWHERE.finditer(target))
    return next(filter(None, matches), None)


def _unit(word: str | None) -> Unit:
    plain = (word or "").lower().rstrip("s")
    return "sentence" if plain == "sentence" else "paragraph" if plain == "paragraph" else ""


def _counted(kind: EditKind) -> _Reader:
    def reader(match: re.Match[str]) -> EditRequest | None:
        places = _places(match)
        return EditRequest(kind=kind, places=places[0], unit=places[1]) if places else None

    return reader


def _about(kind: EditKind) -> _Reader:
    return lambda match: EditRequest(kind=kind, topic=match["topic"].strip(" .!"))


def _moved(match: re.Match[str]) -> EditRequest | None:
    places = _places(match)
    to_end = bool(re.search(r"\b(?:last|end|bottom)$", match["target"], re.IGNORECASE))
    return EditRequest(kind="move", places=places[0], unit=places[1], to_end=to_end) if places else None


def _just(kind: EditKind) -> _Reader:
    return lambda _: EditRequest(kind=kind)


def _compiled(pattern: str, reader: _Reader, fragment: bool) -> tuple[re.Pattern[str], _Reader, bool]:
    return re.compile(pattern, re.IGNORECASE), reader, fragment


# Pattern, how it is read, and whether it asks for a form of the reply even as "…?" without "can you".
_READERS = (
    _compiled(rf"(?:{_TURN} (?:{_THAT} )?(?:up |out |down )?)?(?:as|into|in|to) {_LIST}", _listed, True),
    _compiled(rf"{_TURN} {_THAT} {_LIST}", _listed, True),
    _compiled(rf"{_THAT} (?:as|in|into) {_LIST}", _listed, True),
    _compiled(rf"(?P<style>)(?P<layout>{_BULLETS}|an? list)", _listed, False),
    _compiled(rf"(?P<style>number) (?P<layout>{_THAT})", _listed, False),
    _compiled(
        rf"(?:put|write|turn|make|show) (?:the )?steps (?:up )?(?:as|in|into) {_LIST}", _listed, True
    ),
    _compiled(
        rf"(?:{_TURN} (?:{_THAT} )?(?:up |down |it )?)?(?:(?:in|to|as|into) )?(?:(?:just|only) )?"
        rf"(?P<count>{NUMBER}(?: (?:short|single|simple))?) sentences?", _sentences, True,
    ),
    _compiled(
        rf"(?:{_TURN} (?:{_THAT} )?(?:up |down )?)?(?:in|to|under|within|with)?(?: ?(?:under|below|less than"
        rf"|fewer than|at most"
        rf"|no more than|a maximum of|max(?:imum)?|about|around))? ?(?P<count>{NUMBER}) words(?: or less| or fewer"
        rf"| max(?:imum)?"
        r"| at most)?", _words, True,
    ),
    _compiled(
        rf"(?:(?:make|keep|write|say|put|cut|have|tell me) (?:{_THAT} )?)?{_SHORT}"
        r"(?: (?:by|to) (?:about |a |one )?(?:half|third|quarter|\d{1,2} ?%))?", _shorter, True,
    ),
    _compiled(r"(?:keep|make) (?:it|this|that|them) (?:very |really )?(?:short|brief|concise"
        r"|to the point)", _shorter, True),
    _compiled(r"be (?:more |a bit more )?(?:brief|briefer|concise|succinct)|(?:short|brief|briefly"
        r"|concisely)", _shorter, False),
    _compiled(
        rf"(?:(?:just|only|in) )*(?:(?:the|a|an) )?{_MORE}(?:short|shorter|brief|briefer|condensed|quick|concise)"
        rf" (?:version|answer|summary)(?: of (?:{_THAT}))?(?: only)?|(?:just )?(?:a|the) summary", _shorter, True,
    ),
    _compiled(r"tl;? ?dr(?: version)?|too long[;,]? (?:didn't|did not) read", _shorter, True),
    _compiled(
        rf"(?:shorten|condense|compress|trim|summari[sz]e|abridge|sum|cut|reduce) (?:{_THAT})(?: up)?(?: down)?"
        r"(?: a (?:bit|little|lot))?(?: (?:in|by|to) (?:about |a |one )?(?:half|third|quarter"
        r"|\d{1,2} ?%))?", _shorter, True,
    ),
    _compiled(
        rf"(?:(?:show me|give me|keep|leave|show|i need) )?(?:just|only) (?:show me |give me |keep )?{_PLACE}",
        _counted("only"), False,
    ),
    _compiled(rf"(?:show me |give me |keep )?{_PLACE} only", _counted("only"), False),
    _compiled(rf"keep {_PLACE}", _counted("only"), False),
    _compiled(rf"(?:{_THAT} )?{_DROP} {_PLACE}", _counted("without"), False),
    _compiled(
        rf"(?:{_THAT} )?{_DROP} (?:(?:the|that|those|any|all(?: the)?) {_PART} {_ABOUT}|everything {_ABOUT}"
        rf"|anything {_ABOUT}"
        r"|(?:any |all )?mentions? of) (?P<topic>[^.?!]{2,80})", _about("remove"), False,
    ),
    _compiled(rf"(?:keep )?(?:just|only) the (?P<topic>[\w' -]{{3,40}}?) {_PART}", _about("keep"), False),
    _compiled(rf"(?:keep )?(?:just|only) the {_PART} {_ABOUT} (?P<topic>[^.?!]{{2,60}})", _about("keep"), False),
    _compiled(
        rf"(?:reverse|invert|flip|swap|switch|turn around) (?:the order(?: (?:of|around)(?: {_THAT})?)?"
        rf"|{_THAT}(?: around)?|the two"
        r"|both|the first and (?:the )?(?:last|second)(?: one)?)|(?:in|into) (?:the )?(?:reverse|reversed|opposite"
        r"|inverse)"
        rf"(?: order)?|(?:the other way|the wrong way) (?:a?round)|(?:{_TURN} {_THAT} )?(?:backwards"
        rf"|in (?:the )?reverse order)",
        _just("reverse"), False,
    ),
    _compiled(
        rf"(?:put|move) {_PLACE} (?P<target>first|last|(?:to|at) the (?:very )?(?:top|beginning|start|front|end"
        rf"|bottom))",
        _moved, False,
    ),
    _compiled(
        rf"no (?:list|bullets|bullet points)(?: please)?(?:,? (?:just|only) (?:plain )?(?:text|prose))?"
        rf"|(?:{_TURN} {_THAT} )?(?:as|in|into) "
        r"(?:(?:plain|running|normal) )?(?:text|prose)|"
        rf"(?:{_TURN} {_THAT} )?(?:as|in|into) (?:(?:one|a single|a) )?paragraph|not as a list", _just("text"), True,
    ),
    _compiled(
        rf"(?:(?:{_TURN}|rephrase|reword) {_THAT} )?(?:in |with )?(?:{_MORE}(?:simpler|plainer|easier|other"
        rf"|different|clearer)"
        r"(?: (?:words|terms|language|english))|plain (?:english|words|language)|more (?:simply|clearly|formally"
        r"|casually|plainly)"
        rf"|simpler|clearer)|(?:rephrase|reword|simplify|rewrite|paraphrase) {_THAT}"
        rf"|(?:translate (?:{_THAT} )?(?:in)?to|(?:{_TURN} {_THAT} )?in) (?:english|german|french|spanish|italian"
        rf"|dutch|portuguese"
        r"|polish|chinese|japanese)|(?:{_TURN} {_THAT} )?(?:more|less) (?:formal|technical|friendly"
        r"|readable)", _just("reword"), True,
    ),
)  # fmt: skip


_ANSWER = (
    r"(?:(?:the|this|that|your|my|last|previous|whole|entire|above) ){1,3}(?:answer|text|reply|response|summary|draft)"
)
_PIECE = (
    r"\b(?:sentences?|paragraphs?|bullets?|bullet points?|(?:(?:first|second|third|fourth|last|\d(?:st|nd|rd|th)) )"
    r"(?:two |three )?(?:points?|items?|lines?|parts?|sections?)|headings?|citations?"
    r"|(?:discussion|description|part|section|bit) (?:about|of|on|describing)|wording)\b"
)
_ABOUT_TEXT = re.compile(rf"\b{_ANSWER}\b|{_PIECE}", re.IGNORECASE)
_OPENING = (
    r"(?:(?:please|now|also|just|then|and|but|ok(?:ay)?|great|thanks|thank you|good|no|sorry|i want you to"
    r"|i(?:'d| would) like you to|(?:at|after|before|behind|to|in|as) the [^,.;?]{1,60},"
    r"|keep [^,.;]{0,60} as (?:it is|they are|is),? ?(?:but|and)?)[,.!;:\s]+)*"
)
_REQUEST = re.compile(rf"{_OPENING}(?:can|could|would|will) you\s+(?:please |also |just )?", re.IGNORECASE)
_LEADING = re.compile(_OPENING, re.IGNORECASE)
_EDITS = re.compile(
    r"(?:remove|delete|drop|omit|leave out|take out|cut out|get rid of|exclude|strip|add|insert|append|prepend|include"
    r"|mention)\s(?!(?:it|an?|your|my)\b)",
    re.IGNORECASE,
)
_TEXT_EDITS = re.compile(
    r"(?:remove|delete|drop|omit|leave out|take out|cut|get rid of|exclude|strip|add|insert|append|include|mention"
    r"|expand|elaborate|move|put|place|swap|reorder|rearrange|reorgani[sz]e|restructure|merge|split|combine|start|begin|end"
    r"|limit|reduce|shorten|condense|summari[sz]e|trim|rephrase|rewrite|reword|simplify|replace|change|correct|fix|extend"
    r"|lengthen|turn|make|convert|translate|keep|leave|copy)\b",
    re.IGNORECASE,
)
_LEAVES_THE_REST = re.compile(
    r"\b(?:(?:leave|keep|copy) (?:the |every|all )(?:rest|other|text|answer|thing)[^.?!]{0,40}\bas (?:it|they|is)\b"
    r"|do(?: not|n't) (?:change|touch) (?:any|the rest|every)\w*)",
    re.IGNORECASE,
)


def is_instruction(history: Sequence[Message], message: str) -> bool:
    """Whether an English message tells how to revise the last answer, and does not ask something new.

    By rules that would rather miss one: a request that could as well be a question ("tell me more about the otters",
    "could you elaborate?") is none unless it names the answer or a part of its text.

    Args:
        history: the turns before, oldest first; without an answer among them nothing can be revised.
    """
    if not any(turn.role == "assistant" for turn in history):
        return False
    if edit_request(message) is not None:
        return True
    text = " ".join(message.split()).replace("’", "'")
    request = _REQUEST.match(text)
    body = text[(request or _LEADING.match(text) or re.match("", text)).end() :]  # type: ignore[union-attr]
    if text.endswith("?") and not request:
        return False
    if _TEXT_EDITS.match(body) and _ABOUT_TEXT.search(body):
        return True
    if request:
        return False
    exchanged = CHANGE.match(body) and len(QUOTED.findall(body)) >= 2
    return bool(exchanged or _EDITS.match(body) or UNQUOTED_CHANGE.match(body) or _LEAVES_THE_REST.search(text))
