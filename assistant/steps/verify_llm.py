"""Verifying with a language model: claim by claim in one structured call, and at most one call that mends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from turnmark.assistant.budget import INSTRUCTIONS, count_tokens, fit
from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.generators.schema import at_most, bounded, short_text
from turnmark.assistant.prompts import fence, fence_tag, load_prompt
from turnmark.assistant.steps.llm import numbered, parse_steps, passage_texts, written
from turnmark.assistant.steps.marks import says_unknown
from turnmark.assistant.steps.split import MOST_PARTS
from turnmark.assistant.steps.support import Claim, claims_of
from turnmark.assistant.steps.verify import Support, Verifier, Verify
from turnmark.assistant.structured import STRUCTURED_TOKENS, Failure, ask
from turnmark.assistant.turn import Turn
from turnmark.assistant.types import Draft, Usage
from turnmark.retrieval.types import Hit

Report = Callable[[Usage, str | None], None]
"""Takes down what a call cost, and a note for the person."""
BY_RULES = "verified by rules"
"""Begins a note that says why a model did not verify."""
TOKENS_PER_CLAIM = 60
"""Room for a verdict on a claim: two to a sentence, in a few words each."""
MOST_VERDICTS = 4
"""On a sentence."""
MOST_CITED = 10
"""Passages that say one claim."""


class ClaimVerdict(BaseModel):
    """Whether the passages say a claim, and which."""

    sentence: int
    claim: Annotated[str, short_text()] = ""
    supported: bool
    passages: Annotated[list[int], at_most(MOST_CITED)] = Field(default_factory=list)


class ClaimsReply(BaseModel):
    """What the prompt `verify-claims` asks for."""

    claims: list[ClaimVerdict]
    answered: Annotated[list[int], at_most(MOST_PARTS)] = Field(default_factory=list)


class VerifyByModel(Verify):
    """Claim by claim, in one structured call, and one repair; by rules, with a note, where that fails."""

    def verifier(self, turn: Turn) -> Verifier:
        def report(usage: Usage, note: str | None) -> None:
            turn.use("verify", usage, note)
            if note and note.startswith(BY_RULES):
                turn.forms["verify"] = "extractive"

        return ModelVerifier(turn.model, turn.understanding.sub_questions, turn.hits, turn.prompts, report)


class ModelVerifier:
    """A language model's judgement of a draft.

    Args:
        questions: the parts of the question.
        hits: the passages, which the marks of the draft count from 1.
        report: takes down what a call cost, and a note for the person.
    """

    def __init__(
        self, generator: Generator, questions: Sequence[str], hits: Sequence[Hit], prompts: Path | None, report: Report
    ) -> None:
        self.generator, self.questions, self.hits, self.prompts, self.report = (
            generator,
            questions,
            hits,
            prompts,
            report,
        )

    def judged(self, draft: Draft, otherwise: Support) -> tuple[Support, Mapping[int, tuple[int, ...]]]:
        """What of the draft is supported; and for claims that cite other passages than those that say them, these.

        A sentence is supported where all of its claims are. One that the model passes over, and everything where no
        usable reply comes, is judged as by `otherwise`.
        """
        claims = claims_of(draft)
        if not claims:
            return otherwise, {}
        prompt = self._prompt("verify-claims", "\n".join(_line(n, claim) for n, claim in enumerate(claims, 1)))
        if prompt is None:
            self.report(Usage(), f"{BY_RULES}: answer and passages do not fit into the model's context")
            return otherwise, {}
        limit = STRUCTURED_TOKENS + TOKENS_PER_CLAIM * len(claims)
        schema = bounded(ClaimsReply, MOST_VERDICTS * len(claims))
        reply, usage = ask(self.generator, prompt, schema, max_tokens=limit)
        if isinstance(reply, Failure):
            self.report(usage, f"{BY_RULES}: no usable verdict came ({reply.kind.replace('_', ' ')}: {reply.reason})")
            return otherwise, {}
        self.report(usage, None)
        supported, places = list(otherwise.supported), dict[int, tuple[int, ...]]()
        for at, claim in enumerate(claims):
            verdicts = [verdict for verdict in reply.claims if verdict.sentence == at + 1]
            if not verdicts:
                continue
            says = dict.fromkeys(n for verdict in verdicts for n in verdict.passages if 1 <= n <= len(self.hits))
            supported[at] = all(verdict.supported for verdict in verdicts) and bool(says or claim.numbers)
            if supported[at] and says and not set(says) & set(claim.numbers):
                places[at] = tuple(says)
        answered = tuple(n in reply.answered and any(supported) for n in range(1, len(self.questions) + 1))
        return Support(supported=tuple(supported), answered=answered), places

    def rewritten(self, draft: Draft, support: Support) -> Draft | None:
        """The draft as the model mends it; None, with a note, where it does not."""
        steps = "\n".join(
            f"{n}. {step.step} {''.join(f'[{c}]' for c in step.citations)}" for n, step in enumerate(draft.procedure, 1)
        )
        full_text = f"{draft.text}\n\nSteps:\n{steps}".strip() if steps else draft.text
        unsupported = [c.text for c, holds in zip(claims_of(draft), support.supported, strict=True) if not holds]
        left_out = [part for part, holds in zip(self.questions, support.answered, strict=True) if not holds]
        problems = [f"- not supported by the passages: {text}" for text in unsupported]
        problems += [f"- not answered: {part}" for part in left_out]
        prompt = self._prompt("verify-repair", full_text, "\n".join(problems))
        if prompt is None:
            return None
        try:
            completion = written(self.generator, prompt)
        except GeneratorError as error:
            self.report(error.usage, f"the answer was not mended: {error}")
            return None
        self.report(completion.usage, None)
        if completion.note or says_unknown(completion.text):
            return None
        body, steps_made, problem = parse_steps(completion.text)
        return None if problem or (draft.procedure and not steps_made) else Draft(text=body, procedure=steps_made)

    def _prompt(self, name: str, text: str, problems: str | None = None) -> tuple[PromptMessage, ...] | None:
        """The messages of a prompt with passages, parts and the answer; None where they do not fit."""
        always = "\n".join((text, *self.questions, problems or ""))
        room = self.generator.context_tokens - max(self.generator.reply_tokens, 2 * STRUCTURED_TOKENS)
        fitted = fit((), self.hits, always, room)
        if fitted.notes or INSTRUCTIONS + count_tokens(always) > room:
            return None
        texts = passage_texts(self.hits)
        tag = fence_tag(text, problems or "", *self.questions, *texts)
        parts = "\n".join(f"{n}. {' '.join(part.split())}" for n, part in enumerate(self.questions, 1))
        values = {"tag": tag, "passages": numbered(texts, tag), "parts": fence(parts, "parts", tag)}
        if problems is None:
            return load_prompt(name, self.prompts).render(sentences=fence(text, "answer", tag), **values)
        return load_prompt(name, self.prompts).render(
            answer=fence(text, "answer", tag), problems=fence(problems, "problems", tag), **values
        )


def _line(n: int, claim: Claim) -> str:
    marks = "".join(f"[{c}]" for c in claim.numbers)
    return f"S{n}| {' '.join(claim.text.split())} {marks}".rstrip()
