"""Make `docs/report.svg`: the terminal report of all four benchmarks on the demo splits.

python docs/picture.py
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent


def main() -> None:
    """Run the command as a user would and draw what it prints."""
    words = ["eval", "all", "--out", str(Path(tempfile.mkdtemp()) / "run")]
    ran = subprocess.run(
        [sys.executable, "-c", "from evaluation.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"TURNWISE_HOME": tempfile.mkdtemp(), "COLUMNS": "88", "PATH": "", "FORCE_COLOR": "1"},
        cwd=HERE.parent,
    )
    lines = ran.stdout.splitlines()
    bare = [Text.from_ansi(line).plain for line in lines]
    last = max(number for number, line in enumerate(bare) if line.startswith("demo data:"))
    shown = [line for line, text in zip(lines[last:], bare[last:], strict=True) if not text.startswith("run:")]
    console = Console(record=True, width=88, file=io.StringIO())
    console.print(Text("$ turnwise eval all"))
    for line in shown:
        console.print(Text.from_ansi(line))
    picture = console.export_svg(title="turnwise")
    # Rich names a font on a server; a picture asks no server for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (HERE / "report.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
