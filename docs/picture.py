"""Make `docs/report.png`, the page of MTRAG's demo split, and `docs/serve.png`, the page of `turnmark serve` in a
conversation over the demo documents.

python docs/picture.py [report.png|serve.png]

Pages are drawn by a Chromium on PATH, which is driven as the tests drive it.
"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
if TYPE_CHECKING:
    from tests.evaluation.chromium import Page

HEIGHT, TALL, SERVED = 900, 2_480, 1_500  # pixels of the screen, and of the picture at most
QUESTIONS = ("How do I bake sourdough the way the Anvick Bakehouse does it?", "And how often is the dough folded?")
SAMPLE = 2  # has earlier turns, and an answer that cites


def main() -> None:
    """Make the pictures that are named; all of them where none is."""
    wanted = sys.argv[1:] or ["report.png", "serve.png"]
    if "report.png" in wanted:
        page()
    if "serve.png" in wanted:
        served()


def turnmark(words: list[str], **more: str) -> str:
    """Run a command as a user would, and give what it prints.

    Args:
        more: of the environment.
    """
    ran = subprocess.run(
        [sys.executable, "-c", "from turnmark.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"TURNMARK_HOME": tempfile.mkdtemp(), "COLUMNS": "88", "PATH": "", "FORCE_COLOR": "1", **more},
        cwd=HERE.parent,
    )
    return ran.stdout


def page() -> None:
    """Draw the page of MTRAG's demo split: its first screen, and a sample that is open."""
    run = Path(tempfile.mkdtemp()) / "run"
    turnmark(["eval", "mtrag", "--out", str(run)])
    with screen("report.png") as shown:
        shown.open((run / "report.html").as_uri(), 1280, HEIGHT)
        shown.run(f"document.querySelectorAll('#list button')[{SAMPLE}].click()")
        taken(shown, "report.png", TALL)


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
