"""Questions about files that were not read."""

from __future__ import annotations

import pytest

import turnmark as tm

UNREAD = (
    "dentist-appointment.xyz",
    "Zahnarzt_Rechnung.xyz",
    "scans/roofRepairOffer.pdf",
    "歯医者の予約.xyz",
    "car.xyz",
)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory) -> tm.Assistant:
    folder = tmp_path_factory.mktemp("unread")
    for name in (*UNREAD, ".git/dentist-appointment-old.xyz", "node_modules/boat-license.xyz"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\x00\x01\x02")
    (folder / "boat.md").write_text("# Boat\n\n## Insurance\n\nThe boat is insured until the end of May.\n")
    (folder / "boat.xyz").write_bytes(b"\x00")
    (folder / "dinner.md").write_text("# Dinner\n\nThe appointment for dinner with Ada is on Friday at seven.\n")
    index = tm.Index.build(folder, "unread", retriever="bm25")
    return tm.Assistant(index)


@pytest.mark.parametrize(
    ("question", "file", "reason"),
    [
        ("When is my dentist appointment?", "dentist-appointment.xyz", "files of this type are not read"),
        ("Wie hoch ist die Rechnung vom Zahnarzt?", "Zahnarzt_Rechnung.xyz", "Dateien dieser Art werden nicht gelesen"),
        ("What is the offer for the repair of the roof?", "scans/roofRepairOffer.pdf", "not a PDF"),
        ("歯医者の予約はいつですか?", "歯医者の予約.xyz", "この種類のファイルは読み込まれません"),
        ("Where is the car?", "car.xyz", "files of this type are not read"),
    ],
)
def test_a_question_with_the_name_of_an_unread_file_says_so(assistant, question, file, reason):
    notes = [note for note in assistant.chat().ask(question).notes if file in note]
    assert len(notes) == 1
    assert reason in notes[0]


@pytest.mark.parametrize(
    "question",
    [
        "When is the appointment with Ada?",
        "Has the boat a license?",
        "Until when is the boat insured?",
        "Hello",
    ],
)
def test_other_questions_name_no_unread_file(assistant, question):
    assert not [note for note in assistant.chat().ask(question).notes if ".xyz" in note or ".pdf" in note]
