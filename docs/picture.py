"""Make `docs/report.svg`, the terminal report of all four benchmarks, and `docs/report.png`, the page of one.

Both are of the demo splits.

python docs/picture.py [report.svg|report.png]

The page is drawn by a Chromium on PATH, which is driven as the tests drive it.
"""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
HEIGHT, TALL = 900, 2_480  # pixels of the screen, and of the picture at most
SAMPLE = 2  # has earlier turns, and an answer that cites


def main() -> None:
    """Make the pictures that are named; all of them where none is."""
    wanted = sys.argv[1:] or ["report.svg", "report.png"]
    if "report.svg" in wanted:
        terminal()
    if "report.png" in wanted:
        page()


def turnwise(words: list[str]) -> str:
    """Run a command as a user would, and give what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", "from evaluation.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"TURNWISE_HOME": tempfile.mkdtemp(), "COLUMNS": "88", "PATH": "", "FORCE_COLOR": "1"},
        cwd=HERE.parent,
    )
    return ran.stdout


def terminal() -> None:
    """Draw what `eval all` prints."""
    lines = turnwise(["eval", "all", "--out", str(Path(tempfile.mkdtemp()) / "run")]).splitlines()
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


def page() -> None:
    """Draw the page of MTRAG's demo split: its first screen, and a sample that is open."""
    from PIL import Image

    sys.path.insert(0, str(HERE.parent))
    from tests.evaluation.chromium import WHY, browser, found

    program = found()
    if program is None:
        sys.exit(f"report.png is not made: {WHY}")
    run = Path(tempfile.mkdtemp()) / "run"
    turnwise(["eval", "mtrag", "--out", str(run)])
    with tempfile.TemporaryDirectory() as state, browser(program, Path(state)) as shown:
        shown.open((run / "report.html").as_uri(), 1280, HEIGHT)
        shown.run(f"document.querySelectorAll('#list button')[{SAMPLE}].click()")
        shown.run("document.querySelectorAll('.fold').forEach((one) => one.remove())")
        # Beyond the screen too, and from the top.
        height = min(TALL, shown.run("document.documentElement.scrollHeight"))
        clip = {"x": 0, "y": 0, "width": 1280, "height": height, "scale": 1}
        taken = shown.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(HERE / "report.png", optimize=True)


if __name__ == "__main__":
    main()
