"""Sums, counts, extremes and lists of rows that are computed without a model, over the tables of a real index."""

from __future__ import annotations

import pytest

from tests.assistant.notes import notes
from tests.opened import assistant_over
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.types import Reply
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.types import Query

SHOPS = ("Ikea", "Coop", "Zoë & Söhne")
CATEGORIES = ("Furniture", "Groceries", "Travel")
EXPENSES = "Date,Shop,Category,Amount,Paid\n" + "".join(
    f"2024-{1 + n // 30:02}-{1 + n % 28:02},{SHOPS[n % 3]},{CATEGORIES[n % 3]},{n}.50 €,{n}.00 €\n" for n in range(90)
)
ENERGY = """Month,Room,Energy (kWh)
2024-01,Kitchen,100
2024-01,Bath,50
All of January,,150
2024-02,Kitchen,200
2024-02,Bath,70
All of February,,270
"""
MURDERS = "state,abb,population,total\nTexas,TX,25145561,805\nNew York,NY,19378102,517\nIndiana,IN,6483802,142\n"
WEATHER = "Datum,Regen,Wetter\n" + "".join(f"{n}.01.2024,{n},{('Schnee', 'Nebel')[n % 3 > 0]}\n" for n in range(1, 31))
STOCK = (
    "# Stock\n\n| item | pieces |\n|---|---|\n| eggs | 4 |\n| nuts | 7 |\n| rods | 5 |\n| pins | 9 |\n| nails | 2 |\n"
)
NOTES = {
    "kettle": "# Kettle\n\nThe kettle is red. It cost 40 euros at the market.\n",
    "journey": "# Journey\n\nOur travel insurance is with Helvia. The bus to the coast costs 12 euros.\n",
    "stock": STOCK,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = notes(tmp_path_factory.mktemp("totals"), **NOTES)
    (folder / "expenses.csv").write_text(EXPENSES, encoding="utf-8")
    (folder / "murders.csv").write_text(MURDERS, encoding="utf-8")
    (folder / "wetter.csv").write_text(WEATHER, encoding="utf-8")
    (folder / "energy.csv").write_text(ENERGY, encoding="utf-8")
    return folder


def test_sums_are_written_as_the_table_writes_numbers(home, tmp_path) -> None:
    rows = "".join(f"{n}.01.2024;Kiosk;{n}.100,25 €\n" for n in range(1, 7))
    (tmp_path / "ausgaben.csv").write_text(f"Datum;Laden;Betrag\n{rows}", encoding="utf-8")
    build_index(tmp_path, "t", retriever="bm25")
    reply = replies(assistant_over("t"), "Was ist die Summe von Betrag für Kiosk?")
    assert "**21.601,50 €**" in reply.answer


@pytest.fixture
def assistant(home, folder) -> Assistant:
    build_index(folder, "t", retriever="bm25")
    return assistant_over("t")


def replies(assistant: Assistant, *messages: str) -> Reply:
    """Hold a conversation and return its last reply."""
    history: list[Message] = []
    for message in messages:
        reply = assistant.reply(history, message)
        history += [Message(role="user", content=message), Message(role="assistant", content=reply.answer)]
    return reply


COMPUTED = {
    "What is the sum of amount for Furniture?": ("Sum of Amount: **1320 €** (Category: Furniture; rows: 30) [1]", 30),
    "How many expenses at Coop?": ("Number of expenses: **30** (Shop: Coop; rows: 30) [1]", 30),
    "How often did we pay at Zoë & Söhne in 2024?": (
        "Number of rows: **30** (Date: 2024; Shop: Zoë & Söhne; rows: 30) [1]", 30,
    ),
    "What is the highest amount for travel?": (
        "Highest Amount: **89.5 €** – 2024-03-06, Zoë & Söhne, Travel (Category: Travel; rows: 30) [1]", 30,
    ),
    "What is the average amount in January 2024?": ("Average of Amount: **15 €** (Date: 2024-01; rows: 30) [1]", 30),
    "How many shops are there?": ("Number of Shop: **3** (rows: 90) [1]", 90),
    "How much energy did we use in total?": ("Sum of Energy (kWh): **420 kWh** (rows: 4) [1]", 4),
    "Wie viel Energy hat Kitchen insgesamt verbraucht?": (
        "Summe von Energy (kWh): **300 kWh** (Room: Kitchen; Zeilen: 2) [1]", 2,
    ),
    "Groceries 的 Amount 总和是多少？": ("Amount的总和: **1350 €** (Category: Groceries; 行数: 30) [1]", 30),
    "Groceries の Amount の合計は？": ("Amountの合計: **1350 €** (Category: Groceries; 行数: 30) [1]", 30),
    "how many murders were there in Texas": ("Sum of total: **805** (state: Texas; rows: 1) [1]", 1),
    "How many murders is that for all the states together?": ("Sum of total: **1464** (rows: 3) [1]", 3),
    "wie viele Tage mit Schnee gab es?": ("Anzahl Zeilen: **10** (Wetter: Schnee; Zeilen: 10) [1]", 10),
}  # fmt: skip


def test_totals_are_computed_without_a_model_and_cited_with_their_rows(assistant) -> None:
    for message, (text, count) in COMPUTED.items():
        reply = replies(assistant, message)
        assert (reply.decision, reply.answer) == ("answer", text), message
        [source] = reply.citations
        assert source.statement.startswith("SELECT "), message
        assert [basis.count for basis in source.basis] == [count], message


def test_other_value_continues_the_question_before(assistant) -> None:
    murders = replies(assistant, "how many murders were there in Texas", "and in new york?")
    assert murders.answer == "Sum of total: **517** (state: New York; rows: 1) [1]"
    days = replies(assistant, "wie viele Tage mit Schnee gab es?", "und mit Nebel?")
    assert days.answer == "Anzahl Zeilen: **20** (Wetter: Nebel; Zeilen: 20) [1]"


def test_rows_with_a_value_are_listed(assistant) -> None:
    reply = replies(assistant, "List all expenses at Ikea")
    assert reply.answer.startswith("expenses (Shop: Ikea; rows: 30) [1]\n\n| Date | Shop |")
    assert reply.answer.count("| Ikea |") == 30
    assert "Coop" not in reply.answer


def test_unclear_column_is_asked_for_and_the_reply_to_it_understood(assistant) -> None:
    asked = "How much did I spend on groceries in total?"
    reply = replies(assistant, asked)
    assert (reply.decision, reply.answer) == ("clarify", "Which column do you mean: Amount or Paid?")
    assert replies(assistant, asked, "the amount").answer.startswith("Sum of Amount: **1350 €**")
    assert (
        "Highest Sum of Amount: **1380 €** – Travel"
        in replies(assistant, "Which category did I spend the most on?", "amount").answer
    )


@pytest.mark.parametrize(
    "message",
    [
        "How much does the bus cost?",
        "How many eggs do I need?",
        "What is the total cost of the kettle?",
        "What is the sum of amount for Furniture and Travel?",
        "How many expenses above 50 at Ikea?",
        "List all steps",
        "How many murders were there by state?",
        "how many murders were there in TX and in Indiana and New York",
    ],
)
def test_message_with_an_unknown_word_is_not_computed(assistant, message) -> None:
    assert not any(source.statement for source in replies(assistant, message).citations)


def test_adding_up_what_is_not_recognized_is_said_to_take_a_model(assistant) -> None:
    reply = replies(assistant, "What is the average amount that Ikea charges on Mondays?")
    assert reply.decision == "partial"
    assert reply.answer.startswith("Adding up the rows of a long table takes a language model")
    assert ": expenses.csv (Date, Shop," in reply.answer
    assert reply.citations[0].document == "expenses.csv"


def test_passages_of_a_long_table_take_one_place_before_other_documents(assistant) -> None:
    query = Query(text="travel 2024-01-03 ikea coop groceries, our bus, the kettle")
    [hits] = assistant.retriever.search([query], 6)
    documents = [hit.passage.document for hit in hits]
    assert sorted(documents[:3]) == ["expenses.csv", "journey.md", "kettle.md"]
    assert "expenses.csv" in documents[3:]
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
