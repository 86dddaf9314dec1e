"""The metrics of answers: by hand, against other libraries and plain computations, and by their properties."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from turnmark.corpora.types import Message
from turnmark.evaluation.metrics.overlap import (
    edit_distance,
    edit_ratio,
    edit_words,
    k_precision,
    k_precision_unicode,
    length_ratio,
    rouge_l_char,
    rouge_l_unicode,
    rouge_l_word,
    token_recall,
    token_recall_unicode,
)
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import measure_sample
from turnmark.evaluation.tasks.standard_metrics import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    cut_lead,
)

METRICS = (*REFERENCE_METRICS, *LEAD_METRICS, *PASSAGE_METRICS, *STYLE_METRICS)


def scores(context):
    return {score.metric: score for score in measure_sample(METRICS, Sample(id="a", status="done"), lambda: context)}


def test_lead_is_cut_at_a_word_boundary():
    passages = ["The bell is old. It was cast -- twice -- in 1858.", "A state-of-the-art bell."]
    assert cut_lead(passages, 0) == ""
    assert cut_lead(passages, 4) == "The bell is old."
    assert cut_lead(passages, 7) == "The bell is old. It was cast --"
    assert cut_lead(passages, 12) == "The bell is old. It was cast -- twice -- in 1858. A state-"
    assert cut_lead(passages, 99) == " ".join(passages)
    assert cut_lead(["鐘は古い。大きい。"], 3) == "鐘は古"


CHINESE = Case(
    "密码忘了怎么办？", answer="重启路由器。", reference="请重启ＡＢ路由器", passages=("重启路由器后登录。",)
)


@pytest.mark.parametrize("case", [
    CHINESE,
    Case("", answer="重啟路由器。", reference="請重啟路由器", passages=("重啟路由器後登入。",)),
    Case("", answer="ルーターを再起動", reference="ルーターの再起動です", passages=("ルーターを再起動する。",)),
    Case("", answer="รีสตาร์ทเราเตอร์", reference="โปรดรีสตาร์ทเราเตอร์", passages=("รีสตาร์ทเราเตอร์แล้วเข้าสู่ระบบ",)),
])  # fmt: skip
def test_scripts_without_spaces_have_their_own_metrics(case):
    of = scores(case)
    for name in ("rouge_l.word", "token_recall", "k_precision"):
        assert of[name].status == "not_applicable"
        assert of[name].reason == f"the published tokens are no words of this script: see {name}[unicode]"
        assert of[f"{name}[unicode]"].value > 0.5
    assert "no words of this script" in of["token_recall[lead]"].reason


def test_metrics_of_a_script_without_spaces_are_only_for_its_items():
    concerned = [metric.names for metric in METRICS if metric.concerns(Item("a", reference="请重启路由器"))]
    others = [metric.names for metric in METRICS if metric.concerns(Item("a", reference="Restart the router."))]
    assert [names for names in concerned if names not in others] == [
        ("token_recall[unicode]",),
        ("k_precision[unicode]",),
    ]


@pytest.mark.parametrize(
    "reference", ["Перезапустите роутер", "Επανεκκινήστε τον δρομολογητή", "라우터를 다시 시작하세요"]
)
def test_rouge_of_latin_letters_is_not_applicable_to_other_letters(reference):
    of = scores(Case("", answer=reference, reference=reference))
    assert (of["rouge_l.word"].value, of["rouge_l.word[unicode]"].value, of["token_recall"].value) == (None, 1, 1)
    assert of["rouge_l.word"].reason.endswith("see rouge_l.word[unicode]")


def test_empty_texts_are_not_applicable():
    scores_of = scores(Case("", raw="A bell.", answer="A bell."))
    assert {name for name, score in scores_of.items() if score.status == "scored"} == {"answer_words", "idk_rate"}
    assert {score.status for score in scores_of.values()} == {"scored", "not_applicable"}
    assert scores_of["k_precision"].reason == "there are no passages, or not all of their texts are known"
    assert scores_of["rouge_l.word"].reason == "the data has no reference answer"


GOOGLE = RougeScorer(["rougeL"], use_stemmer=False)

WORDS = st.sampled_from("bell tower the a cast 1858 Don't U.S. naïve 1,250.5 鐘 と é É İ K \u212a - ♬".split(" "))
TEXTS = st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=40)


def google(answer, reference):
    return float(GOOGLE.score(reference, answer)["rougeL"].fmeasure)


def quadratic_lcs(first, second):
    row = [0] * (len(second) + 1)
    for item in first:
        above = row
        row = [0]
        for j, second_item in enumerate(second):
            row.append(above[j] + 1 if item == second_item else max(above[j + 1], row[j]))
    return row[-1]


@pytest.mark.parametrize(("measure", "answer", "reference", "value"), [
    # Four of five tokens of the answer, four of six of the reference, in order: F = 2 * 4 / (5 + 6).
    (rouge_l_word, "The bell was cast twice!", "the bell was cast in 1858", 8 / 11),
    (rouge_l_word, "cast bell", "bell cast", 1 / 2),
    (rouge_l_word, "U.S.", "us", 0),  # two tokens, none of them "us"
    (rouge_l_word, "running", "run", 0),  # not stemmed
    (rouge_l_word, "1,250.5", "1 250 5", 1),
    (rouge_l_unicode, "1,250.5", "1 250 5", 0),  # one word against three, where rouge_l.word sees three in both
    (rouge_l_unicode, "鐘は大きい", "鐘は古い", 2 * 3 / (5 + 4)),  # 鐘, は, い
    (rouge_l_unicode, "Der Käse", "der käse", 1),
    (rouge_l_unicode, "don't", "don’t", 1),
    (rouge_l_unicode, "ﾙｰﾀｰ", "ルーター", 1),
    (rouge_l_char, "Cast.", "cast", 2 * 3 / (5 + 4)),  # case and punctuation count: three characters are shared
    (rouge_l_char, "a b", "ab", 2 * 2 / (3 + 2)),  # a space is a character too
    # Reference: bell bell is 96 metres tall (6 tokens). Shared: bell once, is, 96.
    (token_recall, "The bell is 96.", "A bell, the bell is 96 metres tall.", 3 / 6),
    (token_recall, "tall, metres: 96 is the BELL (bell)", "A bell, the bell is 96 metres tall.", 1),
    (token_recall, "打开后盖，取出纸。", "先打开后盖，再慢慢取出纸。", 0),
    (token_recall_unicode, "打开后盖，取出纸。", "先打开后盖，再慢慢取出纸。", 7 / 11),
    (token_recall_unicode, "安装 APT 2", "安装ＡＰＴ２", 2 / 3),  # APT 2 are two words
    (token_recall_unicode, "安装 APT2", "安装ＡＰＴ２", 1),
    (k_precision_unicode, "ｶﾞｲﾄﾞ", ["ガイド"], 1),
    (k_precision_unicode, "打开后盖，取出纸。", ["先打开后盖，再慢慢取出纸。"], 1),
    (k_precision_unicode, "打开后盖，取出纸。", [], None),
])  # fmt: skip
def test_overlap_matches_hand_computed_values(measure, answer, reference, value):
    assert measure(answer, reference) == (None if value is None else pytest.approx(value))


def test_k_precision_matches_hand_computed_values():
    """bell bell bell is tall: the passages say bell twice together, and is; the conversation says tall, and bell."""
    answer, passages = "The bell, the bell, the bell is tall.", ["A bell.", "It is the bell"]
    assert k_precision(answer, passages) == pytest.approx(3 / 5)
    assert k_precision(answer, passages, ["how tall?"]) == pytest.approx(4 / 5)
    assert k_precision(answer, passages, ["how tall?", "the bell"]) == 1
    assert k_precision("bell bell", ["bell"]) == pytest.approx(1 / 2)
    assert k_precision("bell bell", ["bell", "bell"]) == 1  # concatenated: counts add up


def test_k_precision_is_not_applicable_without_passages():
    assert k_precision("bell", []) is None
    assert k_precision("bell", ["", "The."]) is None
    assert k_precision("bell", [], ["bell"]) is None
    assert k_precision("", ["bell"]) == 0
    assert k_precision("The.", ["bell"], ["bell"]) == 0


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_rouge_l_word_matches_rouge_score(answer, reference):
    ours = rouge_l_word(answer, reference)
    assert (0.0 if ours is None else ours) == pytest.approx(google(answer, reference), abs=1e-9)


def test_rouge_l_word_matches_rouge_score_on_long_texts():
    """Longer than one machine word of rapidfuzz's bit-parallel LCS, and with half a surrogate pair inside."""
    dice = random.Random(5)
    for length in (63, 64, 65, 200, 400):
        first, second = (" ".join(f"w{dice.randrange(30)}" for _ in range(length)) for _ in range(2))
        assert rouge_l_word(first, f"{second} \ud800 end") == pytest.approx(
            google(first, f"{second} \ud800 end"), abs=1e-9
        )


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_rouge_l_char_matches_a_quadratic_lcs(answer, reference):
    ours, shared = rouge_l_char(answer, reference), quadratic_lcs(answer, reference)
    if not reference:
        assert ours is None
    elif not shared:
        assert ours == 0
    else:
        recall, precision = shared / len(reference), shared / len(answer)
        assert ours == pytest.approx(2 * recall * precision / (recall + precision), abs=1e-9)


