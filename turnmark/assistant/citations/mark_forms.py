"""Citation marks in the forms that models use in place of `[1]`, such as `【1】`, `[^1]`, `[Source 1]` or `¹`.

A form becomes `[1]` only if its number is that of a section that was shown, and if it cannot be anything else: the
"(1)" of a list, the "²" of a unit and everything in code stay. Only a mark behind a line of a code block moves behind
the block, since the line would not run with it.
"""

from __future__ import annotations

import re

from turnmark.core.untrusted import CITATION_MARK, CODE_SPAN

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_LABEL = (
    r"(?:sources?|src|docs?|documents?|sections?|passages?|ref(?:erence)?s?|citations?|cite|excerpts?|context|chunk|"
    r"footnote|note|id|index|quellen?|fuente|fonte|источник|来源|文档|출처|s|n|p)"
)
_NUMBERS = r"\d{1,3}(?:\s*(?:,|;|&|and|–|-)\s*\d{1,3})*"
_FORMS = re.compile(
    # 【1】, 【1†L3-L5】, ［1］, 〔1〕, [1†source]
    rf"[【〔［]\s*(?:{_LABEL}[\s:=#]*)?(?P<wide>{_NUMBERS})(?::\d+)?\s*(?:†[^】〕］\n]{{0,40}})?[】〕］]"
    r"|\[(?P<dagger>\d{1,3})(?::\d+)?†[^\]\n]{0,40}\]"
    # [^1] but not the definition of a footnote, [[1]], \[1\]
    rf"|\[\^(?P<footnote>\d{{1,3}})\](?!:)|\[\[(?P<double>{_NUMBERS})\]\]|\\\[(?P<escaped>{_NUMBERS})\\\]"
    # [Source 1], [Doc 1, 2], [#1], [cite: 1], [id=1], (Source 1)
    rf"|\[(?:{_LABEL}[\s:=#._-]*|[#№]\s*)(?P<label>(?:{_NUMBERS}))(?:\s*[,;]\s*{_LABEL}[\s:=#]*(?P<second>\d{{1,3}}))?\](?!\()"
    r"|\((?:sources?|src|docs?|documents?|passages?|refs?|cit(?:e|ation)s?)[\s:=#]+(?P<round>\d{1,3}(?:\s*,\s*\d{1,3})*)\)"
    # [1: kettle.md], [1](kettle.md), <sup>1</sup>
    r"|\[(?P<named>\d{1,3})\s*[:|]\s[^\]\n]{1,80}\]|\[(?P<linked>\d{1,3})\]\((?!https?:)[^)\s]{1,200}\)"
    r"|<sup>\s*\[?(?P<raised>\d{1,3}(?:\s*,\s*\d{1,3})*)\]?\s*</sup>",
    re.IGNORECASE,
)
# Digits of other scripts, which `\d` matches, in the ordinary form.
_OTHER_DIGITS = re.compile(r"\[(?P<number>[^\W\dA-Za-z_]|[٠-٩۰-۹०-९０-９]{1,3})\]")
_SUPERSCRIPT = re.compile(
    r"(?<=[^\W\d_]{4})(?P<word>[¹²³⁴-⁹⁰]{1,3})(?![⁰-⁹¹²³⁻])|(?<=[.!?,;:)\"”*])(?P<sign>[¹²³⁴-⁹⁰]{1,3})(?!⁻)"
    r"|(?<=[^\W_])[ \t]+(?P<apart>[¹²³⁴-⁹⁰]{1,3})(?=[.!?,;:\s]|\Z)"
)
# "… for 30 minutes (1)." but neither the "(1)" before an item of a list nor "see step (1)".
_ROUND_MARK = re.compile(
    r"(?<=[^\W\d_.])[ \t]+\((?P<number>\d{1,3}(?:\s*,\s*\d{1,3})*)\)(?=[.!?,;:。]|\s*(?:\n|\Z)|\s*\(\d)|"
    r"(?<=[.!?。])[ \t]*\((?P<behind>\d{1,3}(?:\s*,\s*\d{1,3})*)\)(?=\s*(?:\n|\Z)|\s+[^\W\d_a-z])"
)
_ROUND_ITEM = re.compile(r"^[ \t]*\(\d{1,3}\)", re.MULTILINE)
_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERED_THING = re.compile(
    r"\b(?:steps?|fig(?:ure|s)?|eq(?:uation)?|tables?|tab|sections?|pages?|items?|options?|versions?|parts?|chapters?|notes?|"
    r"levels?|no|numbers?|points?|cases?|questions?|rules?|paragraphs?|clauses?|phases?|schritt|abschnitt|punkt|seite|class|"
    r"type|group|article|appendix|and|or|to|of)\.?\Z",
    re.IGNORECASE,
)
_SENTENCE_MARK = re.compile(rf"(?<=[\s.!?]){CITATION_MARK.pattern}")
_WHOLE_FENCE = re.compile(
    r"\A\s*```[ \t]*(?:markdown|md|text|txt|plain(?:text)?)?[ \t]*\n(?P<body>.*?)\n?[ \t]*```\s*\Z", re.DOTALL
)
# "apt install kettle [1]", but neither "values = [1]" nor "return [1]".
_MARK_BEHIND_CODE = re.compile(
    rf"(?P<last>[^\s=,:;(\[{{<>+*/|&%~!?-][ \t]+){CITATION_MARK.pattern}[ \t]*$"
    r"|^[ \t]*\[(?P<alone>\d{1,3})\][ \t]*(?=\n```\Z)",
    re.MULTILINE,
)
_OPERATOR_WORD = re.compile(r"\b(?:return|in|print|yield|and|or|not|is|echo|else|if|case|assert|del)\Z")
_CODED_MARK = re.compile(rf"`(?P<mark>{CITATION_MARK.pattern})`(?!`)")
_UNFINISHED_MARK = re.compile(
    r"[ \t]{0,3}(?:[【〔［\[][^】〕］\]\n]{0,60}\]?|\\\[?[^\]\n]{0,12}\]?|\([^)\n]{0,16}\)?"
    r"|<(?:s(?:up?)?|sup>[\s\[\]\d,]{0,12}(?:</?(?:s(?:up?)?)?)?)?|[¹²³⁴-⁹⁰]+|(?<!\])`(?:\[[\d, –-]{0,10}\]?`?)?)\Z"
)


