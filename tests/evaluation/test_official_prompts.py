"""Prompts of the papers: told apart by a digest, named in `by`, and then comparable with the published rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import DATA
from tests.evaluation.judged_runs import done
from tests.evaluation.published_rows import figures, ran
from tests.servers import Say, ScriptedServer
from turnmark.evaluation import prompts as judges_prompts
from turnmark.evaluation.benchmarks.mtrag.rubrics import IDK_JUDGE, RB_LLM
from turnmark.evaluation.judging.bertscore import Bert, bert_rubrics
from turnmark.evaluation.judging.judges import Judge, open_judges
from turnmark.evaluation.judging.panel import Judging
from turnmark.evaluation.prompts import JUDGES, OFFICIAL, OWN, digest, find_origin
from turnmark.evaluation.scores.published_results import find_rows, published_facts
from turnmark.evaluation.tasks.registry import import_tasks

PAPERS = DATA.parent / "papers"


def _between(file: str, first: str, last: str) -> str:
    text = (PAPERS / file).read_text(encoding="utf-8")
    begin = text.index(first)
    return text[begin : text.index(last, begin)]


def _filled(text: str, values: dict[str, str]) -> str:
    for printed, name in values.items():
        assert printed in text, printed
        text = text.replace(printed, f"{{{{ {name} }}}}")
    return text


def inseval() -> str:
    """InsCoQA appendix E."""
    text = (PAPERS / "inscoqa.txt").read_text(encoding="utf-8")
    text = text[text.index("You will be given a conversation\\_history, user\\_question") :]
    text = re.sub(r"\$|\\text(?=\{)", "", text.replace("\\_", "_")).replace("par-\n\ntial", "partial")
    return _filled(text, {
        "{conversation_history}": "history", "{question}": "question", "{system_answer}": "answer",
        "{ground_truth_answer}": "reference", "{system_procedural_instructions}": "steps",
        "{ground_truth_procedural_instructions}": "reference_steps",
    })  # fmt: skip


def _uncommented(text: str) -> str:
    return re.sub(r"/\*.*?\*/|```", "", text, flags=re.DOTALL)


def pairwise() -> str:
    """Compound-QA Table 17."""
    text = _between("compound_qa.txt", "Please act as an impartial judge", "Table 17:")
    return _filled(_uncommented(text), {
        "{sample.com_question}": "question",
        "{sample.com_answer if not swap_position else sample.com_reference}": "first",
        "{sample.com_reference if not swap_position else sample.com_answer}": "second",
    })  # fmt: skip


def extract() -> str:
    """Compound-QA Table 19."""
    text = _between("compound_qa.txt", "You are an assistant with expertise in text extraction", "Table 19:")
    return _filled(_uncommented(text), {"Question: question": "X", "Com_Answer: com_answer": "Y"}).replace(
        "{{ X }}", "Question: {{ question }}"
    ).replace("{{ Y }}", "Com_Answer: {{ answer }}")  # fmt: skip


def kiwi_verdict(examples: bool) -> str:
    """KIWI appendix A.5.1; the print has lost the names of its placeholders."""
    head = "Few-shot prompt template" if examples else "Zero-shot prompt template"
    text = _between("kiwi.txt", head, "A.5.2 T5" if examples else "Few-shot prompt template")
    system, user = re.split(r"\n(?=USER MESSAGE: )", text[text.index("SYSTEM MESSAGE: ") :])
    task = user[: user.index("# Question:")].removeprefix("USER MESSAGE: ")
    shown = "{{ examples }}\n" if examples else ""
    return (
        f"=== system ===\n{system.removeprefix('SYSTEM MESSAGE: ')}\n=== user ===\n{task}{shown}"
        "# Question:\n{{ question }}\n# Original answer:\n{{ previous }}\n# Instruction:\n{{ instruction }}\n"
        "# Updated answer:\n{{ revised }}\n# Rating of the Updated answer:\n"
    )


def write_printed(folder: Path, examples: bool = False) -> Path:
    """A folder for `--prompts`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "inseval": inseval(), "pairwise": pairwise(), "compound-extract": extract(),
        "kiwi-verdict": kiwi_verdict(examples),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


TEXTS = {
    "idk": "[Inquiry]\n{{ conversation }}\n[Response]\n{{ answer }}\n[Output]\n",
    "rb-llm": "Rate “{{ answer }}” against {{ reference }}, given {{ passages }}, {{ history }} and {{ question }}.",
}


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def as_papers(own, monkeypatch):
    """The papers' texts are not in this project, so these stand for them."""
    known_values = {name: digest(JUDGES.load(name, own)) for name in TEXTS}
    known = judges_prompts.prompt_facts().model_copy(
        update={"papers": {name: (value,) for name, value in known_values.items()}}
    )
    monkeypatch.setattr(judges_prompts, "prompt_facts", lambda: known)
    return own


