"""The time limit of every wait in the tests.

The limit catches a hang, never slowness: the suite passes on a busy machine that is many times slower than the one it
was written on. It is below the `timeout` of pytest, so that the test that hangs says what it was waiting for.
"""

from __future__ import annotations

PATIENCE = 600.0  # seconds
