"""The texts that the assistant writes into its answers, and their translations.

English stands here. The catalogs in `assistant/wording/locale` translate by stable keys, so that a change of an English
text leaves all translations in place. An answer is in the language of the message.
"""

from __future__ import annotations

import gettext
import re
from functools import cache
from pathlib import Path

from turnmark.corpora.text.languages import ENGLISH

UNKNOWN_TEXT = "I don't know: I found nothing about that in the documents."
"""The whole reply, if nothing was found."""
NOT_FOUND_TEXT = "I found nothing about “{question}”."
"""The sentence for one part of a message, if something was found for other parts."""
UNSURE_TEXT = "I am not sure this answers it. The nearest I found:"
UNSURE_PART_TEXT = "I am not sure about “{question}”. The nearest I found:"
"""The line above a quotation that may not answer, the second one in a reply with several parts. It is not a refusal,
since a quotation follows."""
HELLO_TEXT = "Hello! Ask me anything about your documents."
WELCOME_TEXT = "You're welcome. Ask me anything else."
"""The replies to a greeting and to any other courtesy."""
UNCHANGED_TEXT = "I left the last answer as it is: "
"""Beginning of the reply to an instruction that rules cannot follow; one of the next texts follows."""
NEEDS_MODEL_TEXT = (
    "without a language model I can shorten it, put it as a list or a table, keep or drop some of its lines, and "
    "change their order; anything else takes a model (--generator)."
)
NOTHING_TO_CHANGE_TEXT = "there is nothing of the kind in it."
ALREADY_TEXT = "it is that already."
COUNTED_TEXT = "“{words}” is found {times} times in {found} of {documents} documents:"
"""The line above a list of the documents that mention some words."""
MORE_TEXT = "and {number} more"
"""The end of such a list, if it is cut."""
UNREAD_FILE_TEXT = "“{file}” has words of the question in its name, but it was not read: {reason}"
UNREAD_TYPE_TEXT = "files of this type are not read"
"""A note, and the reason in it for a file of an unknown type."""
UNREAD_PARTS_TEXT = "Only the text of your message was read; its pictures and files were not looked at."
"""A line of a served reply."""

KEYS = {
    UNKNOWN_TEXT: "unknown.nothing_found",
    NOT_FOUND_TEXT: "unknown.part_not_found",
    UNSURE_TEXT: "answer.unsure",
    UNSURE_PART_TEXT: "answer.unsure_part",
    HELLO_TEXT: "courtesy.hello",
    WELCOME_TEXT: "courtesy.welcome",
    UNCHANGED_TEXT: "revision.unchanged",
    NEEDS_MODEL_TEXT: "revision.needs_model",
    NOTHING_TO_CHANGE_TEXT: "revision.nothing_to_change",
    ALREADY_TEXT: "revision.already",
    COUNTED_TEXT: "count.mentions",
    MORE_TEXT: "list.more",
    UNREAD_FILE_TEXT: "unread.file",
    UNREAD_TYPE_TEXT: "unread.type",
    UNREAD_PARTS_TEXT: "unread.parts",
}
"""Text -> its key in the catalogs (`msgid`). A key never changes."""
LOCALE_FOLDER = Path(__file__).parent / "locale"


@cache
def _catalog(language: str) -> gettext.NullTranslations:
    return gettext.translation("turnmark", LOCALE_FOLDER, [language], fallback=True)


def in_language(text: str, language: str) -> str:
    """Return one of the texts above in a language, or in English if there is no translation."""
    if language in (ENGLISH, ""):
        return text
    translation = _catalog(language).gettext(KEYS[text])
    return text if translation == KEYS[text] else translation


@cache
def translations_of(text: str) -> tuple[str, ...]:
    """Return one of the texts above in each language, English first."""
    languages = sorted(path.name for path in LOCALE_FOLDER.iterdir() if path.is_dir())
    return (text, *(in_language(text, language) for language in languages))


def text_at_start(reply: str, *texts: str) -> str:
    """Return the translation of one of some texts with which a reply begins, or "" if it begins with none."""
    patterns = (re.escape(each).replace(r"\{question\}", ".+?") for text in texts for each in translations_of(text))
    return next((match.group() for pattern in patterns if (match := re.match(pattern, reply))), "")


def about_part(text: str, question: str, language: str = ENGLISH) -> str:
    """Return a text about a part of a message, which it names."""
    phrase = " ".join(question.split()).rstrip(" .!?…。！？؟")
    return in_language(text, language).replace("{question}", phrase)
