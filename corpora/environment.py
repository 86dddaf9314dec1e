"""What libraries read from the environment when they are imported."""

from __future__ import annotations

import os


def quiet_libraries() -> None:
    """Telemetry of every library is off, whatever is loaded later; a variable that is set already stays."""
    for name, value in {
        "ANONYMIZED_TELEMETRY": "False",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_WAIT_POLICY": "PASSIVE",  # retrieval/models.py says why
    }.items():
        os.environ.setdefault(name, value)
