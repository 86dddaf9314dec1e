"""Retrieval by the model: it reads what a first search found, and may then search and read further with tools.

The rounds are one conversation to which messages are only appended, so that a server with a prefix cache processes each
section once. The first reply that calls no tool is the answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from turnmark.assistant.asking import WrittenText, merge_roles
from turnmark.assistant.generators.base import GeneratorError, Tool, ToolCall, ToolGenerator, ToolMessage
from turnmark.assistant.prompts import load_prompt
from turnmark.assistant.steps.read import settle_reply, show_section, turn_prompt
from turnmark.assistant.steps.retrieve import SearchAndRead, grow_sections, join_passages
from turnmark.assistant.steps.support import stems
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Usage
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Hit, Query, Retriever, neighbours_of, section_of

ROUNDS = 4
"""Most rounds of tool calls in a turn."""
TOKENS = 1500
"""Most tokens of the sections that one tool call returns."""
LISTED, LOOKED_AT = 20, 200
"""For `documents`: the most documents that are listed, and the passages that are searched for them."""


def _tool(name: str, description: str, **arguments: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return Tool(name=name, description=description, parameters=schema)


TOOLS = (
    _tool("search", "Finds sections of the documents.", query="what a section that answers would say"),
    _tool(
        "read",
        "Reads on in a document: a section with all that is below it.",
        document="the file, as the sections name it in parentheses",
        section="its heading; empty: from the beginning",
    ),
    _tool("documents", "Lists the documents that hold some words, and how often.", words="one to three words"),
)


class SearchWithTools(SearchAndRead):
    """Retrieve step: a first search, then up to four rounds of tool calls that end with the answer.

    A model or endpoint that cannot call tools answers from the first search, as in the form `read`.
    """

    def __call__(self, turn: Turn) -> None:
        super().__call__(turn)
        if isinstance(turn.generator, ToolGenerator) and turn.retriever is not None and turn.evidence is None:
            try:
                _Agent(turn, turn.generator, turn.retriever).answer()
            except GeneratorError as error:
                if error.kind != "bad_request":
                    raise
                turn.use("answer", error.usage, "answered without tools: the endpoint takes none")


class _Agent:
    """The conversation with the model about one turn."""

    def __init__(self, turn: Turn, generator: ToolGenerator, retriever: Retriever) -> None:
        self.turn, self.generator, self.retriever = turn, generator, retriever
        prompt, notes = turn_prompt(turn)
        rules = [message for message in prompt if message.role == "system"]
        rules += load_prompt("agent", turn.prompts).render(rounds=str(ROUNDS))
        messages = merge_roles((*rules, *(message for message in prompt if message.role != "system")))
        self.messages = [ToolMessage(role=message.role, content=message.content) for message in messages]
        turn.use("answer", Usage(), *notes)

    def answer(self) -> None:
        """Run rounds of tool calls until the model answers; after the last round it is offered no tools."""
        for number in range(ROUNDS + 1):
            tools = TOOLS if number < ROUNDS else ()
            reply = self.generator.converse(self.messages, tools, on_text=self.turn.stream)
            self.turn.use("answer", reply.usage)
            if not reply.calls:
                settle_reply(
                    self.turn,
                    WrittenText(text=reply.text.strip(), usage=Usage(), note=None, finish_reason=reply.finish_reason),
                )
                return
            self.messages.append(reply.message)
            for call in reply.calls:
                self.messages.append(ToolMessage(role="tool", content=self._result(call), call_id=call.id))

    def _result(self, call: ToolCall) -> str:
        """Run one tool call and return its result as text for the model; a wrong call returns what is wrong."""
        try:
            arguments = json.loads(call.arguments or "{}")
        except ValueError:
            return "The arguments are not JSON."
        values: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {}
        texts = {key: " ".join(str(value).split()) for key, value in values.items()}
        self.turn.report("retrieve", f"{call.name}: {' › '.join(filter(None, texts.values()))}")
        match call.name:
            case "search" if texts.get("query"):
                return self._search(texts["query"])
            case "read" if texts.get("document"):
                return self._read(texts["document"], texts.get("section", ""))
            case "documents" if texts.get("words"):
                return self._documents(texts["words"])
        return f"No tool {call.name!r} takes these arguments."

    def _search(self, text: str) -> str:
        query = Query(text=text, standalone=True)
        hits = self.retriever.search([query], self.turn.passages)[0]
        self.turn.searched(query, hits, "the model searches on")
        return self._shown(grow_sections(self.retriever, hits, TOKENS))

    def _read(self, document: str, heading: str) -> str:
        passages = neighbours_of(self.retriever, _anywhere(document))
        if not passages:
            return f"No document is called {document!r}."
        matching = [passage for passage in passages if heading.lower() in passage.indexed_text.lower()]
        in_heading = (passage for passage in matching if heading.lower() in passage.section.lower())
        first = next(in_heading, matching[0] if matching else None)
        if heading and first is None:
            sections = dict.fromkeys(passage.section for passage in passages if passage.section)
            return f"No such section in it. Its sections: {'; '.join(sections) or 'none'}"
        start = passages.index(first) if first else 0
        section = section_of(first, passages) if first and first.section else passages[start:]
        hit = Hit(passage=join_passages(section), score=0.0)
        return self._shown([hit] if len(section) == 1 else grow_sections(None, [hit], TOKENS))

    def _documents(self, text: str) -> str:
        query_stems = stems(text)
        hits = self.retriever.search([Query(text=text, standalone=True)], LOOKED_AT)[0]
        counts = Counter(hit.passage.document for hit in hits if query_stems <= stems(hit.passage.indexed_text))
        rows = [f"{document}: {count} section{'s'[: count != 1]}" for document, count in counts.most_common(LISTED)]
        more = f"\n… and {len(counts) - LISTED} more" if len(counts) > LISTED else ""
        return "\n".join(rows) + more if rows else "No document holds all of these words."

    def _shown(self, hits: Sequence[Hit]) -> str:
        """Number the hits and show them to the model; of one that it has seen already, only its number."""
        known = len(self.turn.hits)
        numbers = self.turn.number(hits)
        texts = [
            show_section(number, hit.passage) if number > known else f"[{number}] is shown above."
            for number, hit in zip(numbers, hits, strict=True)
        ]
        return "\n\n".join(texts) or "Nothing was found."


def _anywhere(document: str) -> Passage:
    """Return an empty passage of a document, with which its passages can be looked up."""
    return Passage(id="", document=document, title="", text="", start=0, end=0)
