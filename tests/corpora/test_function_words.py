"""The language of a short text, its content words, and its sentences in languages other than English."""

from __future__ import annotations

import pytest

from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.segmentation import reading_words, sentences
from turnmark.retrieval.ranking.bm25 import BM25, BM25Settings


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wie lange ist der Ausweis gültig?", "de"),
        ("Comment installer le paquet ?", "fr"),
        ("¿Cuánto cuesta y dónde se compra?", "es"),
        ("¿Cuántos coches caben?", "es"),
        ("¡Caben coches grandes!", "es"),
        ("Kaç araba sığar?", "tr"),
        ("как установить пакет?", "ru"),
        ("Що треба зробити, якщо її немає?", "uk"),
        ("怎么安装 docker？", "zh"),
        ("Wie lange zieht grüner Tee?", "de"),
        ("Die Hard release year?", ""),
        ("インストール方法は？", "ja"),
        ("어떻게 설치하나요?", "ko"),
        ("ต้องทำอะไร", "th"),
        ("كيف أثبت الحزمة؟", "ar"),
        ("چگونه نصب کنم؟", "fa"),
        ("इसे कैसे स्थापित करें?", "hi"),
        ("How long does it take?", "en"),
        ("Was it the ferry to die for?", "en"),
        ("Place it per tray", "en"),
        ("fares per person", ""),
        ("ferry", ""),
    ],
)
def test_the_language_of_a_message(text, language):
    assert language_of(text) == language


def test_the_likely_language_decides_between_equally_many_words():
    assert language_of("Was kostet Docker") == "en"
    assert language_of("Was kostet Docker", ("de",)) == "de"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Wie lange ist der Ausweis gültig?", ["lange", "ausweis", "gültig"]),
        ("打印机卡纸了怎么办？", ["打印机卡纸"]),
        ("怎么安装 docker compose？", ["安装", "docker", "compose"]),
        ("プリンターの紙詰まりは？", ["プリンター", "紙詰"]),
        ("How do I descale the kettle?", ["descale", "kettle"]),
    ],
)
def test_content_words_leave_out_function_words(text, found):
    assert content_words(text) == found


@pytest.mark.parametrize(
    "pieces",
    [
        ["Man braucht z. B. Debian.", "Das geht am 3. Mai los.", "Nr. 5 ist bzw. Debian wäre gut."],
        ["Das ist der 2. Versuch.", "Es sind 3.", "Das reicht."],
        ["Bis zum frühen 18. Jahrhundert waren viele geflohen.", "Im 15. und 16. Jahrhundert nicht."],
        ["In der vierten Liga (5. Rang in Polen) kostet es 162 Mio. Euro.", "Er war 18.", "Die Schule war aus."],
        ["Il s'agit de M. Dupont.", "Il vit ici."],
        ["El Sr. García vive aquí.", "La Sra. Pérez no."],
        ["u. a. Debian und i. d. R. Ubuntu.", "Punkt."],
        ["कमरा बंद है।", "चाबी लो।"],
        ["ما هذا؟", "هو كتاب."],
        ["ที่จอดรถเปิดทุกวันตั้งแต่เจ็ดโมงเช้าถึงสามทุ่ม", "ค่าจอดชั่วโมงละสามสิบบาทสำหรับผู้มาติดต่อ"],
    ],
)
def test_sentences_end_where_they_end_in_that_language(pieces):
    text = " ".join(pieces)
    assert [text[start:end] for start, end in sentences(text)] == pieces


def test_length_is_comparable_between_scripts():
    assert reading_words("Open the lid.") == 3
    assert reading_words("打开后盖然后慢慢取出纸") == 7
    assert 6 < reading_words("ที่จอดรถเปิดทุกวันตั้งแต่เจ็ดโมงเช้า") < 12


def test_the_share_of_words_that_one_passage_has():
    texts = ["Der Wasserkocher hat zwei Jahre Garantie.", "Der Drucker steht im Keller.", "Die Kantine ist offen."]
    index = BM25.of_texts(texts, BM25Settings(), "de")
    assert index.best_share("Wasserkocher Garantie") == pytest.approx(1.0)
    assert index.best_share("Drucker Garantie") == pytest.approx(0.5, abs=0.1)
    assert index.best_share("Gehalt") == 0.0
    assert index.highest("unbekannt") == 0.0
