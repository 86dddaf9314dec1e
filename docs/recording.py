"""Make `docs/chat.svg`, a real conversation of `turnmark chat` over the demo documents, as the terminal shows it.

python docs/recording.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
if TYPE_CHECKING:
    from tests.assistant.terminal import Terminal

QUESTIONS = (
    "How long may I borrow a book from the Net Loft?",
    "And when is Ottilie Grange there?",
    "Who won the 1998 World Cup?",
)
COLORS = {"default": "", "brown": "yellow"}
"""Names of colors that differ between the terminal emulator and Rich."""
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich names a font on a server; without it, the viewer's own font is used and nothing is fetched."""


def record(home: Path) -> str:
    """Hold the conversation over the index `demo` of a home, and return the terminal as SVG."""
    from tests.assistant.terminal import Terminal

    terminal = Terminal("chat", "--index", "demo", env={"TURNMARK_HOME": str(home)})
    terminal.at_prompt()
    for question in QUESTIONS:
        terminal.say(question)
    svg = drawn(terminal)
    terminal.child.close(force=True)
    return svg


def drawn(terminal: Terminal) -> str:
    """Return the screen of a terminal, with the lines that have scrolled off it, as SVG."""
    rows = terminal.rows()
    console = Console(record=True, width=terminal.columns, file=open(os.devnull, "w"), color_system="truecolor")  # noqa: SIM115
    console.print(Text("\n").join(map(styled, rows)), soft_wrap=True)
    return FONT.sub("", console.export_svg(title="turnmark chat --index demo", theme=MONOKAI, unique_id="turnmark"))


def styled(row: Sequence[Any]) -> Text:
    """Return a row of the terminal with its colors."""
    text = Text(end="")
    for style, chars in groupby(row, style_of):
        text.append("".join(char.data for char in chars), style)
    text.rstrip()
    return text


def style_of(char: Any) -> str:
    """Return the style of a character of the terminal, as Rich names it."""
    styles = {"bold": char.bold, "italic": char.italics, "underline": char.underscore, "reverse": char.reverse}
    color = f"#{char.fg}" if re.fullmatch("[0-9a-f]{6}", char.fg) else COLORS.get(char.fg, char.fg)
    return " ".join([*(name for name, is_set in styles.items() if is_set), color]).strip()


def main() -> None:
    """Build the index in a home of its own, and write the recording."""
    home = Path(tempfile.mkdtemp())
    build = ["index", "build", str(HERE.parent / "corpora" / "demo" / "documents"), "--name", "demo"]
    environment = {**os.environ, "TURNMARK_HOME": str(home)}
    start = [sys.executable, "-c", "from turnmark.cli import main; main()"]
    subprocess.run([*start, *build], check=True, env=environment, cwd=HERE.parent)
    (HERE / "chat.svg").write_text(record(home), encoding="utf-8")


if __name__ == "__main__":
    main()
