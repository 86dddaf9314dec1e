"""Splits text into words, sentences and list items, and normalizes it, for metrics and for cutting passages.

Every function is pure, linear in the length of its input, and takes any string.
"""

from __future__ import annotations

import re
import string
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from turnmark.core.grouping import runs
from turnmark.corpora.text.languages import LANGUAGES, UNSPACED_LANGUAGES, language_of_script
from turnmark.corpora.text.word_lists import read_word_lists

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
"""Characters that are words by themselves (Han, kana), for a regex class. Hangul is written with spaces."""


@cache
def combining_marks() -> str:
    """Return the combining marks, for a regex class. Python's \\w leaves them out, and without them Hindi, Thai and
    decomposed accents are cut inside a word.
    """
    return "".join(re.escape(chr(i)) for i in range(0x300, 0xFFFF) if unicodedata.category(chr(i)) in ("Mn", "Mc"))


@cache
def _word_pattern() -> re.Pattern[str]:
    char = f"(?:[^\\W_{CJK}]|[{combining_marks()}])"
    return re.compile(
        f"[{CJK}][\u3099\u309a\uff9e\uff9f]?|{char}+(?:(?:(?<=\\d)[.,](?=\\d)|['’](?=[^\\W_{CJK}])){char}+)*"
    )


_PRESENTATION_FORMS = re.compile("[\u3300-\u33ff\ufb00-\ufdff\ufe70-\ufefc\uff01-\uffee]+")
"""Matches full- and half-width letters, ligatures, Arabic letters by their place in a word, and units in one square."""
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]|(?<=i)\u0307")
"""Matches the vowel points of Hebrew and Arabic, and the dot that lower-casing leaves of the Turkish İ."""


def fold_letters(text: str) -> str:
    """Return a text in lower case as it is compared: composed, in normal width, without ligatures and vowel points."""
    if text.isascii():
        return text.lower()
    usual = _PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    return _POINTS.sub("", unicodedata.normalize("NFC", usual.lower()))


def fold_name(text: str) -> str:
    """Return a name, a value or other short words as they are compared: `fold_letters`, with "ß" as "ss", ı as i."""
    return fold_letters(text).casefold().replace("ı", "i")


def words(text: str) -> list[str]:
    """Return the folded words. "Don't" and "1,250.5" are one word each; every Han or kana character is a word."""
    return [fold_letters(word.replace("’", "'")) for word in _word_pattern().findall(text)]


def words_with_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each of `words` with its start and end in the text."""
    for match in _word_pattern().finditer(text):
        yield fold_letters(match.group().replace("’", "'")), match.start(), match.end()


QUESTION_MARKS = ("?", "？", "؟")


def ends_with_question_mark(text: str) -> bool:
    """Return whether a text ends with a question mark of any script."""
    return text.rstrip().endswith(QUESTION_MARKS)


def reading_words(text: str) -> int:
    """Return the length of a text in words of a language with spaces: a Chinese or Thai word has several characters."""
    count = 0.0
    for word in words(text):
        if len(word) == 1 and CHARACTER.match(word):
            count += 1 / CHARACTERS_PER_WORD
        elif SOUTHEAST_ASIAN_LETTER.match(word):
            count += len(word) / LETTERS_PER_WORD
        else:
            count += 1
    return round(count)


CHARACTER = re.compile(f"[{CJK}]")
SOUTHEAST_ASIAN_LETTER = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Matches a letter of Thai, Lao, Burmese or Khmer, which are written without spaces between words."""
UNSPACED_LETTER = re.compile(f"[{CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""A letter of a script that is written without spaces between words."""
CHARACTERS_PER_WORD, LETTERS_PER_WORD = 1.6, 4.5
"""Characters of Chinese or Japanese, and letters of Thai, that say about as much as an English word."""


def count_words(text: str) -> int:
    """Count words separated by white space. This is close to MTRAG's Table 8; no paper says how it counts.

    A text in a script without spaces is counted by `reading_words`: split at spaces, a Chinese page has a dozen words.
    """
    if UNSPACED_LETTER.search(text) and language_of_script(text) in UNSPACED_LANGUAGES:
        return reading_words(text)
    return len(text.split())


_WIDE_FORMS = re.compile("[\uff01-\uffee]+")


def normalize_width(text: str) -> str:
    """Replace full-width Latin letters, digits and punctuation, and half-width kana, by the usual characters."""
    return _WIDE_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)