def with_standard_marks(text: str, sources: int) -> str:
    """Replace citation marks in other forms by `[1]`, outside code.

    Args:
        sources: number of sections that were shown; a higher number is not a citation.
    """
    whole = _WHOLE_FENCE.match(text)
    if whole and "```" not in whole["body"]:
        body = _standardize(whole["body"], sources)
        if _SENTENCE_MARK.search(body):
            text = body
    text = _CODED_MARK.sub(lambda match: match["mark"] if _is_valid(match[2], sources) else match.group(), text)
    pieces = CODE_SPAN.split(text)
    pieces[::2] = [_standardize(piece, sources) for piece in pieces[::2]]
    pieces[1::2] = [_marks_behind(code, sources) if code.startswith("```") else code for code in pieces[1::2]]
    return "".join(pieces)


def _marks_behind(block: str, sources: int) -> str:
    """Return a block of code with the marks behind its lines moved to a line of their own behind the block."""
    marks: dict[str, None] = {}

    def take(match: re.Match[str]) -> str:
        numbers = match[2] or match["alone"]
        before = block[: match.start() + 1]
        if "\n" not in before or not _is_valid(numbers, sources) or _OPERATOR_WORD.search(before):
            return match.group()
        marks[f"[{numbers}]"] = None
        return match["last"] or ""

    code = _MARK_BEHIND_CODE.sub(take, block)
    is_finished = code.endswith("```") and code.count("```") > 1
    return f"{code}\n{' '.join(marks)}" if marks and is_finished else code


def finished_length(text: str) -> int:
    """Return how many characters of an unfinished text are not part of a mark that the next piece may complete."""
    if text.lstrip().startswith("```"):  # a fence around the whole answer is removed
        return len(text) if text.count("```") > 1 else 0
    unfinished = _UNFINISHED_MARK.search(text)
    return unfinished.start() if unfinished else len(text)


def _standardize(text: str, sources: int) -> str:
    def convert(match: re.Match[str]) -> str:
        numbers = ", ".join(filter(None, match.groupdict().values())).translate(_SUPERSCRIPTS)
        return _mark(numbers, match.group(), sources)

    has_standard = CITATION_MARK.search(text) is not None
    text = _OTHER_DIGITS.sub(convert, _FORMS.sub(convert, text))
    text = _SUPERSCRIPT.sub(lambda match: _add_space(convert(match), match.group()), text)
    if has_standard or _ROUND_ITEM.search(text):  # a model that writes [1] means something else by (1)
        return text

    def convert_round(match: re.Match[str]) -> str:
        before, numbers = text[: match.start()], match["number"] or match["behind"]
        if _NUMBERED_THING.search(before) or _repeats_number(before, numbers):
            return match.group()
        return _add_space(_mark(numbers, match.group(), sources), match.group())

    return _ROUND_MARK.sub(convert_round, text)


def _repeats_number(before: str, number: str) -> bool:
    """Return whether a number in parentheses repeats the one before it, as in "three (3)" and "three times (3)"."""
    words = re.findall(r"\w+", before[-40:].lower())[-2:]
    values = {word: str(value) for value, word in enumerate(_NUMBER_WORDS, 1)}
    return number in {values.get(word, word) for word in words}


def _mark(numbers: str, written: str, sources: int) -> str:
    """Return the mark of some numbers, or what was written if one is not the number of a section."""
    if not _is_valid(numbers, sources):
        return written
    joined = re.sub(r"\s*(?:[,;&]|and)\s*", ", ", numbers)
    return "[" + "".join(str(int(part)) if part.isdecimal() else part for part in re.split(r"(\D+)", joined)) + "]"


def _is_valid(numbers: str, sources: int) -> bool:
    found = [int(number) for number in re.findall(r"\d+", numbers)]
    return bool(found) and all(0 <= number <= sources for number in found)


def _add_space(mark: str, written: str) -> str:
    """Put a space before a mark that was written without one."""
    return mark if mark == written else f" {mark.strip()}"
