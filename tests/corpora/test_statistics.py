"""`data check`: the papers' statistics tables of InsCoQA and KIWI, every cell, beside figures counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from turnmark.corpora.checking import check
from turnmark.corpora.statistics import Line, Sheet


def sample(name: str, domain: str, texts: list[str], steps: list[str], rounds: int) -> dict[str, Any]:
    return {
        "id": name, "domain": domain, "history": [["And?", "Yes."]] * (rounds - 1), "question": "How?",
        "documents": [{"id": str(n), "title": "", "text": text} for n, text in enumerate(texts)],
        "answer": "So.", "procedure": steps,
    }  # fmt: skip


def lines_of(sheet: Sheet) -> dict[str, Line]:
    return {line.what: line for line in sheet.lines}


def figures(sheet: Sheet, what: str) -> list[tuple[float | None, float | None]]:
    found = lines_of(sheet)
    return [(found[f"{what}, {name}"].here, found[f"{what}, {name}"].paper) for name in ("min", "max", "mean")]


def test_inscoqas_tables_1_and_2_are_whole(tmp_path: Path) -> None:
    rows = [
        sample("a", "Gourmet", ["one two three", "one"], ["Light it.", "Bake it now."], 1),
        sample("b", "Travel", ["one two"], ["Go."], 3),
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    [checked] = check(tmp_path)
    table_1, table_2 = checked.sheets
    assert figures(table_1, "documents a sample") == [(1, 1), (2, 8), (1.5, 4.10)]
    assert figures(table_1, "words a document") == [(1, 10), (3, 770), (2, 141)]
    assert figures(table_1, "words a procedure") == [(1, 10), (5, 404), (3, 83)]
    assert figures(table_1, "steps a procedure") == [(1, 1), (2, 23), (1.5, 6.6)]
    found = {what: (line.here, line.paper) for what, line in lines_of(table_2).items()}
    assert found["Gourmet: documents a sample"] == (2, 4.36)
    assert found["Gourmet: words of a sample's documents"] == (4, 630)
    assert found["Travel: rounds"] == (3, 3.01)
    assert found["all domains: steps a procedure"] == (1.5, 6.50)
    assert len(found) == 3 * 4


def test_kiwis_table_2_is_by_model(tmp_path: Path) -> None:
    def turn(**changes: Any) -> dict[str, Any]:
        return {
            "instruction": "Cut it.",
            "answer_1": "It.",
            "rating": "good",
            "instruction_type": "stylistic",
        } | changes

    rows = [
        {"original_question": f"Q{n}?", "model_name": model, "initial_answer": "It is.", "interaction": turns}
        for n, (model, turns) in enumerate([
            ("gpt-4", [turn(), turn(answer_2="Edited.", instruction_type="information-seeking")]),
            ("mine", [turn()]),
        ])
    ]  # fmt: skip
    (tmp_path / "interaction_data_new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    [checked] = check(tmp_path)
    found = {what: (line.here, line.paper) for what, line in lines_of(checked.sheets[0]).items()}
    assert [found[f"GPT-4: {what}"] for what in (
        "turns", "edited turns", "turns a session", "information-seeking, % of turns",
    )] == [(2, 370), (1, 55), (2, 4.7), (50, 59)]  # fmt: skip
    assert found["LLaMA-2-70b-chat: turns"] == (0, 488)
    assert found["mine: turns"] == (1, None)
    assert found["information-seeking, % of turns"] == (100 / 3, 54)
