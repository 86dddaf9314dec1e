"""Words that name a total, subtotal or average in the labels of rows, for all languages."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

TotalLabel = Literal["", "average", "possible", "likely", "certain"]

_LIKELY = """
subtotal subtotals sub_total sub_totals grand_total running_total net_total zwischensumme teilsumme endsumme
gesamtsumme gesamtergebnis teilergebnis gesamtbetrag zwischenergebnis sous_total total_général totaux_généraux
totale_generale subtotale totale_parziale total_general total_geral subtotais subtotaal eindtotaal totaalgeneraal
delsumma slutsumma totalsumma delsum totalsum i_alt subtotaler välisumma kokonaissumma loppusumma kaikki_yhteensä
hovedtotal totale_complessivo mezisoučet celkový_součet medzisúčet suma_częściowa suma_końcowa suma_całkowita
suma_pośrednia промежуточный_итог общий_итог подытог проміжний_підсумок загальний_підсумок ara_toplam genel_toplam
részösszeg végösszeg μερικό_σύνολο γενικό_σύνολο γενικό_άθροισμα υποσύνολο tổng_cộng tổng_phụ jumlah_keseluruhan
المجموع_الكلي المجموع_الإجمالي المجموع_الفرعي جمع_جزئي الإجمالي إجمالي_جزئي סה"כ סך_הכל סכום_ביניים סכום_כולל कुल_योग
उप_योग รวมทั้งหมด รวมทั้งสิ้น รวมย่อย ยอดรวม ผลรวม
小計 合計 総計 総合計 小计 合计 总计 总和 總計 합계 소계 총계 합계수 총합계 集計 汇总 匯總 요약
"""
"""Words that are hardly a part of another name. An underscore is a space, a hyphen or nothing."""
_ALONE = """
total totals sum overall Σ ∑ summe summen gesamt insgesamt gesamtwert totaux suma totale totali somma soma totaal
totalt summa sammanlagt yhteensä celkem součet razem ogółem łącznie итого итог всего сумма общо обща_сума підсумок
разом усього всього toplam toplamı összesen összeg σύνολο άθροισμα tổng jumlah المجموع مجموع סכום योग รวม
共计 共計 计 計
"""
"""Words that name a total if they stand alone, and otherwise may be a part of a name: "Total War"."""
_AVERAGE = """
average avg mean median durchschnitt mittelwert ø moyenne promedio gemiddelde průměr średnia среднее середнє ortalama
μέσος_όρος متوسط ממוצע औसत เฉลี่ย 平均 평균 átlag genomsnitt gennemsnit gjennomsnitt keskiarvo trung_bình
"""
"""Words that name an average."""
_POSSIBLE = """
all alle alles tous todos tutti media média ensemble spolu result results balance cumulative combined altogether
ergebnis saldo bilanz résultat resultado risultato resultaat resultat tulos výsledek wynik результат баланс sonuç
eredmény αποτέλεσμα
"""
"""Words that may name a total if the numbers are sums."""
MAX_LENGTH = 80
"""Characters of the longest label that may name a total."""
_TOKEN = re.compile(r"[^\W_]+|∑")
_SCRIPT_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff]")
_UNIT = re.compile(r"\((?:in )?(?:[A-Z]{3}|[^\w\s]{1,2})\)")


def _pattern(words: str) -> str:
    """Return a pattern for words. In scripts without spaces they are the end of a label, or stand apart."""
    forms = []
    for word in map(_plain, words.split()):
        form = re.escape(word).replace("_", "[ -]?")
        forms.append(rf"{form}\Z|\A{form}(?= )" if _SCRIPT_WITHOUT_SPACES.search(word) else rf"(?<!\w){form}(?!\w)")
    return "|".join(forms)


def _plain(label: str) -> str:
    """Return a label in lower case, without accents, marks around it, a unit and the spaces of "T O T A L"."""
    text = (_UNIT.sub("", label) if "(" in label else label).casefold()
    if not text.isascii():
        text = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text).replace("״", '"'))
    text = " ".join(text.strip(" :=*_.–—-\t").split())
    return text.replace(" ", "") if re.fullmatch(r"\w(?: \w){3,}", text) else text


_LIKELY_WORD = re.compile(_pattern(_LIKELY))
_WORD_ALONE = re.compile(f"(?:grand |over-?all |net |final |sum )?(?:{_pattern(_LIKELY + _ALONE + _AVERAGE)})")
_AVERAGE_WORD = re.compile(_pattern(_AVERAGE))
_POSSIBLE_WORD = re.compile(rf"{_pattern(_ALONE + _POSSIBLE)}|\w{{3,}}summ[ae]\b")


_TOKENS = frozenset(_TOKEN.findall(_plain(_LIKELY + _ALONE + _AVERAGE + _POSSIBLE)))
"""All words of the patterns, which are slow."""


@lru_cache(maxsize=50_000)
def total_label(label: str) -> TotalLabel:
    """Return how surely a label names a total or average."""
    if len(label) > MAX_LENGTH or label.isdigit():
        return ""
    text = _plain(label)
    is_known = any(word in _TOKENS or word.endswith(("summe", "summa")) for word in _TOKEN.findall(text))
    if not is_known and not _SCRIPT_WITHOUT_SPACES.search(text):
        return ""
    if _WORD_ALONE.fullmatch(text):
        return "certain"
    if _LIKELY_WORD.search(text):
        return "likely"
    return "average" if _AVERAGE_WORD.search(text) else "possible" if _POSSIBLE_WORD.search(text) else ""
