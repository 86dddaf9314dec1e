"""The understand step by rules: is a message a courtesy, a request to revise, or questions, and do these need context?

A message depends on earlier messages if something is missing in it: its words refer back, or it names too little to be
about something. It is then rewritten with the topic: the terms of the last question, followed by those that were
carried over to that question. This is a minimal historical query expansion (HQE, TREC CAsT). The raw message is always
searched, too. A message with its own subject is searched alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnmark.assistant.steps.step_results import UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.understand.collection_questions import collection_question, named_document
from turnmark.assistant.steps.understand.compound_questions import is_question, question_in, split_questions
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import is_instruction
from turnmark.assistant.types import Understanding
from turnmark.assistant.wording.phrases import Phrases, fold, phrases_of, wants_procedure
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.text.languages import without_elision
from turnmark.corpora.text.segmentation import UNSPACED_LETTER, reading_words, words, words_with_spans
from turnmark.corpora.types import Message

MAX_TOPIC_TERMS = 6
"""Maximum terms of a topic."""

MAX_PARTS = 8
"""Maximum parts of a message; further ones are joined to the last."""


class UnderstandingByRules:
    """Understand step without a model."""

    name = "understand"

    def __call__(self, turn: Turn, /) -> UnderstoodMessage:
        languages = turn.languages
        asked = question_in(turn.message, lambda question: refers_back(question, languages), languages)
        is_question = not is_conversational(asked) and not is_instruction(turn.history, asked)
        named = None
        if is_question and turn.retriever is not None and turn.evidence is None:
            collection = turn.retriever.collection()
            named = named_document(asked, collection) if collection else None
            asked = asked if named else turn.retriever.respell(asked)
        understood = UnderstoodMessage(understand(turn.history, asked, languages), asked, "rules")
        return replace(understood, named=named)


def understand(history: Sequence[Message], message: str, languages: tuple[str, ...] = ()) -> Understanding:
    """Understand a message by rules.

    Args:
        history: the messages before, oldest first.
        languages: languages of the documents, the most frequent first.
    """
    message = message.strip()
    if is_conversational(message):
        return Understanding(kind="conversational", rewrite=message, sub_questions=(message,))
    if collection_question(message):
        return Understanding(rewrite=message, sub_questions=(message,))
    if is_instruction(history, message):
        return Understanding(kind="revision", rewrite=message, sub_questions=(message,))
    carried, rewrite = with_topic(history, message, languages)
    parts = split_questions(message, languages)
    if len(parts) > MAX_PARTS:  # no question is lost
        parts = (*parts[: MAX_PARTS - 1], " ".join(parts[MAX_PARTS - 1 :]))
    is_compound = len(parts) > 1
    return Understanding(
        standalone=not carried,
        rewrite=rewrite,
        sub_questions=_complete_parts(parts, history if carried else (), languages) if is_compound else (rewrite,),
        asked=parts if is_compound else (),
        wants_procedure=wants_procedure(message, languages),
        topic=carried,
    )


def _complete_parts(parts: Sequence[str], history: Sequence[Message], languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a message. A part that depends on earlier messages or parts gets their topic."""
    complete, context = [], list(history)
    for part in parts:
        carried, rewrite = with_topic(context, part, languages)
        complete.append(rewrite)
        if not carried:
            context.append(Message(role="user", content=part))
    return tuple(complete)


def with_topic(
    history: Sequence[Message], message: str, languages: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], str]:
    """Return the terms of the topic that are carried over to a message, and the message with them.

    If the message does not need the topic, or names all its terms, it is returned unchanged and without terms.

    Args:
        languages: languages that an undecided message may be in.
    """
    return _carry_topic(topic_terms(history, languages), message, languages)


