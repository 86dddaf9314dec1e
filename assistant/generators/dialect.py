"""How one endpoint wants to be asked: learnt from what it refuses, so that nothing is asked twice in vain."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# An objection to the number ("max_tokens is too large for the context of this model"), not to the parameter's name.
_TOO_MANY = re.compile("too (large|long|big|many)|context|exceed|maximum|at most|less than|at least|greater")


@dataclass
class Dialect:
    """What an endpoint has been seen to refuse; True and `max_tokens` until then."""

    limit: str = "max_tokens"
    temperature: bool = True
    stream_usage: bool = True
    schema: bool = True
    bounds: bool = True
    logprobs: bool = True
    seed: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def learn(self, sent: Mapping[str, Any], said: str) -> bool:
        """Take note of what a refusal objects to; True when the request can be put otherwise.

        Args:
            sent: the body of the request that was refused.
            said: the endpoint's words, with nothing cut.
        """
        said = said.lower()
        with self.lock:
            if "logprobs" in sent and "logprob" in said:
                self.logprobs = False
            elif "max_tokens" in sent and re.search("max_(completion_)?tokens", said) and not _TOO_MANY.search(said):
                self.limit = "max_completion_tokens"
            elif "stream_options" in sent and re.search("stream_options|include_usage", said):
                self.stream_usage = False
            elif "response_format" in sent and self.bounds and re.search("maxitems|maxlength", said):
                self.bounds = False
            elif "response_format" in sent and re.search("response_format|json_schema|guided|structured", said):
                self.schema = False
            elif "seed" in sent and re.search(r"\bseed\b", said):
                self.seed = False
            elif "temperature" in sent and "temperature" in said:
                self.temperature = False
            else:
                return False
            return True