@cache
def _cluster_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"{SOUTHEAST_ASIAN_LETTER.pattern}(?:[{combining_marks()}])*|(?:(?!{SOUTHEAST_ASIAN_LETTER.pattern}).)+",
        re.DOTALL,
    )


def comparable_words(text: str) -> list[str]:
    """Return `words` for the comparison of texts in any script.

    A run of a script without spaces is cut into its characters, each with its marks. Full and half width do not matter.
    """
    found = words(normalize_width(text))
    cut = (_cluster_pattern().findall(each) if SOUTHEAST_ASIAN_LETTER.search(each) else (each,) for each in found)
    return list(chain.from_iterable(cut))


def is_latin(text: str) -> bool:
    """Return whether at least half of a text's letters are Latin ones without accents."""
    letters = sum(map(str.isalpha, text))
    return 2 * sum(char.isalpha() for char in text if char.isascii()) >= letters


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_tokens(text: str) -> list[str]:
    """Return the tokens after SQuAD's normalization: lower case, no ASCII punctuation, no a/an/the, split on white
    space.
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def multiset_overlap(first: Iterable[str], second: Iterable[str]) -> int:
    """Return the number of tokens in common, counting repeats."""
    return (Counter(first) & Counter(second)).total()


# --- sentences -------------------------------------------------------------------------------------------------------

_MARKER = (
    r"(?:[-*+•‣◦▪]|(?:\*\*|__)?\(?\d{1,3}[.)](?:\*\*|__)?|\d{1,3}、|（\d{1,3}）"
    r"|(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:[Ss]tep|STEP|步骤)[ \t]*\d{1,3}(?:\*\*|__)?[:.)：-](?:\*\*|__)?)"
)
_BLOCK_START = re.compile(rf"[ \t]*(?:{_MARKER}(?:[ \t]|$)|#{{1,6}}[ \t]|\||```|~~~)|[ \t]*(?:\d{{1,3}}、|步骤)")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")
_RULE = re.compile(r"[ \t]*(?:=+|-{2,}|(?:[*_-][ \t]*){3,})$")
_MAX_WRAPPED_LENGTH = 150  # characters: longer lines were not wrapped by hand, so that a newline ends a block

_ENDER = re.compile(
    rf"(?P<wide>(?:[。！？｡។။॥]+[」』”’）】》〉〕］｝﹂﹄)\]\"']*)+)"
    rf"|(?<![.!?…؟۔।])(?P<run>[.!?…؟۔।]++)(?P<close>[\"'”’»)\]}}*_]*+)(?:(?=\s|$)|(?<=[!?])(?=[{CJK}]))"
)
_FOLLOW = re.compile(r"\s*(?P<open>[\"'“‘«(\[{`*_¿¡]*)(?P<word>[^\W_]{1,30}(?:['’]\w{1,10})?)?")
_SPACED_CLOSER = re.compile(r"[ \t]+(?P<mark>''|’’|”|»|\"|-RRB-|[)\]])(?=\s|$)")

_WORDS = read_word_lists(__file__)
_TITLE_ABBREVIATIONS = _WORDS["titles"] | {word for row in LANGUAGES.values() for word in row.abbreviations.split()}
_INFLECTED = re.compile(r"[a-zäöüß]{3,}e[nrms]?\Z")
_INITIAL = re.compile(r"[^\W\d_]$")
_DOTTED_ABBREVIATION = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}$")
_ENUMERATOR = re.compile(r"\d{1,3}$|[a-zA-Z]$|[ivx]{1,4}$")
_INLINE_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\([^()\s]{0,500}\)")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of every sentence, in order, trimmed of white space; together they cover all other
    characters.

    A newline ends a sentence only if it ends a block (blank line, list item, heading, table row, unwrapped text).
    """
    spans: list[tuple[int, int]] = []
    # A Markdown link is never cut: its text may contain a question mark or a full stop.
    links = [match.span() for match in _INLINE_LINK.finditer(text)] if "](" in text else []
    for begin, end in _blocks(text):
        start = begin
        for mark in _ENDER.finditer(text, begin, end):
            if mark.start() < start:
                continue  # a closing mark that belongs to the sentence before
            link = bisect_right(links, (mark.start(), len(text))) - 1
            if link >= 0 and mark.start() < links[link][1]:
                continue
            cut = _sentence_end(text, start, mark, end)
            if cut is not None:
                spans.append((start, cut))
                start = cut
        spans.append((start, end))
    if SOUTHEAST_ASIAN_LETTER.search(text):
        spans = [piece for span in spans for piece in _spaced_clauses(text, *span)]
    trimmed_spans = [trim_range(text, *span) for span in spans]
    return [(start, end) for start, end in trimmed_spans if start < end]


