"""A message in another language than English is understood and answered like an English one, without a model."""

from __future__ import annotations

import gettext
import re

import pytest

from tests.assistant.notes import conversation
from turnmark.assistant.steps.answer.answer_collection import mentioned_words
from turnmark.assistant.steps.answer.quote_markdown import set_bold
from turnmark.assistant.steps.turn_state import Turn, rare_languages
from turnmark.assistant.steps.understand.compound_questions import split_questions
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.edit_requests import edit_requests, is_instruction
from turnmark.assistant.steps.understand.understand_rules import refers_back, understand
from turnmark.assistant.steps.verify.claim_support import Sources, coverage
from turnmark.assistant.steps.verify.numbers import find_numbers, missing_numbers
from turnmark.assistant.wording.phrases import Phrases, defined_subject, phrases_in
from turnmark.assistant.wording.refusals import REFUSALS, is_refusal, refusal_extent
from turnmark.assistant.wording.reply_texts import (
    KEYS,
    LOCALE_FOLDER,
    NOT_FOUND_TEXT,
    UNSURE_PART_TEXT,
    UNSURE_TEXT,
    about_part,
    in_language,
    text_at_start,
    translations_of,
)
from turnmark.corpora.types import Message

LANGUAGES = sorted(path.name for path in LOCALE_FOLDER.iterdir())


# -- messages


@pytest.mark.parametrize(
    "message",
    ["danke", "Super, danke für die Hilfe!", "谢谢", "好的", "merci beaucoup", "gracias por tu ayuda", "спасибо",
     "شكرا", "ありがとうございます", "감사합니다", "धन्यवाद", "ขอบคุณครับ", "ok danke", "Guten Morgen",
     "wie geht es Ihnen?"],
)  # fmt: skip
def test_a_courtesy_is_not_searched(message):
    assert is_conversational(message)


@pytest.mark.parametrize("message", ["top", "ferry", "danke, und was kostet es?", "好的，那怎么安装？", "Was ist das?"])
def test_a_question_is_no_courtesy(message):
    assert not is_conversational(message)


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ("kürzer bitte", ["shorter"]),
        ("Kannst du das kürzer machen?", ["shorter"]),
        ("als Liste", ["list"]),
        ("kürzer und als Liste", ["shorter", "list"]),
        ("auf Englisch bitte", ["other"]),
        ("nur die Schritte", ["steps"]),
        ("短一点", ["shorter"]),
        ("用列表", ["list"]),
        ("Fass dich kürzer", ["shorter"]),
        ("in Stichpunkten", ["list"]),
        ("bitte als Liste ausgeben", ["list"]),
        ("列成清单", ["list"]),
        ("简要说明", ["shorter"]),
        ("en liste", ["list"]),
        ("sous forme de liste", ["list"]),
        ("mais curto", ["shorter"]),
        ("in breve", ["shorter"]),
        ("翻译成英语", ["other"]),
        ("plus court s'il te plaît", ["shorter"]),
        ("en una lista por favor", ["list"]),
        ("короче", ["shorter"]),
        ("bitte in höchstens einem satz", ["limit"]),
        ("das war zu lang", ["shorter"]),
        ("最多一句话", ["limit"]),
        ("dis-le en une phrase", ["limit"]),
        ("solo los precios", ["only"]),
        ("in una tabella", ["table"]),
        ("zonder het deel over prijzen", ["without"]),
        ("em ordem inversa", ["order"]),
        ("只看关于价格的部分", ["only"]),
        ("最初の二つだけ", ["only"]),
        ("ohne den zweiten Punkt", ["without"]),
        ("Nur die Mitarbeiter?", []),
        ("不要密码怎么登录", []),
        ("箇条書きにして", ["list"]),
        ("더 짧게 해 주세요", ["shorter"]),
        ("Wie installiere ich es?", []),
        ("怎么安装？", []),
    ],
)
def test_requests_for_a_revision(message, kinds):
    assert [request.kind for request in edit_requests(message)] == kinds
    assert is_instruction(conversation("x", "Es ist so."), message) is bool(kinds)


