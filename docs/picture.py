"""Make `docs/report.png`, the page of MTRAG's demo split, and three pictures of the page of `turnmark serve`.

They show a conversation over the demo documents (`serve.png`), a cited document and the table of documents.

python docs/picture.py [report.png|serve.png|reading.png|documents.png]…

Pages are drawn by a Chromium on PATH, which is driven as the tests drive it.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
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

HEIGHT, TALL, SERVED, SCREEN = 900, 2_480, 2_100, 760  # pixels of the screen, and of the picture at most
QUESTIONS = ("How do I bake sourdough the way the Anvick Bakehouse does it?", "And how often is the dough folded?")
SAMPLE = 2  # has earlier turns, and an answer that cites


def main() -> None:
    """Make the pictures that are named; all of them where none is."""
    makers = {"report.png": page, "serve.png": served, "reading.png": reading, "documents.png": documents}
    for name in sys.argv[1:] or makers:
        makers[name]()


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


def reading() -> None:
    """Draw a sheet that an answer cites, opened beside the conversation."""
    with harbor("reading.png") as shown:
        shown.run("fillField('What is the fare of the ferry that leaves at 18:05?'); send()")
        shown.wait(lambda: shown.run("document.querySelectorAll('.foot').length"))
        shown.run("document.querySelector('.cite').click()")
        shown.wait(lambda: shown.run("document.querySelectorAll('#reader .exact').length"))
        taken(shown, "reading.png", SCREEN)


def documents() -> None:
    """Draw the table of documents after a file was added."""
    with harbor("documents.png") as shown:
        text = json.dumps("# Opening hours\n\nThe harbor office is open from 7 to 19.")
        shown.run(f"openLibrary(); addFiles([{{ file: new File([{text}], 'hours.md'), name: 'office/hours.md' }}])")
        shown.wait(lambda: "hours.md" in shown.run("document.getElementById('listed').innerText"))
        shown.run("document.getElementById('why').open = true")
        shown.run("document.getElementById('why-file').value = 'tides.numbers'")
        shown.run("document.getElementById('why-form').requestSubmit()")
        shown.wait(lambda: shown.run("document.getElementById('why-said').textContent"))
        taken(shown, "documents.png", SCREEN)


@contextmanager
def harbor(name: str) -> Iterator[Page]:
    """Serve a folder with a guide, a sheet, a mail and a file that is not read, and open the page when it is built."""
    from tests.assistant.serving import serving
    from tests.conftest import DEMO

    folder = Path(tempfile.mkdtemp()) / "harbor"
    shutil.copytree(DEMO / "files", folder)
    mail = "From: Ida <ida@example.org>\nSubject: Berth 4\nDate: Mon, 2 Jun 2025 10:00 +0000\n\n"
    (folder / "berth.eml").write_text(f"{mail}Hello Ole,\nberth 4 is closed until Friday.\n", encoding="utf-8")
    (folder / "tides.numbers").write_bytes(b"\0")
    flags = (str(folder), "--retriever", "bm25")
    with serving(Path(tempfile.mkdtemp()), *flags, indexes=()) as server, screen(name) as shown:
        shown.open(f"{server.url}/", 1280, SCREEN)
        shown.wait(lambda: shown.run("document.title.startsWith('harbor')"))
        yield shown


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
