"""What a folder of benchmark data holds, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.archives import kind_of
from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import Source
from turnmark.corpora.statistics import Checked
from turnmark.corpora.statistics_inscoqa import check_inscoqa
from turnmark.corpora.statistics_mtrag import check as check_mtrag
from turnmark.corpora.statistics_others import check_compound_qa, check_kiwi

_BENCHMARKS: Mapping[str, tuple[Callable[[Path | None], Source], Callable[[Source], Checked]]] = {
    "mtrag": (mtrag.locate, check_mtrag),
    "inscoqa": (inscoqa.locate, check_inscoqa),
    "compound-qa": (compound_qa.locate, check_compound_qa),
    "kiwi": (kiwi.locate, check_kiwi),
}


def located(folder: Path) -> dict[str, Source]:
    """The benchmarks that a folder is, or has as children, or that an archive holds, and where.

    Raises:
        RequestError: there is none; what each of them would need.
    """
    if folder.is_file() and kind_of(folder) is None:
        raise RequestError(f"{str(folder)!r} is neither a folder nor a zip or tar archive that can be read")
    found: dict[str, Source] = {}
    problems: list[str] = []
    for name, (locate, _) in _BENCHMARKS.items():
        try:
            found[name] = locate(folder)
        except RequestError as error:
            problems += [problem.replace("--data: ", f"{name}: ", 1) for problem in error.problems]
    if not found:
        raise RequestError(problems if folder.exists() else f"{str(folder)!r} is no folder")
    return found


def check(folder: Path) -> tuple[Checked, ...]:
    """The statistics of every benchmark in a folder, in the order mtrag, inscoqa, compound-qa, kiwi.

    Raises:
        RequestError: there is none, or a file that is there cannot be opened.
    """
    return tuple(_BENCHMARKS[name][1](source) for name, source in located(folder).items())