@pytest.mark.parametrize(
    ("message", "count", "last"), [("nur die ersten zwei Punkte", 2, False), ("只要前两条", 2, False)]
)
def test_items_to_keep_are_counted(message, count, last):
    (request,) = edit_requests(message)
    assert (request.kind, request.count, request.last) == ("only", count, last)


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("Was kostet ein Ausweis? Und wie lange gilt er?", ["Was kostet ein Ausweis?", "Wie lange gilt er?"]),
        ("错几次就封？一封多久？", ["错几次就封？", "一封多久？"]),
        ("Ist das sicher oder kann man das umgehen?", ["Ist das sicher oder kann man das umgehen?"]),
        ("Ich weiß nicht, wann und wo ich mich melden muss.", ["Ich weiß nicht, wann und wo ich mich melden muss."]),
        ("Wie finde ich heraus, wann er abläuft?", ["Wie finde ich heraus, wann er abläuft?"]),
    ],
)
def test_further_questions_are_parts(message, parts):
    assert list(split_questions(message, ("de",))) == parts


@pytest.mark.parametrize("message", ["und wie lange?", "那要多久？", "et combien ça coûte ?"])
def test_a_follow_up_refers_back(message):
    assert refers_back(message)


@pytest.mark.parametrize("message", ["Wie viele Tage Elternzeit gibt es?", "打印机卡纸了怎么办？"])
def test_a_complete_question_does_not(message):
    assert not refers_back(message)


def test_a_follow_up_gets_the_topic_without_function_words():
    talk = conversation("Wie entkalke ich den Wasserkocher?", "Mit Essig.")
    assert understand(talk, "und wie oft?").rewrite == "und wie oft (entkalke Wasserkocher)?"
    assert understand(conversation("打印机卡纸了怎么办？", "打开后盖。"), "那要多久？").topic == ("打印机卡纸",)


@pytest.mark.parametrize(
    ("message", "mentioned"),
    [
        ("Welche Seiten erwähnen den Drucker?", "Drucker"),
        ("Auf welchen Seiten wird Docker erwähnt?", "Docker"),
        ("Wo kommt „conda“ vor?", "conda"),
        ("Quelles pages mentionnent l'imprimante ?", "imprimante"),
        ("Où est mentionnée l’imprimante ?", "imprimante"),
        ("¿Qué páginas mencionan Docker?", "Docker"),
        ("Quali pagine menzionano la stampante?", "stampante"),
        ("哪些页面提到打印机？", "打印机"),
        ("打印机在哪些文档里提到？", "打印机"),
        ("どのページで「Docker」が言及されていますか？", "Docker"),
        ("어느 문서에서 도커가 언급되나요?", "도커"),
        ("В каких документах упоминается принтер?", "принтер"),
        ("Hangi sayfalarda Docker geçiyor?", "Docker"),
        ("Trang nào đề cập đến Docker?", "Docker"),
        ("Welke pagina's noemen Docker?", "Docker"),
        ("Wo ist der Drucker?", ""),
        ("Où est l'imprimante ?", ""),
        ("打印机在哪里？", ""),
    ],
)
def test_questions_of_where_words_are_mentioned(message, mentioned):
    assert mentioned_words(message) == mentioned


