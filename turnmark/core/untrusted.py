"""Functions that make untrusted text safe for the place where it is written.

All text from files, people, models, servers and other people's code is untrusted.

| the text is written                               | use                                  |
|---------------------------------------------------|--------------------------------------|
| to the terminal or a page, on several lines       | `make_printable`                     |
| as one line: a message, a note, a cell, a title   | `one_line`                           |
| as one line of a rich table or text               | `rich_line`                          |
| into an error message, where it may be long       | `excerpt`                            |
| to a file, a server or JSON, otherwise unchanged  | `valid_text`                         |
| anywhere, and it may contain a known secret       | `redact`                             |
| as the error of a library or server               | `describe_error`                     |
| into a reply, where `[2]` would be a citation     | `escape_marks`                       |
| into a Markdown file                              | `escape_markdown(make_printable(…))` |
| into Markdown, as one line                        | `escape_markdown_line`               |
| into Markdown, as a cell of a report's table      | `escape_cell`                        |
| into LaTeX                                        | `escape_latex`                       |
| into a prompt, with `> ` before each line         | `quote_lines`                        |
| into a prompt, between two marks with a tag       | `fence`, with one `fence_tag`        |
| into a prompt in any other way                    | `break_control_marks`                |

`Prompt.render` breaks control marks in every value. HTML is escaped by the template of each page
(`turnmark.evaluation.report.html_page`), JSON on standard output by `turnmark.core.console.print_json`.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

# --- terminals and messages ------------------------------------------------------------------------------------------

MAX_EXCERPT = 300
"""Maximum characters of a foreign text in an error message."""
_LINE_BREAKS = str.maketrans({"\n": "␤", "\u2028": "␤", "\u2029": "␤", "\t": " "})
_SURROGATES = re.compile("[\ud800-\udfff]")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colors, cursor movement
    # OSC, DCS, SOS, PM, APC. No sequence begins inside another, so that a text of openings alone takes linear time.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_UNSEEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def make_printable(text: str) -> str:
    """Remove escape sequences, control, bidi and zero-width characters, so that a text is safe for a terminal.

    Newlines and tabs stay. A lone surrogate becomes U+FFFD.
    """
    return _SURROGATES.sub("\ufffd", _UNSEEN_CHARACTERS.sub("", _ESCAPES.sub("", text)))


def one_line(text: object) -> str:
    """Return any value as one printable line, in which a line break is shown as ␤ and a tab becomes a space.

    Text that is written through this function cannot imitate lines of our own.
    """
    return make_printable(str(text)).translate(_LINE_BREAKS)


def rich_line(text: object, style: str = "") -> Text:
    """Return any value as one line of rich text, in which brackets are no markup."""
    from rich.text import Text

    return Text(one_line(text), style=style)


def valid_text(text: str) -> str:
    """Replace each byte that was not UTF-8 (a lone surrogate) with U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def ellipsize(text: str, most: int) -> str:
    """Return the first `most` characters of a text, with an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[:most]}…"


def excerpt(text: str) -> str:
    """Return a text as one printable line of limited length, for the middle of an error message."""
    return ellipsize(_printable_words(text), MAX_EXCERPT)


def _printable_words(text: str) -> str:
    return " ".join(make_printable(text).split())


# --- secrets ---------------------------------------------------------------------------------------------------------

MIN_SECRET_LENGTH = 6
"""Minimum length of an environment secret that is replaced; shorter values are too common as words."""
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SECRET_LOOK = re.compile(
    r"\b(?:sk|pk|ghp|hf|xox[a-z])[-_][\w-]{8,}|(?i:\b(?:bearer|basic|apikey)\s+)\S+|(?<=://)[^/@\s]+(?=@)"
)


def redact(text: str, secret: str) -> str:
    """Replace the secret in a text with `***`."""
    return text.replace(secret, "***") if secret else text


def describe_error(error: BaseException) -> str:
    """Return the type and message of a foreign error as one line of limited length, without secrets.

    Secrets are the values of environment variables such as `OPENAI_API_KEY`, and what looks like a key or a password.
    """
    text = _printable_words(str(error))
    for name, value in os.environ.items():
        if len(value) >= MIN_SECRET_LENGTH and _SECRET_NAME.search(name.upper()):
            text = redact(text, value)
    text = ellipsize(_SECRET_LOOK.sub("***", text), MAX_EXCERPT)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- replies, Markdown, LaTeX ----------------------------------------------------------------------------------------

_NUMBER_OR_RANGE = r"\d{1,3}(?:\s*[–-]\s*\d{1,3})?"
CITATION_MARK = re.compile(rf"\[({_NUMBER_OR_RANGE}(?:\s*,\s*{_NUMBER_OR_RANGE})*)\]")
CODE_SPAN = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)


def code_spans(text: str, finished: bool = False) -> list[tuple[int, int]]:
    """Return start and end of each code span and code block.

    Args:
        finished: leave out a block that the text does not close.
    """
    return [match.span() for match in CODE_SPAN.finditer(text) if not finished or match.group().endswith("`")]


def is_in_code(position: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether an offset is inside one of the spans that `code_spans` returned."""
    return any(start <= position < end for start, end in spans)


