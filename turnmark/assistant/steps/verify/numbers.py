"""Find the quantities of a text: numbers in digits or in words, the months of dates, and units.

They are compared by value: "zwei Wochen" is 14 days, "3 May" has the number 5, and "512MB" is not "512 GB". Separators
are read as the language of the text writes them: German "1.234,5", French "1 234,5" and Swiss "1'234.5" are 1234.5.
`quantity_words.json` has the words of all languages in which the assistant writes: "word:7" is a number, "word:*100" a
multiplier, "word:+10" is added as in Indonesian, and "word:7?" often means something else. The words are those of
num2words and the Unicode CLDR, with inflected forms.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import CJK, combining_marks, strip_citations

MIN_SPELLED_NUMBER = 13
"""Smaller numbers written as words and without a unit are compared with what a source counts."""

_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")
# A number may follow a letter in scripts without spaces: "共30天".
_DIGITS = re.compile(rf"(?<![^\W{CJK}\u0e00-\u0eff\uac00-\ud7a3])(?<![.,])(\d+(?:[.,]\d+)*)(?!\d)")


class Quantity(NamedTuple):
    """A number with a decimal point and without separators.

    Attributes:
        unit: the name of its unit; "" without a known one.
        counted: the beginning of the word after a number without a unit, if that number is small and in words. Such a
            number is wrong only if a source counts the same with another one: "two ways" counts what a sentence lists.
    """

    number: str
    unit: str = ""
    counted: str = ""


def find_numbers(text: str, spelled: bool = False, language: str = "") -> frozenset[str]:
    """Return the numbers of a text; see `find_quantities`."""
    return frozenset(quantity.number for quantity in find_quantities(text, spelled, language) if not quantity.counted)


@lru_cache(maxsize=512)
def find_quantities(text: str, spelled: bool = False, language: str = "") -> frozenset[Quantity]:
    """Return the quantities of a text. Cached, since a turn reads a passage many times.

    Args:
        spelled: whether every number in words counts, and digits inside words. A number that can be read in two ways
            counts in both.
        language: the language of the text, if the text alone does not tell it.
    """
    found = language_of(text, (language,) if language else ())
    language = found or language or ENGLISH
    body = _with_ascii_digits(_LIST_MARK.sub("", strip_citations(text)))
    months = {Quantity(str(month), _MONTH_OF_DATE) for month in _months_of_dates(body)}
    if spelled:
        months |= {Quantity(month.number) for month in months}
        months |= {Quantity(_normalize(month), _MONTH_OF_DATE) for month in _months_in_digits(body)}
    small = {*map(_counted, _SMALL_COUNT.finditer(_with_digits_for_words(body, found, language, True)))}
    body = _with_digits_for_words(body, found, language, spelled)
    readings = [_without_separators(body, language)]
    if spelled and language != ENGLISH:
        readings.append(_without_separators(body, ENGLISH))
    return frozenset(months.union(small, *(_in_digits(reading, spelled) for reading in readings)))


def missing_numbers(text: str, sources: Iterable[str], language: str = "") -> frozenset[str]:
    """Return the numbers of a text that none of the sources has with this unit, or without a unit.

    Args:
        language: the language of texts that do not tell it.
    """
    claimed = find_quantities(text, language=language)
    if not claimed:
        return frozenset()
    known = frozenset[Quantity]().union(*(find_quantities(source, True, language) for source in sources))
    return frozenset(quantity.number for quantity in claimed if not _is_known(quantity, known))


def without_quantities(text: str, language: str = "") -> str:
    """Return a text without its numbers and their units, which are compared by value."""
    found = language_of(text)
    body = _with_digits_for_words(_with_ascii_digits(text), found, found or language or ENGLISH)
    pieces: list[str] = []
    end = 0
    for match in _DIGITS.finditer(body):
        unit, stop = _unit_after(body, match.end())
        if unit or not _NAME_AFTER_DIGITS.match(body, match.end()):
            pieces.append(body[end : match.start()])
            end = stop if unit else match.end()
    return " ".join([*pieces, body[end:]])


# --- units -----------------------------------------------------------------------------------------------------------

_HOUR, _DAY = 3600, 86_400
_FACTORS: Mapping[str, tuple[str, float]] = {
    **{"second": ("time", 1), "minute": ("time", 60), "hour": ("time", _HOUR), "day": ("time", _DAY)},
    **{"week": ("time", 7 * _DAY), "month": ("time", 30 * _DAY), "year": ("time", 365 * _DAY)},
    **{"kB": ("bytes", 1e3), "MB": ("bytes", 1e6), "GB": ("bytes", 1e9), "TB": ("bytes", 1e12)},
    **{"g": ("mass", 1), "kg": ("mass", 1e3), "ml": ("volume", 1), "l": ("volume", 1e3)},
    **{"mm": ("length", 1), "cm": ("length", 10), "m": ("length", 1e3), "km": ("length", 1e6)},
    **{"W": ("power", 1), "kW": ("power", 1e3)},
}
"""Unit -> what it measures, and its size; each other unit measures something of its own."""
MAX_CONVERSION_ERROR = 0.03
"""Maximum relative difference of equal quantities in different units: a month has 30 or 31 days, a GB 1024 MB."""


def _is_known(quantity: Quantity, known: frozenset[Quantity]) -> bool:
    """Return whether a quantity is among known ones, perhaps in another unit, or its number is without a unit."""
    number, unit, word = quantity
    if word:
        return any(other.number == number for other in known) or all(other.counted != word for other in known)
    if unit == _MONTH_OF_DATE and any(other.unit == _MONTH_OF_DATE for other in known):
        return quantity in known
    if quantity in known or Quantity(number) in known:
        return True
    if not unit:
        return any(number == other.number for other in known)
    kind, factor = _FACTORS.get(unit, ("", 1))
    for other, other_unit, _ in known:
        other_kind, other_factor = _FACTORS.get(other_unit, ("", 1))
        if kind and kind == other_kind and unit != other_unit:
            value, other_value = float(number) * factor, float(other) * other_factor
            if abs(value - other_value) <= MAX_CONVERSION_ERROR * value:
                return True
    return False


@cache
def _tables() -> Mapping[str, Mapping[str, str] | list[str]]:
    tables: Mapping[str, Mapping[str, str] | list[str]] = json.loads(
        Path(__file__).with_name("quantity_words.json").read_text("utf-8")
    )
    return tables


@cache
def _unit_of_name() -> Mapping[str, str]:
    units = _tables()["units"]
    assert isinstance(units, dict)
    return {name.replace("_", " "): unit for unit, names in units.items() for name in names.split()}


_AFTER_NUMBER = re.compile(r"(?:\s?[-–—]\s?\d{1,15}(?:[.,]\d{1,9})?)?[\s\u00a0\u202f-]?")
_ADJECTIVE = re.compile(r" [^\W\d_]{4,16} ")
"""The word in "12 contiguous weeks"."""
_BEFORE_NUMBER = re.compile(r"(?:([$€£¥₹₩%٪₽₺])|\b(us\$|[a-z]{3}|yüzde)|(百分之))[\s\u00a0]?\Z", re.IGNORECASE)
_UNSPACED = re.compile(rf"[{CJK}\u0e00-\u0eff\uac00-\ud7a3]|[%٪％$€£¥₹₩₽฿₺₴]")
MAX_UNIT_CHARACTERS = 12


@cache
def _unit_words() -> re.Pattern[str]:
    letters = rf"(?:[^\W\d_]|[{combining_marks()}]){{1,24}}+"
    return re.compile(f"({letters})( {letters})?")


def _unit_at(text: str, start: int) -> tuple[str, int]:
    """Return the unit whose name begins here, and where the name ends; "" and `start` if there is none."""
    names = _unit_of_name()
    if _UNSPACED.match(text, start):
        ends: Iterable[int] = range(min(start + MAX_UNIT_CHARACTERS, len(text)), start, -1)
    else:
        words = _unit_words().match(text, start)
        ends = () if words is None else (words.end(), words.end(1))
    return next(((names[unit], end) for end in ends if (unit := text[start:end].lower()) in names), ("", start))


def _unit_after(text: str, end: int) -> tuple[str, int]:
    """Return the unit after a number that ends here, and the end of its name."""
    gap = _AFTER_NUMBER.match(text, end)
    return _unit_at(text, gap.end() if gap else end)


def _unit_of(text: str, start: int, end: int) -> str:
    """Return the unit before or after a number, or ""."""
    adjective = _ADJECTIVE.match(text, end)
    unit = _unit_after(text, end)[0] or (_unit_at(text, adjective.end())[0] if adjective else "")
    if unit:
        return unit
    before = _BEFORE_NUMBER.search(text[max(0, start - 6) : start])
    if before is None:
        return ""
    return "percent" if before[3] else _unit_of_name().get(before[before.lastindex or 0].lower(), "")


# --- digits ----------------------------------------------------------------------------------------------------------

_COMMA_DECIMALS = frozenset("de fr es it nl pl pt ru tr uk vi id ro el ca cs da fi no sv".split())
"""Languages with a decimal comma and with dots or spaces between thousands."""
_SPACES = "\u00a0\u202f\u2009"
_THIN_THOUSANDS = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_SPACES}'\u2019]\d{{3}})+(?!\d)")
_THOUSANDS_AND_DECIMALS = re.compile(r"(?<![\d.,])(\d{1,3}(?:[. ]\d{3})+),(\d+)(?![\d.,]\d)")
_FOREIGN_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[. ](?=\d{3}(?!\d))\d{3})+(?![\d.]\d|,\d)")
_FOREIGN_DECIMALS = re.compile(r"(?<![\d.,])(\d+),(\d+)(?![\d.,]\d)")
_THOUSANDS_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMERIC_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4}|\d{2})(?![\d.]\d)")
_ARABIC_MARKS = str.maketrans({"٫": ".", "٬": None})
_NAME_AFTER_DIGITS = re.compile("[A-Za-zÀ-ɏ]{3}")


def _with_ascii_digits(text: str) -> str:
    if text.isascii():
        return text
    return re.sub(r"\d", lambda digit: str(unicodedata.digit(digit.group())), text.translate(_ARABIC_MARKS))


def _without_separators(text: str, language: str) -> str:
    """Return a text whose numbers have no separators of thousands, and a decimal point: "1.234,5" becomes "1234.5"."""
    text = _NUMERIC_DATE.sub(r"\1 \2 \3", text)
    text = _THIN_THOUSANDS.sub(lambda number: re.sub(r"\D", "", number.group()), text)
    text = _THOUSANDS_AND_DECIMALS.sub(lambda number: f"{re.sub(r'[. ]', '', number[1])}.{number[2]}", text)
    if language not in _COMMA_DECIMALS:
        return _THOUSANDS_COMMA.sub("", text)
    text = _FOREIGN_THOUSANDS.sub(lambda number: re.sub(r"\D", "", number.group()), text)
    return _FOREIGN_DECIMALS.sub(r"\1.\2", text)


def _in_digits(text: str, inside_words: bool) -> Iterator[Quantity]:
    """Yield the quantities in digits. In a claim, digits that begin a name, as in "37signals", are no number."""
    covered: list[tuple[int, int]] = []
    for match in _DIGITS.finditer(text):
        unit = _unit_of(text, *match.span(1))
        if unit or inside_words or not _NAME_AFTER_DIGITS.match(text, match.end()):
            yield Quantity(_normalize(match[1]), unit)
        if match[1].count(".") < 2:
            covered.append(match.span(1))
    if inside_words:
        starts = {start for start, _ in covered}
        for match in re.finditer(r"\d+(?:\.\d+)?", text):
            if match.start() not in starts:
                yield Quantity(_normalize(match.group()))


def _normalize(number: str) -> str:
    """Return a number without leading and trailing zeros, with a decimal point."""
    integer, _, fraction = number.replace(",", ".").partition(".")
    integer = integer.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{integer}.{fraction}" if fraction else integer


_SMALL_COUNT = re.compile(r"(?<![\w.,])([2-9]|1[0-2]) ([^\W\d_]{4,})")
_COUNTED_LETTERS = 5


def _counted(match: re.Match[str]) -> Quantity:
    return Quantity(match[1], counted=match[2][:_COUNTED_LETTERS].lower())


# --- months ----------------------------------------------------------------------------------------------------------


@cache
def month_names() -> Mapping[str, int]:
    """Return the names of months in all languages of the table, in lower case, with their numbers."""
    return {name: month for month, names in enumerate(_tables()["months"], 1) for name in names.split()}


@cache
def _named_date() -> re.Pattern[str]:
    names = "|".join(map(re.escape, month_names()))
    return re.compile(
        rf"\b\d{{1,2}}(?:\.|er|st|nd|rd|th|º)?\s+(?:d[eo]\s+|of\s+)?({names})\b|\b({names})\s+\d", re.IGNORECASE
    )


_MONTH_OF_DATE = "month of a date"
_DATE_IN_DIGITS = re.compile(
    r"\b\d{4}[-/.](\d{1,2})[-/.]\d|\b(?=\d{1,2}[./]\s?(\d{1,2})[./]\s?\d)(\d{1,2})|\b(\d{1,2})\s?[月월]|tháng (\d{1,2})"
)


def _months_in_digits(text: str) -> Iterator[str]:
    """Yield the months of dates in digits; "4/3/2025" is read in two ways."""
    for match in _DATE_IN_DIGITS.finditer(text):
        yield from filter(None, match.groups())


def _months_of_dates(text: str) -> Iterator[int]:
    for match in _named_date().finditer(text):
        yield month_names()[(match[1] or match[2]).lower()]


# --- words -----------------------------------------------------------------------------------------------------------


class _NumberWord(NamedTuple):
    """A word of a number: its value, "" or "*" if it multiplies or "+" if it adds, and whether it is ambiguous."""

    value: float
    sign: str
    ambiguous: bool


_AND = frozenset("and et y e și şi und en و وال kai και".split())
_HAN_COUNTERS = "份次个個名位人台本张頁页步项種种条點点件家门倍回枚冊つ歳瓦度項張條組组群口只栋层"
_CHARACTERS = ("zh", "ja", "ko", "th")
"""Languages in which a number is a run of characters that may be part of a word: 十分 is "very", 十分钟 ten minutes."""
_COLLOQUIAL_END = re.compile(r"[百千万]([一二三四五六七八九])\Z")
_KANA = re.compile("[\u3040-\u30ff]")
_NO_THAI_NUMBER = r"(?!ารถ|ัญ|าม|ม|อี้|ล้ม|ง|ธ)"
"""What follows Thai letters that look like a number but are part of another word, such as สามารถ ("can")."""


@cache
def _number_words(language: str) -> Mapping[str, _NumberWord]:
    """Return the number words of a language; for "", the plain ones of all languages with spaces."""
    tables = _tables()["numbers"]
    assert isinstance(tables, dict)
    found: dict[str, _NumberWord] = {}
    spaced = " ".join(table for name, table in tables.items() if name not in _CHARACTERS)
    for entry in tables.get(language, "").split() if language else re.findall(r"\S+(?<!\?)(?!\S)", spaced):
        word, _, value = entry.rpartition(":")
        number = value.rstrip("?")
        found[word] = _NumberWord(float(number.lstrip("*+")), number[0] if number[0] in "*+" else "", value[-1] == "?")
    return found


@cache
def _token_pattern(language: str) -> re.Pattern[str]:
    if language in _CHARACTERS:
        return re.compile("|".join([r"\d+(?:\.\d+)?", *sorted(_number_words(language), key=len, reverse=True)]))
    return re.compile(rf"(?:[^\W\d_]|[{combining_marks()}])+(?:['’][^\W\d_]+)*")


def _with_digits_for_words(text: str, found: str, language: str, spelled: bool = False) -> str:
    """Return a text with digits for the numbers in words.

    Args:
        found: the language that the text tells, or "". Before a unit, the number words of every language count, since
            few words do not tell a language reliably.
        language: the language of a text that does not tell it.
        spelled: see `find_quantities`. In a claim, small numbers count only before a unit.
    """
    own = _number_words(found or language)
    table = own if found in _CHARACTERS else {**_number_words(""), **own}
    pieces: list[str] = []
    end = 0
    for start, stop, words in _runs(text, found, table):
        value = _value_of(words, table, found)
        counted = _unit_after(text, stop)[0] != ""
        if found in _CHARACTERS:
            counted = counted or text[stop : stop + 1] in [*_HAN_COUNTERS]
            if not _is_number(text, start, stop, words, found, counted):
                continue
        ambiguous = len(words) == 1 and words[0] in table and table[words[0]].ambiguous
        if not counted and found not in _CHARACTERS and not own.keys() >= {*words}:
            continue
        if not spelled and (value < 2 or ((value < MIN_SPELLED_NUMBER or ambiguous) and not counted)):
            continue
        pieces += text[end:start], f"{value:.10g}" if value < 1e10 else f"{value:.0f}"
        end = stop
    return "".join(pieces) + text[end:]


def _is_number(text: str, start: int, stop: int, words: list[str], language: str, counted: bool) -> bool:
    """Return whether characters are a number: they count something, or are several that begin with a digit."""
    if all(word[0].isdecimal() for word in words):
        return False
    if language == "ko":
        return counted and not re.match("[가-힣]", text[max(0, start - 1) : start])
    if language == "th":
        return re.compile(_NO_THAI_NUMBER).match(text, stop) is not None
    if words == ["十"] and re.match("分(?![钟鐘間後])", text[stop:]):  # "very" and "enough"
        return False
    if counted or text[max(0, start - 3) : start] == "百分之":
        return True
    return len(words) > 1 and (words[0] not in _number_words(language) or not _number_words(language)[words[0]].sign)


def _runs(text: str, language: str, table: Mapping[str, _NumberWord]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield start, end and words of each run of number words: "quatre-vingt-dix", "dos mil trescientos"."""
    run: list[tuple[int, int, str]] = []
    gap = "" if language in _CHARACTERS else r"[- \u2011]*"
    for match in [*_token_pattern(language).finditer(text.lower()), None]:
        found = [] if match is None else _number_parts(match.group(), language, table)
        adjacent = match is not None and run and re.fullmatch(gap, text[run[-1][1] : match.start()]) is not None
        if run and not (adjacent and _continues(run, found, match.group() if match else "", table, language)):
            while run[-1][2] in _AND:
                run.pop()
            yield run[0][0], run[-1][1], [word for _, _, word in run if word not in _AND]
            run = []
        if match is not None and (found or run):
            run += [(*match.span(), word) for word in found or [match.group()]]


