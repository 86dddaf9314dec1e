"""Where sentences end in ten languages: abbreviations, ordinals, dates, numbered references and closing quotes."""

from __future__ import annotations

import pytest

from turnmark.corpora.text.segmentation import sentences

CASES = """
Das gilt z. B. für Drucker. | Danach neu starten.
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
    assert [text[start:end] for start, end in sentences(text)] == expected


def test_a_long_thai_line_has_several_sentences():
    line = "ปิดเครื่องพิมพ์แล้วเปิดฝาหลังเพื่อนำกระดาษออกอย่างช้าๆ " * 12
    assert all(end - start < 150 for start, end in sentences(line))
    assert len(sentences(line)) > 4
