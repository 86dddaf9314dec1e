"""The page in a real browser: what a reader does with it, and that it stays quiet, alone and harmless."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.evaluation.chromium import WHY, browser, found
from tests.evaluation.reported import SUMMARY, write_run
from turnmark.assistant.types import Usage
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.report.html_page import write_page
from turnmark.evaluation.report.sample_browser import BROWSE_FILE, BrowsedSample, SeenPassage, Utterance, clip_text
from turnmark.evaluation.storage.journal import json_line

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.skipif(found() is None, reason=WHY)]

EVIL = "<script>window.evil = 1</script><img src=https://example.org/x onerror='window.evil = 2'>"
N = 60


def sample(index):
    about = {
        "id": f"c{index // 6}<::>{index % 6 + 1}",
        "domain": ("clapnq", "fiqa")[index % 2],
        "query": f"Question {index}?",
    }
    if index == 7:
        return Sample(status="failed", kind="timeout", reason="no answer within 60 s", **about)
    refs = (ContextRef(document_id="p1", score=2.5), ContextRef(document_id=f"p{index}", score=1.25))
    return Sample(
        status="done", rewrite=f"the bell, question {index}", contexts=refs,
        decision=("answer", "unknown")[index % 10 == 0],
        prediction=f"The bell was cast in {1800 + index}. [2] {EVIL}",
        timings={"search": 0.25, "answer": float(index), "total": index + 0.5}, notes=("one passage was cut",),
        usage={"generator": Usage(calls=1, prompt_tokens=100 + index, completion_tokens=9)}, **about,
    )  # fmt: skip


def seen(index):
    utterances = (
        Utterance(role="user", text=clip_text("Hello")),
        Utterance(role="assistant", text=clip_text("Good day.")),
    )
    passages = (
        SeenPassage(
            id="p1", title="A bell", text=clip_text(f"A bell rings. {EVIL}"), rank=1, score=2.5, relevant=False
        ),
        SeenPassage(
            id=f"p{index}",
            title="Years",
            text=clip_text(f"It was cast in {1800 + index}."),
            rank=2,
            score=1.25,
            relevant=True,
        ),
        SeenPassage(id="missed", title="Missed", text=clip_text("Nobody found this."), relevant=True),
    )
    return BrowsedSample(
        id=sample(index).id, labels={"domain": (("clapnq", "fiqa")[index % 2],),
                                     "turn": (("first", "later")[index % 3 > 0],)},
        history=utterances * 2, question=clip_text(f"Question {index}?"), reference=clip_text(f"In {1800 + index}."),
        passages=passages,
    )  # fmt: skip


def judged(line, index):
    """The first metric of sample n is n hundredths, and a judge says why."""
    if '"metric": "rouge_l.word"' not in line:
        return line
    line = line.replace('"value": 0.25', f'"value": {index / 100}')
    return line.replace('"reason": null', f'"reason": "judged {index}: fine"')


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("run") / "r", SUMMARY, tuple(map(sample, range(N))))
    (folder / BROWSE_FILE).write_text("".join(json_line(seen(index)) for index in range(N)), encoding="utf-8")
    scores = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [judged(line, index * N // len(scores)) for index, line in enumerate(scores)]
    (folder / "scores.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return write_page(folder).as_uri()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    program = found()
    assert program
    with browser(program, tmp_path_factory.mktemp("state")) as page:
        yield page


@pytest.fixture
def page(chromium, url):
    chromium.open(url)
    yield chromium
    # Whatever was done: nothing was said on the console, nothing thrown, blocked or fetched.
    assert chromium.said == []
    assert chromium.asked == [url]
    assert chromium.run("window.evil") is None


def text(page, selector):
    return str(page.run(f"document.querySelector({selector!r}).innerText"))


def listed(page):
    return list(page.run("[...document.querySelectorAll('#list .asked')].map((one) => one.textContent)"))


LABEL = "[...document.querySelectorAll('#controls label')].find((one) => one.firstChild.textContent === '{}')"


def choose(page, label, option):
    """Take an option of the control with this label."""
    page.run(f"""(() => {{
        const select = {LABEL.format(label)}.querySelector('select');
        select.value = [...select.options].find((one) => one.textContent.startsWith({option!r})).value;
        select.dispatchEvent(new Event('change', {{ bubbles: true }}));
    }})()""")


def fill(page, label, value):
    """Type into the control with this label."""
    page.run(f"""(() => {{
        const input = {LABEL.format(label)}.querySelector('input');
        input.value = {value!r};
        input.dispatchEvent(new Event('input', {{ bubbles: true }}));
    }})()""")


def test_sample_shows_all_of_its_data(page):
    page.press("j")
    printed = text(page, "#sample")
    for part in (
        "2 of 60", "c0<::>2", "domain fiqa", "turn later", "decision answer", "Good day.", "Question 1?",
        "the bell, question 1", "The bell was cast in 1801.", "In 1801.", "A bell", "Years", "1 relevant not found",
        "relevant", "not labeled", "cited", "It was cast in 1801.", "0.0100", "judged 1: fine", "search", "0.250 s",
        "1 call, 101 + 9 tokens", "one passage was cut",
    ):  # fmt: skip
        assert part in printed, part
    assert page.run("[...document.querySelectorAll('.passage')].map((one) => one.open)") == [False, True, False]
    page.run("document.querySelector('.cite').click()")
    assert page.run("document.querySelector('.passage.lit').getAttribute('data-rank')") == "2"


def test_markup_in_an_answer_and_a_passage_stays_text(page):
    page.run("document.querySelectorAll('.passage').forEach((one) => { one.open = true; })")
    assert text(page, "#sample").count(EVIL) == 2
    assert page.run("document.querySelectorAll('#sample script, #sample img').length") == 0
    assert page.run("document.scripts.length") == 2


def test_filters_by_dimension_status_and_score(page):
    assert len(listed(page)) == N
    choose(page, "domain", "fiqa (30)")
    assert listed(page)[:3] == ["Question 1?", "Question 3?", "Question 5?"]
    choose(page, "turn", "first")
    assert listed(page)[:3] == ["Question 3?", "Question 9?", "Question 15?"]
    assert text(page, "#count").startswith("10 of 60 samples, mean rouge_l.word 0.3000 over 10")
    page.run("document.querySelector('#clear').click()")
    assert len(listed(page)) == N
    choose(page, "status", "failed (1)")
    assert listed(page) == ["Question 7?"]
    assert "timeout: no answer within 60 s" in text(page, "#sample")
    page.run("document.querySelector('#clear').click()")
    fill(page, "from", "0.2")
    fill(page, "to", "0.225")
    assert listed(page) == ["Question 20?", "Question 21?", "Question 22?"]
    fill(page, "from", "5")
    assert listed(page) == []
    assert text(page, "#sample") == "No sample matches."


def test_sorting_and_searching(page):
    choose(page, "order", "highest score")
    assert listed(page)[:2] == ["Question 59?", "Question 58?"]
    assert listed(page)[-1] == "Question 7?"  # a failed score is no low score
    choose(page, "order", "slowest")
    assert listed(page)[0] == "Question 59?"
    page.press("/")
    assert page.run("document.activeElement.id") == "search"
    fill(page, "search", "CAST in 1833")
    page.wait(lambda: listed(page) == ["Question 33?"])
    assert page.run("[...document.querySelectorAll('#sample mark')].map((one) => one.textContent)").count("1833") >= 2
    page.press("j")  # is typed, and moves nothing
    assert text(page, ".where") == "1 of 1"


def test_keyboard_moves_between_samples(page):
    for key in "jjk":
        page.press(key)
    assert text(page, ".where") == "2 of 60"
    assert page.run("document.querySelector('#list [aria-current]').innerText").startswith("Question 1?")
    page.press("/")
    page.press("Escape")
    assert page.run("document.activeElement === document.body") is True


ADDRESS = '["r","c2<::>3",0]'


def test_address_opens_a_sample(chromium, url):
    chromium.open(f"{url}#sample={quote(ADDRESS, safe='')}")
    assert text(chromium, ".where") == "15 of 60"
    for wrong in ("%7B", "%", "%5B%22other%22%5D", quote('["r","<img>",0]', safe="")):
        chromium.open(f"{url}#sample={wrong}")
        assert text(chromium, ".where") == "1 of 60"
        assert chromium.said == []


def test_narrow_screen_shows_list_or_sample(chromium, url):
    chromium.open(url, 390, 844)
    assert chromium.run("document.documentElement.scrollWidth") <= 390
    assert chromium.run("getComputedStyle(document.querySelector('#sample')).display") == "none"
    assert chromium.run("document.querySelector('.filters').open") is False
    small = (
        "[...document.querySelectorAll('button, select, input:not([type=radio])')].filter((one) => one.offsetHeight)"
    )
    assert chromium.run(f"{small}.map((one) => one.offsetHeight).every((height) => height >= 40)") is True
    chromium.run("document.querySelectorAll('#list button')[4].click()")
    assert chromium.run("document.querySelector('#sample').getBoundingClientRect().height") == 844
    assert text(chromium, ".where") == "5 of 60"
    assert chromium.run("document.querySelector('#sample').scrollWidth") <= 390
    # The way back of the browser closes the sample.
    chromium.run("history.back()")
    chromium.wait(lambda: not chromium.run("document.body.classList.contains('open')"))
    assert chromium.said == []


def test_metric_stays_in_view_while_a_narrow_table_is_scrolled(chromium, url):
    chromium.open(url, 390, 844)
    wide = "[...document.querySelectorAll('.box')].find((one) => one.scrollWidth > one.clientWidth)"
    assert chromium.run(f"Boolean({wide})")
    chromium.run(f"{wide}.scrollLeft = 10000")
    edges = "(({{left, right}}) => [left, right])({}.getBoundingClientRect())"
    left, right = chromium.run(edges.format(wide))
    first, _ = chromium.run(edges.format(f"{wide}.querySelector('tbody th')"))
    _, last = chromium.run(edges.format(f"{wide}.querySelector('tbody tr').lastElementChild"))
    assert left <= first <= left + 2
    assert right - 2 <= last <= right