def _continues(
    run: list[tuple[int, int, str]], found: list[str], word: str, table: Mapping[str, _NumberWord], language: str
) -> bool:
    """Return whether a word goes on with the number before it: "twenty" and "one" are 21, "two" and "three" are two."""
    if not found:
        return word in _AND
    number = table.get(found[0])
    if number is None or number.sign:
        return number is not None
    before = _value_of([word for _, _, word in run if word not in _AND], table, language)
    size = 10 ** len(str(int(number.value)))
    inverted = run[-1][2] in _AND and before < 10 and number.value % 10 == 0  # Arabic: eight and twenty
    return before % size == 0 or inverted or (language == "fr" and before % 100 in (4, 60, 80))


_COMPOUND_SCALES = {"de": "tausend hundert", "nl": "duizend honderd", "it": "mila mille cento", "tr": "bin yüz"}
"""Language -> multipliers in its compounds, the largest first."""
MAX_COMPOUND_CHARACTERS = 80


def _number_parts(word: str, language: str, table: Mapping[str, _NumberWord]) -> list[str]:
    """Return the number words of which a word consists, e.g. "dreihundertzwanzig"; empty for another word."""
    if word in table or word[0].isdecimal():
        return [word]
    if language in ("ar", "fa") and word[0] == "و" and word[1:] in table:
        return ["و", word[1:]]
    if language not in _COMPOUND_SCALES:
        return []
    for scale in _COMPOUND_SCALES[language].split():
        if scale in word and len(word) <= MAX_COMPOUND_CHARACTERS:
            head, _, tail = word.partition(scale)
            parts = [_number_parts(part, language, table) if part else [] for part in (head, tail.removeprefix("und"))]
            return [] if (head and not parts[0]) or (tail and not parts[1]) else [*parts[0], scale, *parts[1]]
    return []


def _value_of(words: Iterable[str], table: Mapping[str, _NumberWord], language: str) -> float:
    """Return the value of the words of a number; a multiplier applies to the smaller part before it."""
    total = 0.0
    text = "".join(words := list(words))
    for word in words:
        number = table.get(word) or _NumberWord(float(word), "", ambiguous=False)
        times = number.value
        if number.sign == "*" or (language == "fr" and word.startswith("vingt") and total % 100 == 4):
            tail = total % times
            total += (tail or 1) * times - tail
        else:
            total += times
    short = _COLLOQUIAL_END.search(text) if language == "zh" else None
    if short is not None:  # 两千五 is 2500
        total += table[short[1]].value * (table[text[-2]].value / 10 - 1)
    return total
