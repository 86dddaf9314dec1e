"""The files of a run: opened or resumed, appended to sample by sample, finished with scores and a summary.

    RUN/manifest.json       what was asked for; a folder whose manifest differs is refused
    RUN/predictions.jsonl   one line a sample, flushed as it ends; a torn last line is dropped on resuming
    RUN/scores.jsonl        one line a sample and metric, written whole
    RUN/summary.json        written last

Nothing here knows a benchmark: samples, scores and summaries are the records of `evaluation.records`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from corpora.errors import RequestError, TurnwiseError
from corpora.home import file_sha256, write_atomic, write_json
from corpora.types import Problem, Record
from evaluation.records import NOT_IDENTITY, RunManifest, Sample, Score, Summary

# Line ends of Unicode that readers of JSON lines may split at, and lone surrogates, which UTF-8 cannot hold.
_ESCAPED = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
_RECORDED_ONLY = ("python", "numpy")
"""Of the versions in a manifest, those that are no reason to doubt a sample."""


def json_line(record: Record) -> str:
    """A record as one line of JSON, with its line end; there is no other line end in it by anyone's rules."""
    text = json.dumps(record.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


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
    return Path("runs") / f"{manifest.benchmark}-{digest[:12]}"


def made_with(manifest: RunManifest) -> dict[str, str]:
    """The versions that the samples of a call are made with: those that can change a result."""
    kept = {name: version for name, version in manifest.versions.items() if name not in _RECORDED_ONLY}
    return {"turnwise": manifest.version, **kept}


def differences(there: RunManifest, here: RunManifest) -> list[str]:
    """What two manifests disagree on, a line each: `specs.query: 'rewrite' there, 'last-turn' here`."""

    def flat(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{prefix}.{key}" if prefix else key)
        else:
            yield prefix, value

    old, new = dict(flat(identity(there), "")), dict(flat(identity(here), ""))
    return [
        f"{key}: {old.get(key)!r} there, {new.get(key)!r} here"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


class RunFolder:
    """An open run. Use `open_run`; only one process has a run open at a time."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.samples: dict[tuple[str, int], Sample] = {}
        self.problems: tuple[Problem, ...] = ()
        self.resumed: tuple[str, ...] = ()
        self._file: IO[str] | None = None

    def load(self) -> None:
        """Take over what an earlier call finished; failed samples and unreadable lines go, to be tried again."""
        kept, self.problems, dropped = _read_samples(self.path / "predictions.jsonl")
        self.samples = {sample.key: sample for sample in kept}
        if dropped:
            # What follows from the dropped lines no longer holds, so it goes before they do.
            for name in ("summary.json", "scores.jsonl"):
                (self.path / name).unlink(missing_ok=True)
            write_atomic(self.path / "predictions.jsonl", "".join(map(json_line, self.samples.values())))
        self.resumed = tuple(self._made_otherwise())

    def _made_otherwise(self) -> Iterator[str]:
        """A line for each set of other versions that samples here were made with."""
        now = made_with(self.manifest)
        for maker, count in sorted(Counter(sample.maker for sample in self.samples.values()).items()):
            then = self.manifest.makers[maker] if maker < len(self.manifest.makers) else {}
            changed = [
                f"{name} {then.get(name, 'of an unknown version')} (now {now.get(name, 'unknown')})"
                for name in dict.fromkeys((*now, *then))
                if then.get(name) != now.get(name)
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

    def check_indexes(self, now: Mapping[str, Sequence[str]]) -> None:
        """Compare the indexes that finished samples come from with what would be searched now.

        Args:
            now: domain -> the fingerprints that its index may have; domains that are left out are not compared.

        Raises:
            RequestError: the domains whose index is another one.
        """
        finished = {sample.domain for sample in self.samples.values() if sample.status == "done"}
        found = [
            f"indexes.{domain}: {self.manifest.indexes[domain]!r} there, {' or '.join(map(repr, indexes))} here"
            for domain, indexes in sorted(now.items())
            if domain in finished and self.manifest.indexes.get(domain, indexes[0]) not in indexes
        ]
        if found:
            raise _another_run(self.path, found)

    def append(self, sample: Sample) -> None:
        """Write a sample down; it is with the operating system when this returns.

        Raises:
            ValueError: the sample is there already.
        """
        if sample.key in self.samples:
            raise ValueError(f"sample {sample.key} is in the run already")
        maker = made_with(self.manifest)
        if maker not in self.manifest.makers:
            self.update_manifest(makers=(*self.manifest.makers, maker))
        sample = sample.model_copy(update={"maker": self.manifest.makers.index(maker)})
        if self._file is None:
            self._file = open(self.path / "predictions.jsonl", "a", encoding="utf-8", newline="\n")  # noqa: SIM115
        self._file.write(json_line(sample))
        self._file.flush()
        self.samples[sample.key] = sample

    def update_manifest(self, **fields: Any) -> None:
        """Change what is not part of the identity (when it ended, which indexes were searched) and write it."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))

    def finish(self, scores: Iterable[Score], summary: Summary, ended: str) -> None:
        """Write scores, the manifest's end, and last the summary."""
        (self.path / "predictions.jsonl").touch()
        write_atomic(self.path / "scores.jsonl", "".join(map(json_line, scores)))
        self.update_manifest(ended=ended)
        write_json(self.path / "summary.json", summary.model_dump(mode="json"))

    def close(self) -> None:
        """Close the file of samples, with its content on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


def _read_samples(path: Path) -> tuple[list[Sample], tuple[Problem, ...], bool]:
    """The finished samples of a file; what could not be read; whether anything in the file is to be dropped."""
    if not path.is_file():
        return [], (), False
    *lines, torn = path.read_bytes().split(b"\n")
    kept: dict[tuple[str, int], Sample] = {}
    problems: list[Problem] = []
    dropped = bool(torn)
    for number, line in enumerate(lines, 1):
        try:
            sample = Sample.model_validate_json(line)
        except ValidationError:
            problems.append(Problem(file=path.name, line=number, what="not a sample; dropped and tried again"))
            dropped = True
            continue
        dropped |= sample.status == "failed" or sample.key in kept
        if sample.status != "failed":
            kept[sample.key] = sample
    return list(kept.values()), tuple(problems), dropped


def read_folder(path: Path) -> RunManifest | None:
    """The manifest of the run that is in `path` already, if there is one. Writes nothing.

    Raises:
        RequestError: something else is there: a file, a folder that is no run.
    """
    if path.exists() and not path.is_dir():
        raise RequestError(f"--out {str(path)!r} is a file; name a folder")
    if not path.is_dir():
        return None
    try:
        there = RunManifest.model_validate_json((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        if any(child.name != ".lock" for child in path.iterdir()):
            raise RequestError(f"--out {str(path)!r} holds files and is no run; name another folder") from None
        return None
    except (OSError, ValidationError) as error:
        raise RequestError(f"--out {str(path)!r}: its manifest.json cannot be read; name another folder") from error
    return there


def check_folder(path: Path, manifest: RunManifest) -> RunManifest | None:
    """The manifest that is in `path` already, if the run there is the one that `manifest` describes. Writes nothing.

    Raises:
        RequestError: something else is there: a file, a folder that is no run, a run that differs.
    """
    there = read_folder(path)
    found = differences(there, manifest) if there else []
    if found:
        raise _another_run(path, found)
    return there


def _another_run(path: Path, differing: Sequence[str]) -> RequestError:
    return RequestError(
        [f"--out {str(path)!r} holds another run; name another folder, or ask for the same:"]
        + [f"  {line}" for line in differing]
    )


@contextmanager
def open_run(path: Path, manifest: RunManifest) -> Iterator[RunFolder]:
    """Make the run folder, or resume the run that is in it.

    Raises:
        RequestError: the folder holds something else, or cannot be written.
        TurnwiseError: another process has the run open.
    """
    from filelock import FileLock, Timeout

    check_folder(path, manifest)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / ".lock", timeout=0)
        lock.acquire()
    except Timeout as error:
        raise TurnwiseError(f"another process is writing the run {str(path)!r}; wait, or name another --out") from error
    except OSError as error:
        raise RequestError(f"--out {str(path)!r} cannot be written: {error.strerror or error}") from error
    run = RunFolder(path, manifest)
    try:
        there = check_folder(path, manifest)
        if there is not None:
            makers = there.makers or (made_with(there),)
            kept = {"started": there.started, "indexes": there.indexes, "makers": makers}
            run.manifest = manifest.model_copy(update=kept)
        run.load()
        run.update_manifest()
        yield run
    finally:
        run.close()
        lock.release()
