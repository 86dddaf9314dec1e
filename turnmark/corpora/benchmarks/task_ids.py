"""Ids of the tasks of conversations: `CONVERSATION<::>TURN`."""

from __future__ import annotations

import re

_SEPARATOR = re.compile(r"(?<!<)::(?=[0-9]+(?:#|$))")


def canonical_id(task_id: str) -> str:
    """Return a task id with the published separator: some official files write `c1::2` for `c1<::>2`."""
    return _SEPARATOR.sub("<::>", task_id)


def conversation_of(task_id: str) -> str:
    """Return the conversation of a task id: the part before the last `<::>`, or the id itself."""
    return task_id.rpartition("<::>")[0] or task_id
