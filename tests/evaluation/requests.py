"""Requests made as the command line makes them: all options next to each other."""

from __future__ import annotations

from typing import Any

from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.runs.request_options import make_request
from turnmark.evaluation.tasks.request import EvalRequest


def request_of(**options: Any) -> EvalRequest:
    errors = ErrorCollector()
    request = make_request(options, errors)
    errors.raise_all()
    return request
