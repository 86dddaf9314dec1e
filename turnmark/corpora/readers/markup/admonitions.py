"""Writes the titles of boxes (admonitions, callouts, alerts) that site generators draw around text."""

from __future__ import annotations

BOX_KINDS = frozenset(
    """abstract attention bug caution check danger deprecated error example experimental fail failure faq help hint
    important info missing note question quote security seealso success summary tip todo tldr warning""".split()
)
"""Kinds of boxes whose name is shown above them."""
_TRANSLATED_KINDS = frozenset(
    """hinweis anmerkung notiz tipp achtung warnung wichtig vorsicht gefahr beispiel remarque astuce conseil attention
    avertissement exemple nota aviso consejo advertencia atención importante precaución peligro ejemplo suggerimento
    avviso avvertenza attenzione pericolo esempio dica atenção cuidado perigo exemplo opmerking waarschuwing belangrijk
    voorbeeld uwaga wskazówka ostrzeżenie ważne przykład примечание совет внимание предупреждение важно пример
    注意 提示 说明 警告 重要 备注 注記 メモ ヒント 참고 주의 경고 not uyarı ipucu önemli""".split()
)
"""Titles that only name the kind in another language. It is not written twice, as in "Note: Hinweis"."""
_NAMES = {"faq": "FAQ", "tldr": "TL;DR", "todo": "To do", "seealso": "See also"}


def box_title(kind: str, title: str) -> str:
    """Return the title of a box with its kind as a bold line: `**Warning: Mind the gap**`; empty if it has none."""
    kind, title = kind.lower(), " ".join(title.replace("**", "").split())
    is_named = title.lower().startswith(kind) or title.lower().rstrip(" :!") in _TRANSLATED_KINDS
    word = _NAMES.get(kind, kind.capitalize()) if kind in BOX_KINDS and not is_named else ""
    words = ": ".join(filter(None, (word, title)))
    return f"**{words}**" if words else ""
