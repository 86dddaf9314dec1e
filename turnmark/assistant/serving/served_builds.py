"""Builds in the background of a server. Each index is served as soon as it can be asked by words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from pydantic import Field

from turnmark.assistant.repl.background_build import STATUS_SECONDS, BackgroundBuild, BuildStopped
from turnmark.assistant.serving.served_models import ServedModels
from turnmark.core.console import PLAIN_INTERVAL_SECONDS, Progress
from turnmark.core.errors import TurnmarkError
from turnmark.core.home import home
from turnmark.core.record import Record
from turnmark.core.untrusted import one_line
from turnmark.retrieval.commands import build_counts, build_notes
from turnmark.retrieval.index.build import BuildReport
from turnmark.retrieval.index.components import remove_index
from turnmark.retrieval.index.folder_watch import Watches
from turnmark.retrieval.search.opened_index import StoredIndex

QUIET_SECONDS = 1.0
"""Time without another order after which a build begins, so that files that arrive together are indexed together."""

BuildOrder = Callable[[Progress], BuildReport]


class BuildState(Record):
    """What a server builds, or what became of its last build."""

    state: Literal["idle", "building", "failed"]
    index: str = ""
    text: str = ""
    notes: tuple[str, ...] = ()


class WatchRequest(Record):
    """Whether the folders of the served indexes are to be watched."""

    watching: bool = Field(strict=True)


class ServedBuilds:
    """Carries out the builds of a server one after the other, in a thread.

    Args:
        say: called in that thread with each line for the terminal.
        watches: whether the folder of each index is watched from the beginning.
    """

    def __init__(self, models: ServedModels, say: Callable[[str], None], watches: bool = False) -> None:
        self._models, self._say = models, say
        self._orders: SimpleQueue[str] = SimpleQueue()
        self._waiting: dict[str, tuple[float, BuildOrder | None]] = {}
        """The last order for each index whose build has not begun, with its time."""
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._current: tuple[str, BackgroundBuild | None] | None = None
        self._last = BuildState(state="idle")
        self._watches: dict[str, Watches] | None = {} if watches else None
        """The watch of each index, or None if the switch is off."""
        self._switching = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="turnmark-builds", daemon=True)

    def start(self) -> None:
        """Begin with the builds that were ordered."""
        self._watch_new()
        self._thread.start()

    @property
    def is_watching(self) -> bool | None:
        """Whether the folders of the indexes are watched; None if no index is of a folder."""
        return self._watches is not None if any(map(_is_of_folder, self._models.indexes.parts())) else None

    def watch(self, on: bool) -> None:
        """Watch the folders of the indexes that are served now and later, or stop."""
        with self._switching:
            ended = {} if on else self._watches or {}
            self._watches = (self._watches or {}) if on else None
        for each in ended.values():
            each.__exit__()
        self._watch_new()

    def order(self, index: str, build: BuildOrder | None) -> None:
        """Build an index when the builds before it have ended, or remove it. The last order before that counts."""
        with self._lock:
            is_new = index not in self._waiting
            self._waiting[index] = time.monotonic(), build
        if is_new:
            self._orders.put(index)

    def state(self) -> BuildState:
        """Return what is being built, or how the last build ended."""
        with self._lock:
            if self._current is not None:
                name, building = self._current
                text = building.status.describe() if building else "removing the index"
                return BuildState(state="building", index=name, text=text)
            if self._waiting:
                return BuildState(state="building", index=next(iter(self._waiting)), text="new files are waiting")
            return self._last

    def close(self) -> None:
        """Stop. The next build continues one that was stopped."""
        self._closed.set()
        self._orders.put("")
        current = self._current
        if current is not None and current[1] is not None:
            current[1].stop()
        self.watch(False)

    def _work(self) -> None:
        while (name := self._orders.get()) and not self._closed.is_set():
            while time.monotonic() - self._waiting[name][0] < QUIET_SECONDS and not self._closed.is_set():
                time.sleep(STATUS_SECONDS)
            with self._lock:
                _, build = self._waiting.pop(name)
                building = BackgroundBuild(build) if build else None
                self._current = name, building
            last = self._outcome(name, building)
            with self._lock:
                self._current, self._last = None, last
            for line in filter(None, (*last.notes, last.text)):
                self._say(line)
            self._watch_new()

    def _outcome(self, name: str, building: BackgroundBuild | None) -> BuildState:
        """Wait for a build, and serve the index when it can be asked; return how the build ended."""
        try:
            if building is None:
                self._models.reopen([each for each in self._models.indexes.names if each != name], self._say)
                remove_index(name)
                return BuildState(state="idle", index=name, text=f"{name}: no document is left")
            said = time.monotonic()
            while building.is_running:
                building.wait(STATUS_SECONDS)
                if time.monotonic() - said > PLAIN_INTERVAL_SECONDS:
                    said = time.monotonic()
                    self._say(building.status.describe())
                if building.status.can_be_asked and building.is_running:
                    self._serve(name)
            report = building.report()
            self._serve(name)
            return BuildState(state="idle", index=name, text=build_counts(report), notes=tuple(build_notes(report)))
        except BuildStopped:
            return BuildState(state="idle", index=name)
        except TurnmarkError as error:
            problem = one_line(error).replace(str(home()), "the home folder")  # clients see it
            return BuildState(state="failed", index=name, text=f"{name}: {problem}")
        except Exception as error:  # a bug in a reader or a plug-in must not end the server
            return BuildState(state="failed", index=name, text=f"{name}: the build failed ({type(error).__name__})")

    def _serve(self, name: str) -> None:
        if name not in self._models.indexes.names:
            self._models.reopen([*self._models.indexes.names, name], self._say)
            self._say(f"{name} can be asked")

    def _watch_new(self) -> None:
        """Watch the folders of the indexes that are served and not watched yet, if the switch is on."""
        with self._switching:
            if self._watches is None:
                return
            for part in self._models.indexes.parts():
                if part.name not in self._watches and _is_of_folder(part):
                    self._watches[part.name] = Watches(part, self._say).__enter__()


def _is_of_folder(part: StoredIndex) -> bool:
    """Return whether a watch can notice changes; what is below the home, such as added files, is left out of it."""
    source = Path(part.manifest.source)
    return source.is_dir() and not source.is_relative_to(home())
