"""Fixtures of all tests: a home for each test, the real data if present, and the command line in this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.remembered import Vectors, remember, shared_folder
from turnmark.corpora.downloads.small_models import MODELS, model_path

# A busy machine must not fail a test, so tests assert behavior and never wall time.
settings.register_profile("turnmark", deadline=None)
settings.load_profile("turnmark")
# A background job of a shell ignores Ctrl-C. Without this, the processes that tests start and interrupt inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# This must be set before any test imports torch; retrieval/embedding/model_loading.py says why.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if os.environ.get("PYTEST_XDIST_WORKER"):
    # Each worker has one thread. With a thread per core in every worker, they would only slow each other down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
# Golden figures were computed in fp32. bf16 and 8-bit integers change more than the last digits of a vector.
os.environ.setdefault("TURNMARK_PRECISION", "fp32")
# All tests and workers share what is prepared for a model once; otherwise each test would do so in its own home.
os.environ.setdefault("TURNMARK_CACHE", str(ROOT / ".pytest_cache" / "turnmark"))
DEMO = ROOT / "turnmark" / "corpora" / "demo"

# The folder with the real benchmark data. Tests do not see the variable itself.
DATA = Path(os.environ.get("TURNMARK_DATA") or ROOT.parent / "shared" / "data")

# Read before any test gets a home of its own.
READER = Path(os.environ.get("TURNMARK_READER") or model_path(MODELS["qwen2.5-coder-1.5b"]))


@pytest.fixture(scope="session")
def reader_path() -> Path:
    """Return the small language model of `make reader`; skip the test if it is missing."""
    if not READER.exists():
        pytest.skip(f"no model at {READER}; `make reader` fetches it, or set TURNMARK_READER to a GGUF file")
    return READER


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder with the real benchmark data; skip the test if it is missing."""
    if not DATA.is_dir():
        pytest.skip(f"no real benchmark data at {DATA}; set TURNMARK_DATA")
    return DATA


@pytest.fixture(scope="session")
def recipes(real_data: Path) -> Path:
    """Return a folder with 349 recipes in Markdown."""
    return real_data / "docs" / "based-cooking"


@pytest.fixture(scope="session")
def kept_home() -> Path:
    """Return a home that outlives the run; `data` tests keep indexes of real corpora there, by content hash."""
    import platformdirs

    return Path(os.environ.get("TURNMARK_TEST_CACHE") or platformdirs.user_cache_path("turnmark-tests"))


VECTORS = Vectors()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Turn the memory of vectors off for tests of retrieval, before any of their fixtures runs."""
    VECTORS.on = item.path.parent.name != "retrieval"


@pytest.fixture(scope="session", autouse=True)
def _vectors() -> Iterator[None]:
    VECTORS.folder = shared_folder(Path(os.environ["TURNMARK_CACHE"]))
    with pytest.MonkeyPatch.context() as patch:
        remember(VECTORS, patch)
        yield


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the index `demo` over the demo documents, built once per run and copied for each worker."""
    from filelock import FileLock

    home, base = tmp_path_factory.mktemp("demo-home"), tmp_path_factory.getbasetemp()
    built = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "demo-home-built"
    with FileLock(f"{built}.lock"), pytest.MonkeyPatch.context() as patch:
        if not built.exists():
            patch.setenv("TURNMARK_HOME", str(home))
            from turnmark.retrieval.index.build import build_index

            build_index(DEMO / "documents", "demo")
            shutil.copytree(home, built)
        else:
            shutil.copytree(built, home, dirs_exist_ok=True)
    return home


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every test away from the home and the endpoint of the person who runs it."""
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNMARK_GENERATOR", "TURNMARK_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def in_demo_home(demo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in the home that has the demo index."""
    monkeypatch.setenv("TURNMARK_HOME", str(demo_home))


@dataclass
class Ran:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


class Turnmark:
    """Runs `turnmark …` in this process, so that libraries are imported once for all tests."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str | Path, stdin: str | None = None) -> Ran:
        import io
        import sys

        from turnmark.cli import main

        self._monkeypatch.setattr(sys, "argv", ["turnmark", *map(str, arguments)])
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        self._capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(bool(left.code))
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def ok(self, *arguments: str | Path, stdin: str | None = None) -> Ran:
        """Run a command that must exit with 0."""
        ran = self(*arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran

    def json(self, *arguments: str | Path, stdin: str | None = None) -> Any:
        """Run a command that must exit with 0, and return what it prints with `--json`."""
        return json.loads(self.ok(*arguments, "--json", stdin=stdin).out)

    def refused(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Return the error message of a wrong request in one line, since messages wrap at the width of the screen."""
        ran = self(*arguments, stdin=stdin)
        assert (ran.code, ran.out) == (2, ""), ran.err
        return " ".join(ran.err.split())


@pytest.fixture
def turnmark(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Turnmark:
    """Return the command line."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return Turnmark(capsys, monkeypatch)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Fail a skipped test if TURNMARK_NO_SKIP is set, as in CI, where everything that tests need is present."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and os.environ.get("TURNMARK_NO_SKIP") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but it should run here: {report.longrepr}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report which marks ran, so that nobody takes a green run for more than it was."""
    ran: dict[str, int] = {"unmarked": 0, "data": 0, "slow": 0, "server": 0, "reader": 0}
    for report in terminalreporter.stats.get("passed", []):
        marks = [mark for mark in ("data", "slow", "server", "reader") if mark in report.keywords]
        for mark in marks or ["unmarked"]:
            ran[mark] += 1
    line = ", ".join(f"{mark} {count}" for mark, count in ran.items())
    left_out = len(terminalreporter.stats.get("deselected", []))
    terminalreporter.write_line(f"passed by mark: {line}; deselected {left_out}")
