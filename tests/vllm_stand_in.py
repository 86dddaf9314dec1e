"""What `vllm serve MODEL --host … --port …` looks like from outside, as a real process with a scripted model.

Its behaviour is set by the environment: STAND_IN_DELAY seconds of loading, STAND_IN_FAIL says something and ends,
STAND_IN_STUBBORN does not listen to SIGTERM, STAND_IN_CHILD a file in which the number of a child that outlives it
stands.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers import Say, ScriptedServer


def main() -> int:
    """Serve until SIGTERM."""
    options = argparse.ArgumentParser()
    options.add_argument("model")
    options.add_argument("--host", required=True)
    options.add_argument("--port", type=int, required=True)
    arguments, engine = options.parse_known_args()
    print("INFO loading the model, with", json.dumps(engine), flush=True)
    time.sleep(float(os.environ.get("STAND_IN_DELAY", "0")))
    if failure := os.environ.get("STAND_IN_FAIL"):
        print(f"ERROR {failure}", file=sys.stderr, flush=True)
        return 3
    if path := os.environ.get("STAND_IN_CHILD"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(path).write_text(str(child.pid), encoding="utf-8")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ.get("STAND_IN_STUBBORN") else lambda *_: stop.set())
    description = {
        "pid": os.getpid(), "host": arguments.host, "engine": engine,
        "environment": sorted(name for name in os.environ if "KEY" in name or "TRACK" in name or "STATS" in name),
    }  # fmt: skip

    models = [{"id": arguments.model, "max_model_len": 2048}]
    with ScriptedServer(Say(json.dumps(description)), models=models, port=arguments.port):
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
