"""Lines that only name what other text says: an outline or agenda, a table of contents, a list of related topics.

They have the words of many questions and answer none.
"""

from __future__ import annotations

import re

from turnmark.assistant.citations.marks import TextLine
from turnmark.assistant.wording.phrases import fold
from turnmark.corpora.types import Passage

MAX_NAME_WORDS = 14
"""Maximum words of a line that only names something; a longer line under such a heading says something."""

_HEADINGS = re.compile(
    r"(?:outline|agenda|(?:table of )?contents|toc|(?:in|on) this (?:page|chapter|section|article|guide)"
    r"|(?:see also|related|further reading|useful links|quick links|external links)(?: \w+){0,2}"
    r"|inhalt|inhalts(?:verzeichnis|übersicht)|gliederung|tagesordnung|verwandte \w+|siehe auch|weiterführende \w+"
    r"|(?:in diesem|auf dieser|in dieser) (?:kapitel|artikel|abschnitt|seite)"
    r"|sommaire|table des matières|plan|ordre du jour|(?:rubriques|articles|pages|sujets|liens|thèmes) "
    r"(?:connexes|associée?s|liée?s|utiles|similaires)|voir (?:aussi|également)|(?:sur|dans) cet?t?e? (?:page|article)"
    r"|índice|contenidos?|tabla de contenidos?|orden del día|(?:temas|artículos|enlaces|páginas) "
    r"(?:relacionad[oa]s|de interés)|véase también|ver también|en esta página"
    r"|indice|sommario|ordine del giorno|(?:argomenti|articoli) correlati|vedi anche|vedere anche"
    r"|sumário|conteúdo|(?:tópicos|artigos) relacionados|(?:veja|ver) também|inhoud|inhoudsopgave"
    r"|(?:verwante|gerelateerde) \w+|zie ook|spis treści|zobacz też|powiązane \w+|içindekiler|ilgili \w+|ayrıca bakınız"
    r"|содержание|оглавление|повестка дня|(?:см|смотрите) также|(?:связанные|похожие) \w+|зміст|див також|пов язані \w+"
    r"|目录|目錄|大纲|提纲|议程|相关(?:主题|文章|链接|内容)|另请参阅|参见|目次|アジェンダ|関連(?:項目|トピック|記事|リンク|情報)"
    r"|参照|목차|관련 (?:항목|문서|주제|링크)|المحتويات|جدول الأعمال|مواضيع ذات صلة|انظر أيضا)"
)
_NAVIGATION = re.compile(r"(?:.*/)?_(?:menu|sidebar|navbar|nav|toc|header|footer)\.\w+", re.IGNORECASE)
_NUMBER = re.compile(r"^(?:\d+ )+")
_LABEL = re.compile(r"\W*(?P<label>[^:：]{3,40})[:：]\s*\S")
_SENTENCE_END = re.compile(r"[.!?。！？]['\"”’)]*$")


def is_navigation(passage: Passage) -> bool:
    """Return whether a passage belongs to a navigation page of a wiki or site, such as `_Sidebar.md`."""
    return bool(_NAVIGATION.fullmatch(passage.as_stored().document))


def only_names(line: TextLine, passage: Passage, question: str = "") -> bool:
    """Return whether a line stands in an outline, a table of contents or a list of related topics.

    Args:
        question: a question that asks for such a list by its name is answered by it.
    """
    label = _LABEL.match(line.text)
    names = [line.section.rpartition(" › ")[2] or passage.title, label["label"] if label else ""]
    headings = [_NUMBER.sub("", fold(name)) for name in names]
    heading = next((heading for heading in headings if heading and _HEADINGS.fullmatch(heading)), "")
    if not heading or heading in fold(question) or line.kind in ("row", "code"):
        return False
    return line.size <= MAX_NAME_WORDS and (line.kind == "item" or not _SENTENCE_END.search(line.text) or bool(label))
