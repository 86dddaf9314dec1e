"""Pages a second of reading PDFs and of building an index over them, beside LlamaIndex.

    pip install 'turnmark[bench]'
    python -m tests.benchmarks.pdf_build FOLDER     # FOLDER as for tests.benchmarks.pdf

The PDFs are the eleven manuals of `tests.benchmarks.pdf`, 1,533 pages. Reading: our reader and LlamaIndex's `PDFReader`
(pypdf) take turns, file by file, in one process. Building: each index is built by a process of its own, from the files
to the disk, with the bundled MiniLM on both sides; its start and the loading of the model count. LlamaIndex has
`SimpleDirectoryReader`, its default chunks and Chroma; as MiniLM reads only 256 tokens of its chunks of 1,024, it is
built a second time with chunks of 256. Other work on the machine slows one side more than another, so that ratios are
those of processor seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import pdf, peers

CHUNK, OVERLAP = 256, 32
"""Tokens of a chunk that MiniLM reads whole, and those that it shares with the next."""


@dataclass
class Cost:
    """What some work took, in seconds of the clock and of all processors."""

    clock: float = 0.0
    processor: float = 0.0

    def add(self, work: Callable[[], object]) -> None:
        """Do the work, and add what it takes."""
        began = time.perf_counter()
        self.processor += pdf.seconds(work)
        self.clock += time.perf_counter() - began


def copy_manuals(folder: Path, target: Path) -> list[Path]:
    """Copy the manuals' PDFs into one folder."""
    target.mkdir()
    copies = []
    for documents in pdf.DOCUMENTS.values():
        for name, (path, _) in documents.items():
            copies.append(target / f"{name}.pdf")
            shutil.copyfile(folder / "usr" / "share" / path, copies[-1])
    return copies


def read_all(files: list[Path]) -> dict[str, Cost]:
    """Read each file with both readers."""
    from llama_index.readers.file import PDFReader

    from tests.corpora.reading import read_pdf

    readers: dict[str, Callable[[Path], object]] = {
        "Turnmark": lambda path: read_pdf(path, path.name),
        "LlamaIndex": PDFReader().load_data,
    }
    costs = {name: Cost() for name in readers}
    for read in readers.values():
        read(files[-2])  # what is imported once does not count
    for path in files:
        for name, read in readers.items():
            costs[name].add(lambda path=path, read=read: read(path))  # type: ignore[misc]
    return costs


def build_ours(folder: Path, name: str, retriever: str) -> None:
    """Build an index of ours."""
    command = [sys.executable, "-m", "turnmark", "index", "build", str(folder), "--name", name]
    if retriever:
        command += ["--retriever", retriever]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def build_theirs(folder: Path, target: Path, chunk: int | None) -> None:
    """Build LlamaIndex's index, with its default chunks or with others."""
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.node_parser import SentenceSplitter

    splitter = SentenceSplitter(chunk_size=chunk, chunk_overlap=OVERLAP) if chunk else SentenceSplitter()
    nodes = splitter.get_nodes_from_documents(SimpleDirectoryReader(folder).load_data())
    index = peers.llama_index(target, peers.llama_embedding(), None)
    index.insert_nodes(nodes)


def chroma_passages(target: Path) -> int:
    """The passages of LlamaIndex's index."""
    import chromadb

    settings = chromadb.Settings(anonymized_telemetry=False)
    count: int = chromadb.PersistentClient(str(target), settings=settings).get_collection("passages").count()
    return count


def run_theirs(folder: Path, target: Path, chunk: str) -> None:
    """Build LlamaIndex's index in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.pdf_build", str(folder), "--theirs", str(target)]
    subprocess.run([*command, "--chunk", chunk], check=True, stdout=subprocess.DEVNULL)


def build_all(folder: Path, temporary: Path) -> Iterator[tuple[str, Cost, int]]:
    """Build every index; its label, its cost and its passages."""
    from turnmark.retrieval.search.opened_index import open_index

    warm = temporary / "warm.md"
    warm.write_text("# Warm\n\nThe first build converts the model, which is kept.\n", encoding="utf-8")
    build_ours(warm, "warm", "")
    for name, retriever, label in (("all", "", "Turnmark"), ("dense", "dense", "Turnmark, vectors only")):
        cost = Cost()
        cost.add(lambda name=name, retriever=retriever: build_ours(folder, name, retriever))  # type: ignore[misc]
        yield label, cost, open_index(name).manifest.passages
    for chunk, label in (("", "LlamaIndex"), (str(CHUNK), f"LlamaIndex, chunks of {CHUNK}")):
        target = temporary / f"chroma{chunk}"
        cost = Cost()
        cost.add(lambda target=target, chunk=chunk: run_theirs(folder, target, chunk))  # type: ignore[misc]
        yield label, cost, chroma_passages(target)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where the packages are unpacked")
    parser.add_argument("--theirs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--chunk", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        build_theirs(arguments.folder, arguments.theirs, int(arguments.chunk) if arguments.chunk else None)
        return
    import pypdfium2

    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        os.environ["TURNMARK_HOME"] = str(temporary / "home")
        files = copy_manuals(arguments.folder, temporary / "manuals")
        pages = sum(len(pypdfium2.PdfDocument(path)) for path in files)
        print(f"{len(files)} files, {pages:,} pages")
        print(f"{'':36}passages  pages/s  pages per processor second")

        def shown(label: str, cost: Cost, passages: str) -> None:
            print(f"{label:36}{passages:>8}  {pages / cost.clock:7.1f}  {pages / cost.processor:7.1f}", flush=True)

        read = read_all(files)
        for label, cost in read.items():
            shown(f"read: {label}", cost, "")
        spent: dict[str, float] = {}
        for label, cost, passages in build_all(temporary / "manuals", temporary):
            shown(f"index: {label}", cost, f"{passages:,}")
            spent[label] = cost.processor
        print(f"read: Turnmark / LlamaIndex: x{read['LlamaIndex'].processor / read['Turnmark'].processor:.2f}")
        ours, *others = spent
        for other in others:
            print(f"index: {ours} / {other}: x{spent[other] / spent[ours]:.2f}")
    print(f"load of the machine over the last 1, 5 and 15 minutes: {os.getloadavg()}")


if __name__ == "__main__":
    main()
