"""`reference`: no model but the targets of a benchmark's data, for the Reference rows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnmark.assistant.generators.base import CONTEXT_TOKENS, MAX_TOKENS, Completion, GeneratorError, PromptMessage
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec

NAME = "reference"


class ReferenceGenerator:
    """Stands for the targets; `turnmark eval` takes them from the data and asks nothing
    (`turnmark.evaluation.targets`).
    """

    name, context_tokens, reply_tokens = NAME, CONTEXT_TOKENS, MAX_TOKENS

    def complete(self, messages: Sequence[PromptMessage], **_: Any) -> Completion:  # noqa: ARG002
        """Nothing that is asked has a target.

        Raises:
            GeneratorError: always.
        """
        raise GeneratorError("bad_request", f"the generator {NAME!r} answers tasks of `turnmark eval` alone")


def open_reference(spec: Spec) -> ReferenceGenerator:
    """`reference`, which takes nothing else.

    Raises:
        RequestError: it has an argument, a url or options.
    """
    if spec.argument or spec.url or spec.options:
        raise RequestError(f"generator {NAME!r} takes no argument, no url and no options")
    return ReferenceGenerator()
