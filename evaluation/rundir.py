"""The files of a run: opened or resumed, appended to sample by sample, finished with scores and a summary.

    RUN/manifest.json       what was asked for; a folder whose manifest differs is refused
    RUN/predictions.jsonl   one line a sample, flushed as it ends; a torn last line is dropped on resuming
    RUN/scores.jsonl        one line a sample and metric, written whole
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
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from turnmark.corpora.console import inert
from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.home import file_sha256, write_json
from turnmark.corpora.types import Record
from turnmark.evaluation.journal import Key, SampleJournal, json_line
from turnmark.evaluation.records import NOT_IDENTITY, RunManifest, Sample, Score, Summary

_ROOT = Path(__file__).resolve().parent.parent


def version_of(package: str) -> str:
    """The installed version of a distribution; `unknown` where it runs from a bare checkout."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Python, the packages named, and the commit of Turnmark where it runs from a checkout."""
    by_package = {"python": platform.python_version()} | {name: version_of(name) for name in packages}
    # Without this check, an environment inside some other repository would lend us that repository's commit.
    if (_ROOT / ".git").exists():
        try:
            git = subprocess.run(
                ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"],
                capture_output=True, text=True, timeout=10, check=True,
            )  # fmt: skip
            by_package["git"] = git.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            by_package["git"] = "unknown"
    return by_package


M = TypeVar("M", bound=Record)
_LEFT_AT_THE_START = re.compile(r"\.lock|\.manifest\.json\.[0-9]+\.part")
"""What is left behind by a process that was killed before its manifest was there."""


def read_manifest(path: Path, kind: type[M], noun: str) -> M | None:
    """The manifest that is in `path` already, if there is one. Writes nothing.

    Args:
        noun: the folder holds, in a word.

    Raises:
        RequestError: something else is there: a file, a folder of something else.
    """
    if path.exists() and not path.is_dir():
        raise RequestError(f"--out {str(path)!r} is a file; name a folder")
    if not path.is_dir():
        return None
    try:
        return kind.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        if not all(_LEFT_AT_THE_START.fullmatch(child.name) for child in path.iterdir()):
            raise RequestError(f"--out {str(path)!r} holds files and is no {noun}; name another folder") from None
        return None
    except (OSError, ValidationError) as error:
        raise RequestError(f"--out {str(path)!r}: its manifest.json cannot be read; name another folder") from error


def disagreements(stored: Mapping[str, Any], wanted_now: Mapping[str, Any]) -> list[str]:
    """What two identities disagree on, a line each: `specs.query: 'rewrite' there, 'last-turn' here`."""

    def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    stored_values, values_now = dict(flat(stored, "")), dict(flat(wanted_now, ""))
    return [
        f"{key}: {stored_values.get(key)!r} there, {values_now.get(key)!r} here"
        for key in sorted(stored_values.keys() | values_now.keys())
        if stored_values.get(key) != values_now.get(key)
    ]


def another(path: Path, noun: str, differing: list[str]) -> RequestError:
    """The error of a folder that holds something of its kind which differs."""
    first = f"--out {str(path)!r} holds another {noun}; name another folder, or ask for the same:"
    return RequestError([first, *(f"  {line}" for line in differing)])


