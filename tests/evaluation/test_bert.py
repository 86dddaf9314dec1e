"""BERTScore by any local model, against the formula worked out here; and what is made of it."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from corpora.errors import MissingExtra, RequestError
from evaluation.benchmarks.measures import Answered
from evaluation.metrics.bert import PUBLISHED, Bert, bert_k_precision, bert_metrics, bert_recall, open_bert, rb_alg

WORDS = "the a ferry boat leaves sails at noon eleven dog on deck and is free of charge".split()
TEXTS = ["the ferry leaves at noon", "a boat sails at eleven", "the dog is on deck", "deck and dog is free of charge"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and a vocabulary of a few words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


def by_hand(folder: Path, answer: str, reference: str, layers: int) -> tuple[float, float]:
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


needs_package = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('bert_score')")


@needs_package
@pytest.mark.parametrize("layers", [1, 2])
def test_the_formula(tiny: Path, layers: int):
    opened = open_bert(str(tiny), layers)
    answers, references = TEXTS[:3], [TEXTS[1], TEXTS[0], TEXTS[3]]
    for answer, reference, found in zip(answers, references, opened.score(answers, references), strict=True):
        assert found == pytest.approx(by_hand(tiny, answer, reference, layers), abs=1e-5)


@needs_package
def test_the_package_itself(tiny: Path):
    from bert_score import BERTScorer

    theirs = BERTScorer(model_type=str(tiny), num_layers=2, lang="en")
    precision, recall, _ = theirs.score(TEXTS[:2], TEXTS[2:])
    ours = open_bert(str(tiny)).score(TEXTS[:2], TEXTS[2:])
    for found, expected in zip(ours, zip(precision.tolist(), recall.tolist(), strict=True), strict=True):
        assert found == pytest.approx(expected, abs=1e-6)


@needs_package
def test_sides_are_not_mixed_up_and_the_best_passage_counts(tiny: Path):
    opened = open_bert(str(tiny))
    short, long = "the ferry", "the ferry leaves at noon and the dog is on deck"
    (precision, recall), (other_precision, other_recall) = opened.score([short, long], [long, short])
    assert (precision, recall) == pytest.approx((other_recall, other_precision), abs=1e-5)
    assert bert_recall(opened, short, long) == pytest.approx(recall, abs=1e-6)
    each = [opened.score([short], [passage])[0][0] for passage in TEXTS]
    assert bert_k_precision(opened, short, ["", *TEXTS]) == pytest.approx(max(each), abs=1e-6)


@needs_package
def test_what_is_empty(tiny: Path):
    opened = open_bert(str(tiny))
    assert opened.score(["", "the dog", " \n"], ["the dog", "", ""]) == [(0.0, 0.0)] * 3
    assert opened.score([], []) == []
    assert bert_recall(opened, "the dog", "  ") is None
    assert bert_k_precision(opened, "the dog", ["", " "]) is None
    with pytest.raises(ValueError):
        opened.score(["a"], [])


@needs_package
def test_a_text_longer_than_the_model_is_cut(tiny: Path):
    (found,) = open_bert(str(tiny)).score(["dog " * 500], ["the dog is on deck"])
    assert all(map(math.isfinite, found))


@needs_package
def test_the_metrics_carry_the_models_name(tiny: Path):
    (metric,) = bert_metrics(open_bert(str(tiny)))
    assert metric.names == ("bert_recall[tiny-bert]", "bert_k_precision[tiny-bert]", "rb_alg[tiny-bert]")
    assert "not rescaled" in metric.by
    text = "the ferry leaves at noon"
    found = metric.measure(Answered(text, text, text, [text]))
    assert found == pytest.approx(dict.fromkeys(metric.names, 1.0), abs=1e-5)
    assert metric.measure(Answered(text, text, "", [text]))["bert_recall[tiny-bert]"] is None
    without = metric.measure(Answered(text, text, text, []))
    assert without["bert_k_precision[tiny-bert]"] is None
    assert without["rb_alg[tiny-bert]"] == 0.0


@needs_package
def test_the_published_one_is_rescaled_and_bears_the_plain_names():
    import bert_score
    from bert_score.utils import model2layers

    (metric,) = bert_metrics(open_bert())
    assert metric.names == ("bert_recall", "bert_k_precision", "rb_alg")
    assert PUBLISHED in metric.by
    assert "rescaled by its baseline" in metric.by
    assert model2layers[PUBLISHED] == 40
    baseline = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / f"{PUBLISHED}.tsv"
    assert baseline.is_file()


@needs_package
def test_rescaling(tiny: Path, monkeypatch: pytest.MonkeyPatch):
    """With a baseline for the model: (value - baseline) / (1 - baseline), that of an empty side too."""
    import torch
    from bert_score import BERTScorer

    monkeypatch.setattr(BERTScorer, "baseline_vals", property(lambda _: torch.tensor([0.2, 0.5, 0.4])))
    plain = Bert(str(tiny), 2).score(TEXTS[:1], TEXTS[1:2])[0]
    scaled, empty = Bert(str(tiny), 2, rescaled=True).score([TEXTS[0], ""], [TEXTS[1], "dog"])
    assert scaled == pytest.approx(((plain[0] - 0.2) / 0.8, (plain[1] - 0.5) / 0.5), abs=1e-6)
    assert empty == pytest.approx((-0.25, -1.0), abs=1e-6)


@needs_package
@pytest.mark.parametrize("content", [None, "{}", "[", json.dumps({"num_hidden_layers": "many"})])
def test_a_folder_without_a_model(tmp_path: Path, content: str | None):
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(RequestError, match="how many layers"):
        open_bert(str(tmp_path))


@needs_package
def test_wrong_layers_and_broken_weights(tiny: Path, tmp_path: Path):
    with pytest.raises(RequestError, match="has 2 layers, not 3"):
        open_bert(str(tiny), 3)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 1}), encoding="utf-8")
    opened = open_bert(str(tmp_path))
    with pytest.raises(RequestError, match="cannot be loaded") as first:
        opened.score(["a"], ["b"])
    with pytest.raises(RequestError) as second:
        opened.score(["a"], ["b"])
    assert second.value is first.value  # not tried anew for every sample


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "bert_score", None)
    with pytest.raises(MissingExtra, match=r"turnwise\[bertscore\]"):
        open_bert()


def test_rb_alg_by_hand():
    assert rb_alg(0.5, 0.5, 0.0) == pytest.approx(3 / (1 / 0.75 + 2 + 2))
    assert rb_alg(1.0, 1.0, 1.0) == 1.0
    assert rb_alg(0.5, 0.0, 0.5) == rb_alg(-1.0, 0.5, 0.5) == rb_alg(-3.0, 0.5, 0.5) == rb_alg(0.5, 0.5, None) == 0.0


@pytest.mark.data
def test_rb_alg_of_the_human_evaluation(real_data: Path):
    """The file's own parts give its own `rb_agg` where nothing is conditioned."""
    from tests.benchmarks.judging_rows import RATED, evaluated

    checked = 0
    for row in evaluated(real_data / RATED):
        if row.case.answerability in ("ANSWERABLE", "PARTIAL") and row.scores["conditional_idk"] == 1:
            parts = (row.scores[name] for name in ("Bert-Rec", "RougeL", "Bert-KPrec"))
            assert rb_alg(*parts) == pytest.approx(row.scores["rb_agg"], abs=1e-9)
            checked += 1
    assert checked > 200
