"""Find the numbers of a text, in digits, as words and in Chinese characters, so that they can be compared.

Separators are read as the language of the text writes them: German "1.234,5", French "1 234,5" and Swiss "1'234.5" are
1234.5. Numbers as words are known in English, German, French and Spanish.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from turnmark.corpora.text.function_words import language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import CJK, strip_citations

MIN_SPELLED_NUMBER = 13
"""Smaller numbers written as words are ignored in a claim: "one of", "two ways" only count what the sentence lists."""

_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")
# A number may follow a letter in scripts without spaces: "共30天".
_DIGITS = re.compile(
    rf"(?<![^\W{CJK}\u0e00-\u0eff\uac00-\ud7a3])(?<![.,])[$€£#]?(\d+(?:[.,]\d+)*)(?!\d)(?!\s?[十百千万亿億萬])"
)


def find_numbers(text: str, spelled: bool = False, language: str = "") -> frozenset[str]:
    """Return the numbers of a text, in digits and without separators.

    Args:
        spelled: whether small numbers written as words count too, the months of dates, and digits inside words. A
            number that can be read in two ways counts in both.
        language: the language of the text, if the text alone does not tell it.
    """
    language = language_of(text, (language,) if language else ()) or language or ENGLISH
    body = _with_ascii_digits(_LIST_MARK.sub("", strip_citations(text)))
    readings = [_without_separators(body, language)]
    if spelled and language != ENGLISH:
        readings.append(_without_separators(body, ENGLISH))
    numbers = {number for reading in readings for number in _in_digits(reading, spelled)}
    for value in (*_in_words(body, language), *_in_han(body, spelled)):
        if spelled or value >= MIN_SPELLED_NUMBER:
            numbers.add(_format_plainly(value))
    if spelled:
        numbers |= {str(month) for month in _months_of_dates(body)}
    return frozenset(numbers)


def missing_numbers(text: str, sources: Iterable[str], language: str = "") -> frozenset[str]:
    """Return the numbers of a text that none of the sources has, in digits or in words.

    Args:
        language: the language of texts that do not tell it.
    """
    missing = find_numbers(text, language=language)
    if not missing:
        return missing
    for source in sources:
        missing -= find_numbers(source, spelled=True, language=language)
    return missing


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


def _in_digits(text: str, inside_words: bool) -> Iterator[str]:
    for match in _DIGITS.finditer(text):
        yield _normalize(match[1])
    if inside_words:
        for number in re.findall(r"\d+(?:\.\d+)?", text):
            yield _normalize(number)


def _normalize(number: str) -> str:
    """Return a number without leading and trailing zeros, with a decimal point."""
    integer, _, fraction = number.replace(",", ".").partition(".")
    integer = integer.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    return f"{integer}.{fraction}" if fraction else integer


def _format_plainly(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


# --- months ----------------------------------------------------------------------------------------------------------

_MONTHS = (
    "january januar jänner janvier enero gennaio janeiro",
    "february februar février febrero febbraio fevereiro",
    "march märz mars marzo março",
    "april avril abril aprile",
    "may mai mayo maggio maio",
    "june juni juin junio giugno junho",
    "july juli juillet julio luglio julho",
    "august août agosto",
    "september septembre septiembre settembre setembro",
    "october oktober octobre octubre ottobre outubro",
    "november novembre noviembre novembro",
    "december dezember décembre diciembre dicembre dezembro",
)
_MONTH_OF_NAME = {name: month for month, names in enumerate(_MONTHS, 1) for name in names.split()}
_NAMES = "|".join(_MONTH_OF_NAME)
_NAMED_DATE = re.compile(
    rf"\b\d{{1,2}}(?:\.|er|st|nd|rd|th)?\s+(?:d[eo]\s+|of\s+)?({_NAMES})\b|\b({_NAMES})\s+\d", re.IGNORECASE
)


def _months_of_dates(text: str) -> Iterator[int]:
    for match in _NAMED_DATE.finditer(text):
        yield _MONTH_OF_NAME[(match[1] or match[2]).lower()]


# --- words -----------------------------------------------------------------------------------------------------------

_ENGLISH_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_SMALL = {word: n for n, word in enumerate(f"{_ENGLISH_ONES} eighteen nineteen".split())}
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "dozen": 12}
_ENGLISH_NUMBER = re.compile(
    rf"\b({'|'.join([*_SMALL, *_TENS])})(?:-({'|'.join(list(_SMALL)[1:10])}))?\b(?:[ -]({'|'.join(_SCALES)}))?",
    re.IGNORECASE,
)


def _in_words(text: str, language: str) -> Iterator[float]:
    """Yield the numbers that are written as words."""
    if language == "de":
        for word in re.findall(r"[a-zäöüß]+", text.lower()):
            value = _german_value(word)
            if value is not None:
                yield value
        return
    table = _word_values(language)
    if table:
        yield from _runs_of_words(text, table)
        return
    for match in _ENGLISH_NUMBER.finditer(text):
        first = match[1].lower()
        value = _SMALL.get(first, _TENS.get(first, 0)) + _SMALL.get((match[2] or "").lower(), 0)
        yield value * _SCALES.get((match[3] or "").lower(), 1)


_GERMAN_ONES = "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
_GERMAN_SMALL = {word: n for n, word in enumerate(f"{_GERMAN_ONES} siebzehn achtzehn neunzehn".split())}
_GERMAN_SMALL |= {"eins": 1, "eine": 1, "einen": 1, "einem": 1, "einer": 1, "zwo": 2}
_GERMAN_TENS = {
    word: 10 * n for n, word in enumerate("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(), 2)
} | {"dreissig": 30}
_ONE = "|".join(sorted(_GERMAN_SMALL, key=len, reverse=True))
_TEN = "|".join(_GERMAN_TENS)
_BELOW_HUNDRED = re.compile(rf"(?:(?P<one>{_ONE})und)?(?P<ten>{_TEN})|(?P<small>{_ONE})")


@cache
def _german_value(word: str) -> int | None:
    """Return the value of a German number word below a million; None for another word."""
    for scale, name in ((1_000, "tausend"), (100, "hundert")):
        if name in word:
            head, _, tail = word.partition(name)
            times = _german_value(head) if head else 1
            rest = _german_value(tail.removeprefix("und")) if tail else 0
            return None if times is None or rest is None else times * scale + rest
    match = _BELOW_HUNDRED.fullmatch(word)
    if match is None:
        return None
    if match["small"]:
        return _GERMAN_SMALL[match["small"]]
    return _GERMAN_TENS[match["ten"]] + _GERMAN_SMALL.get(match["one"] or "", 0)


_FRENCH_SMALL = "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
_FRENCH_TENS = "vingt:20 vingts:20 trente:30 quarante:40 cinquante:50 soixante:60 septante:70 huitante:80 nonante:90"
_SPANISH_SMALL = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
)
_SPANISH_TENS = (
    "treinta:30 cuarenta:40 cincuenta:50 sesenta:60 setenta:70 ochenta:80 noventa:90 cien:100 ciento:100 "
    "doscientos:200 doscientas:200 trescientos:300 trescientas:300 cuatrocientos:400 cuatrocientas:400 quinientos:500 "
    "quinientas:500 seiscientos:600 seiscientas:600 setecientos:700 setecientas:700 ochocientos:800 ochocientas:800 "
    "novecientos:900 novecientas:900 un:1 una:1 veintiún:21 veintiuna:21"
)
_MULTIPLIERS = {"cent": 100, "cents": 100, "mille": 1_000, "mil": 1_000, "million": 1_000_000, "millions": 1_000_000}
_MULTIPLIERS |= {"millón": 1_000_000, "millones": 1_000_000}
_FOUR_TWENTIES = ("vingt", "vingts")
_AND = ("et", "y")


@cache
def _word_values(language: str) -> Mapping[str, int]:
    """Return the number words of French or Spanish and their values; empty for another language."""
    small, tens = {"fr": (_FRENCH_SMALL, _FRENCH_TENS), "es": (_SPANISH_SMALL, _SPANISH_TENS)}.get(language, ("", ""))
    pairs = (pair.partition(":") for pair in tens.split())
    return {word: n for n, word in enumerate(small.split())} | {word: int(value) for word, _, value in pairs}


def _runs_of_words(text: str, table: Mapping[str, int]) -> Iterator[float]:
    """Yield the value of each run of number words: "quatre-vingt-dix", "dos mil trescientos"."""
    run: list[str] = []
    previous_end = 0
    for match in [*re.finditer(r"[^\W\d_]+", text.lower()), None]:
        word = match.group() if match else ""
        adjacent = match is not None and text[previous_end : match.start()].strip("- \u2011") == ""
        known = word in table or word in _MULTIPLIERS
        if run and not (adjacent and (known or word in _AND)):
            yield _value_of(run, table)
            run = []
        if known or run:
            run.append(word)
        previous_end = match.end() if match else 0


def _value_of(run: Iterable[str], table: Mapping[str, int]) -> int:
    total = current = 0
    for word in run:
        if word in _MULTIPLIERS and _MULTIPLIERS[word] > 100:
            total += (current or 1) * _MULTIPLIERS[word]
            current = 0
        elif word in _MULTIPLIERS:
            current = (current or 1) * _MULTIPLIERS[word]
        elif word in _FOUR_TWENTIES and current % 100 == 4:
            current += 76
        else:
            current += table.get(word, 0)
    return total + current


# --- Chinese characters ----------------------------------------------------------------------------------------------

_HAN_DIGITS = {**{digit: value for value, digit in enumerate("〇一二三四五六七八九")}, "零": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1_000}
_HAN_SCALES = {"万": 10_000, "亿": 100_000_000, "億": 100_000_000, "萬": 10_000}
_HAN_NUMBER = re.compile(
    r"(?:\d+(?:\.\d+)?\s?)?[〇零一二两三四五六七八九十百千]*[十百千万亿億萬][〇零一二两三四五六七八九十百千万亿億萬]*"
    r"(?!分之)"
)
_HAN_DIGIT = re.compile(r"[\d一二两三四五六七八九]")
_COLLOQUIAL_END = re.compile(r"([百千万])([一二三四五六七八九])\Z")
_KANA = re.compile("[\u3040-\u30ff]")


def _in_han(text: str, spelled: bool) -> Iterator[float]:
    """Yield the numbers in Chinese characters, also with digits: "一千二百", "3万".

    Without a digit, as in 千万 ("by all means"), a number counts only with `spelled`. "两千五" is 2500 in Chinese.
    """
    for match in _HAN_NUMBER.finditer(text):
        number = match.group()
        if not spelled and (not _HAN_DIGIT.search(number) or number[0] in _HAN_SCALES):
            continue
        value = _han_value(number)
        short = _COLLOQUIAL_END.search(number)
        if short is not None:
            unit = {**_HAN_UNITS, **_HAN_SCALES}[short[1]]
            long_value = value + _HAN_DIGITS[short[2]] * (unit // 10 - 1)
            if spelled or not _KANA.search(text):
                yield long_value
            if spelled or _KANA.search(text):
                yield value
        else:
            yield value


def _han_value(number: str) -> float:
    """Return the value of a number in Chinese characters."""
    total = section = current = 0.0
    for token in re.findall(r"\d+(?:\.\d+)?|\S", number):
        if token in _HAN_SCALES:
            total += (section + current or 1) * _HAN_SCALES[token]
            section = current = 0.0
        elif token in _HAN_UNITS:
            section += (current or 1) * _HAN_UNITS[token]
            current = 0.0
        else:
            current = _HAN_DIGITS[token] if token in _HAN_DIGITS else float(token)
    return total + section + current
