"""The threshold of cosines that an index calibrates."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search import score_thresholds
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.score_thresholds import MIN_COMPARED_SENTENCES, calibrate_sure_score

FACTS = ("The {} boat was built in {} by a carpenter from the village.", "It is painted every spring in {} colours.")


def collection(root: Path, documents: int, words: tuple[str, ...] = FACTS) -> Path:
    root.mkdir()
    for number in range(documents):
        text = "\n\n".join(word.format(f"{number}th", 1800 + number) for word in words)
        (root / f"boat-{number}.md").write_text(f"# Boat {number}\n\n{text}\n")
    return root


@pytest.fixture
def boats(tmp_path):
    build_index(collection(tmp_path / "boats", 40), "boats", retriever="dense")
    return open_index("boats")


def test_index_calibrates_its_threshold(boats):
    level = boats.manifest.sure_from
    assert level is not None
    assert 0.4 < level < 1
    assert calibrate_sure_score(boats) == level, "the sample is the same for the same index"


SUBJECTS = {
    "kettle": "spout lid handle descaler element whistle boiling tea",
    "violin": "bow string bridge rosin fingerboard tuning peg soundpost",
    "volcano": "crater lava ash eruption magma vent tremor caldera",
    "beehive": "queen drone wax honey swarm frame smoker brood",
    "chess": "bishop rook castling opening endgame pawn gambit checkmate",
}


def test_unrelated_documents_are_compared_by_section(tmp_path, monkeypatch):
    (tmp_path / "mixed").mkdir()
    for subject, parts in SUBJECTS.items():
        text = f"# {subject.title()}\n"
        for part in parts.split():
            text += f"\n## The {part}\n"
            for other in sorted(set(parts.split()) - {part}):
                text += f"\nThe {part} of every {subject} depends on the {other} that goes with it. "
                text += f"Whoever looks after a {subject} checks the {other} first and then the {part}.\n"
        (tmp_path / "mixed" / f"{subject}.md").write_text(text)
    build_index(tmp_path / "mixed", "mixed", retriever="dense")
    level = open_index("mixed").manifest.sure_from
    monkeypatch.setattr(score_thresholds, "MIN_UNRELATED_GAP", 2.0)
    of_documents = calibrate_sure_score(open_index("mixed"))
    assert level is not None
    assert of_documents is not None
    assert level > of_documents + 0.1, "a question about one of them is nearer to it than to all others"


def test_no_threshold_for_small_collections_or_without_vectors(tmp_path):
    build_index(collection(tmp_path / "few", MIN_COMPARED_SENTENCES - 1), "few", retriever="dense")
    build_index(collection(tmp_path / "plain", 40), "plain", retriever="bm25")
    assert open_index("few").manifest.sure_from is None
    assert open_index("plain").manifest.sure_from is None