def _carry_topic(topic: Sequence[str], message: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    message_words = {*words(message), *content_words(message)}
    terms = tuple(term for term in topic if term.lower().removeprefix("不") not in message_words)
    if not terms or not needs_topic(message, languages):
        return (), message
    return terms, insert_topic(message, terms)


MIN_TERMS, MIN_FRAGMENT_TERMS, MIN_CONTINUING_TERMS = 2, 3, 4
"""Minimum content words with which a message names its subject: a question, one that is neither a question nor a
request ("ferry timetable"), and one that begins with "and …"."""


def needs_topic(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a message needs the topic of the conversation.

    It does if its words refer back, or if it names too little to be about something. "What is gravity?" names enough,
    and so does a common verb beside the only term: "how do I make oatcakes?", not "which port?".
    """
    phrases, count = phrases_of(message, languages), _count_terms(terms_of(message, languages))
    if refers_back(message, languages):
        return True
    has_verb = phrases.spaced and len(content_words(message, phrases.language)) > 1
    if count == 1 and (has_verb or phrases.defines(fold(message))):
        return False
    if count < MIN_TERMS:
        return True
    return count < MIN_FRAGMENT_TERMS and not is_question(message.rstrip("?!. "), languages)


def refers_back(message: str, languages: tuple[str, ...] = ()) -> bool:
    """Return whether a message refers to earlier messages, by a pronoun or as their continuation ("and how …").

    A pronoun that may refer to an earlier clause of the message does not count.
    """
    phrases = phrases_of(message, languages)
    continues = phrases.begins("openers").match(fold(message)) is not None
    if continues and _count_terms(_terms_in(phrases, message)) < MIN_CONTINUING_TERMS:
        return True
    befores = (message[: pronoun.start()] for pronoun in phrases.pronouns.finditer(message))
    clauses_before = (phrases.clause_joint.split(before)[:-1] for before in befores)
    return any(all(_count_terms(_terms_in(phrases, each)) <= 1 for each in clauses) for clauses in clauses_before)


def topic_terms(history: Sequence[Message], languages: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the topic of the last question: its terms as spelled there, then the terms that were carried over to it.

    Courtesies, requests to change the answer, and questions about the collection have no topic.
    """
    topic: tuple[str, ...] = ()
    for number, message in enumerate(history):
        text, before = message.content, history[:number]
        is_about_documents = not (is_conversational(text) or is_instruction(before, text) or collection_question(text))
        if message.role == "user" and is_about_documents:
            carried, _ = _carry_topic(topic, text, languages)
            terms = (f"不{term}" if f"不{term}" in text else term for term in terms_of(text, languages))
            topic = (*terms, *carried)[:MAX_TOPIC_TERMS] or topic
    return topic


def insert_topic(message: str, topic: Sequence[str]) -> str:
    """Insert the terms of a topic into a message, in parentheses.

    >>> insert_topic("Can I leave out the bacon?", ["Älplermagronen"])
    'Can I leave out the bacon (Älplermagronen)?'
    """
    body = message.rstrip()
    text = body.rstrip("?!. ？！。؟")
    mark = body[len(text) :].strip()
    return f"{text} ({' '.join(topic)}){mark}"


def terms_of(text: str, languages: tuple[str, ...] = ()) -> list[str]:
    """Return the content words of a text that say what it is about, spelled as in the text, in order."""
    return _terms_in(phrases_of(text, languages), text)


def _count_terms(terms: Sequence[str]) -> int:
    """Return the number of terms; a stretch of a script without spaces counts as its words."""
    return sum(max(1, reading_words(term)) if UNSPACED_LETTER.search(term) else 1 for term in terms)


def _terms_in(phrases: Phrases, text: str) -> list[str]:
    terms = [term for term in content_words(text, phrases.language) if term not in phrases.frames]
    if not phrases.spaced:
        return terms
    spellings: dict[str, str] = {}
    for word, start, end in words_with_spans(text):
        term = without_elision(word, phrases.language)
        spellings.setdefault(term, text[start if term == word else end - len(term) : end])
    return [spellings[term] for term in terms]
