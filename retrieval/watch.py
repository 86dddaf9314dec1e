"""Keeps an index up to date with its folder: a changed file is indexed within seconds, while the index is searched.

A build makes a new generation, so whoever has the index open goes on with the old one until the new one is complete;
`turnmark.assistant.open.up_to_date` then takes the new one.
"""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.core.untrusted import one_line
from turnmark.corpora.readers.folder import SKIPPED_FOLDERS
from turnmark.corpora.readers.registry import readers
from turnmark.retrieval.build import BuildReport, build_again
from turnmark.retrieval.manifest import Manifest, read_manifest
from turnmark.retrieval.stored import SearchableIndex, indexes_folder
from turnmark.retrieval.workers import LOCAL

QUIET, LONGEST = 400, 4000
"""Milliseconds without a change after which a burst of changes is over; and after which it is indexed anyway."""
TICK = 1000
"""Milliseconds after which the watch looks whether a failed build is to be tried again."""
RETRY = 30.0
"""Seconds after which a failed build is tried again if nothing changes."""
SHOWN_PROBLEMS = 5
_UNDECODABLE = "Unable to decode path"
"""What watchfiles says, and ends with, at a change of a file whose name is not UTF-8."""
ENDS_WITHIN = 20.0
"""Seconds that a build may take to notice that it is to end."""


class _WatchStopped(Exception):
    """The watch ends in the middle of a build, which the next build continues."""


class _Gone(Exception):
    """The folder went away in the middle of a build, which would lose what was not read yet."""


class _Ended(Exception):
    """The index is not of the folder any more."""


class _StoppableProgress:
    """Ends a build at its next block or file once `stop` is set or the folder is no longer there."""

    def __init__(self, stop: threading.Event, is_there: Callable[[], bool]) -> None:
        self._stop, self._is_there = stop, is_there

    def start(self, phase: str, total: int | None) -> None:  # noqa: ARG002
        self._check()

    def advance(self, n: int = 1) -> None:  # noqa: ARG002
        self._check()

    def tell(self, text: str) -> None:  # noqa: ARG002
        self._check()

    def _check(self) -> None:
        if self._stop.is_set():
            raise _WatchStopped
        if not self._is_there():
            raise _Gone