# Characters that Markdown or HTML may act on.
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|~!&])")
_UNDERLINE = re.compile(r"^[ \t]*[-=](?=[-= \t]*$)", re.MULTILINE)
_CELL_ACTIVE = re.compile(r"[\\`*_\[\]|~#$]|(?<=www)\.|:(?=//)")
# `@` can be an e-mail address or mention a user, except in a metric such as recall@5.
_CELL_HTML = re.compile(r"[&<>]|@(?!\d{1,3}(?![\w.]))")
_CELL_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@<!-- -->"}
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}", "●": r"$\bullet$", "○": r"$\circ$",
    "◐": r"$\circ\!\bullet$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def escape_marks(text: str) -> str:
    """Write a `[2]` in a passage's text as `(2)`, so that it is not mistaken for a citation in the reply.

    Code is not changed, since it is meant to be copied.
    """
    pieces = CODE_SPAN.split(text)  # text and code in turn
    for position in range(0, len(pieces), 2):
        pieces[position] = CITATION_MARK.sub(r"(\1)", pieces[position])
    return "".join(pieces)


def escape_markdown(text: str) -> str:
    """Escape printable text for Markdown, which then shows it literally."""
    return _UNDERLINE.sub(r"\\\g<0>", _ACTIVE.sub(r"\\\1", text))


def escape_markdown_line(text: str) -> str:
    """Escape a text as one line of Markdown that shows it literally."""
    return escape_markdown(_printable_words(text))


def escape_cell(text: object) -> str:
    """Escape any value as one line of Markdown, for a cell of a table or the middle of a line."""
    line = _CELL_ACTIVE.sub(lambda mark: f"\\{mark.group()}", " ".join(one_line(text).split()))
    return _CELL_HTML.sub(lambda mark: _CELL_ENTITIES[mark.group()], line)


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX, as one line."""
    return "".join(_LATEX.get(char, char) for char in " ".join(text.split()))


# --- prompts ---------------------------------------------------------------------------------------------------------

_WIDTHLESS_CHARACTERS = re.compile("[\0\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
# Control marks of chat templates, which a server interprets anywhere in a message: the end of a turn, the speaker.
# By family: <|im_start|> (ChatML, Llama 3, Phi, GPT-OSS and most since; DeepSeek with wide bars), <|turn> and <turn|>,
# <start_of_turn> (Gemma), [INST] (Mistral), <<SYS>> (Llama 2), <s>, [CLS], ]~b] (MiniMax).
_NAME = r"[\w▁.:/!\u200b-\u200d\u2060\ufeff-]{1,80}"
_ANGLES = (
    r"s|bos|eos|pad|unk|mask|sop|eop|cls|sep|think|thinking|tools?|tool_calls?|tool_responses?|start_of_turn|end_of_turn|"
    r"start_of_image|end_of_image|end_of_utterance|row_\d+_col_\d+|unused\d{1,5}|extra_id_\d{1,5}|reserved_\w{1,20}|"
    r"SPECIAL_\d{1,5}|seed:\w{1,20}|image|audio|video"
)
_SQUARES = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|THINK|IMG|IMG_BREAK|IMG_END|"
    r"PREFIX|SUFFIX|MIDDLE|BOS|EOS|EOT|EOD|CLS|SEP|MASK|PAD|UNK|[gs]?MASK"
)
_CONTROL = re.compile(
    rf"[<＜](?=[|｜]{_NAME}[|｜]?[>＞]|{_NAME}[|｜][>＞]|/?(?:{_ANGLES})>)"
    rf"|<<(?=/?SYS>>)|\[(?=/?(?:{_SQUARES})\])|\](?=~!?b[\]\[])|\[(?=e~\[)"
)


def fence_tag(*contents: str) -> str:
    """Return a tag for `fence` that occurs in none of the contents.

    It is a hash of them, so that equal prompts have equal tags, as caches need.

    The author of a document cannot know the tag, since it depends on the question and on all other documents. The tag
    does not occur in look-alike letters either, or with zero-width characters inside.
    """
    tag = ""
    visible = [_WIDTHLESS_CHARACTERS.sub("", content) for content in contents]
    forms = [content.lower() for content in contents] + [
        unicodedata.normalize("NFKC", text).lower() for text in visible
    ]
    while not tag or any(tag in content for content in forms):
        digest = hashlib.sha256(tag.encode())
        for content in contents:
            encoded = content.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        tag = digest.hexdigest()[:12]
    return tag


def fence(text: str, kind: str = "text", tag: str | None = None) -> str:
    """Enclose `text` in a pair of marks that it cannot close.

    Args:
        kind: kind of the text, in the marks: `passage`, `user`, `assistant`.
        tag: tag of the prompt, from `fence_tag` over all fenced texts, or None for a tag for this text.
    """
    tag = tag or fence_tag(text)
    return f"<{kind}-{tag}>\n{text}\n</{kind}-{tag}>"


def quote_lines(text: str) -> str:
    """Put `> ` before every line of `text`, so that none of its lines can pass for an instruction.

    Unlike `fence` it needs no tag, so prompts share their beginnings, as prefix caches need. A prompt uses one of the
    two and explains it.
    """
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


def break_control_marks(text: str) -> str:
    """Break the control marks of chat templates in `text`, with a space after their first character.

    The words stay readable, including for a model that is asked about them. NUL becomes U+FFFD, since some servers
    ignore the text after it.
    """
    return _CONTROL.sub(lambda mark: f"{mark.group()} ", text.replace("\0", "\ufffd"))
