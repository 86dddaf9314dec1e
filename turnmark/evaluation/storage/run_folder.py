"""Output folders with a manifest, created or resumed by one process at a time; and the folder of a run.

    RUN/manifest.json       the request; a folder with another manifest is refused
    RUN/predictions.jsonl   one line per sample, written when it ends; an incomplete last line is dropped on resuming
    RUN/scores.jsonl        one line per sample and metric
    RUN/summary.json        written last

This module does not depend on benchmarks: samples, scores and summaries are records of `turnmark.evaluation.records`.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256, write_json
from turnmark.evaluation.records import FolderManifest, RunManifest, Sample, Score, Summary
from turnmark.evaluation.storage.journal import json_line, open_atomic, open_samples

_ROOT = Path(__file__).resolve().parents[3]


def now() -> str:
    """Return the current time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def version_of(package: str) -> str:
    """Return the installed version of a distribution; `unknown` if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def package_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and these packages, and the commit of Turnmark if it runs from a checkout."""
    version_of_package = {"python": platform.python_version(), **{name: version_of(name) for name in packages}}
    # An installed Turnmark may lie inside another repository, whose commit would be wrong.
    if (_ROOT / ".git").exists():
        try:
            # `describe --dirty` would lock the index, and leave the lock behind if it is killed.
            commit = _git("rev-parse", "--short", "HEAD")
            changes = _git("status", "--porcelain", "--untracked-files=no")
            version_of_package["git"] = f"{commit}-dirty" if changes else commit
        except (OSError, subprocess.SubprocessError):
            version_of_package["git"] = "unknown"
    return version_of_package


