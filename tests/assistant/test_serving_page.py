"""The page in a real browser: conversation, sources, steps, keyboard, phone width and untrusted text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.assistant.manual import write_manual
from tests.assistant.notes import notes
from tests.assistant.serving import Server, said, serving, write_token
from tests.conftest import DEMO
from tests.drawn import DescribesPictures, draw_bars
from tests.evaluation.chromium import WHY, Page, browser, found
from tests.patience import PATIENCE
from tests.servers import Say, ScriptedServer
from turnmark.corpora.readers.pdf.page_picture import HIGHLIGHT_COLOR
from turnmark.retrieval.index.build import build_index

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.skipif(found() is None, reason=WHY)]

TOKEN = "a-token-for-the-page"
EVIL = "<img src=https://example.org/x onerror='window.evil = 1'><script>window.evil = 2</script>"
MAIL = "From: Ann <ann@example.org>\nTo: Bob <bob@example.org>\nSubject: Kettle\n\nHello Bob,\nuse vinegar.\n\n> How?\n"
ANSWER = (
    f"**Lay** the stone in `water` first. [1] Then {EVIL} draw the blade. [1]\n\n"
    "1. Lay the stone in water. [1]\n2. Draw the blade over it. [1]"
)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedServer]:
    with ScriptedServer(Say(ANSWER)) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, endpoint: ScriptedServer) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    notes = tmp_path_factory.mktemp("notes")
    (notes / "knife.md").write_text(
        f"# Knives {EVIL}\n\nTo sharpen a knife, lay the stone in water, then draw the blade. `{EVIL}`\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        build_index(notes, "demo", retriever="bm25")
    with serving(
        home, "--token", write_token(home, TOKEN), "--generator", f"openai:tiny@{endpoint.url}?retries=0"
    ) as running:
        # The first reply of an unknown model is held back for a sentence, which would hide what the tests stream.
        running.post(said("How do I sharpen a knife?"), Authorization=f"Bearer {TOKEN}")
        yield running


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = found()
    assert program
    with browser(program, tmp_path_factory.mktemp("state")) as page:
        yield page


def text(page: Page, selector: str) -> str:
    return str(page.run(f"[...document.querySelectorAll({selector!r})].map((one) => one.innerText).join('|')"))


def count(page: Page, selector: str) -> int:
    return int(page.run(f"document.querySelectorAll({selector!r}).length"))


def typed(page: Page, words: str) -> None:
    page.send("Input.insertText", text=words)


def enter(page: Page) -> None:
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
    page.send("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
    page.send("Input.dispatchKeyEvent", type="keyUp", **key)


def opened(page: Page, server: Server, **screen: object) -> None:
    """Open the page, and enter the token with the keyboard."""
    page.open(f"{server.url}/", **screen)
    page.run("sessionStorage.clear(); localStorage.clear()")
    page.open(f"{server.url}/", **screen)
    page.wait(lambda: page.run("document.getElementById('asktoken').open"))
    typed(page, TOKEN)
    enter(page)
    page.wait(lambda: page.run("document.title.startsWith('demo')"))
    page.wait(lambda: page.run("document.activeElement.id === 'message'"))


def ask(page: Page, words: str) -> None:
    typed(page, words)
    enter(page)
    page.wait(lambda: page.run("document.body.classList.contains('busy')") or count(page, ".foot, .turn .failed"))


def done(page: Page) -> None:
    page.wait(lambda: not page.run("document.body.classList.contains('busy')"))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_conversation_with_the_keyboard_alone(server, endpoint, chromium, tmp_path, width, dark):
    endpoint.replies = [Say(ANSWER)]
    opened(chromium, server, width=width, dark=dark)
    assert "1 document." in text(chromium, "#holds")
    ask(chromium, "How do I sharpen a knife?")
    done(chromium)
    assert text(chromium, ".asked") == "How do I sharpen a knife?"
    replies = text(chromium, ".said")
    assert "Lay the stone in water first." in replies
    assert EVIL in replies, "the text of a model is shown unchanged"
    assert (text(chromium, ".said strong"), text(chromium, ".said code")) == ("Lay", "water")
    assert count(chromium, ".said ol li") == 2
    assert "answer" in text(chromium, ".foot")
    # A mark opens its document at the passage. HTML in it is shown as text.
    chromium.run("document.querySelector('.cite').focus(); 1")
    enter(chromium)
    chromium.wait(lambda: "draw the blade" in text(chromium, "#reader-body .passage.exact"))
    assert EVIL in text(chromium, "#reader-body .passage.exact code")
    assert text(chromium, "#reader-body h1").startswith("Knives")
    assert "knife.md" in text(chromium, "#reader-place")
    escape(chromium)
    chromium.wait(lambda: chromium.run("document.activeElement.className") == "cite")
    assert "knife.md" in str(chromium.run("document.querySelector('.source .where').textContent"))
    chromium.run("document.querySelectorAll('details.more').forEach((one) => { one.open = true; })")
    chromium.wait(lambda: text(chromium, ".trace"))
    trace = text(chromium, ".trace")
    assert "How do I sharpen a knife?" in trace
    assert "retrieve" in trace
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the screen"
    assert chromium.run("window.evil") is None
    assert count(chromium, "main img, main script") == 0
    dark_page = "rgb(20, 24, 29)"
    assert (chromium.run("getComputedStyle(document.body).backgroundColor") == dark_page) is dark
    chromium.run("document.getElementById('theme').click()")
    assert (chromium.run("getComputedStyle(document.body).backgroundColor") == dark_page) is not dark
    # The second request contains the first turn.
    chromium.run("document.getElementById('message').focus()")
    ask(chromium, "And how often?")
    done(chromium)
    assert count(chromium, ".turn") == 2
    assert any("knife" in message["content"] for message in endpoint.bodies[-1]["messages"])
    chromium.run("document.getElementById('fresh').click()")
    assert count(chromium, ".turn") == 0
    assert not chromium.run("document.getElementById('welcome').hidden")
    assert all(url.startswith(server.url) for url in chromium.asked)
    assert [line for line in chromium.said if "401" not in line] == []
    assert chromium.picture(tmp_path / "page.png").stat().st_size > 5000


def test_source_in_a_pdf_shows_its_page_with_the_passage_marked(tmp_path, monkeypatch, chromium):
    write_manual(tmp_path / "wheel.pdf")
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    build_index(tmp_path / "wheel.pdf", "demo", retriever="bm25")
    with serving(tmp_path / "home", "--token", write_token(tmp_path, TOKEN)) as running:
        opened(chromium, running)
        ask(chromium, "How are the wheel nuts tightened crosswise?")
        done(chromium)
        chromium.run("document.querySelector('.cite').focus(); 1")
        enter(chromium)
        chromium.wait(lambda: count(chromium, "#reader img.page"))
        chromium.wait(lambda: chromium.run("document.querySelector('img.page').naturalWidth") == 1200)
        assert chromium.run("document.querySelector('img.page').alt").endswith("of wheel.pdf, with the passage marked")
        assert all(url.startswith((running.url, f"blob:{running.url}")) for url in chromium.asked)
        chromium.wait(lambda: chromium.run("document.getElementById('reader-body').scrollTop"))
        picture = chromium.picture(tmp_path / "page.png")
        assert HIGHLIGHT_COLOR in {colour for _, colour in Image.open(picture).convert("RGB").getcolors(10**7) or []}


def test_source_that_describes_a_picture_shows_it(tmp_path, monkeypatch, chromium):
    folder = tmp_path / "notes"
    sha256 = draw_bars(folder / "weeks.png", 60, 20, 90)
    (folder / "kettle.md").write_text(f"# Kettle\n\n![Weeks {EVIL}](weeks.png)\n")
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    with ScriptedServer(DescribesPictures({sha256: f"A chart of twelve weeks. {EVIL}"})) as describing:
        build_index(folder, "demo", retriever="bm25", describe=f"openai:eyes@{describing.url}")
    with serving(tmp_path / "home", "--token", write_token(tmp_path, TOKEN)) as running:
        opened(chromium, running)
        ask(chromium, "How many weeks are in the chart?")
        done(chromium)
        chromium.run("document.querySelector('.cite').focus(); 1")
        enter(chromium)
        chromium.wait(lambda: count(chromium, "#reader img.page"))
        chromium.wait(lambda: chromium.run("document.querySelector('img.page').naturalWidth") == 160)
        assert "described by eyes" in text(chromium, "#reader-body")
        assert chromium.run("window.evil") is None
        assert all(url.startswith((running.url, f"blob:{running.url}")) for url in chromium.asked)


@pytest.mark.parametrize("width", [1280, 390])
def test_computed_source_shows_its_statement_and_rows(tmp_path, monkeypatch, endpoint, chromium, width):
    folder = notes(tmp_path)
    rows = "".join(f"{n},{EVIL},{n}0.50 €\n" for n in range(1, 7))
    (folder / "orders.csv").write_text(f"Number,Note,Amount\n{rows}", encoding="utf-8")
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    build_index(folder, "demo", retriever="bm25")
    statement = "SELECT note, sum(amount) FROM orders GROUP BY note"
    computed = Say("", calls=[("sql", json.dumps({"statement": statement}))])
    endpoint.replies = [Say("{}"), computed, Say("It is 213 € [2].")]
    with serving(
        tmp_path / "home",
        "--token",
        write_token(tmp_path, TOKEN),
        "--generator",
        f"openai:tiny@{endpoint.url}?retries=0",
    ) as running:
        opened(chromium, running, width=width)
        ask(chromium, "What is the total amount in orders.csv?")
        chromium.wait(lambda: count(chromium, ".foot"))
        assert text(chromium, "details.calls > summary") == "1 computation"
        chromium.run("document.querySelector('.cite').focus(); 1")
        enter(chromium)
        chromium.wait(lambda: count(chromium, "#reader .basis"))
        assert text(chromium, "#reader .basis pre") == statement
        assert text(chromium, "#reader .basis h4").split("|") == ["Computed with", "Rests on 6 rows of orders"]
        assert count(chromium, "#reader .basis tbody tr") == 6
        assert "10.50 €" in text(chromium, "#reader .basis td")
        assert EVIL in text(chromium, "#reader .basis td")
        chromium.run(
            "URL.createObjectURL = (blob) => { blob.text().then((rows) => { window.rows = rows; }); return '#'; }; 1"
        )
        chromium.run("document.querySelector('#reader .basis .save').click()")
        chromium.wait(lambda: chromium.run("window.rows !== undefined"))
        assert str(chromium.run("window.rows")).startswith("note,sum")
        assert chromium.run("window.evil === undefined")
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth"), "a wide table scrolls by itself"
        chromium.picture(tmp_path / "computed.png")


def test_model_searches_are_shown_live_and_collapsed_afterwards(server, endpoint, chromium):
    opened(chromium, server)
    calls = [("search", '{"query": "draw the blade"}'), ("grep", '{"words": "stone <b>"}')]
    endpoint.replies = [Say("{}"), Say("Let me look.", calls=calls), Say("Lay it in water. [1] And wait.", stall=20)]
    typed(chromium, "How do I sharpen a knife?")
    enter(chromium)
    chromium.wait(lambda: "Lay" in text(chromium, ".said.draft"))
    assert "Let me look" not in text(chromium, ".said.draft")
    live = text(chromium, ".calls p").split("|")
    assert [line.split(" → ")[0] for line in live] == ["search: draw the blade", "grep: stone <b>"]
    assert live[1].endswith("in none of 1 document [2]")
    chromium.press("Escape")
    done(chromium)
    assert count(chromium, ".calls p") == 2, "the searches stay visible"
    endpoint.replies = [Say("{}"), Say("Let me look.", calls=calls), Say("Lay it in water. [1]")]
    chromium.run("document.querySelector('.again').click()")
    chromium.wait(lambda: count(chromium, ".foot"))
    assert text(chromium, "details.calls > summary") == "1 search, 1 count"
    assert not chromium.run("document.querySelector('details.calls').open")
    assert text(chromium, ".said") == "Lay it in water. 1"


def test_answer_is_shown_while_it_is_streamed_and_can_be_stopped(server, endpoint, chromium):
    opened(chromium, server)
    endpoint.replies = [Say("{}"), Say("Lay the stone in water. [1] And wait.", stall=20)]  # the first understands
    endpoint.disconnected.clear()
    typed(chromium, "How do I sharpen a knife?")
    enter(chromium)
    chromium.wait(lambda: "Lay" in text(chromium, ".said.draft"))
    assert text(chromium, ".doing") == "Writing…"
    chromium.press("Escape")
    done(chromium)
    assert text(chromium, ".turn .stopped") == "Stopped."
    assert endpoint.disconnected.wait(PATIENCE), "the model is still writing"
    endpoint.replies = [Say(ANSWER)]
    chromium.run("document.querySelector('.again').click()")
    chromium.wait(lambda: count(chromium, ".foot"))
    assert count(chromium, ".turn") == 1


def test_try_again_does_nothing_while_another_question_is_answered(server, endpoint, chromium):
    opened(chromium, server)
    endpoint.replies = [Say("{}"), Say("Lay the stone in water. [1] And wait.", stall=20)]
    typed(chromium, "How do I sharpen a knife?")
    enter(chromium)
    chromium.wait(lambda: "Lay" in text(chromium, ".said.draft"))
    chromium.press("Escape")
    done(chromium)
    endpoint.replies = [Say("{}"), Say("Draw the blade. [1] And wait.", stall=20)]
    typed(chromium, "And then?")
    enter(chromium)
    chromium.wait(lambda: "Draw" in text(chromium, ".said.draft"))
    chromium.run("document.querySelector('.again').click()")
    assert count(chromium, ".turn") == 2
    assert text(chromium, ".turn .asked") == "How do I sharpen a knife?|And then?"
    chromium.press("Escape")
    done(chromium)


def test_markdown_of_an_answer_is_drawn_and_links_show_their_host(server, endpoint, chromium):
    opened(chromium, server)
    answer = (
        "| Stone | Grit |\n|---|---|\n| coarse [1] | 400 |\n\n- Lay\n  - in water\n- Draw [1]\n\n"
        "See [the bank](https://example.org/knife) or [x](javascript:evil).\n\n"
        "> Lay it\n> - in **water** [1]\n\n---\n\n***Both*** and ~~gone~~\n\n```\n> code\n---\n```"
    )
    endpoint.replies = [Say("{}"), Say(answer)]
    ask(chromium, "How do I sharpen a knife?")
    done(chromium)
    assert text(chromium, ".said table tr") == "Stone\tGrit|coarse 1\t400"
    assert count(chromium, ".said > ul, .said > ul ul") == 2
    assert text(chromium, ".said blockquote > p") == "Lay it"
    assert text(chromium, ".said blockquote li") == "in water 1"
    assert count(chromium, ".said hr") == 1
    assert (text(chromium, ".said em strong"), text(chromium, ".said s")) == ("Both", "gone")
    assert text(chromium, ".said pre").strip() == "> code\n---"
    assert text(chromium, ".said ul ul li") == "in water"
    assert count(chromium, ".said a") == 1
    assert chromium.run("document.querySelector('.said a').href") == "https://example.org/knife"
    assert "the bank (example.org)" in text(chromium, ".said p")


def test_header_stays_in_view_after_a_screenful(server, endpoint, chromium):
    opened(chromium, server)
    endpoint.replies = [Say("{}"), Say("\n\n".join(f"Lay stone {number} in water. [1]" for number in range(80)))]
    ask(chromium, "How do I sharpen a knife?")
    done(chromium)
    chromium.run("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    assert chromium.run("scrollY > innerHeight")
    assert chromium.run("document.querySelector('header').getBoundingClientRect().top") == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_conversations_are_kept_in_the_browser(server, endpoint, chromium, width, tmp_path):
    endpoint.replies = [Say(ANSWER)]
    opened(chromium, server, width=width)
    ask(chromium, "How do I sharpen a knife?")
    done(chromium)
    chromium.open(f"{server.url}/", width=width)
    chromium.wait(lambda: count(chromium, ".turn"))
    assert text(chromium, ".asked") == "How do I sharpen a knife?"
    assert count(chromium, ".cite") == 4, "sources can still be opened"
    focus_and_enter(chromium, "fresh")
    assert count(chromium, ".turn") == 0
    focus_and_enter(chromium, "history")
    chromium.wait(lambda: count(chromium, "#saved .open"))
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    chromium.run("document.querySelector('#saved .open').focus()")
    enter(chromium)
    chromium.wait(lambda: count(chromium, ".turn"))
    assert not chromium.run("document.getElementById('conversations').open")
    exported = str(chromium.run("exported(conversation)"))
    assert exported.startswith("## How do I sharpen a knife?\n\n**Lay** the stone in `water` first. [1]")
    assert "\\<img" in exported
    assert "- [1] Knives" in exported
    focus_and_enter(chromium, "history")
    chromium.run("document.querySelector('#saved [aria-label^=Delete]').focus()")
    enter(chromium)
    chromium.wait(lambda: "No conversation is saved yet." in text(chromium, "#saved"))
    escape(chromium)
    chromium.wait(lambda: not chromium.run("document.getElementById('conversations').open"))
    assert count(chromium, ".turn") == 0
    assert chromium.run("Object.keys(localStorage).length") == 0


def escape(page: Page) -> None:
    """Press Escape with its key code; without it, Chromium does not close a dialog."""
    key = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
    page.send("Input.dispatchKeyEvent", type="keyDown", **key)
    page.send("Input.dispatchKeyEvent", type="keyUp", **key)


def focus_and_enter(page: Page, name: str) -> None:
    """Press a button with the keyboard."""
    page.run(f"document.getElementById({name!r}).focus()")
    enter(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_answer_can_be_rated_copied_and_asked_again(server, endpoint, chromium, width):
    endpoint.replies = [Say(ANSWER)]
    opened(chromium, server, width=width)
    ask(chromium, "How do I sharpen a knife?")
    done(chromium)
    chromium.run("document.querySelector('[data-rating=good]').focus()")
    enter(chromium)
    chromium.wait(lambda: count(chromium, "[data-rating=good][aria-pressed=true]"))
    chromium.run("document.querySelector('[aria-label^=Copy]').focus()")
    enter(chromium)
    chromium.wait(lambda: "Copied" in text(chromium, ".actions"))
    chromium.run("document.querySelector('[aria-label^=Edit]').focus()")
    enter(chromium)
    assert chromium.run("document.getElementById('message').value") == "How do I sharpen a knife?"
    chromium.press("Escape")
    assert chromium.run("document.getElementById('message').value") == ""
    chromium.run("document.querySelector('[aria-label^=Edit]').focus()")
    enter(chromium)
    typed(chromium, " And how often?")
    enter(chromium)
    chromium.wait(lambda: "often" in text(chromium, ".asked"))
    done(chromium)
    assert count(chromium, ".turn") == 1
    assert len(endpoint.bodies[-1]["messages"]) < 4, "the replaced turn is not sent"
    buttons = "[...document.querySelectorAll('.cite, .actions button')].map((one) => one.getBoundingClientRect())"
    sizes = chromium.run(f"{buttons}.map((one) => [one.width, one.height])")
    assert [size for size in sizes if min(size) < 24] == []
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [1280, 390])
def test_documents_are_listed_and_opened(server, chromium, width):
    opened(chromium, server, width=width)
    focus_and_enter(chromium, "library")
    chromium.wait(lambda: count(chromium, "#listed .open"))
    assert "knife.md" in text(chromium, "#listed")
    assert "Knives" in text(chromium, "#listed")
    chromium.run("document.querySelector('#listed .open').focus()")
    enter(chromium)
    chromium.wait(lambda: "draw the blade" in text(chromium, "#reader-body"))
    assert EVIL in text(chromium, "#reader-body code")
    escape(chromium)
    chromium.wait(lambda: chromium.run("document.activeElement.matches('#listed .open')"))
    chromium.run("document.getElementById('words').focus()")
    typed(chromium, "zebra")
    enter(chromium)
    chromium.wait(lambda: text(chromium, "#counted") == "0 documents")
    escape(chromium)
    chromium.wait(lambda: not chromium.run("document.getElementById('documents').open"))
    assert chromium.run("document.activeElement.id") == "library", "the focus returns to the button"
    assert chromium.run("window.evil") is None
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def chosen_from(tmp_path_factory: pytest.TempPathFactory, endpoint: ScriptedServer) -> Iterator[Server]:
    """Serve two indexes and two generators without a token."""
    home = tmp_path_factory.mktemp("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        build_index(notes(home / "h", oven="# Oven\n\nThe oven is set to 180 degrees.\n"), "home", retriever="bm25")
        build_index(notes(home / "w", disk="# Disk\n\nThe server has a red disk.\n"), "work", retriever="bm25")
    generators = ("--generator", "extractive", "--generator", f"openai:tiny@{endpoint.url}?retries=0")
    with serving(home, *generators, indexes=("home", "work")) as running:
        yield running


def chosen(page: Page) -> str:
    return str(page.run("document.getElementById('models').selectedOptions[0].textContent"))


@pytest.mark.parametrize("width", [1280, 390])
def test_conversation_keeps_the_model_chosen_with_the_keyboard(chosen_from, endpoint, chromium, width):
    page = chromium
    fresh_page(page, chosen_from, width)
    assert chosen(page) == "home + work · quotations only"
    assert "2 documents" in text(page, "#holds")
    press(page, "Tab")
    assert page.run("document.activeElement.id") == "models"
    typed_key(page, "w")
    assert chosen(page) == "work · quotations only"
    assert "1 document." in text(page, "#holds")
    press(page, "Tab", shift=True)
    ask(page, "What does the server have?")
    done(page)
    assert "red disk" in text(page, ".said")
    assert "work · quotations only" in text(page, ".foot")
    page.run("document.getElementById('models').focus(); 1")
    press(page, "End")
    assert chosen(page) == "work · openai:tiny"
    endpoint.replies = [Say("{}"), Say("A red disk. [1]")]
    page.run("document.getElementById('message').focus(); 1")
    ask(page, "And which color?")
    done(page)
    assert text(page, ".said").endswith("A red disk. 1")
    focus_and_enter(page, "fresh")
    page.run("chooseModel('home/extractive'); 1")
    page.open(f"{chosen_from.url}/", width=width)
    page.wait(lambda: page.run("document.activeElement.id === 'message'"))
    focus_and_enter(page, "history")
    press(page, "Tab")
    enter(page)
    page.wait(lambda: count(page, ".turn") == 2)
    assert chosen(page) == "work · openai:tiny", "a conversation that is opened again has its last choice"
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "ArrowUp": 38, "ArrowDown": 40}


def press(page: Page, key: str, shift: bool = False) -> None:
    """Press a key that writes nothing."""
    about = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
    page.send("Input.dispatchKeyEvent", type="keyDown", **about)
    page.send("Input.dispatchKeyEvent", type="keyUp", **about)


def typed_key(page: Page, letter: str) -> None:
    about = {"key": letter, "code": f"Key{letter.upper()}", "windowsVirtualKeyCode": ord(letter.upper())}
    page.send("Input.dispatchKeyEvent", type="keyDown", text=letter, **about)
    page.send("Input.dispatchKeyEvent", type="keyUp", **about)


FOCUSED = """(() => {
  const one = document.activeElement, box = one.getBoundingClientRect();
  const shown = document.elementFromPoint(box.x + box.width / 2, box.y + Math.min(box.height / 2, 20));
  const ring = getComputedStyle(one.id === 'message' ? one.parentElement : one).outlineStyle;
  const name = one.id || one.getAttribute('aria-label') || one.className || one.tagName;
  return [name, ring === 'solid', Boolean(shown) && (one.contains(shown) || shown.contains(one))];
})()"""


@pytest.mark.parametrize("width", [1280, 390])
def test_focus_is_always_visible_and_dialogs_return_it(chosen_from, chromium, width):
    page = chromium
    fresh_page(page, chosen_from, width)
    ask(page, "What does the server have?")
    done(page)
    page.run("document.querySelectorAll('details.more').forEach((one) => { one.open = true; })")
    page.run("document.querySelector('.skip').focus()")
    stops = [page.run(FOCUSED)]
    while stops[-1][0] != "send":
        press(page, "Tab")
        page.wait(lambda: page.run(FOCUSED)[2], seconds=10)
        stops.append(page.run(FOCUSED))
    names = [name for name, _, _ in stops]
    assert names[:5] == ["skip", "fresh", "history", "library", "theme"]
    assert [name for name, ring, shown in stops if not (ring and shown)] == []
    for name in (
        "Copy the answer with its sources",
        "Edit the question and ask again",
        "Good answer",
        "Bad answer",
        "message",
        "models",
    ):
        assert name in names
    for opener, dialog in (("history", "conversations"), ("library", "documents")):
        focus_and_enter(page, opener)
        page.wait(lambda dialog=dialog: count(page, f"#{dialog} .list .open"))
        inside = f"document.getElementById('{dialog}').contains(document.activeElement)"
        for _ in range(12):
            assert page.run(f"{inside} || document.activeElement === document.body"), "the focus stays in the dialog"
            press(page, "Tab")
        escape(page)
        page.wait(lambda dialog=dialog: not page.run(f"document.getElementById('{dialog}').open"))
        assert page.run("document.activeElement.id") == opener


def fresh_page(page: Page, server: Server, width: int) -> None:
    """Open the page of a server without a token, with nothing stored."""
    page.open(f"{server.url}/", width=width)
    page.run("sessionStorage.clear(); localStorage.clear()")
    page.open(f"{server.url}/", width=width)
    page.wait(lambda: page.run("document.activeElement.id === 'message'"))


def test_new_question_is_at_the_top_below_the_header(chosen_from, endpoint, chromium):
    page = chromium
    fresh_page(page, chosen_from, 390)
    page.run("chooseModel('work/openai:tiny'); 1")
    for _ in range(2):
        endpoint.replies = [Say("{}"), Say("\n\n".join(f"Red disk {number}. [1]" for number in range(40)))]
        ask(page, "What does the server have?")
        done(page)
        top = "[...document.querySelectorAll('.asked')].at(-1).getBoundingClientRect().top"
        page.wait(lambda top=top: 50 < page.run(top) < 130, seconds=10)


def test_text_from_right_to_left_is_drawn_so(chosen_from, endpoint, chromium):
    page = chromium
    fresh_page(page, chosen_from, 390)
    page.run("chooseModel('work/openai:tiny'); 1")
    endpoint.replies = [Say("{}"), Say("القرص أحمر. [1]\n\n- القرص [1]\n\nThe disk is red. [1]")]
    ask(page, "ما لون القرص؟")
    done(page)
    directions = (
        "[...document.querySelectorAll('.asked, .said p, .said li')].map((one) => getComputedStyle(one).direction)"
    )
    assert page.run(directions) == ["rtl", "rtl", "rtl", "ltr"]


def test_server_that_is_gone_and_comes_back_with_another_index(chosen_from, chromium, tmp_path, monkeypatch):
    page = chromium
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    for name in ("first", "second"):
        build_index(notes(tmp_path / name, tea=f"# Tea\n\nThe {name} tea is green.\n"), name, retriever="bm25")
    with serving(tmp_path, indexes=("first",)) as running:
        fresh_page(page, running, 390)
        ask(page, "What color is the tea?")
        done(page)
    port = running.url.rsplit(":", 1)[1]
    for _ in range(3):
        page.run("document.querySelector('[data-rating=good]').click()")
    page.wait(lambda: count(page, ".turn .failed"))
    assert text(page, ".turn .failed").startswith("The server cannot be reached."), "one line, however often it fails"
    ask(page, "Is the tea green?")
    done(page)
    assert "The server cannot be reached." in text(page, ".turn:last-child .failed")
    with serving(tmp_path, "--port", port, indexes=("second",)):
        page.run("document.querySelector('.turn:last-child .again').click()")
        page.wait(lambda: "Try again to ask second" in text(page, ".turn:last-child .failed"))
        page.run("document.querySelector('.turn:last-child .again').click()")
        page.wait(lambda: "second tea" in text(page, ".turn:last-child .said"))


def test_hundred_conversations_can_be_searched(chosen_from, chromium):
    page = chromium
    fresh_page(page, chosen_from, 390)
    ask(page, "What does the server have?")
    done(page)
    page.run(
        "for (let n = 0; n < 100; n += 1) localStorage.setItem(KEY + n, JSON.stringify({ ...conversation, id: `${n}`,"
        " changed: n, turns: [{ ...conversation.turns[0], question: `Question ${n}?` }] }))"
    )
    focus_and_enter(page, "history")
    page.wait(lambda: count(page, "#saved li") == 101)
    page.run("document.getElementById('conversations').scrollTop = 2000; 1")
    close = "document.querySelector('#conversations .close').getBoundingClientRect()"
    assert 0 < page.run(f"{close}.top") < 100, "the button stays in view"
    page.run("document.getElementById('sought').focus(); 1")
    typed(page, "question 42")
    assert text(page, "#saved .open bdi") == "Question 42?"
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    escape(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_folder_is_asked_while_it_is_built_and_its_sources_are_opened(tmp_path, monkeypatch, chromium, width):
    page, folder = chromium, tmp_path / "harbor"
    shutil.copytree(DEMO / "files", folder)
    (folder / "kettle.eml").write_text(MAIL, encoding="utf-8")
    (folder / "broken.pdf").write_text("no PDF", encoding="utf-8")
    with serving(tmp_path / "home", str(folder), "--retriever", "bm25", indexes=()) as running:
        fresh_page(page, running, width)
        ask_when_built(page, "What does a night in the inner basin cost?")
        open_last_source(page, "harbour-guide.pdf")
        page.wait(lambda: count(page, "#reader img.page"))
        for question, path, block, said in (
            ("What is the fare of the ferry that leaves Sollum at 18:05?", "ferry.xlsx", "tr", "7.50"),
            ("What did Ann write about the kettle?", "kettle.eml", "p", "vinegar"),
        ):
            ask_when_built(page, question)
            open_last_source(page, path)
            page.wait(lambda block=block, said=said: said in text(page, f"#reader {block}.passage"))
            inside = "(one) => one.top >= 0 && one.bottom <= innerHeight"
            exact = "document.querySelector('#reader .passage').getBoundingClientRect()"
            assert page.run(f"({inside})({exact})"), "the passage is in view"
            assert page.run("document.documentElement.scrollWidth <= innerWidth")
        escape(page)
        focus_and_enter(page, "library")
        page.wait(lambda: "broken.pdf" in text(page, "#listed"))
        assert "not read: not a PDF" in text(page, "#listed .notes")
        switched_watch_reads_a_new_file(page, folder)
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert [line for line in page.said if "Failed to load resource" not in line] == []


def switched_watch_reads_a_new_file(page: Page, folder: Path) -> None:
    """Turn the switch of the open documents on, write a file, and turn it off again."""
    assert "Watch the folders" in text(page, "#watch")
    assert page.run("document.getElementById('watching').checked") is False
    page.run("document.getElementById('watching').click()")
    page.wait(lambda: page.run("build.watching"))
    assert page.run("document.getElementById('watching').checked")
    (folder / "buoy.md").write_text("# Buoy\n\nThe buoy is green.\n", encoding="utf-8")
    page.wait(lambda: "Buoy" in text(page, "#listed") or page.run("listDocuments(); 0"))
    page.run("document.getElementById('watching').click()")
    page.wait(lambda: page.run("build.watching === false"))


def ask_when_built(page: Page, words: str) -> None:
    """Ask; a question that is asked during a build is sent after it."""
    if page.run("document.getElementById('reader').open"):
        escape(page)
        page.wait(lambda: not page.run("document.getElementById('reader').open"))
    page.run("document.getElementById('message').focus(); 1")
    before = count(page, ".foot")
    typed(page, words)
    enter(page)
    page.wait(lambda: count(page, ".foot") > before)


def open_last_source(page: Page, path: str) -> None:
    """Press the source of the last answer that is in a file."""
    page.run("document.querySelectorAll('details.more').forEach((one) => { one.open = true; })")
    rows = "[...document.querySelectorAll('.turn:last-child .source')]"
    page.run(f"{rows}.find((one) => one.textContent.includes({path!r})).click()")
    page.wait(lambda: path in text(page, "#reader-place"))


@pytest.mark.parametrize("width", [1280, 390])
def test_files_are_added_updated_explained_and_removed(tmp_path, monkeypatch, chromium, width):
    page = chromium
    with serving(
        tmp_path / "home", "--retriever", "bm25", "--token", write_token(tmp_path, TOKEN), indexes=()
    ) as running:
        page.open(f"{running.url}/", width=width)
        page.run("sessionStorage.clear(); localStorage.clear()")
        page.open(f"{running.url}/", width=width)
        page.wait(lambda: page.run("document.getElementById('asktoken').open"))
        typed(page, TOKEN)
        enter(page)
        page.wait(lambda: "Drop files here" in text(page, "#holds") and page.run("Boolean(build.added)"))
        dropped = {"shelf/teapot.md": f"# Teapot\n\nThe teapot is blue. {EVIL}", "run.exe": "MZ", ".hidden.md": "no"}
        page.run(DROP.replace("FILES", json.dumps(dropped)))
        page.wait(lambda: "shelf - teapot.md" in text(page, "#listed"))
        assert "run.exe: files of this type are not read" in text(page, "#adding")
        assert (tmp_path / "home" / "added" / "added" / "shelf - teapot.md").is_file()
        escape(page)
        ask_when_built(page, "Which color is the teapot?")
        assert "blue" in text(page, ".said")
        focus_and_enter(page, "library")
        page.wait(lambda: count(page, "#listed .open"))
        page.run("document.getElementById('why-file').value = 'cup.md'; document.getElementById('why').open = true")
        page.run("document.getElementById('why-form').requestSubmit()")
        page.wait(lambda: "there is no such file in the folder of added" in text(page, "#why-said"))
        assert str(tmp_path) not in text(page, "#why-said")
        for _ in range(2):
            page.run("document.querySelector('#listed [aria-label^=Remove]').click()")
        page.wait(lambda: not count(page, "#listed tr"))
        assert not list((tmp_path / "home" / "added" / "added").iterdir())
        assert page.run("window.evil") is None
        assert page.run("document.documentElement.scrollWidth <= innerWidth")


DROP = """(() => {
  const event = new Event('drop', { cancelable: true, bubbles: true });
  const entry = (name, read) => ({ name, isFile: true, file: (give) => give(new File([read], name)) });
  const given = Object.entries(FILES);
  const inside = given.filter(([name]) => name.includes('/')).map(([name, read]) => entry(name.split('/')[1], read));
  const reader = { readEntries: (give) => give(inside.splice(0)) };
  const folder = { name: 'shelf', isFile: false, createReader: () => reader };
  const alone = given.filter(([name]) => !name.includes('/')).map(([name, read]) => entry(name, read));
  const items = [folder, ...alone].map((one) => ({ webkitGetAsEntry: () => one }));
  event.dataTransfer = { types: ['Files'], items };
  document.dispatchEvent(event);
})()"""


def test_drafts_and_theme_survive_a_reload(chosen_from, chromium):
    page = chromium
    fresh_page(page, chosen_from, 390)
    typed(page, "How hot is the ov")
    page.run("document.getElementById('theme').click()")
    theme = page.run("document.documentElement.dataset.theme")
    page.open(f"{chosen_from.url}/", width=390)
    page.wait(lambda: page.run("document.getElementById('message').value") == "How hot is the ov")
    assert page.run("document.documentElement.dataset.theme") == theme


def test_emphasis_marks_in_a_row_and_unsupported_answers_are_drawn(server, endpoint, chromium):
    page = chromium
    opened(page, server)
    endpoint.replies = [
        Say("{}"),
        Say("It is _explicitly_ wet, as in snake_case_name [1], [1].\n\n| a | b |\n|---|---|\n| 1 | 2 |\n[1]"),
    ]
    ask(page, "How do I sharpen a knife?")
    done(page)
    assert text(page, ".said em") == "explicitly"
    assert text(page, ".said .marks").split("|")[:2] == ["1,", "1."]
    assert page.run("getComputedStyle(document.querySelector('.marks')).whiteSpace") == "nowrap"
    assert count(page, ".said tbody tr") == 1
    endpoint.replies = [Say("{}"), Say("The moon is made of green cheese from Saturn. [1]")]
    ask(page, "What is the moon made of?")
    done(page)
    assert "Not in the documents" in text(page, ".turn:last-child .unsupported")
    assert count(page, ".turn:last-child .tag.answer") == 0