_UNSPACED_GAP = re.compile(rf"(?<={SOUTHEAST_ASIAN_LETTER.pattern})[ \t\n]+(?={SOUTHEAST_ASIAN_LETTER.pattern})")
MIN_UNSPACED_SENTENCE = 40
"""Minimum characters of a sentence in a script in which a space, not a mark, is between sentences (Thai, Lao)."""


def _spaced_clauses(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a range at spaces between letters of such a script, into pieces of at least `MIN_UNSPACED_SENTENCE`."""
    for gap in _UNSPACED_GAP.finditer(text, start, end):
        if gap.start() - start >= MIN_UNSPACED_SENTENCE and end - gap.end() >= MIN_UNSPACED_SENTENCE / 2:
            yield start, gap.start()
            start = gap.end()
    yield start, end


def trim_range(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range without the white space at its ends; an empty range if it contains nothing else."""
    stripped = text[start:end].lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, line without its newline) for every line; only a newline ends a line."""
    offset = 0
    for line in text.split("\n"):
        yield offset, line
        offset += len(line) + 1


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield ranges whose ends are certainly ends of sentences."""
    begin, above = 0, ""
    for offset, line in lines(text):
        ends = (
            not line.strip()
            or not above.strip()
            or _BLOCK_START.match(line)
            or _HEADING.match(above)
            or (_RULE.match(above) and len(above) < _MAX_WRAPPED_LENGTH)
            or (max(len(line), len(above)) > _MAX_WRAPPED_LENGTH and not line.lstrip()[0].islower())
        )
        if ends and offset > begin:
            yield begin, offset
            begin = offset
        above = line
    yield begin, len(text)


def _sentence_end(text: str, start: int, mark: re.Match[str], end: int) -> int | None:
    """Return the end of the sentence that began at `start`, or None if the punctuation `mark` does not end it."""
    cut = mark.end()
    if mark["wide"]:
        return _wide_end(text, start, cut, end)
    spaced = mark.start() > start and text[mark.start() - 1].isspace()
    closer = _SPACED_CLOSER.match(text, cut, end) if spaced else None
    if closer:
        quote_is_open = text.count('"', max(start, cut - 2000), cut) % 2 == 1
        if closer["mark"] != '"' or quote_is_open:
            cut = closer.end()
    follow = _FOLLOW.match(text, cut, end)
    word = follow["word"] if follow else None
    if not follow or not word:
        reference = _AFTER_ABBREVIATION.match(text, cut, end) and mark["run"] == "."
        return None if reference and _last_token(text, start, mark.start()) in _TITLE_ABBREVIATIONS else cut
    lower, starter = word[0].islower(), word.lower() in _WORDS["starters"]
    run = mark["run"]
    if run != ".":
        if set(run) <= {".", "…"}:
            return None if lower or word in ("I", "I'm", "I'd", "I'll", "I've") else cut
        return None if lower and (spaced or mark["close"] or not starter) else cut
    if CHARACTER.match(word) and text[mark.start() - 1].isdigit():  # a number of a section: "参阅 5.8. 安装"
        return None
    if _is_in_date(text, start, mark.start(), end):
        return None
    before, dotted = text[max(start, mark.start() - 5) : mark.start()], text[follow.end() : follow.end() + 1] == "."
    if _is_spaced_abbreviation(before, word, dotted):
        return None
    return cut if _full_stop(text, start, mark.start(), word, bool(follow["open"]), spaced) else None


