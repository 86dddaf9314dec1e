"""Whether evidence is about what a message refers back to.

"How do I remove it again?" after a question about the password must not be answered with how to uninstall the program.
"""

from __future__ import annotations

from turnmark.assistant.steps.support import language_of_sources, stems
from turnmark.assistant.steps.understand import MAX_NAME_TERMS, refers_back, terms_of
from turnmark.assistant.turn import Part, Turn
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit


def topic_stems(turn: Turn, part: Part) -> frozenset[str]:
    """Return the stems of the topic that a part refers back to; empty if it refers to nothing, or to a long question.

    The terms of a long question are in too many passages to tell which of them are about it.
    """
    topic, likely = turn.understanding.topic, (turn.language, *turn.languages)
    if turn.trusted or not 0 < len(topic) <= MAX_NAME_TERMS or not refers_back(part.text, likely):
        return frozenset()
    return stems(" ".join(terms_of(" ".join(topic), likely)), _language(part))


def is_off_topic(turn: Turn, part: Part, quoted: Hit) -> bool:
    """Return whether only a passage about something else has the words of a message that refers back to a topic.

    Either it is the passage to quote, or that passage is about the topic and has none of these words.
    """
    topic = topic_stems(turn, part)
    own = stems(" ".join(terms_of(part.text, (turn.language, *turn.languages))), _language(part)) - topic
    if not topic or not own:
        return False
    found = _stems_of(quoted.passage, part)
    if not topic & found:
        return bool(own & found)
    others = (_stems_of(hit.passage, part) for hit in part.hits)
    return not own & found and any(own <= other and not other & topic for other in others)


def _language(part: Part) -> str:
    return language_of_sources([hit.passage.text for hit in part.hits], part.text)


def _stems_of(passage: Passage, part: Part) -> frozenset[str]:
    return stems(f"{passage.heading} {passage.text}", _language(part))
