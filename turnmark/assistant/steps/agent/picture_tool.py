"""The tool `look`, with which a model that reads pictures looks again at a picture that a section describes.

The reply becomes a numbered source, whose citation names the picture.
"""

from __future__ import annotations

import re

from turnmark.assistant.llm.calls.protocols import GeneratorError, PromptMessage, PromptPicture, traits_of
from turnmark.assistant.llm.prompts.context_budget import count_tokens, shorten
from turnmark.assistant.llm.prompts.prompt_files import load_prompt
from turnmark.assistant.llm.prompts.tool_definitions import (
    LOOK_ID,
    MAX_ARGUMENT_CHARACTERS,
    Result,
    define_tool,
    is_computed,
    short_line,
)
from turnmark.assistant.steps.answer.answer_llm import format_section
from turnmark.assistant.steps.step_results import SourceList
from turnmark.assistant.steps.turn_state import Turn
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line
from turnmark.corpora.types import MEDIA_TYPES, DescribedPicture, Passage
from turnmark.retrieval.storage.picture_store import PictureStore
from turnmark.retrieval.types import Hit

LOOK_TOOL = define_tool(
    "look", "Looks at a picture that a section describes, and answers a question about it.", "picture question",
    picture="number of the section; 3.2: the second picture of section 3", question="what to look for",
)  # fmt: skip
MAX_LOOKS = 4
"""Maximum number of looks in a turn."""
MAX_REPLY_TOKENS = 600
"""Maximum tokens of a reply."""
MAX_QUESTION_CHARACTERS = 500
"""Maximum characters of a question that are sent to the model."""
_NUMBER = re.compile(r"\[?(\d{1,4})(?:\.(\d{1,3}))?\]?")


class PictureTool:
    """The tool `look` of one turn."""

    def __init__(self, turn: Turn, store: PictureStore, sources: SourceList) -> None:
        self.turn, self.store, self.sources = turn, store, sources
        self._looks = 0

    def look(self, name: str, question: str, tokens: int) -> Result:
        """Ask the model about a picture, and return its reply as a numbered source.

        Args:
            name: number of a section, and perhaps of a picture in it: "3" or "3.2".
            tokens: maximum tokens of the source.

        Raises:
            RequestError: no picture has this number.
        """
        passage, picture = self._picture(name)
        if self._looks >= MAX_LOOKS:
            return Result(f"At most {count_phrase(MAX_LOOKS, 'picture')} in a turn.", "no more looks")
        self._looks += 1
        try:
            mark, reply = self._reply(passage, picture, question, tokens)
        except TurnmarkError as error:
            if isinstance(error, GeneratorError):
                self.turn.use("look", error.usage)
            problem = short_line(str(error), MAX_ARGUMENT_CHARACTERS)
            return Result(f"The picture could not be looked at: {problem}. Its description stands.", problem)
        source = passage.model_copy(
            update={
                "id": f"{LOOK_ID}{picture.sha256}:{one_line(question)}", "text": f"{mark}\n{reply}", "header": "",
                "start": picture.start, "end": picture.end, "page": picture.page, "page_starts": (),
            }
        )  # fmt: skip
        [number] = self.sources.number([Hit(passage=source, score=0.0)])
        return Result(format_section(number, source), f"{short_line(reply, MAX_ARGUMENT_CHARACTERS)} [{number}]")

    def _picture(self, name: str) -> tuple[Passage, DescribedPicture]:
        """Return the section and the picture that a name means; RequestError if there is none."""
        match = _NUMBER.fullmatch(name.strip())
        number, position = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
        hit = self.sources.hits[number - 1] if 0 < number <= len(self.sources.hits) else None
        passage = hit.passage if hit is not None and not is_computed(hit.passage.id) else None
        pictures = self.store.of_passage(passage) if passage else []
        if passage is None or not 0 < position <= len(pictures):
            found = [
                str(at)
                for at, each in enumerate(self.sources.hits, 1)
                if not is_computed(each.passage.id) and self.store.of_passage(each.passage)
            ]
            where = f"; sections with pictures: {', '.join(found)}" if found else "; no section so far describes one"
            raise RequestError(f"no picture has the number {short_line(name, 20)!r}{where}")
        return passage, pictures[position - 1]

    def _reply(self, passage: Passage, picture: DescribedPicture, question: str, tokens: int) -> tuple[str, str]:
        """Ask the model, and return a line that says what was asked, and the reply."""
        assert self.turn.generator is not None, "see `can_look`"
        question = short_line(question, MAX_QUESTION_CHARACTERS)
        prompt = load_prompt("look", self.turn.prompts)
        context = prompt.quote_fields({"Document": passage.title, "Caption": picture.alt})
        *rules, request = prompt.render(context=context, question=prompt.quote(question))
        seen = PromptPicture(content=self.store.read(picture), media_type=MEDIA_TYPES[picture.suffix])
        messages = [*rules, PromptMessage(role=request.role, content=request.content, pictures=(seen,))]
        limit = max(self.turn.generator.reply_tokens, MAX_REPLY_TOKENS)
        reply = self.turn.generator.complete(messages, max_tokens=limit)
        self.turn.use("look", reply.usage)
        mark = f"[Picture looked at by {one_line(reply.model)}: {question}]"
        room = max(1, min(MAX_REPLY_TOKENS, tokens) - count_tokens(mark))
        return mark, shorten(reply.text.strip() or "(nothing)", room)


def can_look(turn: Turn) -> bool:
    """Return whether the model of a turn reads pictures, as far as it is known."""
    return turn.generator is not None and traits_of(turn.generator).takes_pictures
