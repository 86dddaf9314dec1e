"""Keeps an index up to date with its folder: a changed file is indexed within seconds, while the index is searched.

A build makes a new generation. Processes that have the index open use the old generation until the new one is complete;
`turnmark.assistant.turn.reopen.up_to_date` then switches to the new one.
"""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from turnmark.core.engines import LOCAL
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line
from turnmark.corpora.readers import SKIPPED_FOLDERS, is_picture_file, readers
from turnmark.retrieval.index.build import BuildReport, build_again
from turnmark.retrieval.search.opened_index import SearchableIndex, indexes_folder
from turnmark.retrieval.storage.manifest import Manifest, read_manifest

QUIET_MS, MAX_BURST_MS = 400, 4000
"""A burst of changes is indexed after this time without another change, or at the latest after the second time."""
TICK_MS = 1000
"""Interval at which the watch checks whether to retry a failed build or to stop."""
RETRY_SECONDS = 30.0
"""Time after which a failed build is retried if nothing changes."""
MAX_SHOWN_PROBLEMS = 5
_UNDECODABLE_MESSAGE = "Unable to decode path"
"""The error of watchfiles for a change of a file whose name is not UTF-8; the error ends its watch."""
STOP_SECONDS = 20.0
"""Time that a build is given to notice a request to stop."""


class _WatchStopped(Exception):
    """The watch was stopped during a build. The next build continues it."""


class _FolderMissing(Exception):
    """The folder is missing. A build without it would lose the passages of files not read yet."""


class _IndexReplaced(Exception):
    """The index was removed, or built from another folder."""


class _StoppableProgress:
    """A progress report that ends a build at its next block or file once `stop` is set or the folder is missing."""

    def __init__(self, stop: threading.Event, is_there: Callable[[], bool]) -> None:
        self._stop, self._is_there = stop, is_there

    def start(self, *_: object, **__: object) -> None:
        if self._stop.is_set():
            raise _WatchStopped
        if not self._is_there():
            raise _FolderMissing

    advance = tell = start