def _wide_end(text: str, start: int, cut: int, end: int) -> int | None:
    """Return the end of a sentence that ends at `cut` with a mark such as "。", or None if it continues.

    Bold text that began in the sentence ends with it. After a quotation, a Japanese particle continues the sentence.
    """
    if text.startswith("**", cut) and text.count("**", start, cut) % 2:
        cut += 2
    return None if text[cut - 1] in "」』" and _QUOTING.match(text, cut, end) else cut


def _last_token(text: str, start: int, dot: int) -> str:
    """Return the word before a dot in lower case, without opening marks and an elided word ("l'art.")."""
    words_before = text[max(start, dot - 40) : dot].split()
    token = words_before[-1].lstrip(_OPENING) if words_before else ""
    return _ELISION.sub("", token).lower()


def _is_in_date(text: str, start: int, dot: int, end: int) -> bool:
    """Return whether a dot is inside of a date such as "12. 5. 2024"."""
    before = _DAY_OR_MONTH.search(text, max(start, dot - 8), dot)
    if before is None:
        return False
    return bool(_MONTH_AND_YEAR.match(text, dot, end) or (before["day"] and _YEAR.match(text, dot, end)))


_DAY_OR_MONTH = re.compile(r"(?<!\d)(?P<day>\d{1,2}\. ?)?\d{1,2}\Z")
_MONTH_AND_YEAR, _YEAR = re.compile(r"\. ?\d{1,2}\. ?(?:\d{4}|\d{2})\b"), re.compile(r"\. ?(?:\d{4}|\d{2})\b")
_QUOTING = re.compile("と|って|という")
_AFTER_ABBREVIATION = re.compile(r"[ \t]+[§№#&(\d`/<–-]")
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|d?all|dell|nell|sull|coll)['’](?=[^\W\d_])", re.IGNORECASE)
_DOUBLED_CAPITALS = re.compile(r"([A-Z])\1\Z")


_OPENING = "\"'“‘«([{*_`„"


def _is_spaced_abbreviation(before: str, word: str, dotted: bool) -> bool:
    """Return whether a dot belongs to an abbreviation with spaces in it, such as "z. B." or "i. d. R.".

    Args:
        before: the characters before the dot.
        word: the word after it, which has a dot too if `dotted`.
    """
    last = before.rpartition(" ")[2].lstrip(_OPENING)
    if dotted and _DOUBLED_CAPITALS.match(last) and _DOUBLED_CAPITALS.match(word):  # a Spanish plural: "EE. UU."
        return True
    if len(last) > 2 or not last.isalpha() or last == "I":
        return False
    if last.islower() and dotted and len(word) <= 2:
        return True
    previous = before.rpartition(" ")[0].split(" ")[-1].lstrip(_OPENING)
    return len(previous) in (2, 3) and previous.endswith(".") and previous[0].islower()


def _full_stop(text: str, start: int, dot: int, word: str, opened: bool, spaced: bool) -> bool:
    """Return whether a single '.' at `dot` ends a sentence, judged by the words before and after it."""
    words_before = text[max(start, dot - 40) : dot].split()
    token = words_before[-1].lstrip(_OPENING) if words_before else ""
    name = _last_token(text, start, dot)
    upper, starter = word[0].isupper(), word.lower() in _WORDS["starters"]
    first = len(words_before) <= 1 and dot - start <= 40
    if name.isdigit() and len(name) <= 2 and not starter:
        earlier, previous = ["", "", *words_before][-3:-1]
        is_inflected = earlier.lower() in _WORDS["before_ordinal"] and _INFLECTED.match(previous)  # "im frühen 18."
        is_ordinal = previous.lower() in _WORDS["before_ordinal"] or is_inflected or words_before[-1].startswith("(")
        if word.lower() in _WORDS["after_ordinal"] or (upper and is_ordinal):
            return False
    if name in _TITLE_ABBREVIATIONS or (first and not spaced and _ENUMERATOR.match(name)):
        return False
    if name in _WORDS["before_number"]:
        return not (word[0].isdigit() or re.fullmatch(r"[B-HJ-Z]|[IVXLC]{2,}", word))
    if _INITIAL.match(token) and token.isupper() and token != "I":
        return starter or (spaced and len(word) > 1) or opened
    if name in _WORDS["final"] or _DOTTED_ABBREVIATION.match(token):
        return upper and starter
    if name in _WORDS["units"]:
        return upper
    if word[0].islower():
        return spaced or (starter and len(name) > 1 and name.isalpha())
    return True


# --- lists and inline Markdown ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListItem:
    """A list item: its range (with the marker, without nested items), its text, and its position in the list."""

    start: int
    end: int
    text: str
    number: int | None
    depth: int


_ITEM = re.compile(
    rf"(?P<indent>[ \t]*)(?P<marker>{_MARKER})(?:[ \t]+(?=\S)|(?<=[、）：])|[ \t]*$)(?:\[[ xX]\][ \t]+)?"
)
_FENCE = re.compile(r"[ \t]*(```|~~~)")


def list_items(text: str) -> list[ListItem]:
    """Return the items of bulleted and numbered lists ("-", "*", "+", "•", "1.", "1)", "Step 3:"), in order.

    Lines that continue an item belong to it; lines inside a fenced block are never items.
    """
    items: list[ListItem] = []
    indents: list[int] = []  # indents of the open items
    current: tuple[int, int, int | None, int, int] | None = None  # start, start of the text, number, depth, end
    fenced = blank = False

    def close() -> None:
        nonlocal current
        if current:
            start, body, number, depth, end = current
            content = strip_inline_markdown(text[body:end])
            if content:
                items.append(ListItem(*trim_range(text, start, end), content, number, depth))
        current = None

    for offset, line in lines(text):
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        fence = bool(_FENCE.match(line))
        item = None if fenced or fence or _RULE.match(line) else _ITEM.match(line)
        if item:
            close()
            while indents and indent < indents[-1] + 2:
                indents.pop()
            digits = re.search(r"\d+", item["marker"])
            start, body = offset + item.end("indent"), offset + item.end()
            current = (start, body, int(digits.group()) if digits else None, len(indents), offset + len(line))
            indents.append(indent)
        elif line.strip():
            ends = not fenced and (_HEADING.match(line) or _RULE.match(line) or (blank and indent < 2))
            if ends or not current:
                close()
                indents = [] if ends else indents
            else:
                current = (*current[:4], offset + len(line))
        fenced ^= fence
        blank = not line.strip()
    close()
    return items


@cache
def _inline() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


_TAG_NAME = re.compile(r"</?([A-Za-z][\w.:-]*)")


def is_placeholder(tag: str) -> bool:
    """Return whether an apparent HTML tag is words, such as `<your name>`, `<ENTER>` or `<b and c>`.

    It is markup if it has the name of an HTML element, or attributes with values, as components of a site have.
    """
    name = _TAG_NAME.match(tag)
    if name is None:
        return not tag.startswith("<!--")
    attributes = tag[name.end() :].strip("/> \t\n").lower()
    if "=" in attributes:
        return False
    return name[1].lower() not in _WORDS["html_tags"] or not _WORDS["boolean_attributes"].issuperset(attributes.split())


_MAX_INLINE_LENGTH = 20_000  # characters; longer text is not a line of prose, and the Markdown parser would take long


def strip_inline_markdown(markdown: str) -> str:
    """Convert inline Markdown to one line of plain text: no emphasis, code ticks or images; links become their text."""
    if len(markdown) <= _MAX_INLINE_LENGTH and re.search(r"[*_`\[\]<>\\&~]", markdown):
        pieces = []
        for block in _inline().parseInline(markdown):
            for token in block.children or ():
                if token.type in ("text", "code_inline", "text_special"):
                    pieces.append(token.content)
                elif token.type in ("softbreak", "hardbreak"):
                    pieces.append(" ")
                elif token.type == "html_inline" and is_placeholder(token.content):
                    pieces.append(token.content)
        markdown = "".join(pieces)
    return " ".join(markdown.split())


_ATX = re.compile(r"^[ \t>]{0,20}#{1,6}(?:[ \t]+|$)|[ \t]+#+[ \t]*$")
_HEADING_UNDERLINE = re.compile(r"\n[ \t>]*(?:=+|-+)[ \t]*$")


def heading_text(raw: str) -> str:
    """Return the text of a Markdown heading, ATX ("## Steps") or Setext (underlined), as one line of plain text."""
    return strip_inline_markdown(_ATX.sub("", _HEADING_UNDERLINE.sub("", raw.strip())))


_MARK = r"\[\d{1,3}(?:[ \t]*[,;–-][ \t]*\d{1,3})*\]"
_MARKS = rf"{_MARK}(?:[ \t]*{_MARK})*(?![(\[\]])"
_LEAD_OF_ASIDE = r"(?:(?:see(?: also)?|cf|siehe|vgl|voir|véase|ver|vedi|zie|sources?|quellen?|sections?)[.:]?[ \t]*)?"
ASIDE = rf"\({_LEAD_OF_ASIDE}(?:{_MARK}(?:[ \t,;&]|and|und|et)*)+\)"
"""Parentheses with nothing but citation marks, such as "(see [1])"."""
_CITATION = re.compile(
    rf"(?P<code>```.*?```|`[^`\n]*`)|(?P<aside>(?<![ \t])[ \t]*{ASIDE})"
    rf"|(?<![^\n]){_MARKS}(?:[ \t]+|(?=:|\n|\Z))|(?<![ \t])[ \t]*(?<![\[\]]){_MARKS}",
    re.DOTALL | re.IGNORECASE,
)
_ONE_MARK = re.compile(r"[ \t]*\[(\d{1,3})\]")
_INDEX = re.compile(r"\.\w|\w|[ \t]*[-+*/=]")
_VERB_AFTER_NAME = re.compile(
    r"[ \t]+(?:is|are|was|were|has|had|holds?|contains?|equals?|means|refers|returns?|gives|becomes|will|can|must)\b"
)
_LOWER_CASE_WORD = re.compile(r"[ \t]+[a-z]")
_CODE_NAME = re.compile(r"(?:\w*_\w*|\w+\.\w+|[a-z]\w*[A-Z]\w*|(?<!\w)[b-z])\Z")
_SPACED_MARK = re.compile(r"[ \t]\[\d{1,3}\]")
_LINK_TARGET = re.compile(r":[ \t]*<?(?:https?:|/|www\.)")


def strip_citations(text: str, most: int | None = None, least: int = 1) -> str:
    """Return a text without its citation marks ([1], [2, 3], [1][4], (see [1])) and the space before each.

    Markdown links and their targets, code, indices (`arr[1].x`, `arr[1] is`) and words in brackets stay.

    Args:
        most: the highest citation number. If given, only single numbers from `least` to `most` are removed: `arr[0]`
            and `[1, 2, 3]` stay.
    """

    spaced = bool(_SPACED_MARK.search(text))

    def keep(match: re.Match[str]) -> str:
        run = match.group()
        if match["code"] or _LINK_TARGET.match(text, match.end()) or _is_index(text, match, spaced):
            return run
        if most is None:
            return ""
        kept = _ONE_MARK.sub(lambda mark: "" if least <= int(mark[1]) <= most else mark.group(), run).rstrip()
        return "" if match["aside"] and not _ONE_MARK.search(kept) else kept

    return _CITATION.sub(keep, text)


def _is_index(text: str, match: re.Match[str], spaced: bool) -> bool:
    """Return whether what looks like a citation mark is an index: directly after a name, and used as a value.

    "Vinegar[1] and salt" cites. "arr[1] is 3" does not, nor does a code name in a sentence that continues, nor any word
    there if the text's marks are `spaced`.
    """
    start, end = match.span()
    if text[start] != "[" or not start or not (text[start - 1].isalnum() or text[start - 1] == "_"):
        return False
    if UNSPACED_LETTER.match(text[start - 1]):
        return False
    if _INDEX.match(text, end) or _VERB_AFTER_NAME.match(text, end):
        return True
    named = _CODE_NAME.search(text[max(0, start - 60) : start])
    return bool(_LOWER_CASE_WORD.match(text, end) and (spaced or named))


def spans(numbers: Iterable[int]) -> list[str]:
    """Format ascending numbers with neighbors joined: 3, 7, 8, 9 become `3` and `7-9`."""
    joined = runs(numbers, lambda before, number: number == before + 1)
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in joined]