class FolderWatch:
    """Watches the folder of one index.

    Args:
        manifest: of the index; it is built again with the same settings.
        say: called with each line for the person, from the thread that watches.
        engine: where the models run, as in `build_index`.
    """

    def __init__(self, manifest: Manifest, say: Callable[[str], None], engine: str = LOCAL) -> None:
        self._manifest, self._say, self._engine = manifest, say, engine
        self._folder = Path(manifest.source)
        self._watched: tuple[int, int] | None = None
        """Device and inode of the folder that is watched; another one under its name is watched anew."""
        self._stop = threading.Event()
        self._said: set[str] = set()
        """Problems that the person knows of."""
        self._failure = ""
        self._try_again = 0.0

    def stop(self) -> None:
        """End `run`, also in the middle of a build."""
        self._stop.set()

    def run(self) -> None:
        """Build after every change, until `stop` is called; Ctrl-C in the main thread raises KeyboardInterrupt.

        The first build is for what changed before the watch began. While the folder is gone, the index stays.
        """
        first = True
        try:
            while True:
                begins, first = first, False
                try:
                    self._watch(begins)
                    return
                except (_Gone, FileNotFoundError):
                    pass
                except RuntimeError as error:
                    if _UNDECODABLE not in str(error):
                        raise
                    continue  # the build with which the watch begins anew names the file
                self._say(
                    f"{self._manifest.name}: {one_line(self._folder)} is gone; the index stays, and the folder is "
                    "watched again once it is back"
                )
                while _identity(self._folder) is None:
                    if self._stop.wait(TICK / 1000):
                        return
                self._say(f"{self._manifest.name}: {one_line(self._folder)} is back")
        except _WatchStopped:
            pass
        except _Ended:
            self._say(
                f"{self._manifest.name}: was removed, or built from another folder; {one_line(self._folder)} is no "
                "longer watched"
            )
        except (OSError, RuntimeError) as error:
            self._say(f"{self._manifest.name}: {one_line(self._folder)} is no longer watched: {one_line(error)}")

    def _watch(self, first: bool) -> None:
        """Build after every change of the folder as it is now; raise _Gone when it is no longer there."""
        import watchfiles

        self._watched = _identity(self._folder)
        if self._watched is None:
            raise _Gone
        begins = True
        for changes in watchfiles.watch(
            self._folder, watch_filter=lambda _, path: self._concerns(Path(path)), step=QUIET, debounce=LONGEST,
            stop_event=self._stop, rust_timeout=TICK, yield_on_timeout=True, ignore_permission_denied=True,
        ):  # fmt: skip
            # A folder that was deleted and made anew at once may have its old inode.
            deleted = (watchfiles.Change.deleted, str(self._folder)) in changes
            if deleted or not self._is_there():
                raise _Gone
            again = bool(self._failure) and time.monotonic() >= self._try_again
            if changes or begins or again:
                self._build(first and begins)
                begins = False

    def _is_there(self) -> bool:
        return _identity(self._folder) == self._watched

    def _concerns(self, path: Path) -> bool:
        """Whether a change of a path may change the index."""
        if not path.is_relative_to(self._folder) or path.is_relative_to(home()):
            return False
        *folders, name = path.relative_to(self._folder).parts or ("",)
        if any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders):
            return False
        if name.startswith("."):
            return name == ".gitignore"
        is_read = path.suffix.lower() in readers() or bool(self._manifest.include)
        return is_read or not path.is_file()  # what is no file may be a folder, or one that was deleted

    def _build(self, first: bool) -> None:
        try:
            current = read_manifest(indexes_folder() / self._manifest.name)
            if current is None or Path(current.source) != self._folder:
                raise _Ended
            self._manifest = current  # it may have been built with other settings meanwhile
            report = build_again(self._manifest, _StoppableProgress(self._stop, self._is_there), self._engine)
        except (_WatchStopped, _Gone, _Ended):
            raise
        except Exception as error:  # whatever fails, the index stays as it is and the watch goes on
            failure = str(error) if isinstance(error, TurnmarkError) else f"{type(error).__name__}: {error}"
            if failure != self._failure:
                self._say(
                    f"{self._manifest.name}: not brought up to date, and tried again at the next change: "
                    f"{one_line(failure)}"
                )
            self._failure, self._try_again = failure, time.monotonic() + RETRY
            return
        self._failure = ""
        problems = [str(problem) for problem in report.problems]
        known_before = first and report.unchanged and len(problems) == self._manifest.skipped
        if not known_before:
            self._tell_problems([problem for problem in problems if problem not in self._said])
        self._said = set(problems)
        if not report.unchanged:
            self._say(f"{self._manifest.name}: {said(report)}")

    def _tell_problems(self, problems: Sequence[str]) -> None:
        for problem in problems[:SHOWN_PROBLEMS]:
            self._say(f"{self._manifest.name}: skipped {one_line(problem)}")
        if len(problems) > SHOWN_PROBLEMS:
            self._say(f"{self._manifest.name}: … and {len(problems) - SHOWN_PROBLEMS} more skipped")


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder; None if it is not there."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def said(report: BuildReport) -> str:
    """Say what a build changed: "indexed 2 changed files, 1 document removed, in 1.3 s"."""
    parts = []
    if report.changed or not report.gone:
        parts.append(f"indexed {report.changed} changed file{'' if report.changed == 1 else 's'}")
    if report.gone:
        parts.append(f"{report.gone} document{'' if report.gone == 1 else 's'} removed")
    return f"{', '.join(parts)} in {report.seconds:.1f} s"


def check_watch(source: Path) -> None:
    """Raise RequestError if a source cannot be watched."""
    if not source.is_dir():
        raise RequestError(f"--watch: {one_line(source)} is no folder; only folders are watched")


class Watches:
    """Watches the folders of one or several indexes, each in a thread, while it is entered as a context.

    Args:
        say: called with each line for the person, from any of these threads.
    """

    def __init__(self, index: SearchableIndex, say: Callable[[str], None]) -> None:
        errors = ErrorCollector()
        for part in index.parts:
            errors.collect(check_watch, Path(part.manifest.source))
        errors.raise_all()
        self._watches = [FolderWatch(part.manifest, say) for part in index.parts]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Watches:
        for watch in self._watches:
            thread = threading.Thread(target=watch.run, name="turnmark-watch", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.stop()
        ends = time.monotonic() + ENDS_WITHIN
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))


def watch_folder(index: SearchableIndex, say: Callable[[str], None], engine: str = LOCAL) -> None:
    """Watch the folder of an index until Ctrl-C."""
    watch = FolderWatch(index.manifest, say, engine)
    with suppress(KeyboardInterrupt):
        watch.run()
