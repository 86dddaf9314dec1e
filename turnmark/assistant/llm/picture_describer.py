"""Describes pictures with a model that reads them, when an index is built.

Each description is stored in the home folder as soon as it is complete, by the hash of the picture, the model and the
prompt. A later build, also one that was killed, pays only for pictures without a description.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from turnmark.assistant.llm.calls.ledger import Ledger, price_in
from turnmark.assistant.llm.calls.prices import Price, load_prices, parse_budget, price_of
from turnmark.assistant.llm.calls.protocols import (
    Generator,
    GeneratorError,
    PicturesRefused,
    PromptMessage,
    PromptPicture,
    estimate_picture_tokens,
    traits_of,
)
from turnmark.assistant.llm.calls.repetition import without_repetition
from turnmark.assistant.llm.calls.thread_pool import Scheduler
from turnmark.assistant.llm.generators.registry import argument_without_folders, open_generator
from turnmark.assistant.llm.generators.response_cache import ResponseStore
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.llm.prompts.prompt_files import Prompt, load_prompt
from turnmark.assistant.types import Usage
from turnmark.core.console import Progress
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.core.specs import parse_spec
from turnmark.core.untrusted import describe_error, one_line
from turnmark.corpora.readers.picture_descriptions import clean_description
from turnmark.corpora.text.segmentation import reading_words
from turnmark.corpora.types import MEDIA_TYPES, Picture
from turnmark.retrieval.index.picture_descriptions import DescribingPlan, Descriptions, PictureTask

DEFAULT_CONCURRENCY = 8
"""Default number of pictures that are described at the same time; `?concurrency=N` of the spec sets another one."""
MAX_DESCRIPTION_TOKENS = 3000
"""Maximum tokens of a description."""
ASSUMED_DESCRIPTION_TOKENS = 300
"""Tokens of a description in an estimate."""
DECORATION = "DECORATION"
"""The reply to a picture that only decorates."""
MAX_FAILURES_IN_A_ROW = 3
"""Number of consecutive failed calls after which no more calls are made."""
MIN_EQUAL_TEXTS = 4
"""Number of different pictures with the same description from which on it is worthless."""
STORE_FILE = "descriptions.db"


class ModelDescriber:
    """A model that describes pictures; see `turnmark.retrieval.index.picture_descriptions.PictureDescriber`.

    Args:
        generator: takes pictures.
        store: keeps the descriptions.
        open_ledger: returns a new ledger for a build, from the estimated usage of one description.
        price: price of the model's tokens, or None if it is not configured.
    """

    def __init__(
        self,
        generator: Generator,
        store: ResponseStore,
        open_ledger: Callable[[Usage], Ledger],
        price: Price | None = None,
    ) -> None:
        self.generator, self.store = generator, store
        self._open_ledger, self._price = open_ledger, price
        self._prompt = load_prompt("describe")
        identity = {**traits_of(generator).identity, "prompt": self._prompt.sha256}
        self._key = json.dumps(identity, sort_keys=True, default=str)

    @property
    def spec(self) -> str:
        """The generator's spec."""
        return self.generator.name

    @property
    def model(self) -> str:
        """The name of the model, without endpoint and options; of a file, its name without folders."""
        return _model_name(self.generator.name)

    @property
    def fingerprint(self) -> str:
        """A hash of the model, its endpoint and the prompt."""
        return hashlib.sha256(self._key.encode()).hexdigest()[:16]

    def plan(self, tasks: Sequence[PictureTask]) -> DescribingPlan:
        """Estimate what describing some pictures takes, with those that were described before."""
        missing = [task for task in tasks if self._stored(task.picture) is None]
        usage = sum((self._expected(task) for task in missing), Usage())
        price = self._price
        cost = price.cost(usage.prompt_tokens, usage.completion_tokens) if price else None
        return DescribingPlan(
            pictures=len(tasks),
            cached=len(tasks) - len(missing),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost=cost,
            currency=price.currency if price else None,
        )

    def describe(self, tasks: Sequence[PictureTask], progress: Progress, required: bool) -> Descriptions:
        """Describe pictures; see `PictureDescriber.describe`."""
        stored = {task.picture.sha256: self._stored(task.picture) for task in tasks}
        texts = {sha256: text for sha256, text in stored.items() if text is not None}
        missing = [task for task in tasks if task.picture.sha256 not in texts]
        if not missing:
            return Descriptions(texts, {}, 0, "")
        usage = sum((self._expected(task) for task in missing), Usage())
        guess = Usage(prompt_tokens=usage.prompt_tokens // len(missing), completion_tokens=ASSUMED_DESCRIPTION_TOKENS)
        work = _Work(self, missing, self._open_ledger(guess), progress, required)
        work.run()
        return Descriptions(texts | work.texts, work.failures, len(work.texts), ", ".join(work.ledger.in_words()))

    def ask(self, task: PictureTask) -> tuple[str, Usage]:
        """Return the description of one picture and the usage of the calls; an empty text: it only decorates.

        Raises:
            GeneratorError: a call failed, or the description is empty or incomplete.
            OSError: the picture cannot be read.
        """
        messages = self.messages(task)
        limit = max(self.generator.reply_tokens, MAX_DESCRIPTION_TOKENS)
        reply = self.generator.complete(messages, max_tokens=limit)
        text = reply.text.strip()
        shortened = without_repetition(text)
        if reply.finish_reason == "length":
            text = shortened if shortened != text else ""
        if reply.finish_reason == "content_filter" or not text:
            problem = {
                "length": f"longer than {limit} tokens; allow more in the spec, e.g. ?max_tokens=8000",
                "content_filter": "the endpoint's content filter stopped the description",
            }.get(reply.finish_reason, f"{reply.model} wrote nothing")
            raise GeneratorError("bad_reply", problem, reply.usage)
        text = "" if text.strip("*_`. ").upper() == DECORATION else clean_description(text)
        if text and (problem := _fault_of(text, shortened)):
            raise GeneratorError("bad_reply", f"{reply.model} {problem}", reply.usage)
        self.store.put(self._key_of(task.picture), json.dumps({"text": text}))
        return text, reply.usage

    def forget(self, picture: Picture) -> None:
        """Remove the stored description of a picture."""
        self.store.put(self._key_of(picture), json.dumps({"text": None}))

    def messages(self, task: PictureTask) -> list[PromptMessage]:
        """Return the prompt for a picture."""
        *rules, request = self._prompt.render(context=_context(self._prompt, task))
        picture = PromptPicture(content=task.file.read_bytes(), media_type=MEDIA_TYPES[task.picture.suffix])
        return [*rules, request.model_copy(update={"pictures": (picture,)})]

    def _expected(self, task: PictureTask) -> Usage:
        messages = self._prompt.render(context=_context(self._prompt, task))
        prompt = sum(count_tokens(message.content) for message in messages)
        prompt += estimate_picture_tokens(task.picture.width, task.picture.height)
        return Usage(calls=1, prompt_tokens=prompt, completion_tokens=ASSUMED_DESCRIPTION_TOKENS)

    def _key_of(self, picture: Picture) -> str:
        return hashlib.sha256(f"{self._key}\n{picture.sha256}".encode()).hexdigest()

    def _stored(self, picture: Picture) -> str | None:
        """Return the stored description of a picture, or None if it was not described yet."""
        row = self.store.get(self._key_of(picture))
        if row is None:
            return None
        try:
            text = json.loads(row)["text"]
        except (ValueError, KeyError, TypeError):
            return None
        return text if isinstance(text, str) else None


def _context(prompt: Prompt, task: PictureTask) -> str:
    """Return what the document says about a picture, quoted; empty if it says nothing."""
    return prompt.quote_fields({"Document": task.title, "Section": task.heading, "Caption": task.picture.alt})


_BLINDNESS = re.compile(
    r"\b(?:can(?:no|['’])t|can not|unable to|not able to|(?:do|did)(?:n['’]t| not))\b[^.!?]{0,40}"
    r"\b(?:see|view|access|open|display|process|analy[sz]e|have|find|receive)\b[^.!?]{0,30}"
    r"\b(?:images?|pictures?|photos?|attachments?|files?)\b"
    r"|\bkann\b[^.!?]{0,40}\b(?:Bild\w*|Foto\w*)\b[^.!?]{0,30}\bnicht\b|\bkeine?n? Bild\b"
    r"|\bne (?:peux|vois)\b[^.!?]{0,40}\bimage|\bno (?:puedo|veo)\b[^.!?]{0,40}\bimagen"
    r"|(?:看不到|无法(?:看到|查看|打开|识别)|没有看到)[^。]{0,20}(?:图|照片)|画像(?:を|が)[^。]{0,10}(?:できません|ありません)",
    re.IGNORECASE,
)
"""Matches the words of a model that has not seen the picture."""
_MAX_EXCUSE_LENGTH = 400
_MIN_WORDS = 2
_MIN_OWN_SHARE = 0.3  # of a description that is not repeated


def _fault_of(text: str, shortened: str) -> str:
    """Say why a description is worthless; "" if it is not. `shortened` is the reply until it repeats itself."""
    if len(text) <= _MAX_EXCUSE_LENGTH and _BLINDNESS.search(text):
        return "saw no picture"
    if reading_words(text) < _MIN_WORDS:
        return f"wrote only {text!r}"
    return "repeats itself" if len(shortened) < _MIN_OWN_SHARE * len(text) else ""


@dataclass
class _Work:
    """The pictures of a build that a model has to describe.

    Attributes:
        texts: SHA-256 -> description.
        failures: SHA-256 -> why a picture has none.
        failed_in_a_row: number of failed calls since the last success.
        ended: why no more calls are made; empty while calls are still made.
    """

    describer: ModelDescriber
    tasks: Sequence[PictureTask]
    ledger: Ledger
    progress: Progress
    required: bool
    texts: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    failed_in_a_row: int = 0
    ended: str = ""

    def run(self) -> None:
        """Describe the pictures, several at a time.

        Raises:
            TurnmarkError: descriptions are required, and the model takes no pictures or no key, or none of its first
                calls succeeds.
        """
        self.progress.start("describing pictures", len(self.tasks))
        traits_of(self.describer.generator).make_ready()
        scheduler: Scheduler[PictureTask, tuple[str, Usage]] = Scheduler(
            begin=lambda task: lambda: self.describer.ask(task),
            take=self._take,
            admit=lambda _, running: self.ledger.affords(len(running)),
            refuse=self._refuse,
            concurrency=traits_of(self.describer.generator).at_once or DEFAULT_CONCURRENCY,
            on_wait=lambda: self.progress.advance(0),
        )
        scheduler.run(takewhile(lambda _: not self.ended, self.tasks))
        self._reject_equal_texts()
        for task in self.tasks:
            if task.picture.sha256 not in self.texts:
                self.failures.setdefault(task.picture.sha256, self.ended)

    def _reject_equal_texts(self) -> None:
        """Take back a description that many pictures have: it says nothing about any of them."""
        often = Counter(filter(None, self.texts.values()))
        for task in self.tasks:
            sha256 = task.picture.sha256
            count = often[self.texts.get(sha256, "")]
            if count >= MIN_EQUAL_TEXTS:
                self.describer.forget(task.picture)
                self.failures[sha256] = f"{self.describer.model} described {count} pictures with the same words"
                del self.texts[sha256]

    def _refuse(self, _: PictureTask) -> None:
        self.ended = self.ended or self.ledger.exhausted()

    def _take(self, task: PictureTask, result: tuple[str, Usage] | BaseException) -> None:
        if isinstance(result, BaseException):
            self._fail(task, result)
            return
        text, usage = result
        self.texts[task.picture.sha256] = text
        self.failed_in_a_row = 0
        self._spend(usage)
        self.progress.advance()

    def _fail(self, task: PictureTask, error: BaseException) -> None:
        """Note a failed picture. End the work if further calls cannot succeed either."""
        if isinstance(error, GeneratorError):
            self._spend(error.usage)
            if isinstance(error, PicturesRefused) or error.kind == "auth":
                if self.required:
                    raise error
                self.ended = one_line(error)
        elif not isinstance(error, Exception):  # such as Ctrl-C
            raise error
        reason = one_line(error) if isinstance(error, GeneratorError) else describe_error(error)
        self.failures[task.picture.sha256] = reason
        self.progress.advance()
        self.failed_in_a_row += 1
        if self.failed_in_a_row < MAX_FAILURES_IN_A_ROW:
            return
        if not self.texts and self.required:
            raise TurnmarkError(
                f"no picture could be described ({reason}); build again when it can, or without --describe"
            ) from error
        self.ended = self.ended or f"{MAX_FAILURES_IN_A_ROW} descriptions failed one after the other"

    def _spend(self, usage: Usage) -> None:
        self.ledger.spend(self.ledger.priced({"describe": usage}))
        self.progress.tell(", ".join(self.ledger.in_words()))


def _model_name(spec: str) -> str:
    """Return the name of the model of a spec, without endpoint, options and folders."""
    try:
        parsed = parse_spec(spec)
    except RequestError:
        return one_line(spec)
    return one_line(argument_without_folders(parsed) or parsed.name)


def open_model_describer(spec: str, budget: str | None) -> ModelDescriber:
    """Open the describer of a generator's spec; loads no model.

    Raises:
        RequestError: names all mistakes: no language model, one that takes no pictures, a wrong budget or price.
    """
    errors = ErrorCollector()
    generator = errors.collect(open_generator, spec)
    limit = errors.collect(parse_budget, budget) if budget is not None else None
    prices = errors.collect(load_prices) or {}
    if generator is not None and not traits_of(generator).takes_pictures:
        errors.add(f"--describe: {PicturesRefused(f'{generator.name} takes no pictures')}")
    elif generator is None and not errors.problems:
        errors.add(f"--describe {spec}: no language model; name one that reads pictures, e.g. openai:gpt-4o-mini")
    if generator is not None and limit is not None:
        errors.collect(price_in, limit, generator.name, prices)
    errors.raise_all()
    assert generator is not None, "a model that could not be opened has been reported"
    price = price_of(generator.name, prices)
    return ModelDescriber(
        generator,
        ResponseStore(home() / "cache" / STORE_FILE),
        lambda guess: Ledger(price, limit, guess=guess),
        price,
    )
