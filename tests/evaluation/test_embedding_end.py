"""The end of a process while texts are still being embedded, as after Ctrl-C."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import threading, time
import numpy as np
from turnmark.evaluation.embedding import SharedEmbed

began = threading.Event()

def encode(texts):
    began.set()
    time.sleep(0.3)
    print(*texts, flush=True)
    return np.zeros((len(texts), 1), np.float32)

embed = SharedEmbed(encode)
for text in ("first", "second"):
    threading.Thread(target=embed, args=([text],), daemon=True).start()
    began.wait()
"""


def test_the_text_at_work_is_ended_and_no_other_is_begun():
    """A thread that is in native code when the interpreter ends aborts the process, and its exit code is lost."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "first\n", "")
