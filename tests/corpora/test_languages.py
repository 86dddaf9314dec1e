"""Detection of languages, and the index terms of languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.corpora.readers import read_source
from turnmark.corpora.text.analysis import join_analyzers, open_analyzer
from turnmark.corpora.text.languages import LANGUAGES, detect_language, detect_languages, main_language
from turnmark.corpora.text.segmentation import words
from turnmark.corpora.types import Document


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


@pytest.mark.parametrize(
    ("language", "text", "same"),
    [
        ("de", "Gru\u0308ße aus Ko\u0308ln", "Grüße aus Köln"),
        ("ja", "ＵＳＢと４０２１、ﾌﾟﾘﾝﾀｰ、か\u3099", "USBと4021、プリンター、が"),
        ("en", "oﬃce shelf", "office shelf"),
        ("tr", "İZİN ve İade", "izin ve iade"),
        ("he", "שָׁלוֹם עוֹלָם", "שלום עולם"),
        ("ar", "مُحَمَّد", "محمد"),
    ],
)
def test_one_text_in_two_spellings_has_the_same_terms(language, text, same):
    analyze = open_analyzer(language)
    assert analyze(text) == analyze(same)
    assert words(text) == words(same)


def test_turkish_words_with_capital_i_are_found_in_both_readings():
    analyze = open_analyzer("tr")
    assert {*analyze("ışık"), *analyze("api")} <= {*analyze("IŞIK API")}


def test_finds_vietnamese_without_its_marks():
    analyze = open_analyzer("vi")
    assert {*analyze("nghi phep"), "nghi phep"} <= {*analyze("Nghỉ phép ở Đà Nẵng")}
    assert "da nang" in analyze("Đà Nẵng")


def table(*rows: str) -> str:
    head, *others = rows
    lines = [head, "|".join(["---"] * (head.count("|") + 1)), *others]
    return "\n".join(f"| {' | '.join(line.split('|'))} |" for line in lines) + "\n"


GERMAN = "Die Maschine muss vor dem Entkalken abgeschaltet werden und ganz abkühlen."
ENGLISH_TABLE = table("Country|Official name|Region", "Albania|Republic of Albania|Southern Europe", "Fiji||Melanesia")
GERMAN_TABLE = table("Datum|Niederschlag|Höchsttemperatur|Wetter", "1.1.|0,5|12,8|Regen", "2.1.|3,0|9,1|Sonne")
RIDERS = table(
    "Pos|Rider|Team|Time", "1|Jorge Lorenzo|Aprilia|39:51", "2|Alex de Angelis|Aprilia|+0.5", "3|Dani Pedrosa|KTM|+4"
)


def test_a_table_of_names_is_in_the_language_of_its_collection() -> None:
    for prose, language in ((GERMAN, "de"), ("Switch the machine off and let it cool down before you clean it.", "en")):
        assert detect_languages({"prose": prose, "riders": RIDERS}) == {"prose": language, "riders": language}


def test_tables_have_a_language_of_their_own_if_it_is_clear() -> None:
    found = detect_languages({"a": GERMAN, "b": GERMAN, "countries": ENGLISH_TABLE, "weather": GERMAN_TABLE})
    assert (found["countries"], found["weather"]) == ("en", "de")
    french = table("Titre", "La machine doit refroidir complètement avant d'être détartrée par le personnel.")
    assert detect_languages({"a": GERMAN, "b": french}) == {"a": "de", "b": "fr"}
    assert detect_languages({"a": table("名前|国", "東京タワー|日本")}) == {"a": "ja"}


def test_column_names_tell_the_language_of_a_folder_of_tables() -> None:
    names = {
        "de": "Rechnungsnr|Kunde|Betrag|Datum|Stadt",
        "en": "Invoice|Customer|Amount|Date|City",
        "fr": "Facture|Client|Montant|Date|Ville",
        "tr": "Fatura|Müşteri|Tutar|Tarih|Şehir",
    }
    for language, columns in names.items():
        sheets = {str(number): table(columns, f"A{number}|Müller|120|3.5.|Berlin") for number in range(3)}
        more = GERMAN_TABLE if language == "de" else table(columns, "B1|Rossi|7|4.5.|Rom")
        assert {*detect_languages({**sheets, "more": more}).values()} == {language}


def test_titles_in_one_table_of_many_bring_no_new_language() -> None:
    titles = table("Title|Genre", f"{GERMAN}|Operette", "Der Mann mit den drei Frauen|Operette")
    english = {str(number): ENGLISH_TABLE for number in range(40)}
    assert {*detect_languages({**english, "titles": titles}).values()} == {"en"}


def test_the_description_of_a_large_sheet_says_nothing_about_its_language(tmp_path: Path) -> None:
    rows = "".join(f"Halle {number};Der Schlüssel hängt hinter der zweiten Tür;{number}\n" for number in range(21_000))
    (tmp_path / "hallen.csv").write_text("Ort;Bemerkung;Nummer\n" + rows, encoding="utf-8")
    (document,) = read_source(tmp_path)
    assert isinstance(document, Document)
    assert "rows are shown below" in document.text
    assert detect_languages({"halls": document.text[:4_000]}) == {"halls": "de"}


def test_prose_with_a_table_keeps_its_language() -> None:
    text = f"{GERMAN}\n\n{table('Name|Value', 'pump|12')}"
    assert detect_languages({"a": text, "b": "The machine is cleaned before it is used again."})["a"] == "de"


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
        ("vi", "máy pha cà", ["máy", "pha", "cà", "máy pha", "pha cà", "may", "ca", "may pha", "pha ca"]),
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
