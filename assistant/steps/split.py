"""The sub-questions of a compound question, by rules and without a model.

What begins a new part: a question mark before it, an item of a numbered list, "second, …" after "first, …", and inside
a sentence a comma or "and" before something that is a question by itself ("…, and what does it cost?"). A clause that
only looks like one ("how cells divide and how they die" after "What is known about") is recognised by its word order.

The rules were written on 60 questions of Compound-QA (Understanding, 12 of each type), which they all split into the
number of parts that was counted by reading them. Of 200 others, labelled before the rules were run on them, all were,
where counting question marks gets 176 right; of 80 that question marks do not separate, 77 (one of which then led to
a rule; tests/assistant/test_split.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from turnmark.corpora.text import list_items, sentences

_AUX = (
    r"(?:is|are|was|were|do|does|did|can|could|should|would|will|shall|has|have|had|might|may|must|isn't|aren't|wasn't|"
    r"weren't|don't|doesn't|didn't|can't|couldn't|shouldn't|wouldn't|won't|hasn't|haven't)"
)
_PREPOSITION = r"(?:about|after|at|before|by|for|from|in|into|of|on|over|since|through|to|under|until|with|within)"
_SUBJECT = r"(?:i|you|he|she|it|we|they|there|this|that|these|those|one)"
_DETERMINER = r"(?:the|a|an|its|his|her|their|your|my|our|any|all|some|both|each|every|either|such|people)"
# A noun phrase has no bearing on what is asked: "how much of the workforce is", "which other boat sails".
_THING = rf"(?!{_SUBJECT}\b|{_DETERMINER}\b)"
_QUESTION = (
    rf"(?:(?:{_PREPOSITION}\s+)?(?:"
    rf"(?:how|why|when|where|whom)\s+(?:\w+ly\s+)?{_AUX}\b|how\s+\w{{2,15}}\s+{_AUX}\b"
    r"|how\s+(?:much|many|long|often|far|old|big|large|high|deep|fast|soon|well|likely|effective\w*|important|reliable"
    rf"|significant\w*|successful\w*|accurate\w*|efficient\w*|to)\b(?!\s+(?:{_SUBJECT}|{_DETERMINER})\s)"
    rf"|(?:what|which|who|whose)\s+(?:\w+ly\s+)?{_THING}[\w\"'“‘$(]"
    rf"|(?:what|how)\s+about\b|what(?:'|’)?s\b|who(?:'|’)s\b|how(?:'|’)s\b|why\s+not\b"
    r"))"
)
_AUX_QUESTION = rf"(?:{_AUX}\s+(?:{_SUBJECT}|{_DETERMINER})\b(?!\s+same\b))"
_AUX_NAME = rf"(?:{_AUX}\s+(?-i:[A-Z])\w+\s+\w)"
_AUX_PRONOUN = rf"(?:{_AUX}\s+{_SUBJECT}\b)"
# A question word on its own that takes up the clause before it: "…, and why?", "…, and by whom?".
_BARE = (
    rf"(?:(?:{_PREPOSITION}\s+)?(?:why|how|when|where|who|whom|what|which)(?:\s+(?:not|so|exactly|else))?\s*"
    r"(?=[?？.!]|$))"
)
_INTRO = (
    r"(?:(?:if|assuming|suppose|supposing|in case|should|given|based on|compared (?:to|with)|in contrast to|in terms"
    r" of)\b[^,?]{0,150},\s+|(?:in that case|then|also|conversely|alternatively|finally|otherwise|if so|if not),?\s+)"
)
_ORDINAL = r"(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|finally|lastly)"
_AND = r"(?:and|but|as well as|plus)"

# The same three joints, from the loosest to the tightest: a comma with "and", a comma alone, "and" alone.
_JOINT = re.compile(
    rf"[,;:–—]\s+{_AND}\s+(?:also\s+|then\s+)?(?P<both>{_INTRO}?(?:{_QUESTION}|{_AUX_QUESTION}|{_AUX_NAME}|{_BARE}))"
    rf"|[,;–—]\s+(?:also\s+|then\s+)?(?P<comma>{_QUESTION}|{_AUX_PRONOUN})"
    rf"|\s{_AND}\s+(?:also\s+|then\s+)?(?P<word>{_INTRO}?(?:{_QUESTION}|{_AUX_PRONOUN}|{_BARE}))",
    re.IGNORECASE,
)
_FIRST = re.compile(
    rf"(?:^|[,;:–—][\"'”’)]?\s+|\b{_AND}\s+|\bthen\s+)(?:{_QUESTION}|{_AUX_QUESTION}|{_AUX}\s+[A-Z“\"])", re.I
)
_LOOKED_BACK = 600  # characters: bounded, so that no text takes longer than its length
_WH = re.compile(r"\b(?:what|which|who|whose|whom|how|why|when|where)\b", re.IGNORECASE)
# "what is right and what is wrong" inside a clause: its verb is at the end, with nothing asked of it. "What effects
# do others have" is a question.
_EMBEDDED = re.compile(
    rf"(?:what|which|who|where|how)\s+(?!{_AUX}\b)(?:(?!\b(?:do|does|did)\b)[^,?]){{1,60}}\s(?:is|are|was|were|has|have|does|can|should)[?.!\s]*",
    re.I,
)

_FRAME = re.compile(
    r"(?:please\s+|(?:can|could|would|will) you (?:please )?|i(?:'d| would)? (?:like|want) (?:to know|you to)\s*)*"
    r"(?:explain|describe|discuss|tell me|show me|know|do you know|outline|summari[sz]e|clarify)?\s+"
    r"(?=(?:what|which|who|whose|how|why|when|where)\b)",
    re.IGNORECASE,
)
_FRAMED = re.compile(r",?\s+and\s+(?=(?:what|which|who|whose|how|why|when|where)\s+\w)", re.IGNORECASE)

_MARK = re.compile(r"[?？]+[\"'”’)\]*_]*(?:\s+|(?<=[^\W\d_]\?)(?=[A-Z][a-z]+ )|$)")
_ASKS = re.compile(
    r"(?:please\s+|also,?\s+|then,?\s+|and\s+)*(?:explain|describe|discuss|compare|list|name|outline|summari[sz]e|suggest"
    r"|recommend|propose|reflect on|identify|evaluate|assess|analy[sz]e|define|tell me"
    r"|i(?:'d| would) like to know|i want to know)\s+"
    r"(?!(?:it|them|this|that|these|those|your|in|with|step|clearly|briefly|why)\b[^,]{0,25}$)\w",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"(?:right|ok|okay|yes|no|correct|really|huh|hm+|eh|hello|hi|any (?:ideas?|thoughts)"
    r"|(?:can|could) (?:you|anyone|somebody|someone) (?:please )?help(?: me)?(?: out)?(?: with (?:this|that|it))?)"
    r"\s*[?？]+",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)*(?:answer|tell me|help me with|explain|i have|here are|my|these are)?\b"
    r"[^.?!]{0,40}\b(?:questions?|following|things|points)\b[^.?!]{0,30}[:：.]?\s*",
    re.IGNORECASE,
)
_OPENING = re.compile(
    rf"(?:(?:and|also|plus|as well as)\b,?\s+(?:also\s+|then\s+)?)?(?:{_ORDINAL}\b(?:,\s*|\s+(?={_WH.pattern}|{_AUX}\b"
    r"|explain|describe|list|compare|name|tell)))?",
    re.IGNORECASE,
)
_INLINE_ITEM = re.compile(r"(?:(?<=\s)|^)\(?(?P<n>\d{1,2}|[a-h])[).]\s+(?=\S)")
_ORDINAL_JOINT = re.compile(
    r"[,;.]\s+(?:and\s+|then\s+)?(?=(?:second|third|fourth)(?:ly)?\b|(?:finally|lastly)\b)", re.IGNORECASE
)


def split_questions(text: str) -> tuple[str, ...]:
    """The sub-questions of a compound question in their order; the text itself, unchanged, if it is but one.

    Each part is a complete question as far as its text allows: with a capital letter and a question mark, without the
    "and" or "second" before it. What is no question (a sentence of background) stays with the question after it, at the
    end with the one before it. "What is the difference between A and B" and "How do X and Y compare" are one question.

    Never raises. There is always a part, and none is empty unless the text is.
    """
    parts = [part for item in _items(text) for part in _asked(item)]
    questions = [part for part in map(_complete, parts) if part]
    return tuple(questions) if len(questions) > 1 else (text,)


def _items(text: str) -> list[str]:
    """The items of a list of questions, with what is said before it; else the full text."""
    items = [item for item in list_items(text) if item.depth == 0]
    if len(items) > 1 and (all(item.number is not None for item in items) or all("?" in item.text for item in items)):
        lead, bodies = text[: items[0].start], [item.text for item in items]
        bodies[-1] += " " + text[items[-1].end :] if text[items[-1].end :].strip() else ""
    else:
        marks = list(_INLINE_ITEM.finditer(text))
        labels = ["123456789"[i : i + 1] for i in range(len(marks))], list("abcdefgh"[: len(marks)])
        if len(marks) < 2 or [mark["n"] for mark in marks] not in labels:
            return [text]
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        lead = text[: marks[0].start()]
        bodies = [text[mark.end() : end].strip(" ,;\n") for mark, end in zip(marks, ends, strict=True)]
    asking = any("?" in text_part for text_part in (lead, *bodies)) or all(map(_asks, bodies))
    if asking or _LEAD.fullmatch(lead.strip()):
        frame = not lead.strip() or _LEAD.fullmatch(lead.strip())
        # Each item is a question, whether or not it looks like one.
        bodies = [
            body if body.rstrip().endswith(("?", "？", ".", "!")) else body.rstrip(" ,;") + "?" for body in bodies
        ]
        if frame:
            return bodies
        return [lead, *bodies] if lead.rstrip().endswith(("?", "？")) else [f"{lead.strip()} {bodies[0]}", *bodies[1:]]
    return [text]


def _asked(text: str) -> list[str]:
    """The parts of a text without a list: sentences that ask, cut inside where they ask twice."""
    questions: list[str] = []
    background = ""
    for sentence in _sentences(text):
        pieces = _pieces(sentence)
        if not _asks(sentence):
            background = f"{background} {sentence}".strip()
            continue
        pieces[0] = f"{background} {_complete(pieces[0])}".strip()
        background = ""
        questions += pieces
    if background:
        return [*questions[:-1], f"{questions[-1]} {background}"] if questions else [background]
    return questions


def _sentences(text: str) -> Iterator[str]:
    """Sentences, cut at every question mark; what is in quotation marks is not cut."""
    ends = {end for _, end in sentences(text)} | {mark.end() for mark in _MARK.finditer(text)} | {len(text)}
    # A mark without a partner (5" of rope) would hold together all that follows.
    paired = text.count('"') % 2 == 0 and text.count("“") == text.count("”")
    begin = 0
    for end in sorted(ends):
        sentence = text[begin:end]
        if paired and (sentence.count('"') % 2 or sentence.count("“") > sentence.count("”")):
            continue
        if sentence.strip():
            yield sentence.strip()
        begin = end


def _asks(sentence: str) -> bool:
    if _TAG.fullmatch(sentence):
        return False
    sentence = _unled(sentence)
    bare = sentence.rstrip("\"'”’)]*_ ")
    return bare.endswith(("?", "？")) or bool(_ASKS.match(sentence)) or bool(_FIRST.match(sentence))


def _pieces(sentence: str) -> list[str]:
    """A sentence cut before each further question in it."""
    if re.match(r"first(?:ly)?\b", sentence, re.IGNORECASE):
        pieces = _ORDINAL_JOINT.split(sentence)
        if len(pieces) > 1:
            return pieces
    frame = _FRAME.match(sentence)
    if frame and frame.group().strip():
        clauses = _FRAMED.split(sentence[frame.end() :])
        end = sentence[-1] if sentence[-1] in "?." else ""
        return [frame.group() + clause.rstrip("?.") + end for clause in clauses]
    first = _FIRST.search(sentence)
    if first is None:
        return [sentence]
    cuts: list[tuple[int, int]] = []
    begin = first.start()
    for joint in _JOINT.finditer(sentence, first.end() - 1):
        name = next(key for key in ("both", "comma", "word") if joint[key])
        preceding = sentence[max(begin, joint.start() - _LOOKED_BACK) : joint.start()]
        following = sentence[joint.start(name) : joint.start(name) + _LOOKED_BACK]
        if _is_joint(preceding, following, name):
            cuts.append((joint.start(), joint.start(name)))
            begin = joint.start(name)
    edges = [0, *(following for _, following in cuts)]
    ends = [*(preceding for preceding, _ in cuts), len(sentence)]
    return [sentence[start:end] for start, end in zip(edges, ends, strict=True)]


def _is_joint(preceding: str, following: str, name: str) -> bool:
    """Whether what comes after is another question, not a part of the one before it."""
    if len(preceding.split()) < 3 or _EMBEDDED.fullmatch(following):
        return False
    question_word = _WH.search(following)
    # Inside the question before, past its own question word: "decide what is right and what is wrong".
    inner = [word.group().lower() for word in _WH.finditer(preceding)][1:]
    if name == "word" and question_word and question_word.group().lower() in inner:
        return False
    between = re.search(r"\b(?:between|both)\b(?!.*\band\b)", preceding, re.IGNORECASE)
    return not (between and name != "comma")


def _unled(part: str) -> str:
    """A part without the "and", "also" or "second," that it begins with."""
    opening = _OPENING.match(part)
    return part[opening.end() :] if opening else part


def _complete(part: str) -> str:
    """A part as a complete question."""
    question = _unled(" ".join(part.split())).rstrip(" ,;:–—")
    if not any(char.isalnum() for char in question):
        return ""
    if question[-1] not in ".?!？。！…\"'”’)]*_":
        question += "." if _ASKS.match(question) else "?"
    return question[0].upper() + question[1:]