def _git(*arguments: str) -> str:
    """Return the output of a git command in the checkout."""
    command = ["git", "--no-optional-locks", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


M = TypeVar("M", bound=FolderManifest)
_LEFTOVER_FILE = re.compile(r"\.lock|\.manifest\.json\.[0-9]+\.part")
"""Names of the files that a process leaves if it is killed before it has written its manifest."""
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+")


# --- any folder with a manifest --------------------------------------------------------------------------------------


def stored_manifest(path: Path, kind: type[M]) -> M | None:
    """Read the manifest in `path`, or return None if there is no folder or no manifest yet. Writes nothing.

    Raises:
        RequestError: `path` is a file, contains other files, or its manifest cannot be read.
    """
    if path.exists() and not path.is_dir():
        raise RequestError(f"--out {str(path)!r} is a file; name a folder")
    if not path.is_dir():
        return None
    try:
        return kind.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        if not all(_LEFTOVER_FILE.fullmatch(child.name) for child in path.iterdir()):
            message = f"--out {str(path)!r} contains files and is not a {kind.noun}; name another folder"
            raise RequestError(message) from None
        return None
    except (OSError, ValidationError) as error:
        raise RequestError(f"--out {str(path)!r}: its manifest.json cannot be read; name another folder") from error


def check_folder(path: Path, manifest: M) -> M | None:
    """Read the manifest in `path`, if any, and check that its identity is that of `manifest`. Writes nothing.

    Raises:
        RequestError: the folder contains another run; see also `stored_manifest`.
    """
    stored = stored_manifest(path, type(manifest))
    if stored is None:
        return None
    differences = _differences(stored.identity, manifest.identity)
    if differences:
        first = f"--out {str(path)!r} contains another {manifest.noun}; name another folder, or use the same options:"
        raise RequestError([first, *(f"  {line}" for line in differences)])
    return stored


def _differences(stored: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """Return the differences of two identities, one per line: `specs.query: 'rewrite' there, 'last-turn' here`."""

    def flatten(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flatten(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    there, here = dict(flatten(stored, "")), dict(flatten(requested, ""))
    return [
        f"{key}: {there.get(key)!r} there, {here.get(key)!r} here"
        for key in sorted(there.keys() | here.keys())
        if there.get(key) != here.get(key)
    ]


def default_folder(manifest: FolderManifest) -> Path:
    """`<parent>/<title>-<hash of the identity>`, relative to the working directory."""
    digest = hashlib.sha256(json.dumps(manifest.identity, sort_keys=True).encode()).hexdigest()
    return Path(manifest.parent) / f"{_UNSAFE_CHARACTERS.sub('-', manifest.title)}-{digest[:12]}"


@contextmanager
def open_folder(path: Path, manifest: M) -> Iterator[M]:
    """Create or resume a folder and lock it against other processes; yield the manifest to continue with.

    Raises:
        RequestError: the folder cannot be written, or contains something else.
        TurnmarkError: another process is writing it.
    """
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
        for part in path.glob(".*.part"):  # incomplete files of a killed process
            part.unlink(missing_ok=True)
        yield manifest if stored is None else manifest.resume(stored)
    finally:
        lock.release()


class OutputFolder(Generic[M]):
    """An open folder and its manifest."""

    def __init__(self, path: Path, manifest: M) -> None:
        self.path, self.manifest = path, manifest

    def update_manifest(self, **fields: Any) -> None:
        """Change fields that are not part of the identity, such as `ended`, and write the manifest."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))


# --- a run -----------------------------------------------------------------------------------------------------------


def fingerprint(files: Mapping[str, Path]) -> str:
    """Return a SHA-256 over the roles and contents of files. Paths do not count, so a folder can be moved."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{file_sha256(path)}\0".encode())
    return digest.hexdigest()


class RunFolder(OutputFolder[RunManifest]):
    """An open run. Use `open_run`, which locks the folder.

    Attributes:
        samples: the journal of `predictions.jsonl`.
        resumed: a note for each set of other package versions that made samples of this run.
    """

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        super().__init__(path, manifest)
        self.samples = open_samples(path / "predictions.jsonl")
        makers = Counter(sample.maker for sample in self.samples.records() if sample.status == "done")
        self.resumed = tuple(self._version_notes(makers))

    def reopen(self, pending: int) -> None:
        """Delete scores, summary and report if samples are still to be made.

        Args:
            pending: number of samples still to be made.
        """
        if pending or self.samples.damaged:
            for name in ("summary.json", "scores.jsonl", "report.html"):
                (self.path / name).unlink(missing_ok=True)

    def _version_notes(self, makers: Mapping[int, int]) -> Iterator[str]:
        """Yield a note for each entry of `manifest.makers` whose versions differ from the current ones.

        Args:
            makers: index in `manifest.makers` -> number of its samples.
        """
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
                yield f"resumed: {samples} made with {', '.join(changed)}; with a new --out, all of them are made again"

    def samples_of(self, item_id: str) -> Iterator[Sample]:
        """Yield the samples of an item, in the order of the repeats."""
        for repeat in range(self.manifest.repeat):
            sample = self.samples.get((item_id, repeat))
            if sample is not None:
                yield sample

    def append(self, sample: Sample) -> None:
        """Write a sample to the file, with the versions that made it; see `Journal.append`."""
        maker = self.manifest.maker
        if maker not in self.manifest.makers:
            self.update_manifest(makers=(*self.manifest.makers, maker))
        self.samples.append(sample.model_copy(update={"maker": self.manifest.makers.index(maker)}))

    def write_scores(self, scores: Iterable[Score]) -> None:
        """Write `scores.jsonl`, which is replaced atomically when all scores are written."""
        with open_atomic(self.path / "scores.jsonl") as file:
            for score in scores:
                file.write(json_line(score))

    def finish(self, summary: Summary, ended: str) -> None:
        """Write the end time to the manifest, and then the summary."""
        (self.path / "predictions.jsonl").touch()
        self.update_manifest(ended=ended)
        write_json(self.path / "summary.json", summary.model_dump(mode="json"))


@contextmanager
def open_run(path: Path, manifest: RunManifest) -> Iterator[RunFolder]:
    """Create or resume the folder of a run; see `open_folder`."""
    with open_folder(path, manifest) as resumed:
        run = RunFolder(path, resumed)
        try:
            run.update_manifest()
            yield run
        finally:
            run.samples.close()
