"""The values of `--engine`: models run in this process or on a Ray cluster."""

from __future__ import annotations

import re

from turnmark.core.errors import RequestError
from turnmark.core.extras import require_extra

LOCAL = "local"
_RAY = re.compile(r"ray(://[A-Za-z0-9._\-]+(:[0-9]{1,5})?|://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?)?")


def check_engine(engine: str) -> None:
    """Check `--engine` without connecting to a cluster."""
    if engine == LOCAL:
        return
    if not _RAY.fullmatch(engine):
        raise RequestError(f"--engine {engine!r}: expected local, ray, or ray://HOST[:PORT]")
    require_extra("ray", f"--engine {engine}")
