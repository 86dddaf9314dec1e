"""A model that computes over the tables of a real index, behind a real endpoint on loopback."""

from __future__ import annotations

import json
from typing import Any

import openpyxl
import pytest
from starlette.testclient import TestClient

from tests.assistant.notes import notes
from tests.opened import assistant_over, served_models
from tests.servers import Say, ScriptedServer
from turnmark.assistant.citations.provenance import provenance_lines
from turnmark.assistant.llm.calls.protocols import ToolCall
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.serving.app import make_app
from turnmark.assistant.sessions.conversation import SessionBegan, TurnAnswered, TurnRated, calls_line
from turnmark.assistant.sessions.export import list_files, mtrag_files, transcript
from turnmark.assistant.sessions.session_files import new_session, read_session
from turnmark.assistant.steps.agent.document_tools import DocumentTools
from turnmark.assistant.steps.agent.table_tools import MAX_HINT_ROWS, MAX_HINTS, MAX_RELATED_HINTS
from turnmark.assistant.steps.retrieve.retrieve_sections import grow_sections
from turnmark.assistant.steps.step_results import Evidence
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.verify.computed_values import without_values
from turnmark.assistant.types import Reply
from turnmark.corpora.tables.data_tables import LARGE_CELLS
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.tables.table_records import MAX_WHOLE_ROWS
from turnmark.retrieval.types import Query

UNDERSTOOD = Say("{}")
ORDERS = """Supplier,Ordered,Net amount
Miller,2024-03-01,"1,200.50 €"
Smith,2024-03-04,80.00 €
Miller,2024-03-09,99.50 €
Çelik,2024-04-02,"2,000.00 €"
Smith,2024-04-11,unknown
Miller,2024-05-20,20.00 €
Total,,"3,400.00 €"
"""
STOCK = "# Stock\n\nWhat is in the cellar.\n\n| item | pieces |\n|---|---|\n" + "".join(
    f"| {name} | {count} |\n"
    for name, count in (("nails", 400), ("bolts", 30), ("nuts", 70), ("rods", 5), ("pins", 95))
)
ASKED = "What did we order from Miller in total?"
SUM = "SELECT sum(net_amount) AS total FROM orders WHERE supplier = 'Miller' AND is_total = 0"


