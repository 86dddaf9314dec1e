"""BERTScore by any local model, against the formula worked out here; and what is made of it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from turnmark.core.errors import RequestError
from turnmark.evaluation.judging.bertscore import (
    PUBLISHED_MODEL,
    Bert,
    bert_k_precision,
    bert_recall,
    bert_rubrics,
    open_bert,
    rb_alg,
)
from turnmark.evaluation.judging.embedded_judge import NoModel
from turnmark.evaluation.tasks.items import Case

TEXTS = ["the ferry leaves at noon", "a boat sails at eleven", "the dog is on deck", "deck and dog is free of charge"]


def judge_of(spec, model):
    """What `--judge` opens."""
    return NoModel(spec), bert_rubrics(open_bert(model or None), spec)


@pytest.fixture
def fetched(tmp_path, monkeypatch, tiny_bert):
    """The tiny model among those that were fetched from the hub, under the published one's name."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / f"models--{PUBLISHED_MODEL.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    return Path(shutil.copytree(tiny_bert, folder / "snapshots" / "abc"))


def by_hand(folder, answer, reference, layers):
    """Precision and recall: each token's best cosine with a token of the other side, [CLS] and [SEP] not weighed."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def vectors(text: str):
        with torch.no_grad():
            out = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layers][0]
        return out / out.norm(dim=-1, keepdim=True)

    cosines = vectors(answer) @ vectors(reference).T
    return float(cosines.max(dim=1).values[1:-1].mean()), float(cosines.max(dim=0).values[1:-1].mean())


@pytest.mark.parametrize("layers", [1, 2])
def test_scores_match_the_formula(tiny_bert: Path, layers: int):
    opened = Bert(str(tiny_bert), "tiny", layers)
    answers, references = TEXTS[:3], [TEXTS[1], TEXTS[0], TEXTS[3]]
    for answer, reference, score in zip(answers, references, opened.score(answers, references), strict=True):
        assert score == pytest.approx(by_hand(tiny_bert, answer, reference, layers), abs=1e-5)


def test_handles_empty_and_long_texts(tiny_bert: Path):
    opened = open_bert(str(tiny_bert))
    assert opened.score(["", "the dog", " \n"], ["the dog", "", ""]) == [(0.0, 0.0)] * 3
    assert opened.score([], []) == []
    assert bert_recall(opened, "the dog", "  ") is None
    assert bert_k_precision(opened, "the dog", ["", " "]) is None
    (score,) = opened.score(["dog " * 500], ["the dog is on deck"])
    assert all(map(math.isfinite, score)), "cut to what the model reads"


def case(answer, **more):
    return Case(**{"question": "When?", "answer": answer, "reference": answer, "passages": (answer,)} | more)


def test_metric_names_include_the_model(tiny_bert: Path):
    generator, measures = judge_of("bertscore:x", str(tiny_bert))
    names = [f"{name}[tiny-bert]" for name in ("bert_recall", "bert_k_precision", "rb_alg")]
    assert [rubric.name for rubric in measures] == names
    assert all("not rescaled" in rubric.by for rubric in measures)
    reply = case("the ferry leaves at noon")
    assert [rubric.ask(generator, reply, None).value for rubric in measures] == pytest.approx([1.0] * 3, abs=1e-5)
    assert not any(rubric.without(reply) for rubric in measures)


def test_judgment_matches_hand_computed_values(tiny_bert: Path):
    generator, (recall, precision, mean) = judge_of("bertscore:x", str(tiny_bert))
    reply = case(TEXTS[0], reference=TEXTS[1], passages=(TEXTS[2], TEXTS[3]))
    near = by_hand(tiny_bert, TEXTS[0], TEXTS[1], 2)[1]
    nearest = max(by_hand(tiny_bert, TEXTS[0], text, 2)[0] for text in TEXTS[2:])
    assert recall.ask(generator, reply, None).value == pytest.approx(near, abs=1e-5)
    assert precision.ask(generator, reply, None).value == pytest.approx(nearest, abs=1e-5)
    rouge = 1 / 5  # "at" is all that "the ferry leaves at noon" and "a boat sails at eleven" share
    expected = 3 / (2 / (near + 1) + 1 / rouge + 2 / (nearest + 1))
    outcome = mean.ask(generator, reply, None)
    assert outcome.value == pytest.approx(expected, abs=1e-5)
    assert outcome.reason == f"recall {near:.3f}, K-precision {nearest:.3f}, ROUGE-L 0.200"


@pytest.mark.parametrize("passages", [(), (" ",)])
def test_k_precision_is_0_without_passages(tiny_bert: Path, passages: tuple[str, ...]):
    """MTRAG Table 13 prints .75 for the references of unanswerable tasks: 3 / (1 + 1 + 2)."""
    generator, (_, precision, full) = judge_of("bertscore:x", str(tiny_bert))
    reply = case("the ferry leaves at noon", passages=passages)
    assert precision.ask(generator, reply, None).value == 0.0
    assert full.ask(generator, reply, None).value == pytest.approx(0.75, abs=1e-5)


def test_published_model_is_rescaled_and_has_plain_metric_names(fetched: Path):
    import bert_score
    from bert_score.utils import model2layers

    _, measures = judge_of("bertscore", "")
    assert [rubric.name for rubric in measures] == ["bert_recall", "bert_k_precision", "rb_alg"]
    assert all(f"bert-score with {PUBLISHED_MODEL}, rescaled by its baseline" in rubric.by for rubric in measures)
    assert judge_of("bertscore", PUBLISHED_MODEL)[1][0].name == "bert_recall"
    assert open_bert().model == str(fetched), "from its folder, so that nothing asks the hub"
    assert model2layers[PUBLISHED_MODEL] == 40
    baseline = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / f"{PUBLISHED_MODEL}.tsv"
    assert baseline.is_file()
    (fetched / "model.safetensors").unlink()
    with pytest.raises(
        RequestError, match=rf"a run downloads nothing; fetch it once with 'hf download {PUBLISHED_MODEL}'"
    ):
        open_bert()


def test_rescaling_uses_the_baseline(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch):
    """With a baseline for the model: (value - baseline) / (1 - baseline), that of an empty side too."""
    import torch
    from bert_score import BERTScorer

    monkeypatch.setattr(BERTScorer, "baseline_vals", property(lambda _: torch.tensor([0.2, 0.5, 0.4])))
    plain = Bert(str(tiny_bert), "tiny", 2).score(TEXTS[:1], TEXTS[1:2])[0]
    scaled, empty = Bert(str(tiny_bert), layers=2).score([TEXTS[0], ""], [TEXTS[1], "dog"])
    assert scaled == pytest.approx(((plain[0] - 0.2) / 0.8, (plain[1] - 0.5) / 0.5), abs=1e-6)
    assert empty == pytest.approx((-0.25, -1.0), abs=1e-6)


def test_refuses_folders_without_a_model(tmp_path: Path):
    with pytest.raises(RequestError, match="is not a folder with a model"):
        open_bert(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1}), encoding="utf-8")
    with pytest.raises(RequestError, match="cannot be loaded"):
        open_bert(str(tmp_path)).score(["a"], ["b"])


def test_rb_alg_matches_hand_computed_values():
    assert rb_alg(1.0, 1.0, 0.0) == 0.75
    assert rb_alg(0.5, 0.5, 0.0) == pytest.approx(3 / (1 / 0.75 + 2 + 2))
    assert rb_alg(1.0, 1.0, 1.0) == 1.0
    assert rb_alg(0.5, 0.0, 0.5) == rb_alg(-1.0, 0.5, 0.5) == rb_alg(-3.0, 0.5, 0.5) == 0.0


@pytest.mark.data
def test_rb_alg_matches_the_human_evaluation(real_data: Path):
    """The file's own parts give its own `rb_agg` where nothing is conditioned."""
    from tests.benchmarks.judging import RATED, evaluated

    checked = 0
    for row in evaluated(real_data / RATED):
        if row.case.answerability in ("ANSWERABLE", "PARTIAL") and row.scores["conditional_idk"] == 1:
            parts = (row.scores[name] for name in ("Bert-Rec", "RougeL", "Bert-KPrec"))
            assert rb_alg(*parts) == pytest.approx(row.scores["rb_agg"], abs=1e-9)
            checked += 1
    assert checked > 200
