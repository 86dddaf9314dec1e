"""A text in the person's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from turnmark.assistant.repl.screen import uninterrupted
from turnmark.corpora.console import stdin_is_terminal
from turnmark.corpora.errors import RequestError, TurnmarkError

USUAL = ("editor", "nano", "vi")
"""Asked for in this order where the environment names none and a person sits there."""


def editor_command() -> list[str]:
    """What starts the editor: `$VISUAL`, `$EDITOR`, or a usual one. Never run through a shell.

    Raises:
        RequestError: there is none, or the variable is not a command.
    """
    for variable in ("VISUAL", "EDITOR"):
        named = os.environ.get(variable, "").strip()
        if named:
            try:
                return shlex.split(named)
            except ValueError as error:
                raise RequestError(f"{variable}={named!r} is not a command: {error}") from error
    found = next(filter(None, map(shutil.which, USUAL)), None) if stdin_is_terminal() else None
    if found is None:
        raise RequestError("no editor: set EDITOR to one, or give the text with the command: /edit TEXT")
    return [found]


def edited(text: str) -> str:
    """The text after the person has edited it. It lies in a file of mode 0600 meanwhile, in a folder of its own.

    Raises:
        RequestError: there is no editor.
        TurnmarkError: the editor cannot be run, or says that it failed: then nothing is taken over.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="turnmark-") as folder:
        path = Path(folder) / "answer.md"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        try:
            with uninterrupted():
                code = subprocess.run([*command, str(path)], check=False).returncode
            if code:
                raise TurnmarkError(f"the editor {command[0]!r} ended with {code}; nothing was changed")
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TurnmarkError(f"the editor {command[0]!r} cannot be run ({error.strerror or error})") from error
