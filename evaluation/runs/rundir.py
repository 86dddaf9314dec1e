"""Folders with a manifest, made or resumed by one process at a time; and the folder of a run.

    RUN/manifest.json       what was asked for; a folder whose manifest differs is refused
    RUN/predictions.jsonl   one line a sample, flushed as it ends; a torn last line is dropped on resuming
    RUN/scores.jsonl        one line a sample and metric
    RUN/summary.json        written last

Nothing here knows a benchmark: samples, scores and summaries are the records of `turnmark.evaluation.records`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256, write_json
from turnmark.evaluation.records import FolderManifest, RunManifest, Sample, Score, Summary
from turnmark.evaluation.runs.journal import json_line, open_atomic, open_samples

_ROOT = Path(__file__).resolve().parents[2]


def version_of(package: str) -> str:
    """The installed version of a distribution; `unknown` if it runs from a bare checkout."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def package_versions(packages: Sequence[str]) -> dict[str, str]:
    """Of Python and these packages, and the commit of Turnmark if it runs from a checkout."""
    by_package = {"python": platform.python_version()} | {name: version_of(name) for name in packages}
    # Without this check, an environment inside some other repository would lend us that repository's commit.
    if (_ROOT / ".git").exists():
        try:
            # `describe --dirty` would lock the index, and leave the lock behind if it is killed.
            commit, changes = (
                subprocess.run(
                    ["git", "--no-optional-locks", "-C", str(_ROOT), *words],
                    capture_output=True, text=True, timeout=10, check=True,
                ).stdout.strip()
                for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
            )  # fmt: skip
            by_package["git"] = f"{commit}-dirty" if changes else commit
        except (OSError, subprocess.SubprocessError):
            by_package["git"] = "unknown"
    return by_package


M = TypeVar("M", bound=FolderManifest)
_LEFT_AT_THE_START = re.compile(r"\.lock|\.manifest\.json\.[0-9]+\.part")
"""What a process leaves that was killed before its manifest was written."""
_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")


# --- any folder with a manifest --------------------------------------------------------------------------------------


def stored_manifest(path: Path, kind: type[M]) -> M | None:
    """The manifest that is in `path` already, if there is one. Writes nothing."""
    if path.exists() and not path.is_dir():
        raise RequestError(f"--out {str(path)!r} is a file; name a folder")
    if not path.is_dir():
        return None
    try:
        return kind.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        if not all(_LEFT_AT_THE_START.fullmatch(child.name) for child in path.iterdir()):
            message = f"--out {str(path)!r} holds files and is not a {kind.noun}; name another folder"
            raise RequestError(message) from None
        return None
    except (OSError, ValidationError) as error:
        raise RequestError(f"--out {str(path)!r}: its manifest.json cannot be read; name another folder") from error


def check_folder(path: Path, manifest: M) -> M | None:
    """The manifest that is in `path` already, if it asks for the same as `manifest`. Writes nothing."""
    stored = stored_manifest(path, type(manifest))
    if stored is not None and (lines := _disagreements(stored.identity, manifest.identity)):
        first = f"--out {str(path)!r} holds another {manifest.noun}; name another folder, or ask for the same:"
        raise RequestError([first, *(f"  {line}" for line in lines)])
    return stored