# -- messages of the assistant


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalog_translates_every_key_with_the_same_placeholders(language):
    folder = LOCALE_FOLDER / language / "LC_MESSAGES"
    source = (folder / "turnmark.po").read_text("utf-8")
    written = dict(re.findall(r'^msgid "(.+)"\nmsgstr "(.+)"$', source, re.MULTILINE))
    written = {key: text.replace('\\"', '"') for key, text in written.items()}
    with (folder / "turnmark.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert len(set(KEYS.values())) == len(KEYS)
    assert written == {key: compiled.gettext(key) for key in KEYS.values()}
    for text, key in KEYS.items():
        assert sorted(re.findall(r"{\w+}", written[key])) == sorted(re.findall(r"{\w+}", text)), key


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", REFUSALS)
def test_every_translation_of_a_refusal_is_recognized(language, text):
    reply = in_language(text, language).replace("{question}", "Docker 24")
    assert is_refusal(reply)
    assert refusal_extent(reply) == "yes"


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unsure_note_is_no_refusal_and_is_found_again(language):
    for text in (UNSURE_TEXT, UNSURE_PART_TEXT):
        note = about_part(text, "Docker 24?", language)
        assert not is_refusal(f"{note}\n\nDocker 24 [1]")
        assert text_at_start(f"{note}\n\nDocker", UNSURE_TEXT, UNSURE_PART_TEXT) == note


@pytest.mark.parametrize(
    "reply",
    ["Die Dokumente enthalten dazu keine Angaben.", "Ich weiß es nicht.", "文档中没有提到这一点。", "我不知道。",
     "Les documents ne le précisent pas.", "Los documentos no lo mencionan.", "В документах об этом ничего не сказано.",
     "In den Dokumenten steht nichts über Elternzeit.", "文書には記載がありません。"],
)  # fmt: skip
def test_refusals_of_models(reply):
    assert is_refusal(reply)
    assert refusal_extent(reply) == "yes"


@pytest.mark.parametrize(
    "reply",
    ["Elternzeit dauert drei Jahre [1].", "年假有 20 天 [1]。", "Die Karte ist nicht übertragbar.",
     "Die Dokumente müssen nicht beglaubigt sein.", "Los documentos no caducan."],
)  # fmt: skip
def test_answers_are_no_refusals(reply):
    assert not is_refusal(reply)


def test_a_reply_is_in_the_language_of_the_message_or_else_of_the_conversation():
    talk = (Message(role="user", content="Wie entkalke ich den Wasserkocher?"),)
    assert Turn("怎么安装？").language == "zh"
    assert Turn("Kosten", talk).language == "de"
    assert Turn("Was kostet Docker", languages=("de",)).language == "de"
    assert Turn("Garantie", languages=("de",)).language == "de"
    assert Turn("How long does it take?", talk, languages=("de",)).language == "en"
    assert about_part(NOT_FOUND_TEXT, "Wie lange?", "de") == "Zu „Wie lange“ habe ich nichts gefunden."
    assert len(translations_of(UNSURE_TEXT)) == len(LANGUAGES) + 1


def test_prompts_do_not_name_languages_of_few_passages():
    passages = {"de": 990, "en": 15, "fr": 19, "it": 21}
    turn = Turn("What does it cost?", languages=tuple(passages), rare_languages=rare_languages(passages))
    assert turn.languages_to_search == "German and Italian"


# -- answers


def test_bold_ends_before_the_full_stop_of_chinese():
    assert set_bold("打开后盖。") == "**打开后盖**。"
    assert set_bold("- 打开后盖。") == "- **打开后盖**。"
    assert set_bold("打开后盖（见第3页）。") == "**打开后盖（见第3页）**。"
    assert set_bold("「設定を開く。」") == "「**設定を開く**。」"
    assert set_bold("可以吃掉 十倍于自身体重的食物 。") == "**可以吃掉 十倍于自身体重的食物**。"
    assert set_bold("Open the lid.") == "**Open the lid.**"


def test_words_are_compared_in_the_language_of_the_sources():
    assert coverage("Welche Häuser sind offen?", ["Die Haustür ist auf. Das Haus ist ein offenes Haus."]) == 1.0
    assert coverage("停车场收费吗？", ["停车场每小时收费三元。"]) > 0.8
    assert coverage("育儿假有多少天？", ["停车场每小时收费三元。"]) < 0.2


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Das sind 1.234,5 Euro und 10.000 Stück", {"1234.5", "10000"}),
        ("Ce sont 1 234,5 euros et les 12 000 autres", {"1234.5", "12000"}),
        ("共一千二百元，30天，3万人", {"1200", "30", "30000"}),
        ("Die Gebühr kostet 1.234 Euro und nicht mehr", {"1234"}),
        ("Das sind 1,234 Meter und nicht mehr", {"1.234"}),
        ("Es kostet 1'234.5 Franken oder 1’234.50", {"1234.5"}),
        ("cela coûte 1\u202f234,5 euros ou 1\u00a0234 euros", {"1234.5", "1234"}),
        ("Am 3.5.2024 und am 12. 5. 2025 ist zu", {"3", "5", "2024", "12", "2025"}),
        ("Nach zwanzig Tagen sind es dreihundertzwanzig, und im Jahr zweitausendfünfhundert", {"20", "320", "2500"}),
        ("On a vingt-trois jours et quatre-vingt-dix-sept nuits, mille deux cents en tout", {"23", "97", "1200"}),
        ("Hay veintitrés días y dos mil trescientas noches", {"23", "2300"}),
        ("三百二十天，两千五百元，一百二十三万四千人，三億円", {"320", "2500", "1234000", "300000000"}),
        ("千万不要按，十分重要，万一坏了", set()),
        ("两千零五元", {"2005"}),
        ("It costs 1,234.5 or 1.234", {"1234.5", "1.234"}),
    ],
)
def test_numbers_are_read_as_their_language_writes_them(text, numbers):
    assert find_numbers(text) == numbers


@pytest.mark.parametrize(
    ("claim", "source", "language", "missing"),
    [
        ("1.234 Euro", "Die Gebühr beträgt 1234 Euro.", "de", set()),
        ("1.234 Euro", "Die Gebühr beträgt 1.234 Euro.", "", set()),
        ("一共320天", "假期是三百二十天。", "zh", set()),
        ("共两千五百人", "有2500人。", "zh", set()),
        ("2024年5月3日", "Le 3 mai 2024 est férié.", "fr", set()),
        ("am 3.5.2024", "Die Frist endet am 3. Mai 2024.", "de", set()),
        ("5月3日", "截止日期是五月三日，即5月3日。", "zh", set()),
        ("25 jours", "On a vingt-cinq jours.", "fr", set()),
        ("26 jours", "On a vingt-cinq jours.", "fr", {"26"}),
        ("2万人", "共20000人。", "zh", set()),
    ],
)
def test_numbers_of_a_claim_are_found_in_another_spelling(claim, source, language, missing):
    assert missing_numbers(claim, [source], language) == missing


def test_support_of_a_claim_needs_its_numbers():
    sources = Sources(["员工每年享有一千二百元补贴，需提前两周申请。"], question="补贴")
    assert sources.supports("员工每年享有1200元补贴。", [1])
    assert not sources.supports("员工每年享有1500元补贴。", [1])


# -- the table


@pytest.mark.parametrize(
    ("message", "subject"),
    [("wofür sind Klebepunkte da?", "klebepunkte"), ("Wozu dient ein Indikator?", "indikator"),
     ("lintian 是干什么用的？", "lintian"), ("sticky 位有什么作用？", "sticky 位"), ("Wofür ist das gut?", "")],
)  # fmt: skip
def test_what_something_is_for_asks_for_its_definition(message, subject):
    assert defined_subject(message) == subject


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_catalog_has_phrases_that_compile(language):
    phrases = phrases_in(language)
    assert isinstance(phrases, Phrases)
    assert phrases_in("hi").row.keys() <= phrases.row.keys() <= phrases_in("de").row.keys() | {"copulas_attached"}
    for field in phrases.row:
        phrases.find(field), phrases.begins(field), phrases.request(field)
    assert phrases.courtesy.fullmatch(phrases.row["thanks"].split("|")[-1].replace("?", ""))