EDITED = st.lists(st.sampled_from("bell Bell tower cast, cast. 1858 鐘 \t \n".split(" ")), max_size=20).map(" ".join)


def quadratic(first, second):
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, 1):
        above, row = row, [i]
        for j, second_word in enumerate(second, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != second_word)))
    return row[-1]


def test_edit_metrics_match_hand_computed_values():
    """One word replaced, two inserted, of a source of four: distance 3, ratio 3/4; six words for four."""
    previous, revised = "The bell is old.", "The big bell is old, indeed."
    assert edit_distance(revised, previous) == 3
    assert edit_ratio(revised, previous) == pytest.approx(3 / 4)
    assert length_ratio(revised, previous) == pytest.approx(6 / 4)


def test_a_han_character_is_a_word():
    assert edit_words("BELL鐘は 1858") == ["BELL", "鐘", "は", "1858"]
    assert edit_distance("鐘は古い", "鐘は高い") == 1
    assert length_ratio("鐘は", "鐘は高い") == pytest.approx(1 / 2)


@settings(deadline=None)
@given(EDITED, EDITED)
def test_edit_distance_matches_a_plain_levenshtein(first, second):
    assert edit_distance(first, second) == quadratic(edit_words(first), edit_words(second))


def test_replies_of_the_system_itself_are_no_evidence_for_it():
    history = (Message(role="user", content="what is a bond"), Message(role="assistant", content="a purple loan"))
    recorded = Case(question="tell me more", answer="a purple loan", history=history, passages=("a loan",))
    (metric,) = (metric for metric in PASSAGE_METRICS if "k_precision[+history]" in metric.names)
    live = replace(recorded, own_history=True)
    assert metric.measure(recorded)["k_precision[+history]"] == 1
    assert metric.measure(live)["k_precision[+history]"] == metric.measure(live)["k_precision"] == 0.5