def _disagreements(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """What two identities disagree on, a line each: `specs.query: 'rewrite' there, 'last-turn' here`."""

    def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    there, here = dict(flat(stored, "")), dict(flat(asked, ""))
    return [
        f"{key}: {there.get(key)!r} there, {here.get(key)!r} here"
        for key in sorted(there.keys() | here.keys())
        if there.get(key) != here.get(key)
    ]


def default_folder(manifest: FolderManifest) -> Path:
    """`<parent>/<title>-<hash of everything that can change a result>`, under the working directory."""
    digest = hashlib.sha256(json.dumps(manifest.identity, sort_keys=True).encode()).hexdigest()
    return Path(manifest.parent) / f"{_NOT_IN_A_NAME.sub('-', manifest.title)}-{digest[:12]}"


@contextmanager
def open_folder(path: Path, manifest: M) -> Iterator[M]:
    """Make the folder or resume what is in it, and keep other processes out; yields the manifest to continue with."""
    from filelock import FileLock, Timeout

    check_folder(path, manifest)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        message = f"another process is writing the {manifest.noun} {str(path)!r}; wait, or name another --out"
        raise TurnmarkError(message) from error
    except OSError as error:
        raise RequestError(f"--out {str(path)!r} cannot be written: {error.strerror or error}") from error
    try:
        stored = check_folder(path, manifest)
        for part in path.glob(".*.part"):  # what a process that was killed had begun to write
            part.unlink(missing_ok=True)
        yield manifest if stored is None else manifest.resume(stored)
    finally:
        lock.release()


class OutputFolder(Generic[M]):
    """An open folder and its manifest."""

    def __init__(self, path: Path, manifest: M) -> None:
        self.path, self.manifest = path, manifest

    def update_manifest(self, **fields: Any) -> None:
        """Change what is not part of the identity (when it ended, which indexes were searched) and write it."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))


# --- a run -----------------------------------------------------------------------------------------------------------


def fingerprint(files: Mapping[str, Path]) -> str:
    """SHA-256 over the names and contents of files; the names are the caller's, so a moved folder stays the same."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{file_sha256(path)}\0".encode())
    return digest.hexdigest()


class RunFolder(OutputFolder[RunManifest]):
    """An open run. Use `open_run`; only one process has a run open at a time.

    Attributes:
        resumed: a line for each set of other versions that samples here were made with.
    """

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        super().__init__(path, manifest)
        self.samples = open_samples(path / "predictions.jsonl")
        makers = Counter(sample.maker for sample in self.samples.records() if sample.status == "done")
        self.resumed = tuple(self._made_otherwise(makers))

    def reopen(self, pending: int) -> None:
        """Get ready for more samples: if any are `pending`, what follows from the present ones goes."""
        if pending or self.samples.damaged:
            for name in ("summary.json", "scores.jsonl", "report.html"):
                (self.path / name).unlink(missing_ok=True)

    def _made_otherwise(self, makers: Mapping[int, int]) -> Iterator[str]:
        versions_now = self.manifest.maker
        for maker, count in sorted(makers.items()):
            versions_then = self.manifest.makers[maker] if maker < len(self.manifest.makers) else {}
            changed = [
                f"{name} {versions_then.get(name, 'of an unknown version')} (now {versions_now.get(name, 'unknown')})"
                for name in dict.fromkeys((*versions_now, *versions_then))
                if versions_then.get(name) != versions_now.get(name)
            ]
            if changed:
                samples = "1 sample was" if count == 1 else f"{count} samples were"
                yield f"resumed: {samples} made with {', '.join(changed)}; a new --out makes all of them anew"

    def append(self, sample: Sample) -> None:
        """Write a sample to the file; it is with the operating system when this returns."""
        maker = self.manifest.maker
        if maker not in self.manifest.makers:
            self.update_manifest(makers=(*self.manifest.makers, maker))
        self.samples.append(sample.model_copy(update={"maker": self.manifest.makers.index(maker)}))

    def write_scores(self, scores: Iterable[Score]) -> None:
        """Write `scores.jsonl` as the scores come; it appears when all of them are written."""
        with open_atomic(self.path / "scores.jsonl") as file:
            for score in scores:
                file.write(json_line(score))

    def finish(self, summary: Summary, ended: str) -> None:
        """Write the manifest's end, and last the summary."""
        (self.path / "predictions.jsonl").touch()
        self.update_manifest(ended=ended)
        write_json(self.path / "summary.json", summary.model_dump(mode="json"))


@contextmanager
def open_run(path: Path, manifest: RunManifest) -> Iterator[RunFolder]:
    """Make the folder of a run, or resume the run that is in it; see `open_folder`."""
    with open_folder(path, manifest) as resumed:
        run = RunFolder(path, resumed)
        try:
            run.update_manifest()
            yield run
        finally:
            run.samples.close()
