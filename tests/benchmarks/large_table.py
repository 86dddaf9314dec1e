"""CPU and memory of indexing a large CSV file or workbook: `python -m tests.benchmarks.large_table [ROWS] [xlsx]`.

Writes a table of ROWS (default 100,000) orders with 20 columns, and builds an index of it with the default settings.
Prints the CPU seconds (user and system) and the largest memory of all processes together, for the build and for a
plain reference, which reads the file with pandas and writes it to SQLite without types, search or passages. Then prints
the seconds of a search for a row and of some statements.
"""

from __future__ import annotations

import csv
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

import psutil

from turnmark.corpora.readers.isolation import module_process

SAMPLE_SECONDS = 0.05
LABELS = (
    "Order ID,Order date,Supplier,City,Country,Category,Item,Quantity,Unit price,Discount,Total,Currency,Status,"
    "Delivered on,Contact,Email,Phone,Weight kg,Rating,Note"
).split(",")
REFERENCE = """
import sqlite3, sys, pandas
frame = pandas.read_excel(sys.argv[1]) if sys.argv[1].endswith("xlsx") else pandas.read_csv(sys.argv[1])
with sqlite3.connect(sys.argv[2]) as db:
    frame.to_sql("orders", db, index=False)
"""
STATEMENTS = (
    "SELECT count(*) FROM orders",
    "SELECT supplier, sum(total) FROM orders WHERE status = 'open' GROUP BY supplier ORDER BY 2 DESC LIMIT 5",
    "SELECT count(*) FROM orders WHERE fold(contact) LIKE '%weber%' AND order_date >= '2023-01-01'",
)


def orders(rows: int) -> Iterator[list[object]]:
    """Yield rows of orders."""
    dice = random.Random(7)
    names = [f"{a} {b} {c}" for a in ("Nord", "Alpen", "Tal") for b in ("Handel", "Bau") for c in ("GmbH", "AG", "KG")]
    for number in range(rows):
        day = date(2020, 1, 1) + timedelta(days=dice.randint(0, 1800))
        quantity, price, discount = dice.randint(1, 500), round(dice.uniform(1, 900), 2), dice.choice((0, 5, 10))
        yield [
            f"PO-{number:06}", day.isoformat(), dice.choice(names), dice.choice(("Berlin", "Köln", "Kiel")), "Germany",
            dice.choice(("Office", "Travel", "IT")), f"Item {dice.randint(1, 5000)}", quantity, price, f"{discount} %",
            round(quantity * price * (100 - discount) / 100, 2), "EUR", dice.choice(("open", "paid", "late")),
            f"{day + timedelta(days=14):%d.%m.%Y}", dice.choice(("Anna Meyer", "Ben Weber", "Eva Wagner")),
            f"user{dice.randint(1, 30000)}@example.org", f"+49 30 {dice.randint(100000, 999999)}",
            round(dice.uniform(0.1, 80), 3), dice.choice((1, 2, 3, 4, 5, "")), dice.choice(("", "checked by hand")),
        ]  # fmt: skip


def write_table(path: Path, rows: int) -> None:
    """Write the table as CSV or as a workbook."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([LABELS, *orders(rows)])
        return
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Orders")
    for row in (LABELS, *orders(rows)):
        sheet.append(row)
    book.save(path)


def measured(command: Sequence[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a command; return the CPU seconds of all its processes, and the most megabytes they have at one time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = psutil.Popen([*command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        used = 0
        for each in (process, *_children(process)):
            try:
                used += each.memory_info().rss
            except psutil.Error:
                continue
        most = max(most, used)
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most // 2**20


def _children(process: psutil.Popen) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def main() -> None:
    """Print the figures."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    suffix = sys.argv[2] if len(sys.argv) > 2 else "csv"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        table = folder / "files" / f"orders.{suffix}"
        write_table(table, rows)
        os.environ["TURNMARK_HOME"] = f"{folder}/home"
        command, environment = module_process("turnmark")
        build = [*command, "index", "build", str(table.parent), "--name", "orders"]
        seconds, most = measured(build, {**os.environ, **(environment or {})})
        print(f"{rows:,} rows of {suffix}, {table.stat().st_size / 1e6:.0f} MB")
        print(f"build: {seconds:.1f} s of CPU, {most} MB", flush=True)
        plain = [sys.executable, "-c", REFERENCE, str(table), str(folder / "plain.db")]
        reference, reference_most = measured(plain, dict(os.environ))
        print(f"pandas to SQLite: {reference:.1f} s of CPU, {reference_most} MB; ratio {seconds / reference:.1f}")
        _print_answers(rows)


def _print_answers(rows: int) -> None:
    """Print the seconds of a search and of statements."""
    import turnmark as tm

    index = tm.Index.open("orders")
    index.search("warm up", 5)
    began = time.process_time()
    hits = index.search(f"Which supplier has order PO-{rows - 7:06}?", 5)
    print(f"search for a row: {time.process_time() - began:.2f} s of CPU; {hits[0].passage.text[:60]}")
    assert index.tables is not None
    for statement in STATEMENTS:
        began = time.process_time()
        result = index.tables.run(statement)
        print(f"{time.process_time() - began:.2f} s: {statement} -> {result.rows[0]}")


if __name__ == "__main__":
    main()