def test_prompt_digest_ignores_layout(own):
    before = digest(JUDGES.load("rb-llm", own))
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace(" ", "\n  ").replace("“", '"').replace("”", '"'))
    assert digest(JUDGES.load("rb-llm", own)) == before
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace("given", "without"))
    assert digest(JUDGES.load("rb-llm", own)) != before
    (own / "rb-llm.txt").write_text(TEXTS["rb-llm"].replace("{{ history }}", "{{ conversation }}"))
    assert digest(JUDGES.load("rb-llm", own)) != before


def _judging(prompts):
    judges = open_judges(["openai:x@http://localhost:1"])
    bert = bert_rubrics(Bert("x"), "bertscore")
    bert_judge = Judge("bertscore", judges[0].generator, None, bert)
    return Judging([*judges, bert_judge], [RB_LLM, IDK_JUDGE, *bert], prompts=prompts)


def test_with_the_papers_prompts_every_judged_metric_is_the_published_instrument(as_papers):
    (fact,) = (
        row
        for row in published_facts()
        if row.system == "GPT-4o" and row.source.startswith("MTRAG Table 5") and row.setting == "rag"
    )
    named = _judging(as_papers).variants([])
    metrics = ("answerability_accuracy", "rb_llm.idk", "rb_alg.idk")
    assert [named[name] in fact.instruments[name].same for name in metrics] == [True] * 3
    ours = _judging(None).variants([])
    assert not any(ours[name] in fact.instruments[name].same for name in metrics)


@pytest.fixture(params=[False, True])
def printed(request, tmp_path):
    """The prompts of InsCoQA, Compound-QA and KIWI from the papers' texts, where these are at hand."""
    if not PAPERS.is_dir():
        pytest.skip(f"no texts of the papers at {PAPERS}")
    return write_printed(tmp_path / "printed", request.param)


def test_the_prompts_that_the_papers_print_are_known(printed):
    names = [path.stem for path in printed.glob("*.txt")]
    assert set(names) == set(judges_prompts.prompt_facts().papers) - {"rb-llm", "idk", "clarification"}
    assert {name: find_origin([name], printed) for name in names} == dict.fromkeys(names, OFFICIAL)
    (printed / "inseval.txt").write_text((printed / "inseval.txt").read_text().replace("terrible", "bad"))
    assert find_origin(["inseval"], printed) == OWN


@pytest.mark.parametrize(("benchmark", "metric"), [("inscoqa", "judge_score"), ("inscoqa", "task_completion"),
                                                   ("compound-qa", "win_rate")])  # fmt: skip
def test_with_a_printed_prompt_a_value_is_the_published_one(printed, benchmark, metric):
    """Judge and metric of every printed figure of theirs agree, so that data and number of samples decide."""
    judges = open_judges([f"panel:{benchmark}@http://localhost:1"])
    task = import_tasks(benchmark)[0]
    rows = [row for row in published_facts() if row.benchmark == benchmark and metric in row.metrics]
    rows = [row for row in rows if "GPT-4" not in row.instruments[metric].judges]
    for prompts, expected in ((printed, set()), (None, {"metric"})):
        judging = Judging(judges, task.rubrics(task.settings[0], "minilm"), prompts=prompts)
        run = ran(benchmark=benchmark, task=task.name, metrics=figures(1, metric), variants=judging.variants([]),
                  judged=judging.models(), judges=tuple(judge.name for judge in judges), breakdowns={})  # fmt: skip
        differing = {aspect for row in find_rows(run, rows) for aspect in row.differs_by_metric[metric]}
        assert differing & {"judge", "metric"} == expected
    assert len(rows) > 7


def test_kiwis_own_prompt_asks_for_the_rating_alone_and_is_read(turnmark, printed):
    """ "Your response should be ONLY the ratings": a reply that is one word is a rating, and no JSON is asked for."""
    with ScriptedServer(lambda body: Say("Good" if "lamp" in body["messages"][-1]["content"] else "bad.")) as server:
        words = ("eval", "kiwi", "--task", "judge", "--judge", f"openai:tiny@{server.url}", "--prompts", printed)
        summary = done(turnmark, *words, "--out", Path("r"))
    assert (summary.failed, summary.metrics["accuracy"].n) == (0, summary.n)
    prompt = server.bodies[0]["messages"][-1]["content"]
    assert "# Rating of the Updated answer:" in prompt
    assert "<question-" not in prompt
