"""Runs a server for as long as whoever started this still lives; a script of its own, started by `vllm_server`.

    python keeper.py COMMAND ARGUMENT…

Standard input is a pipe from the process that wants the server. Its end (closed at a clean exit, or by the system when
that process is killed, with whatever signal) ends the server: SIGTERM to its process group, SIGKILL to what is left of
it. Nothing has to be caught in the process that wants it. Exits with the server's own code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 15.0


def main(command: list[str]) -> int:
    """Run the command until it ends, or until standard input does."""
    # A Ctrl-C at the terminal is meant for the turn, not for the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        # Standard output is for us alone: the server writes both of its streams to the log.
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror or error}\n")
        return 127
    wanted = threading.Event()

    def watch() -> None:
        while os.read(0, 1024):
            pass
        wanted.set()

    signal.signal(signal.SIGTERM, lambda *_: wanted.set())
    threading.Thread(target=watch, daemon=True).start()
    # The pid of the server itself, for whoever wants to look after it.
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    while server.poll() is None and not wanted.wait(0.1):
        pass
    if server.poll() is None:
        _signal(server.pid, signal.SIGTERM)
        ends = time.monotonic() + GRACE
        while server.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
    # What the server left behind in its group, or the server that did not listen.
    _signal(server.pid, signal.SIGKILL)
    return server.wait()


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) & 0xFF)
