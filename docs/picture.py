"""Make `docs/report.svg`, the terminal report of all four benchmarks, and `docs/report.png`, the page of one, both of
the demo splits; `docs/serve.png`, the page that `turnmark serve` has, in a conversation over the demo documents; and
`docs/compare.png`, three systems side by side.

python docs/picture.py [report.svg|report.png|serve.png]
TURNMARK_DATA=… python docs/picture.py compare.png

Pages are drawn by a Chromium on PATH, which is driven as the tests drive it. The systems are those whose answers to
MTRAG-UN lie in $TURNMARK_DATA/mtragun-predictions, scored without a model.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
if TYPE_CHECKING:
    from tests.evaluation.chromium import Page

HEIGHT, TALL, SERVED = 900, 2_480, 1_500  # pixels of the screen, and of the picture at most
SYSTEMS = ("claude-haiku-4.5", "llama-3.3-70b", "qwen2.5-32b")
QUESTIONS = ("How do I bake sourdough the way the Anvick Bakehouse does it?", "And how often is the dough folded?")
SAMPLE = 2  # has earlier turns, and an answer that cites


def main() -> None:
    """Make the pictures that are named; all of them where none is."""
    wanted = sys.argv[1:] or ["report.svg", "report.png", "serve.png"]
    if "report.svg" in wanted:
        terminal()
    if "report.png" in wanted:
        page()
    if "serve.png" in wanted:
        served()
    if "compare.png" in wanted:
        comparison()


def turnmark(words: list[str], **more: str) -> str:
    """Run a command as a user would, and give what it prints.

    Args:
        more: of the environment.
    """
    ran = subprocess.run(
        [sys.executable, "-c", "from turnmark.evaluation.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"TURNMARK_HOME": tempfile.mkdtemp(), "COLUMNS": "88", "PATH": "", "FORCE_COLOR": "1", **more},
        cwd=HERE.parent,
    )
    return ran.stdout


def terminal() -> None:
    """Draw what `eval all` prints."""
    lines = turnmark(["eval", "all", "--out", str(Path(tempfile.mkdtemp()) / "run")]).splitlines()
    bare = [Text.from_ansi(line).plain for line in lines]
    last = max(number for number, line in enumerate(bare) if line.startswith("demo data:"))
    shown = [line for line, text in zip(lines[last:], bare[last:], strict=True) if not text.startswith("run:")]
    console = Console(record=True, width=88, file=io.StringIO())
    console.print(Text("$ turnmark eval all"))
    for line in shown:
        console.print(Text.from_ansi(line))
    picture = console.export_svg(title="turnmark")
    # Rich names a font on a server; a picture asks no server for anything.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (HERE / "report.svg").write_text(picture, encoding="utf-8")


def page() -> None:
    """Draw the page of MTRAG's demo split: its first screen, and a sample that is open."""
    run = Path(tempfile.mkdtemp()) / "run"
    turnmark(["eval", "mtrag", "--out", str(run)])
    drawn(run / "report.html", "report.png", TALL, f"document.querySelectorAll('#list button')[{SAMPLE}].click()")


def served() -> None:
    """Draw the page after two turns, with the second one's sources and trace open."""
    from tests.assistant.serving import serving
    from tests.conftest import DEMO

    home = tempfile.mkdtemp()
    turnmark(["index", "build", str(DEMO / "documents"), "--name", "demo"], TURNMARK_HOME=home)
    with serving(Path(home)) as server, screen("serve.png") as shown:
        shown.open(f"{server.url}/", 1280, HEIGHT)
        shown.wait(lambda: shown.run("document.title.startsWith('demo')"))
        for number, question in enumerate(QUESTIONS, 1):
            shown.run(f"document.getElementById('message').value = {json.dumps(question)}")
            shown.run("document.getElementById('composer').requestSubmit()")
            shown.wait(lambda count=number: shown.run("document.querySelectorAll('.foot').length") == count)
        shown.run("[...document.querySelectorAll('.turn:last-child details')].forEach((one) => { one.open = true; })")
        shown.run("document.querySelectorAll('header, #composer').forEach((one) => { one.style.position = 'static'; })")
        taken(shown, "serve.png", SERVED)


def comparison() -> None:
    """Draw the comparison of the recorded systems."""
    named = os.environ.get("TURNMARK_DATA", "")
    answers = Path(named) / "mtragun-predictions"
    if not named or not all((answers / f"{name}.jsonl").is_file() for name in SYSTEMS):
        sys.exit("compare.png is not made: TURNMARK_DATA names no folder with mtragun-predictions/")
    folder = Path(tempfile.mkdtemp())
    for name in SYSTEMS:
        turnmark(
            ["score", "mtrag-un", "--predictions", str(answers / f"{name}.jsonl"), "--judge", "embedded", "--out",
             str(folder / name)],
            TURNMARK_DATA=named,
        )  # fmt: skip
    turnmark(["compare", *(str(folder / name) for name in SYSTEMS), "--html", str(folder / "compare.html")])
    drawn(folder / "compare.html", "compare.png", 1_310)


def drawn(source: Path, name: str, tall: int, first: str = "0") -> None:
    """Write a picture of a page.

    Args:
        tall: pixels of the picture at most.
        first: what the page does before, as a script.
    """
    with screen(name) as shown:
        shown.open(source.as_uri(), 1280, HEIGHT)
        shown.run(first)
        shown.run("document.querySelectorAll('.fold').forEach((one) => one.remove())")
        taken(shown, name, tall)


@contextmanager
def screen(name: str) -> Iterator[Page]:
    """A browser for the picture of that name."""
    from tests.evaluation.chromium import WHY, browser, found

    program = found()
    if program is None:
        sys.exit(f"{name} is not made: {WHY}")
    with tempfile.TemporaryDirectory() as state, browser(program, Path(state)) as shown:
        yield shown


def taken(shown: Page, name: str, tall: int) -> None:
    """Write what a page shows, beyond the screen too, and from the top."""
    from PIL import Image

    height = min(tall, shown.run("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": 1280, "height": height, "scale": 1}
    made = shown.send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    with Image.open(io.BytesIO(base64.b64decode(made["data"]))) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