class FolderWatch:
    """A watch over the folder of one index.

    Args:
        manifest: the manifest of the index, which is rebuilt with the same settings.
        say: called in the watching thread with each line for the user.
        engine: where the models run, as in `build_index`.
    """

    def __init__(self, manifest: Manifest, say: Callable[[str], None], engine: str = LOCAL) -> None:
        self._manifest, self._say, self._engine = manifest, say, engine
        self._folder = Path(manifest.source)
        self._watched: tuple[int, int] | None = None
        """Device and inode of the watched folder. If another folder takes its name, the watch starts again."""
        self._stop = threading.Event()
        self._reported: set[str] = set()
        """Problems that were reported."""
        self._is_first = True
        """Whether nothing has been built yet."""
        self._failure = ""
        self._try_again = 0.0

    def stop(self) -> None:
        """End `run`, even during a build."""
        self._stop.set()

    def run(self) -> None:
        """Build after every change, until `stop` is called; Ctrl-C in the main thread raises KeyboardInterrupt.

        The first build indexes changes made before the watch began. While the folder is missing, the index is kept.
        """
        folder = one_line(self._folder)
        try:
            while True:
                try:
                    self._watch()
                    return
                except (_FolderMissing, FileNotFoundError):
                    pass
                except RuntimeError as error:
                    if _UNDECODABLE_MESSAGE not in str(error):
                        raise
                    continue  # the watch starts again with a build, which reports the file
                self._tell(f"{folder} is missing; the index is kept, and the folder is watched again when it is back")
                while _identity(self._folder) is None:
                    if self._stop.wait(TICK_MS / 1000):
                        return
                self._tell(f"{folder} is back")
        except _WatchStopped:
            pass
        except _IndexReplaced:
            self._tell(f"the index was removed or built from another folder; {folder} is no longer watched")
        except (OSError, RuntimeError) as error:
            self._tell(f"{folder} is no longer watched: {one_line(error)}")

    def _tell(self, line: str) -> None:
        self._say(f"{self._manifest.name}: {line}")

    def _watch(self) -> None:
        """Build after every change of the current folder; raise _FolderMissing when it is no longer there."""
        import watchfiles

        self._watched = _identity(self._folder)
        if self._watched is None:
            raise _FolderMissing
        begins = True
        for changes in watchfiles.watch(
            self._folder, watch_filter=lambda _, path: self._concerns(Path(path)), step=QUIET_MS, debounce=MAX_BURST_MS,
            stop_event=self._stop, rust_timeout=TICK_MS, yield_on_timeout=True, ignore_permission_denied=True,
        ):  # fmt: skip
            # A folder that is deleted and created again at once may get the same inode.
            deleted = (watchfiles.Change.deleted, str(self._folder)) in changes
            if deleted or not self._is_there():
                raise _FolderMissing
            again = bool(self._failure) and time.monotonic() >= self._try_again
            if changes or begins or again:
                self._build()
                begins = False

    def _is_there(self) -> bool:
        return _identity(self._folder) == self._watched

    def _concerns(self, path: Path) -> bool:
        """Return whether a change of a path may change the index."""
        if not path.is_relative_to(self._folder) or path.is_relative_to(home()):
            return False
        *folders, name = path.relative_to(self._folder).parts or ("",)
        if any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders):
            return False
        if name.startswith("."):
            return name == ".gitignore"
        is_read = path.suffix.lower() in readers() or bool(self._manifest.include)
        if is_picture_file(name) and self._manifest.described is None:
            is_read = False
        return is_read or not path.is_file()  # any other path may be a folder or a deleted file

    def _build(self) -> None:
        first, self._is_first = self._is_first, False
        try:
            current = read_manifest(indexes_folder() / self._manifest.name)
            if current is None or Path(current.source) != self._folder:
                raise _IndexReplaced
            self._manifest = current  # the index may have been built with other settings in the meantime
            report = build_again(self._manifest, _StoppableProgress(self._stop, self._is_there), self._engine)
        except (_WatchStopped, _FolderMissing, _IndexReplaced):
            raise
        except Exception as error:  # after any failure the index is unchanged and the watch continues
            failure = str(error) if isinstance(error, TurnmarkError) else f"{type(error).__name__}: {error}"
            if failure != self._failure:
                self._tell(f"the build failed and is retried on the next change: {one_line(failure)}")
            self._failure, self._try_again = failure, time.monotonic() + RETRY_SECONDS
            return
        self._failure = ""
        problems = [str(problem) for problem in report.problems]
        known_before = first and report.unchanged and len(problems) == self._manifest.skipped
        if not known_before:
            self._tell_problems([problem for problem in problems if problem not in self._reported])
        self._reported = set(problems)
        if not report.unchanged:
            self._tell(describe_changes(report))

    def _tell_problems(self, problems: Sequence[str]) -> None:
        for problem in problems[:MAX_SHOWN_PROBLEMS]:
            self._tell(f"skipped {one_line(problem)}")
        if len(problems) > MAX_SHOWN_PROBLEMS:
            self._tell(f"… and {len(problems) - MAX_SHOWN_PROBLEMS} more skipped")


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return the device and inode of a folder, or None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def describe_changes(report: BuildReport) -> str:
    """Describe what a build changed, e.g. "indexed 2 changed files, 1 document removed in 1.3 s"."""
    parts = []
    if report.changed or not report.gone:
        parts.append(f"indexed {count_phrase(report.changed, 'changed file')}")
    if report.described:
        parts.append(f"{count_phrase(report.described, 'picture')} described")
    if report.gone:
        parts.append(f"{count_phrase(report.gone, 'document')} removed")
    return f"{', '.join(parts)} in {report.seconds:.1f} s"


def check_watch(source: Path) -> None:
    """Raise RequestError if a source cannot be watched."""
    if not source.is_dir():
        raise RequestError(f"--watch: {one_line(source)} is not a folder; only folders can be watched")


class Watches:
    """A context in which the folders of one or several indexes are watched, each in its own thread.

    Args:
        say: called with each line for the user, from any of these threads.
        after: called in each thread before it begins to watch, to wait for another build.
    """

    def __init__(
        self,
        index: SearchableIndex,
        say: Callable[[str], None],
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self._after = after
        errors = ErrorCollector()
        for part in index.parts:
            errors.collect(check_watch, Path(part.manifest.source))
        errors.raise_all()
        self._watches = [FolderWatch(part.manifest, say) for part in index.parts]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Watches:
        for watch in self._watches:
            thread = threading.Thread(target=self._run, args=[watch], name="turnmark-watch", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def _run(self, watch: FolderWatch) -> None:
        self._after()
        watch.run()

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.stop()
        ends = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))


def watch_folder(index: SearchableIndex, say: Callable[[str], None], engine: str = LOCAL) -> None:
    """Watch the folder of an index that was just built, until Ctrl-C."""
    watch = FolderWatch(index.manifest, say, engine)
    with suppress(KeyboardInterrupt):
        watch.run()
