"""Detection of languages, and the index terms of languages."""

from __future__ import annotations

import pytest

from turnmark.corpora.analysis import join_analyzers, open_analyzer
from turnmark.corpora.languages import LANGUAGES, detect_language, main_language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Die Maschine muss vor dem Entkalken abgeschaltet werden und ganz abkühlen."),
        ("fr", "La machine doit refroidir complètement avant d'être détartrée par le personnel."),
        ("ru", "Перед чисткой выключите прибор и дайте ему полностью остыть."),
        ("tr", "Temizlemeden önce cihazı kapatın ve tamamen soğumasını bekleyin."),
        ("ar", "قبل التنظيف أوقف تشغيل الجهاز واتركه حتى يبرد تماما ثم افصل السلك"),
        ("zh", "除垢前请关闭电源。"),
        ("ja", "掃除の前に電源を切ってください。"),
        ("ko", "청소하기 전에 전원을 끄세요."),
        ("th", "ก่อนทำความสะอาดให้ปิดเครื่อง"),
        ("he", "לפני הניקוי כבו את המכשיר."),
        ("el", "Πριν από τον καθαρισμό κλείστε τη συσκευή."),
        ("en", "Switch the machine off and let it cool down before you descale it."),
        ("zh", "# 安装\n\n运行 `apt-get install tea`，然后编辑 /etc/tea.conf。"),
    ],
)
def test_detects_the_language_of_a_text(language, text):
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", "OK", "42", "E-4867", "```\nfor x in range(10):\n    print(x)\n```"])
def test_leaves_short_texts_and_code_undecided(text):
    assert detect_language(text) == ""


def test_main_language_ignores_undecided_texts():
    assert main_language(["", "de", "", "de", "en"]) == "de"
    assert main_language(["", ""]) == "en"


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("de", "Die Maschinen der Küche", ["maschin", "kuch"]),
        ("ru", "чистка приборов", ["чистк", "прибор"]),
        ("zh", "关闭电源 OK", ["关", "闭", "关闭", "电", "闭电", "源", "电源", "ok"]),
        ("ja", "電源を", ["電", "源", "電源", "を", "源を"]),
        ("ko", "전원을 꺼", ["전원", "원을", "꺼"]),
        ("th", "ปิดเครื่อง", ["ปิด", "ิดเ", "ดเค", "เคร", "ครื", "รื่", "ื่อ", "่อง"]),
        ("vi", "máy pha cà", ["máy", "pha", "cà", "máy pha", "pha cà"]),
        ("fr", "L’imprimante qu'il est, aujourd'hui, d'accord", ["imprim", "aujourd'hui", "accord"]),
        ("it", "dell'ufficio un’altra", ["uffic", "altra"]),
        ("ca", "l'ordinador", ["ordin"]),
        ("ga", "d'fhear", ["fear"]),
        ("en", "don't d'you l'oreal", ["d'you", "l'oreal"]),
        ("ar", "كم يمكن استعارة الكتب من المكتبة؟", ["استعار", "كتب", "مكتب"]),
        ("pl", "jak działa drukarka i skaner", ["dz", "drukark", "skaner"]),
        ("he", "המדפסת", ["המדפסת", "מדפסת", "דפסת"]),
        ("none", "The Machines", ["the", "machines"]),
        ("xx", "The Machines", ["the", "machines"]),
    ],
)
def test_terms_of_a_language(language, text, terms):
    assert open_analyzer(language)(text) == terms


def test_a_query_is_analyzed_in_each_language():
    """A term that two languages share counts as often as in one of them."""
    terms = join_analyzers(["en", "de"])("machines Maschinen tea tea")
    assert sorted(terms) == ["machin", "maschin", "maschinen", "tea", "tea"]


def test_every_row_names_a_stemmer_and_a_list_that_exist():
    for code in LANGUAGES:
        assert open_analyzer(code)("tea 42")
