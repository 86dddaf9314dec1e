"""Recognizes questions for a total, a count or an extreme over a long table, which quoted rows do not answer.

Only a model that calls tools can compute the answer. Without one, the answer is not sure.
"""

from __future__ import annotations

import re

from turnmark.assistant.steps.long_tables import long_tables
from turnmark.assistant.turn import Part, Turn

_AGGREGATE = re.compile(
    r"\b(?:highest|lowest|largest|smallest|biggest|longest|shortest|greatest|most|fewest|least|oldest|newest|latest|earliest"
    r"|hottest|coldest|cheapest|maximum|minimum|average|mean|median|total|sum|altogether|how (?:much|many)"
    r"|(?:höchst|niedrigst|tiefst|größt|kleinst|längst|kürzest|meist|wenigst|ältest|neuest|billigst|teuerst)\w*"
    r"|durchschnitt\w*|mittelwert|gesamt\w*|summe|insgesamt|wie ?viele?"
    r"|les? plus|les? moins|la plus|la moins|moyenne|somme|combien|au total"
    r"|más|menos|mayor|menor|promedio|media|suma|cuánt[oa]s?"
    r"|più|meno|maggiore|minore|somma|quant[oaie]"
    r"|mais|maior|média|soma|quant[oa]s?"
    r"|hoogste|laagste|grootste|kleinste|meeste|minste|gemiddelde?|totaal|hoeveel)\b",
    re.IGNORECASE,
)


def rows_to_compute(turn: Turn, part: Part) -> int:
    """Return the number of rows of the table over which a part asks to compute; 0 if it does not, or if it is short."""
    if not part.hits or not _AGGREGATE.search(part.text):
        return 0
    long = long_tables(turn.retriever)
    table = long.table_of(part.hits[0].passage) if long else None
    return table.rows if table else 0
