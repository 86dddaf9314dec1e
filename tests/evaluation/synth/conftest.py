"""What the tests of the syntheses share: a run of the command against a scripted server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO, Ran, Turnmark
from tests.evaluation.synth.player import Player, Wrong
from tests.servers import Script, ScriptedServer


@dataclass
class Made:
    """A finished command: what it printed, how often which prompt was asked, where it wrote."""

    ran: Ran
    player: Player
    requests: int
    out: Path

    @property
    def report(self) -> dict[str, Any]:
        """What `--json` printed."""
        report: dict[str, Any] = json.loads(self.ran.out)
        return report

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a file of the folder."""
        return [json.loads(line) for line in (self.out / name).read_text("utf-8").splitlines()]


class Synth:
    """Runs `turnmark synth KIND …` over the demo index; a `Player` (after `replies`) is the model."""

    def __init__(self, turnmark: Turnmark, server: ScriptedServer, folder: Path) -> None:
        self.turnmark, self.server, self._folder, self._count = turnmark, server, folder, 0

    def __call__(
        self, kind: str, *flags: str | Path, wrong: Wrong | None = None, replies: Sequence[Script] = (),
        out: Path | None = None,
    ) -> Made:  # fmt: skip
        self._count += 1
        player = Player(wrong)
        self.server.replies = [*replies, player]
        before = len(self.server.seen)
        specs = ["--generator", f"openai:writer@{self.server.url}?retries=1"]
        folder = out or self._folder / f"{kind}-{self._count}"
        ran = self.turnmark("synth", kind, "--index", "demo", *specs, "--out", folder, "--json", *flags)
        return Made(ran, player, len(self.server.seen) - before, folder)


@pytest.fixture(scope="session")
def demo_indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `indexes` with the index `demo` over the demo documents, for BM25 alone: built at once."""
    home = tmp_path_factory.mktemp("synth-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        from turnmark.retrieval.index.build import build_index

        build_index(DEMO / "documents", "demo", retriever="bm25")
    return home / "indexes"


@pytest.fixture
def with_index(demo_indexes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of the test's own, with the index and an empty response cache."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "indexes").symlink_to(demo_indexes, target_is_directory=True)
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))


@pytest.fixture
def synth(turnmark: Turnmark, with_index: None, tmp_path: Path) -> Iterator[Synth]:
    """The command; one server for all runs of a test, so that its address stays the same."""
    with ScriptedServer() as server:
        yield Synth(turnmark, server, tmp_path)
