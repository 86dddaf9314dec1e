"""Bare means bare: a prompt of one's own that names no marks gets the material as it is, and nothing around it."""

from __future__ import annotations

import pytest

from tests.assistant.notes import conversation, hit
from tests.evaluation.scripted_judges import Heard, say
from turnmark.assistant.llm.prompts.prompt_files import ASSISTANT_PROMPTS, TAG_PLACEHOLDER
from turnmark.assistant.steps.answer.answer_llm import answer_prompt
from turnmark.assistant.steps.understand.understand_llm import rewrite_prompt, understand_prompt
from turnmark.assistant.types import Understanding
from turnmark.corpora.benchmarks import kiwi
from turnmark.evaluation.benchmarks.compound_qa.answer_modes import PROMPTS as MODES
from turnmark.evaluation.benchmarks.compound_qa.answer_modes import prompt_of
from turnmark.evaluation.benchmarks.kiwi import judge_task as kiwi_judge
from turnmark.evaluation.benchmarks.kiwi.kiwi_task import Instruction
from turnmark.evaluation.benchmarks.kiwi.revision import first_answer
from turnmark.evaluation.prompts import JUDGES
from turnmark.evaluation.synth.synthesis_attempt import PROMPTS
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.turn_samples import prompted_sample

FOLDERS = {"assistant": ASSISTANT_PROMPTS, "judges": JUDGES, "synth": PROMPTS}
NAMES = [(users, name) for users, folder in FOLDERS.items() for name in folder.replaceable]
TALK = conversation("who built it", "a mason")
SHOWN_TALK = "user: who built it\nagent: a mason"
PASSAGES = ("Kettles\nA kettle is red.", "A toaster is blue.")


@pytest.mark.parametrize(("users", "name"), NAMES, ids=" ".join)
def test_every_prompt_that_a_file_replaces_is_bare_without_a_tag(users, name, tmp_path):
    folder = FOLDERS[users]
    names = sorted((folder.load(name).placeholders | folder.further(name)) - {TAG_PLACEHOLDER})
    (tmp_path / f"{name}.txt").write_text("\n".join(f"{{{{ {placeholder} }}}}" for placeholder in names))
    prompt = folder.load(name, tmp_path)
    raw = {placeholder: f"the {placeholder}\n> [1] <x>" for placeholder in names}
    special = {"passages": "\n\n".join(PASSAGES), "history": SHOWN_TALK, "conversation": f"{SHOWN_TALK}\nuser: why?"}
    texts = {placeholder: text for placeholder, text in raw.items() if placeholder not in special}
    (message,) = prompt.fill(texts, PASSAGES, TALK, question="why?")
    assert message.content == "\n".join((raw | special)[placeholder] for placeholder in names)
    assert prompt.quote("a\nb") == "a\nb"


def own(folder, name, text):
    (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def answer(folder):
    own(folder, "answer", "{{ sections }}\n{{ history }}\n{{ message }}")
    understood = Understanding(rewrite="why?", sub_questions=("why?",))
    prompt, _ = answer_prompt(Heard(), understood, "why?", TALK, [hit("A kettle is red.", title="Kettles")], folder)
    return prompt, "[1]\nKettles\nA kettle is red.\nUser: who built it\nAssistant: a mason\nwhy?"


def understand(folder):
    own(folder, "understand", "{{ titles }}\n{{ history }}\n{{ message }}")
    prompt, _ = understand_prompt(Heard(), TALK, "why?", ["Kettles"], 1, folder)
    return prompt, "Kettles\nUser: who built it\nAssistant: a mason\nwhy?"


def rewrite(folder):
    own(folder, "rewrite", "{{ history }}\n{{ message }}")
    return rewrite_prompt(Heard(), TALK, "why?", folder)[0], f"{SHOWN_TALK}\nwhy?"


def question(name):
    def build(folder):
        """No title is repeated, and none is added."""
        own(folder, name, "{{ passages }}\n{{ history }}\n{{ question }}")
        documents = [("Kettles", PASSAGES[0]), ("Toasters", PASSAGES[1])]
        judge = Heard(say("So."))
        prompted_sample(Item("x", question="why?", history=tuple(TALK)), name, documents, judge, folder)
        return judge.asked[0], "\n".join(["\n\n".join(PASSAGES), SHOWN_TALK, "why?"])

    return build


def mode(name):
    def build(folder):
        own(folder, MODES[name], "{{ context }}\n{{ question }}")
        return prompt_of(name, "why?", "Since it rains.", folder), "Since it rains.\nwhy?"

    return build


def first(folder):
    """Passages as KIWI's appendix A.1 prints them."""
    own(folder, "kiwi-first", "{{ passages }}\n{{ question }}")
    judge = Heard(say("So."))
    first_answer(judge, "why?", [hit("A kettle is red.", title="Kettles")], folder)
    return judge.asked[0], "Paper title: Kettles\nPassage: A kettle is red.\nwhy?"


def verdict(folder):
    own(folder, "kiwi-verdict", "{{ previous }}\n{{ instruction }}\n{{ revised }}")
    fields = {"id": "0/0", "turn": 0, "instruction": "Shorten.", "previous": "A b.", "answer": "A.", "rating": "good"}
    turn = kiwi.KiwiTurn.model_validate(fields | {"edit": None})
    session = kiwi.Session(index=0, question="why?", model="m", initial_answer="A b.", turns=(turn,))
    return kiwi_judge._prompt(Instruction(session, turn), (), folder), "A b.\nShorten.\nA."


BUILT = {
    "answer": answer, "understand": understand, "rewrite": rewrite, "kiwi-first": first, "kiwi-verdict": verdict,
    **{name: question(name) for name in ("mtrag-answer", "mtrag-un-answer", "inscoqa-answer")},
    **{f"compound {name}": mode(name) for name in MODES},
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_nothing_is_put_around_the_material_of_a_bare_prompt(name, tmp_path):
    messages, expected = BUILT[name](tmp_path)
    assert (messages if isinstance(messages, str) else "\n".join(part.content for part in messages)) == expected
