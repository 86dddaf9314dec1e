"""Find the data files of the benchmarks, such as published values. No other module needs to know the folders'
names."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "benchmarks"


def benchmark_files(name: str) -> tuple[Path, ...]:
    """Return the file or folder of this name in each benchmark's folder that has one."""
    return tuple(sorted(FOLDER.glob(f"*/{name}")))
