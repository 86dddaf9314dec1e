"""The package `openvino`, imported without its telemetry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def _silent_openvino() -> Iterator[None]:
    """OpenVINO reports to its makers that it was imported, unless its telemetry package is missing: make it so."""
    name = "openvino_telemetry"
    before = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before


def openvino() -> Any:
    """The `openvino` package, imported without its telemetry.

    Raises:
        ImportError: it is not installed, or its libraries do not load here.
    """
    with _silent_openvino():
        import openvino as ov

        # Imported here, while the telemetry is out of the way: this is where it would report from.
        import openvino.tools.ovc
    return ov
