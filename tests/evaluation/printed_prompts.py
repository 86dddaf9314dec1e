"""The papers' prompts, as their texts print them, in the form of `--prompts`; their words are not in this project."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import DATA

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


def write(folder: Path, examples: bool = False) -> Path:
    """A folder for `--prompts`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "inseval": inseval(), "pairwise": pairwise(), "compound-extract": extract(),
        "kiwi-verdict": kiwi_verdict(examples),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder
