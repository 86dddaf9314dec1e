"""Words, sentences in ten languages, list items, citations, and text that is safe to print."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.core.untrusted import make_printable
from turnmark.corpora.text import segmentation as t

MARKDOWNISH = st.lists(
    st.sampled_from(
        [
            "\n", "\n\n", " ", "- ", "1. ", "# ", "*", "**", "Dr. ", "U.S. ", "The ", "a", "[1]", "。", "！",
            "...", ".", "?", '"', "''", ")", "\t", "你", "```\n", "| x |\n", "Step 2: ", "\x1b[", "\u202e", "]", "(",
            "`", "é", "5.5",
        ]
    ),
    max_size=60,
).map("".join)  # fmt: skip
ANY_TEXT = st.one_of(st.text(), MARKDOWNISH)


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in t.sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't pay 1,250.50 or 3.14!", ["don't", "pay", "1,250.50", "or", "3.14"]),
        ("the world’s 350F oven, snake_case", ["the", "world's", "350f", "oven", "snake", "case"]),
        ("我爱bread。", ["我", "爱", "bread"]),
        ("cafe\u0301 हिन्दी", ["café", "हिन्दी"]),
        ("'quoted' dogs'", ["quoted", "dogs"]),
        ("", []),
    ],
)
def test_splits_words(text: str, expected: list[str]) -> None:
    assert t.words(text) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Smith met Mr. J. K. Jones, e.g. in the U.S. Army.",
        "It took approx. 3.5 hours, i.e. No. 5 in Fig. 2 of vol. 3.",
        "Visit https://a.example/b.c?d=e.f or a.b@c.example today.",
        "Well... that is so... and so.",
        "Acme Inc. and Smith et al. (2010) agree.",
        "1. Preheat the oven.",
        '"Why?" he asked.',
        "A line that somebody\nwrapped by hand goes on.",
    ],
)
def test_does_not_split_a_sentence(sentence: str) -> None:
    assert cut(sentence) == [sentence]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He lives in the U.S. He likes it.", ["He lives in the U.S.", "He likes it."]),
        ("No. I won't. Plan B. Then go.", ["No.", "I won't.", "Plan B.", "Then go."]),
        ("Bake 30 min. Remove it. Add oil etc. Serve.", ["Bake 30 min.", "Remove it.", "Add oil etc.", "Serve."]),
        ('He said "go." (Then he left.) Wait... What?', ['He said "go."', "(Then he left.)", "Wait...", "What?"]),
        ("It was 1928. Then 1929.", ["It was 1928.", "Then 1929."]),
        ("你好。我很好！「行。」次", ["你好。", "我很好！", "「行。」", "次"]),
        ("# Title\nText here.\n- one\n- two\n\nNew", ["# Title", "Text here.", "- one", "- two", "New"]),
        # MTRAG's ClapNQ passages are tokenized
        ("It was 1928 . -- ♬ Jack of Oz ♬ 21 : 17", ["It was 1928 .", "-- ♬ Jack of Oz ♬ 21 : 17"]),
        (
            "I did n't go . Next one , `` so . '' Then left .",
            ["I did n't go .", "Next one , `` so . ''", "Then left ."],
        ),
        (
            "A title\nThen a text " + "that nobody wrapped " * 9 + "ends.",
            ["A title", "Then a text " + "that nobody wrapped " * 9 + "ends."],
        ),
    ],
)
def test_splits_sentences(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


@settings(deadline=None)  # the first example imports the parsers
@given(ANY_TEXT)
def test_sentences_cover_every_visible_character_once(text: str) -> None:
    spans = t.sentences(text)
    covered = 0
    for start, end in spans:
        assert covered <= start < end
        assert not text[covered:start].strip()
        assert text[start:end] == text[start:end].strip()
        covered = end
    assert not text[covered:].strip()


def test_finds_list_items() -> None:
    text = (
        "Intro\n1. **Mix** the [flour](x)\n   and salt\n   - sub *one*\n   - [x] sub two\n2) Bake\n\n   still\n\nPara\n"
        "* * *\n• dot\n**Step 3:** do it\nStep 4: end\n```\n- code\n```\n1928. A year\n- \n"
    )
    items = t.list_items(text)
    assert [(i.text, i.number, i.depth) for i in items[:5]] == [
        ("Mix the flour and salt", 1, 0), ("sub one", None, 1), ("sub two", None, 1), ("Bake still", 2, 0),
        ("dot", None, 0),
    ]  # fmt: skip
    assert (items[5].text, items[5].number) == ("do it", 3)
    assert items[6].number == 4
    assert len(items) == 7
    assert text[items[0].start : items[0].end] == "1. **Mix** the [flour](x)\n   and salt"


def test_counts_words_of_scripts_without_spaces_by_their_characters() -> None:
    assert t.count_words("Restart the router, then log in.") == 6
    assert t.count_words("重启路由器，然后登录。") == t.reading_words("重启路由器，然后登录。") == 6
    assert t.count_words("A 鐘 is a bell in Japanese texts.") == 8, "one character makes no Chinese text"


def test_comparable_words_are_clusters_in_scripts_without_spaces() -> None:
    assert t.comparable_words("ติดตั้ง APT") == ["ติ", "ด", "ตั้", "ง", "apt"]
    assert t.comparable_words("ＡＰＴ安装ﾙｰﾀｰ") == ["apt", "安", "装", "ル", "ー", "タ", "ー"]


@settings(deadline=None)  # the first example imports the parsers
@given(ANY_TEXT)
def test_list_items_are_ordered_and_disjoint(text: str) -> None:
    end = 0
    for item in t.list_items(text):
        assert end <= item.start < item.end <= len(text)
        assert item.text
        assert item.depth >= 0
        end = item.end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is [1]. And [2, 3] more[4][5] [6].", "So it is. And more."),
        ("[1] First, [note] stays [1-3].", "First, [note] stays."),
        ("[1](http://x) [text][1] [[1]](u) ![1](i) `x[0]`", "[1](http://x) [text][1] [[1]](u) ![1](i) `x[0]`"),
        ("[1]: http://x", "[1]: http://x"),
        ("see [note] [1] now", "see [note] now"),
        ("arr[1] is 3 [1].", "arr[1] is 3."),
        ("Vinegar[1] and salt[2, 3] do it.", "Vinegar and salt do it."),
        ("So it is. [1]\n[1] [2]", "So it is.\n"),
        ("资料[1]和[2]都说明了。", "资料和都说明了。"),
        ("Rinse it (see [1]), dry it (see the list [2]). (Vgl. [1] und [3])", "Rinse it, dry it (see the list)."),
    ],
)
def test_strips_citation_marks(text: str, expected: str) -> None:
    assert t.strip_citations(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is [1]. And more[2][3].", "So it is. And more."),
        ("Take arr[0] of [1, 2, 3] [2].", "Take arr[0] of [1, 2, 3]."),
        ("It was in [12], or page [4] of five.", "It was in [12], or page [4] of five."),
        ("Set arr[1] = x, then arr[2].y.", "Set arr[1] = x, then arr[2].y."),
        ("From [1-3] on.", "From [1-3] on."),
        ("arr[1] is the second one, and row[2] holds it [3].", "arr[1] is the second one, and row[2] holds it."),
        ("Read sys.argv[1] first, user_rows[2] later.", "Read sys.argv[1] first, user_rows[2] later."),
        ("Swap first[1] with last[2] then [1].", "Swap first[1] with last[2] then."),
        ("Vinegar[1] and salt[2] do it.", "Vinegar and salt do it."),
        ("Rinse CO2[1]. Wait[2]", "Rinse CO2. Wait"),
    ],
)
def test_strips_only_possible_citation_numbers(text: str, expected: str) -> None:
    assert t.strip_citations(text, 3) == expected


def test_converts_markdown_to_plain_text() -> None:
    assert (
        t.strip_inline_markdown("**a** _b_ `c*d` ![i](x)\n[l **k**](u) snake_case 5 < 6 &amp; ~~x~~")
        == "a b c*d l k snake_case 5 < 6 & x"
    )


def test_printable_removes_terminal_control_sequences() -> None:
    evil = "a\x1b[31mred\x1b]0;title\x07b\u202ec\u200bd\r\ne\tf\x9b2Jg\x1b]unterminated\ud800\x08"
    assert make_printable(evil) == "aredbcd\ne\tfgunterminated\ufffd"


@settings(deadline=None)  # the first example imports the parsers
@given(ANY_TEXT)
def test_printable_text_has_no_control_characters_and_is_stable(text: str) -> None:
    printed = make_printable(text)
    assert not {c for c in printed if ord(c) < 32 and c not in "\n\t"} | {
        c for c in printed if c in "\x7f\x9b\u202e\u200b"
    }
    assert make_printable(printed) == printed
    printed.encode("utf-8")


@pytest.mark.parametrize(
    "bad",
    [
        "." * 200_000 + '"' * 200_000 + "x",
        "[1]" * 100_000 + "(",
        " " * 300_000 + "x",
        "`" * 300_000,
        "a[1] b " * 50_000,
    ],
)
def test_hostile_text_takes_linear_time(bad: str) -> None:
    begun = time.process_time()
    for function in (t.sentences, t.list_items, t.words, t.strip_citations, t.strip_inline_markdown, make_printable):
        function(bad)
    assert time.process_time() - begun < 20  # quadratic time would take hours


CASES = """
Das gilt z. B. für Drucker. | Danach neu starten.
Das gilt oft (z. B. 80%) und (u. a. 5 Mal) im Netz (engl. Grid). | Fragen Sie Fa. Müller.
Grant it, e.g. `--cap-add=NET_ADMIN`. | Then restart.
他说（“可以。”）。 | 好的。
Das kostet ca. 5 Euro bzw. 6 Euro im Monat.
Am 3. Mai ist geschlossen. | Danach ist offen.
Siehe Nr. 5 der Liste. | Dann geht es weiter.
Der 2. Versuch zählt.
Siehe Abschnitt 5.8. | Dort steht mehr.
Der Antrag vom 12. 5. 2024 gilt. | Er läuft.
Das ist der Fall, vgl. § 5 Abs. 2 Nr. 3 BGB. | Danach nicht.
u. a. gilt das. | Gut.
Prof. Dr. Müller kommt. | Gut.
Im 19. Jahrhundert war es anders. | Heute nicht.
Drucker, Scanner usw. | Danach neu starten.
Die Gebühr beträgt 1.234,5 Euro. | Sie ist fällig.
C'est p. ex. le cas. | Ensuite, continuez.
M. Dupont est absent. | Appelez Mme Martin.
Voir art. 5 du règlement. | Il s'applique.
Voir l'art. 5 du règlement. | Il s'applique.
Le 1er mai est férié. | M. le maire ferme.
Tél. 01 23 45. | Appelez.
Cf. p. 12. | Ensuite, fermez.
Le réf. 12 suit. | Il est clair.
El Sr. García vive en EE. UU. desde 2001. | Trabaja allí.
Vive en EE. UU. | Trabaja allí.
Véase la pág. 5. | Ahí está.
Art. 3 de la ley. | Se aplica.
Los Dres. Pérez y la Dra. Gil. | Bien.
¿Cuánto cuesta? | Cuesta 1.200 euros.
Il sig. Rossi è qui. | Ecco.
Dott. Bianchi risponde. | Ecco.
Vedi l'art. 5 della legge. | Si applica.
Stampanti, scanner ecc. | Poi si riavvia.
Si veda pag. 12. | Ecco.
O Sr. Silva mora na Av. Brasil, n.º 5. | Ligue.
Ver o art. 5.º da lei. | Aplica-se.
Veja a pág. 12. | Depois feche.
De heer J. Jansen woont o.a. in Utrecht. | Hij werkt.
Zie blz. 12. | Daarna verder.
Printers, scanners enz. | Daarna verder.
Вход со стороны ул. Ленина, д. 5. | Открыто с 9 ч.
Это т. е. важно. | Далее.
Напр., в 2020 г. было иначе. | Сейчас нет.
См. рис. 3. | Далее.
W tym np. drukarka. | Potem dalej.
Zob. str. 12. | Dalej.
参见第5.8.节的说明。 | 然后重启。
请参阅 5.8. 安装说明。
详见5.8. 安装驱动程序一节。 | 完成。
参见 [3]. | 然后继续。
他说：“请重启。” | 然后离开。
（注意：請關閉電源。） | 然後拔掉插頭。
【提示。】 | 请保存。
《手册。》 | 见第二页。
真的吗？！ | 是的。
**请先保存。** | 然后退出。
**请先保存**。 | **然后退出**。
価格は1.5万円です。 | 安いです。
「はい。」と答えました。 | 次に進みます。
「保存」を押します。 | 完了です。
次の章（5.8節）を参照。
『開く。』という表示が出ます。 | 押します。
終わりました。」 | 次です。
電源を切ります（10秒）。 | 待ちます。
""".strip().splitlines()


@pytest.mark.parametrize("case", CASES)
def test_sentences_end_where_a_reader_ends_them(case):
    expected = case.split(" | ")
    text = case.replace("。 | ", "。").replace("” | ", "”").replace(" | ", " ")
    assert [text[start:end] for start, end in t.sentences(text)] == expected


def test_a_long_thai_line_has_several_sentences():
    line = "ปิดเครื่องพิมพ์แล้วเปิดฝาหลังเพื่อนำกระดาษออกอย่างช้าๆ " * 12
    assert all(end - start < 150 for start, end in t.sentences(line))
    assert len(t.sentences(line)) > 4
