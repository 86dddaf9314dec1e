"""Whether evidence is about what a message refers back to.

"How do I remove it again?" after a question about the password must not be answered with how to uninstall the program.
"""

from __future__ import annotations

from turnmark.assistant.steps.support import language_of_sources, stems
from turnmark.assistant.steps.understand import refers_back, terms_of
from turnmark.assistant.turn import Part, Turn
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit


def topic_stems(turn: Turn, part: Part) -> frozenset[str]:
    """Return the stems of the topic that a part refers back to; empty if it refers to nothing."""
    likely = (turn.language, *turn.languages)
    if turn.trusted or not turn.understanding.topic or not refers_back(part.text, likely):
        return frozenset()
    topic = " ".join(turn.understanding.topic)
    return stems(" ".join(terms_of(topic, likely)), _language(part))


def mentions(passage: Passage, topic: frozenset[str], part: Part) -> bool:
    """Return whether a passage or its headings have a word of the topic."""
    return bool(topic & _stems_of(passage, part))


def is_off_topic(turn: Turn, part: Part, quoted: Hit) -> bool:
    """Return whether the passage to quote is not about the topic, or only a passage about something else is.

    The latter has the words of the message itself, which the passage about the topic does not have.
    """
    topic = topic_stems(turn, part)
    if not topic:
        return False
    if not mentions(quoted.passage, topic, part):
        return True
    own = stems(" ".join(terms_of(part.text, (turn.language, *turn.languages))), _language(part)) - topic
    if not own or own & _stems_of(quoted.passage, part):
        return False
    others = (_stems_of(hit.passage, part) for hit in part.hits)
    return any(own <= other and not other & topic for other in others)


def _language(part: Part) -> str:
    return language_of_sources([hit.passage.text for hit in part.hits], part.text)


def _stems_of(passage: Passage, part: Part) -> frozenset[str]:
    return stems(f"{passage.heading} {passage.text}", _language(part))