@pytest.fixture
def store(home, tmp_path):
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n", stock=STOCK)
    (folder / "orders.csv").write_text(ORDERS, encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    return folder


def asked(*replies: Say, message: str = ASKED, **fields: Any) -> tuple[Reply, list[dict[str, Any]]]:
    with ScriptedServer(UNDERSTOOD, *replies) as server:
        assistant = assistant_over("t", f"openai:tiny@{server.url}?retries=0", **{"top_k": 2, **fields})
        reply = assistant.reply([], message)
    return reply, server.bodies[1:]


def running(statement: str) -> Say:
    return Say("", calls=[("sql", json.dumps({"statement": statement}))])


def results(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def tools_over(index: str = "t") -> DocumentTools:
    retriever = assistant_over(index).retriever
    assert retriever is not None
    return DocumentTools(Turn(ASKED, retriever=retriever), retriever, Evidence(()))


def called(tools: DocumentTools, name: str, tokens: int = 1500, **arguments: str) -> str:
    return tools.result(ToolCall(id="1", name=name, arguments=json.dumps(arguments)), tokens).text


@pytest.mark.usefixtures("store")
def test_computed_answer_is_cited_with_its_statement_and_rows() -> None:
    reply, bodies = asked(running(SUM), Say("You ordered goods for 1,320.00 € from Miller [2]."))
    assert reply.decision == "answer"
    assert reply.checks.unsupported == ()
    [source] = reply.citations
    assert (source.document, source.path, source.statement) == ("orders.csv", "orders.csv", SUM)
    assert source.text == "total\n1320"
    [basis] = source.basis
    assert (basis.table, basis.count) == ("orders", 3)
    assert [row[1] for row in basis.rows] == ["Miller"] * 3
    assert "1,200.50 €" in str(basis.rows)
    assert results(bodies[1])[0].startswith("[2]\n> orders")
    assert calls_line(reply.trace.calls) == "1 computation"
    assert reply.trace.calls[0].found == "1320 [1]"


@pytest.mark.usefixtures("store")
def test_revision_of_a_computed_answer_keeps_its_statement_and_may_compute_again() -> None:
    revision, both = Say(json.dumps({"kind": "revision"})), "Miller: 1,320.00 € [1]; Smith: 80.00 € [2]."
    more = SUM.replace("Miller", "Smith")
    said = [UNDERSTOOD, running(SUM), Say("You ordered goods for 1,320.00 € from Miller [2].")]
    said += [revision, running(more), Say(both), revision, Say("Together 1,400.00 € [1][2].")]
    with ScriptedServer(*said) as server:
        chat = assistant_over("t", f"openai:tiny@{server.url}?retries=0", top_k=2).chat()
        chat.ask(ASKED)
        second, third = chat.ask("add the same for Smith"), chat.ask("only the sum of both")
    assert [citation.statement for citation in second.citations] == [SUM, more]
    assert [citation.statement for citation in third.citations] == [SUM, more]
    assert third.citations[0].basis == second.citations[0].basis
    assert second.checks.unsupported == ()
    assert any(tool["function"]["name"] == "sql" for tool in server.bodies[4]["tools"])
    assert "> total\n> 1320" in server.bodies[4]["messages"][-1]["content"]


@pytest.mark.usefixtures("store")
def test_names_the_table_of_a_passage_in_the_first_prompt() -> None:
    _, bodies = asked(Say("I see [1]."))
    user = bodies[0]["messages"][-1]["content"]
    line = next(line for line in user.splitlines() if "orders (7 rows" in line)
    assert line.startswith("> [1] orders (7 rows, 1 of them totals): ")
    assert "net_amount real in €" in line
    assert "ordered date" in line
    assert count_tokens(line) < 50
    assert "computed with sql" in " ".join(bodies[0]["messages"][0]["content"].split())


def test_index_without_tables_offers_no_computing(home, tmp_path) -> None:
    build_index(notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n"), "t", retriever="bm25")
    _, bodies = asked(Say("Red [1]."), message="What colour is the kettle?")
    assert not {"sql", "tables"} & {tool["function"]["name"] for tool in bodies[0]["tools"]}
    assert "sql" not in json.dumps(bodies[0]["messages"])


@pytest.mark.usefixtures("store")
def test_lists_tables_with_columns_units_totals_and_rows() -> None:
    tools = tools_over()
    every = called(tools, "tables")
    assert "Tables: 2 tables" in every
    assert "orders: orders.csv" in every
    assert "7 rows, 1 of them totals" in every
    assert "net_amount “Net amount” real in €" in every or "net_amount real in €" in every
    assert "(1 cell without a value (unknown): NULL)" in every
    assert "Miller | 2024-03-01 | 1,200.50 €" in every
    assert "supplier (Miller; Smith; Çelik)" in every, "without the label of the row with the total"
    assert "ordered date 2024-03-01…2024-05-20" in every
    assert "20…2000" in every
    assert "stock: stock.md; 5 rows" in every
    found = called(tools, "tables", words="nails")
    assert "1 of 2 tables has all of “nails”" in found
    assert "orders" not in found
    assert "none of 2 tables has all of “zebra”" in called(tools, "tables", words="zebra")
    most = called(tools, "tables", words="Miller nails zebra 80.00")
    assert "none of 2 tables has all of “Miller nails zebra 80.00”" in most
    assert "orders: orders.csv; 7 rows, 1 of them totals; lacks nails, zebra" in most
    assert "stock: stock.md" not in most, "it has fewer of the words"
    only = called(tools, "tables", where="orders.csv")
    assert "stock" not in only


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT sum(net_amount) FROM orders", "includes 1 row of orders with totals of other rows"),
        ("SELECT sum(net_amount) FROM orders WHERE is_total = 0", "Units: net_amount in €."),
        (
            "SELECT sum(net_amount) FROM orders WHERE is_total = 0",
            "net_amount: 1 cell without a value (unknown): NULL; see net_amount_text.",
        ),
        ("SELECT * FROM orders WHERE supplier = 'Celik'", "Nothing matches. First look how it is spelled"),
        ("SELECT count(*) FROM orders WHERE supplier = 'Celik'", "Nothing matches. First look how it is spelled"),
        ("SELECT amount FROM orders", "net_amount"),
        ("SELECT * FROM ordering", "orders"),
        ("DELETE FROM orders", "SELECT"),
        ("SELECT 1 + 1", "It reads no table, so it is no source."),
    ],
)
def test_tells_the_model_what_it_should_know_about_a_result(statement, said) -> None:
    assert said in called(tools_over(), "sql", statement=statement)


@pytest.mark.usefixtures("store")
def test_totals_are_not_reported_where_they_are_left_out() -> None:
    assert "totals" not in called(tools_over(), "sql", statement=SUM)


@pytest.mark.usefixtures("store")
def test_statement_keeps_its_lines_and_spaces() -> None:
    lines = "SELECT count(*) -- all\nFROM orders WHERE supplier || 'a  b' = 'Millera  b'"
    assert "\n> 3\n" in f"{called(tools_over(), 'sql', statement=lines)}\n"


def test_long_result_says_what_it_leaves_out(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    rows = "".join(f"number {n},{n}\n" for n in range(150))
    (folder / "long.csv").write_text(f"name,value\n{rows}", encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    text = called(tools_over(), "sql", tokens=300, statement="SELECT name, value FROM long")
    assert count_tokens(text) <= 330
    shown = text.count("> number ")
    assert "> 150 rows\n" in text
    assert "> number 149 | 149" in text
    assert 20 < shown < 150
    assert f"… {150 - shown} further rows …" in text


def hints_for(message: str) -> str:
    retriever = assistant_over("t").retriever
    assert retriever is not None
    tools = DocumentTools(Turn(message, retriever=retriever), retriever, Evidence(()))
    assert tools.computing is not None
    return tools.computing.hints()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("message", "table"),
    [
        ("What is the total in Orders.CSV?", "orders.csv orders (7 rows"),
        ("sum up the table orders", "orders.csv orders (7 rows"),
        ("Who reorders nails?", ""),
    ],
)
def test_table_that_the_message_names_is_described_although_no_section_shows_it(message, table) -> None:
    hints = hints_for(message)
    assert table in hints
    assert bool(hints) is bool(table)


def test_only_a_few_tables_are_named_next_to_the_sections(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    names = [f"part{n}.csv" for n in range(MAX_RELATED_HINTS + 1)]
    for name in names:
        (folder / name).write_text(ORDERS, encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    lines = hints_for(f"Add up {' and '.join(names)}").splitlines()
    assert sum("(7 rows" in line for line in lines) == MAX_HINTS
    assert len(lines) == MAX_HINTS * (1 + MAX_HINT_ROWS), "each with its first rows, since no section shows them"


def test_small_tables_do_not_displace_a_long_one_of_a_section(home, tmp_path) -> None:
    folder = notes(tmp_path, **{f"a{n}": STOCK for n in range(MAX_HINTS)})
    parts = "Part,Pieces\n" + "".join(f"bolt {n},{n}\n" for n in range(MAX_WHOLE_ROWS + 1))
    (folder / "parts.csv").write_text(parts, encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    tools = tools_over()
    assert tools.computing is not None
    for name in (*(f"a{n}.md" for n in range(MAX_HINTS)), "parts.csv"):
        called(tools, "read", document=name)
    assert "parts (" in tools.computing.hints().splitlines()[0]
    listed = called(tools, "tables", tokens=4000)
    assert listed.rindex("columns:") < listed.index("first rows of"), "all columns come first"


def test_a_few_long_tables_are_all_described_next_to_one_that_is_named(home, tmp_path) -> None:
    folder = notes(tmp_path, stock=STOCK)
    (folder / "orders.csv").write_text(ORDERS, encoding="utf-8")
    parts = "Part,Pieces\n" + "".join(f"bolt {n},{n}\n" for n in range(MAX_WHOLE_ROWS + 1))
    (folder / "parts.csv").write_text(parts, encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    lines = hints_for("sum up the table orders").splitlines()
    names = [line.split(" (")[0] for line in lines if "rows" in line]
    assert names == ["> orders.csv orders", "> parts.csv parts"], "not the stock, whose few rows can be read"
    assert "ordered date 2024-03-01…2024-05-20" in lines[0]


def test_cells_in_hints_are_no_citations(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    (folder / "orders.csv").write_text(ORDERS.replace("Smith", "Smith [1]"), encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    hints = hints_for("sum up the table orders")
    assert "Smith (1)" in hints
    assert "[1]" not in hints


def test_sister_sheets_are_described_next_to_one_that_is_shown(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    for n in range(MAX_RELATED_HINTS):
        (folder / f"part{n}.csv").write_text(ORDERS, encoding="utf-8")
    book = openpyxl.Workbook()
    for name, head in (("North", "Town"), ("South", "Village")):
        sheet = book.create_sheet(name)
        for row in ([head, "People"], *([f"{head} {n}", n] for n in range(5))):
            sheet.append(row)
    book.remove(book.active)
    book.save(folder / "places.xlsx")
    build_index(folder, "t", retriever="bm25")
    lines = hints_for("How many people has the table places_north?").splitlines()
    assert [line.split(" (")[0] for line in lines if "rows" in line] == [
        "> places.xlsx › North places_north",
        "> places.xlsx › South places_south",
    ]


def test_a_row_of_a_large_table_shows_its_table(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    rows = "".join(f"P{n},shelf {n % 9},{n}\n" for n in range(LARGE_CELLS // 3 + 50))
    (folder / "parts.csv").write_text(f"part,place,pieces\n{rows}", encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    retriever = assistant_over("t").retriever
    assert retriever is not None
    [row] = retriever.search([Query(text="P12345")], 1)[0]
    tools = DocumentTools(Turn("How many pieces?", retriever=retriever), retriever, Evidence((), (row,)))
    assert tools.computing is not None
    assert tools.computing.hints().startswith("> [1] parts (")
    assert "1 time in 1 section of 1 of 2 documents" in called(tools, "grep", words="P12345")
    assert "part: P12345; place: shelf" in called(tools, "grep", words="P12345")
    assert "1 of 1 table has all of “P12345”" in called(tools, "tables", words="P12345")


@pytest.mark.usefixtures("store")
def test_session_and_exports_keep_statement_and_rows(tmp_path) -> None:
    reply, _ = asked(running(SUM), Say("1,320.00 € in total [2]."))
    session = new_session(SessionBegan(index="t"))
    session.record(TurnAnswered(turn=1, question=ASKED, reply=reply))
    session.record(TurnRated(turn=1, rating="good"))
    session.close()
    [exchange] = read_session(session.name)[0].exchanges
    assert exchange.reply.citations == reply.citations
    lines = list(provenance_lines(exchange.reply.citations[0]))
    assert lines[:3] == ["computed with:", f"  {SUM}", "rests on 3 rows of orders:"]
    text = transcript([exchange], "talk")
    assert "sum\\(net" in text or "sum(net" in text.replace("\\", "")
    assert "1,200.50 €" in text
    files, _ = mtrag_files([exchange], "talk", tmp_path / "out", None)
    task = json.loads(next(content for path, content in files.items() if path.name == "reference.jsonl"))
    assert task["contexts"][0]["text"] == "total\n1320"
    assert not any("qrels" in str(path) for path in files), "a computed result is no passage of the corpus"


@pytest.mark.usefixtures("store")
def test_transcripts_have_whole_lists_as_files(tmp_path) -> None:
    listing = "SELECT supplier, net_amount AS paid FROM orders WHERE is_total = 0 ORDER BY row_number"
    reply, _ = asked(running(listing), Say("Six orders, the first from Miller [2]."))
    session = new_session(SessionBegan(index="t"))
    session.record(TurnAnswered(turn=1, question=ASKED, reply=reply))
    tables = Index.open("t").tables
    assert tables is not None
    [(path, text)] = list_files(read_session(session.name)[0].exchanges, tmp_path / "talk.md", tables).items()
    assert path.name == f"talk-1-{reply.citations[0].n}.csv"
    assert text.splitlines()[:3] == ["supplier,paid", "Miller,1200.5", "Smith,80.0"]


@pytest.mark.usefixtures("store")
def test_figure_that_was_not_computed_is_unsupported() -> None:
    reply, _ = asked(running(SUM), Say("You ordered goods for 1,820 € from Miller [2]."))
    assert reply.checks.unsupported == ("You ordered goods for 1,820 € from Miller.",)


@pytest.mark.parametrize(
    ("text", "values", "left"),
    [
        ("1,234,567.89 in all", [1234567.891], "in all"),
        ("1.234.567,9 in all", [1234567.891], "in all"),
        ("1.2 million rows", [1234567.891], "rows"),
        ("1,23 Mio. Zeilen", [1234567.891], "Zeilen"),
        ("1.3 million rows", [1234567.891], "1.3 million rows"),
        ("33 % of them", [1 / 3], "% of them"),
        ("33.3 percent", [33.3333], "percent"),
        ("34 % of them", [1 / 3], "34 % of them"),
        ("fell by 35", [-35], "fell by"),
        ("5 on average", [4.8], "on average"),
        ("2 on average", [2.4], "2 on average"),
        ("12 orders in 2019", [12], "orders in 2019"),
        ("1 234,50 € am Ende", [1234.5], "€ am Ende"),
        ("none: 0", [0], "none:"),
        ("0.004 m", [0.0041], "m"),
    ],
)
def test_recognizes_computed_values_in_other_forms(text, values, left) -> None:
    assert " ".join(without_values(text, values).split()) == left


def days(count: int) -> str:
    return "day,rain,sky\n" + "".join(f"2024-{n // 28 + 1:02}-{n % 28 + 1:02},{n}.5,clouds {n}\n" for n in range(count))


def shown_rows(body: dict[str, Any]) -> int:
    return sum("| clouds" in line for line in body["messages"][-1]["content"].splitlines())


@pytest.mark.parametrize(("rows", "least", "most"), [(MAX_WHOLE_ROWS, MAX_WHOLE_ROWS, MAX_WHOLE_ROWS), (300, 5, 30)])
def test_few_rows_of_a_long_table_are_shown_and_a_short_one_as_a_whole(home, tmp_path, rows, least, most) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    (folder / "days.csv").write_text(days(rows), encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    _, bodies = asked(Say("I see [1]."), message="How much rain fell under clouds 20 and clouds 40?", top_k=6)
    assert least <= shown_rows(bodies[0]) <= most
    left = f"days ({rows} rows, {shown_rows(bodies[0])} shown)"
    assert (left in bodies[0]["messages"][-1]["content"]) is (rows > MAX_WHOLE_ROWS)


def test_a_search_says_how_many_rows_of_a_long_table_are_left(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    (folder / "days.csv").write_text(days(300), encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    found = called(tools_over(), "search", query="clouds 20 and clouds 40")
    shown = found.count("| clouds")
    assert 0 < shown <= 30
    assert f"… {300 - shown} more rows: sql table days" in found


def test_without_tools_the_sections_show_more_rows_of_a_long_table(home, tmp_path) -> None:
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    (folder / "days.csv").write_text(days(300), encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    _, bodies = asked(Say("I see [1]."), message="Rain under clouds 20 and 40?", top_k=6, steps=("retrieve=read",))
    assert shown_rows(bodies[0]) > 60


def test_text_on_both_sides_of_a_long_table_is_two_sources(home, tmp_path) -> None:
    """Joined as one, the rows between them would be blanks."""
    rows = "".join(f"| satellite {n} | {n} | seen over the northern town {n} |\n" for n in range(2 * MAX_WHOLE_ROWS))
    text = f"# Passes\n\nBefore the passes.\n\n| name | number | place |\n|---|---|---|\n{rows}\nAfter the passes.\n"
    build_index(notes(tmp_path, passes=text), "t", retriever="bm25")
    retriever = open_retriever("bm25", Index.open("t"))
    long = retriever.tables()
    assert long is not None
    found = retriever.search([Query(text="before after passes")], 50)[0]
    hits = sorted((hit for hit in found if "the passes" in hit.passage.text), key=lambda hit: hit.passage.start)
    sources = grow_sections(retriever, hits, 5000, long, adjacent=False)
    assert len(hits) == len(sources) == 2
    assert [source.passage.text for source in sources] == [hit.passage.text for hit in hits]


@pytest.mark.parametrize(
    ("message", "decision"),
    [
        ("What was the highest temperature of Narvik in spring?", "partial"),
        ("how many temperature rows has Narvik", "partial"),
        ("Wie hoch war die höchste temperature im Sommer in Narvik?", "partial"),
        ("What was the temperature of Narvik on day 77?", "answer"),
    ],
)
def test_without_tools_quoted_rows_are_no_sure_answer_to_what_is_computed(home, tmp_path, message, decision) -> None:
    rows = "".join(f"Narvik,day {n},{n % 30}\n" for n in range(2 * MAX_WHOLE_ROWS))
    folder = notes(tmp_path, kettle="# Kettle\n\nThe kettle is red.\n")
    (folder / "weather.csv").write_text(f"Town,Day,Temperature\n{rows}", encoding="utf-8")
    build_index(folder, "t", retriever="bm25")
    assert assistant_over("t").reply([], message).decision == decision


def test_serve_sends_all_rows_of_a_result_and_refuses_other_statements(home, tmp_path):
    folder = tmp_path / "long"
    folder.mkdir()
    rows = "".join(f"n{number},{number}\n" for number in range(300))
    (folder / "long.csv").write_text(f"name,value\n{rows}", encoding="utf-8")
    build_index(folder, "long", retriever="bm25")
    app = make_app(served_models(assistant_over("long")), "localhost", None, lambda: None)
    with TestClient(app, base_url="http://localhost") as client:
        sent = client.get("/v1/rows", params={"statement": "SELECT name, value FROM long ORDER BY value"})
        assert sent.headers["content-type"].startswith("text/csv")
        assert sent.text.splitlines()[::300] == ["name,value", "n299,299"]
        for statement in ("", "DELETE FROM long", "SELECT * FROM passages"):
            assert client.get("/v1/rows", params={"statement": statement}).status_code == 400