@contextmanager
def locked(path: Path, name: str) -> Iterator[None]:
    """Make the folder, and keep other processes out of it.

    Args:
        name: the folder as an error names it.

    Raises:
        RequestError: it cannot be written.
        TurnmarkError: another process has it open.
    """
    from filelock import FileLock, Timeout

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise TurnmarkError(f"another process is writing {name}; wait, or name another --out") from error
    except OSError as error:
        raise RequestError(f"--out {str(path)!r} cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def clear_parts(path: Path) -> None:
    """Remove what a process that was killed had begun to write."""
    for part in path.glob(".*.part"):
        part.unlink(missing_ok=True)


_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")
_RECORDED_ONLY = ("python", "numpy")
"""Of the versions in a manifest, those that are no reason to doubt a sample."""


def fingerprint(files: Mapping[str, Path]) -> str:
    """SHA-256 over the names and contents of files; the names are the caller's, so a moved folder stays the same."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{file_sha256(path)}\0".encode())
    return digest.hexdigest()


def identity(manifest: RunManifest) -> dict[str, Any]:
    """What of a manifest can change a result."""
    return manifest.model_dump(mode="json", exclude=set(NOT_IDENTITY))


def default_folder(manifest: RunManifest) -> Path:
    """`runs/<benchmark>-<hash of everything that can change a result>`, under the working directory."""
    digest = hashlib.sha256(json.dumps(identity(manifest), sort_keys=True).encode()).hexdigest()
    return Path("runs") / f"{_NOT_IN_A_NAME.sub('-', manifest.benchmark)}-{digest[:12]}"


def made_with(manifest: RunManifest) -> dict[str, str]:
    """The versions that the samples of a call are made with: those that can change a result."""
    relevant = {name: version for name, version in manifest.versions.items() if name not in _RECORDED_ONLY}
    return {"turnmark": manifest.version, **relevant}


class RunFolder:
    """An open run. Use `open_run`; only one process has a run open at a time."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.samples = SampleJournal(path / "predictions.jsonl")
        self.resumed = tuple(self._made_otherwise())

    def reopen(self, pending: int) -> None:
        """Get ready for more samples: what follows from the present ones goes, where anything is `pending`."""
        if pending or self.samples.damaged:
            for name in ("summary.json", "scores.jsonl", "report.html"):
                (self.path / name).unlink(missing_ok=True)

    def _made_otherwise(self) -> Iterator[str]:
        """A line for each set of other versions that samples here were made with."""
        versions_now = made_with(self.manifest)
        for maker, count in sorted(self.samples.makers.items()):
            versions_then = self.manifest.makers[maker] if maker < len(self.manifest.makers) else {}
            changed = [
                f"{name} {versions_then.get(name, 'of an unknown version')} (now {versions_now.get(name, 'unknown')})"
                for name in dict.fromkeys((*versions_now, *versions_then))
                if versions_then.get(name) != versions_now.get(name)
            ]
            if changed:
                samples = "1 sample was" if count == 1 else f"{count} samples were"
                yield f"resumed: {samples} made with {', '.join(changed)}; a new --out makes all of them anew"

    def searches(self, domain: str, index: str) -> None:
        """Write down the fingerprint of the index that a domain is searched in.

        Raises:
            RequestError: finished samples of the domain come from another index.
        """
        self.check_indexes({domain: (index,)})
        self.update_manifest(indexes={**self.manifest.indexes, domain: index})

    def check_indexes(self, fingerprints: Mapping[str, Sequence[str]]) -> None:
        """Compare the indexes that finished samples come from with what would be searched now.

        Args:
            fingerprints: domain -> those that its index may have; domains that are left out are not compared.

        Raises:
            RequestError: the domains whose index is another one.
        """
        finished = self.samples.domains
        problems = [
            f"indexes.{domain}: {self.manifest.indexes[domain]!r} there, {' or '.join(map(repr, indexes))} here"
            for domain, indexes in sorted(fingerprints.items())
            if domain in finished and self.manifest.indexes.get(domain, indexes[0]) not in indexes
        ]
        if problems:
            raise another(self.path, "run", problems)

    def append(self, sample: Sample) -> None:
        """Write a sample down; it is with the operating system when this returns.

        Raises:
            ValueError: the sample is done already.
        """
        maker = made_with(self.manifest)
        if maker not in self.manifest.makers:
            self.update_manifest(makers=(*self.manifest.makers, maker))
        self.samples.append(sample.model_copy(update={"maker": self.manifest.makers.index(maker)}))

    def update_manifest(self, **fields: Any) -> None:
        """Change what is not part of the identity (when it ended, which indexes were searched) and write it."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))

    def arrange(self, order: Iterable[Key]) -> None:
        """Bring the samples into the order of the data; from here on, nothing is appended."""
        self.samples.arrange(order)

    def write_scores(self, scores: Iterable[Score]) -> None:
        """Write `scores.jsonl` as the scores come; it is there when all of them are written."""
        part = self.path / ".scores.jsonl.part"
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            for score in scores:
                file.write(json_line(score))
        part.replace(self.path / "scores.jsonl")

    def finish(self, summary: Summary, ended: str) -> None:
        """Write the manifest's end, and last the summary."""
        (self.path / "predictions.jsonl").touch()
        self.update_manifest(ended=ended)
        write_json(self.path / "summary.json", summary.model_dump(mode="json"))

    def close(self) -> None:
        """Close the file of samples, with its content on the disk."""
        self.samples.close()


def check_folder(path: Path, manifest: RunManifest) -> RunManifest | None:
    """The manifest that is in `path` already, if the run there is the one that `manifest` describes. Writes nothing.

    Raises:
        RequestError: something else is there: a file, a folder that is no run, a run that differs.
    """
    stored = read_manifest(path, RunManifest, "run")
    lines = disagreements(identity(stored), identity(manifest)) if stored else []
    if lines:
        raise another(path, "run", lines)
    return stored


@contextmanager
def open_run(path: Path, manifest: RunManifest) -> Iterator[RunFolder]:
    """Make the run folder, or resume the run that is in it.

    Raises:
        RequestError: the folder holds something else, or cannot be written.
        TurnmarkError: another process has the run open.
    """
    check_folder(path, manifest)
    with locked(path, f"the run {str(path)!r}"):
        stored = check_folder(path, manifest)
        if stored is not None:
            makers = stored.makers or (made_with(stored),)
            unchanged = {"started": stored.started, "indexes": stored.indexes, "makers": makers}
            manifest = manifest.model_copy(update=unchanged)
        clear_parts(path)
        run = RunFolder(path, manifest)
        try:
            run.update_manifest()
            yield run
        finally:
            run.close()


def say_resumed(run: RunFolder) -> None:
    """Samples that another version made are said at once, and once more in the notes."""
    for line in run.resumed:
        sys.stderr.write(f"turnmark: {inert(line)}\n")
