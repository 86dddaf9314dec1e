"""Fetching: complete and checked or absent, continued after an interruption, and safe from misbehaving hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import DEMO
from tests.corpora.hosting import COMMIT, Hosting, blob
from tests.corpora.reading import MTRAG, TASKS, demo_files
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import home
from turnmark.corpora.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.downloads import data_sets
from turnmark.corpora.downloads.data_sets import (
    CATALOG,
    MANIFEST,
    FetchResult,
    entry_named,
    fetch,
    folder_of,
    manifest_of,
)

KIWI = CATALOG["kiwi"]
NAME = "IBM/mt-rag-benchmark"


def demo(folder: str) -> dict[str, bytes]:
    """Return the demo split as a repository, with one unwanted file."""
    return demo_files(folder) | {"scripts/setup.py": b"raise SystemExit", "README.md": b"# hello"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "RETRIES", 1)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)


@pytest.fixture
def host() -> Iterator[Hosting]:
    with Hosting({NAME: demo("mt-rag-benchmark")}) as hosting:
        yield hosting


def fetched(_: Hosting, revision: str | None = None) -> FetchResult:
    return fetch(MTRAG, revision)


def staged() -> Path:
    return folder_of(MTRAG).with_name(f".{MTRAG.folder}.part")


def nothing_is_there() -> bool:
    return not folder_of(MTRAG).exists() and not (staged() / TASKS).exists() and manifest_of(MTRAG) is None


def test_fetches_wanted_files_and_records_commit_and_checksums(host):
    outcome = fetched(host)
    assert (outcome.new, outcome.folder) == (True, home() / "data" / "mt-rag-benchmark")
    paths = {path.relative_to(outcome.folder).as_posix() for path in outcome.folder.rglob("*") if path.is_file()}
    files = demo("mt-rag-benchmark")
    assert paths == set(files) - {"scripts/setup.py", "README.md"} | {MANIFEST}
    assert all((outcome.folder / name).read_bytes() == files[name] for name in paths - {MANIFEST})
    assert len(mtrag.load_tasks(mtrag.locate(outcome.folder).root, "mtrag").data) == 67
    assert not staged().exists()

    manifest = outcome.manifest
    assert [(origin.where, origin.commit) for origin in manifest.origins] == [(f"github {NAME}", COMMIT)]
    tasks = next(file for file in manifest.files if file.path == TASKS)
    assert tasks.announced == f"git:{blob(files[TASKS])}"
    assert (tasks.size, COMMIT in tasks.url) == (len(files[TASKS]), True)
    assert json.loads((folder_of(MTRAG) / MANIFEST).read_text()) == manifest.model_dump(mode="json")


def test_repairs_files_and_keeps_changed_copies(host):
    folder = fetched(host).folder
    (folder / TASKS).write_text("mine")
    (folder / "mtrag-synthetic/generation_tasks/synthetic.jsonl").unlink()
    again = fetched(host)
    assert set(again.repaired) == {TASKS, "mtrag-synthetic/generation_tasks/synthetic.jsonl"}
    assert (folder / TASKS).read_bytes() == demo("mt-rag-benchmark")[TASKS]
    assert (folder / f"{TASKS}.before").read_text() == "mine"
    (folder / TASKS).write_text("mine again")
    host.twists[TASKS] = lambda handler, content: handler.plainly(b"x" * len(content))
    with pytest.raises(TurnmarkError, match=f"checksum is not git:{blob(demo(MTRAG.folder)[TASKS])}"):
        fetched(host)
    assert (folder / TASKS).read_text() == "mine again"
    del host.twists[TASKS]
    fetched(host)
    before = len(host.asked())
    assert (fetched(host, COMMIT).repaired, len(host.asked())) == ((), before)
    with pytest.raises(RequestError, match="contains commit 0123"):
        fetched(host, "v2")


def test_continues_after_an_interrupted_fetch(host):
    host.twists[TASKS] = lambda handler, content: handler.send(200, content[:1000], length=len(content))
    with pytest.raises(TurnmarkError, match="complete files are kept") as caught:
        fetched(host)
    assert caught.value.exit_code == 1
    assert nothing_is_there()
    del host.twists[TASKS]
    (staged() / "of/another/commit").parent.mkdir(parents=True)
    (staged() / "of/another/commit").touch()
    before = host.asked()
    outcome = fetched(host)
    kept = {path for path in before if "/raw/" in path and not path.endswith(TASKS)}
    assert kept
    assert not kept & set(host.asked()[len(before) :])
    assert (outcome.folder / TASKS).read_bytes() == demo(MTRAG.folder)[TASKS]
    assert not (outcome.folder / "of/another/commit").exists()


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (lambda handler, content: handler.send(200, content + b"more"), "the checksum is not git:"),
        (lambda handler, _: handler.send(503), "503 Server Error"),
        (lambda handler, _: handler.send(302, Location="file:///etc/passwd"), "No connection adapters"),
    ],
)
def test_refused_fetch_leaves_no_files(host, twist, message):
    host.twists[TASKS] = twist
    with pytest.raises(TurnmarkError, match=message):
        fetched(host)
    assert nothing_is_there()


def tree(*rows: object) -> tuple[int, bytes]:
    return 200, json.dumps({"tree": list(rows)}).encode()


ROW = {"path": TASKS, "mode": "100644", "type": "blob", "sha": "0" * 40, "size": 3}


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((200, b"<html>"), "an unreadable reply"), ((200, b"[" * 100_000), "an unreadable reply"),
        (tree(ROW | {"size": -1}), r"unreadable reply .*tree\.0\.size"),
        (tree(ROW | {"sha": "zz"}), "'git:zz' is not a checksum"),
        (tree(ROW | {"size": 10**12}), "at most 1,000,000,000"),
        (tree(ROW | {"mode": "120000"}), "layout has changed"), (tree(ROW | {"path": f"../{TASKS}"}), "layout has"),
        (tree(ROW | {"path": f"/{TASKS}"}), "layout has changed"),
        ((401, b""), "401 Client Error"),
    ],
)  # fmt: skip
def test_refuses_unusable_listing(host, page, message):
    host.pages[f"/repos/{NAME}/git/trees/{COMMIT}"] = page
    with pytest.raises(TurnmarkError, match=message):
        fetched(host)
    assert not host.asked(f"/{TASKS}")


def test_refuses_invalid_revision(host):
    with pytest.raises(RequestError, match="has no revision 'v9'"):
        fetched(host, "v9")
    for bad in ("../x", "", "a b", "a/b", "-x", "x" * 101):
        with pytest.raises(RequestError, match="a branch, tag or commit"):
            fetched(host, bad)
    host.pages[f"/repos/{NAME}/commits/main"] = (200, b"not a commit")
    with pytest.raises(TurnmarkError, match="an unreadable reply"):
        fetched(host)


def test_leaves_folder_without_manifest_alone(host):
    folder_of(MTRAG).mkdir(parents=True)
    (folder_of(MTRAG) / "mine").write_text("mine")
    with pytest.raises(RequestError, match="was not fetched by Turnmark"):
        fetched(host)
    assert not host.asked()
    (folder_of(MTRAG) / MANIFEST).write_text("{}")
    with pytest.raises(TurnmarkError, match="cannot be read"):
        fetched(host)
    assert (folder_of(MTRAG) / "mine").read_text() == "mine"


def test_refuses_two_fetches_at_once(host):
    (home() / "data").mkdir(parents=True)
    with (
        FileLock(home() / "data" / ".mt-rag-benchmark.lock"),
        pytest.raises(TurnmarkError, match="another command is fetching it"),
    ):
        fetched(host)


def test_fetches_two_hub_repositories_and_checks_sha256():
    files = demo("kiwi")
    sessions, papers = files["interaction_data_new.jsonl"], files["longform_sciqa.jsonl"]
    repositories = {
        "fangyuan/kiwi": {"interaction_data_new.jsonl": sessions},
        "fangyuan/longform_sciqa": {"train.jsonl": papers, "README.md": b""},
    }
    with Hosting(repositories, large=("interaction_data_new.jsonl",)) as host:
        host.twists["interaction_data_new.jsonl"] = lambda handler, content: handler.send(302, Location="/cdn/xyz")
        host.pages["/cdn/xyz"] = (200, sessions)
        outcome = fetch(KIWI)
    files_told = [(file.announced.partition(":")[0], file.path) for file in outcome.manifest.files]
    assert files_told == [("sha256", "interaction_data_new.jsonl"), ("git", "longform_sciqa/train.jsonl")]
    loaded = kiwi.load_sessions(kiwi.locate(outcome.folder).root)
    assert loaded.data == kiwi.load_sessions(DEMO / "kiwi").data


# --- the catalog -----------------------------------------------------------------------------------------------------


def test_catalog_lists_every_benchmark_once():
    served = [name for entry in CATALOG.values() for name in entry.benchmarks]
    assert sorted(served) == ["compound-qa", "inscoqa", "kiwi", "mtrag", "mtrag-s", "mtrag-un"]
    assert entry_named("mtrag-un") is entry_named("mtrag") is CATALOG["mtrag"]
    for name, message in (("inscoqa", "no public copy"), ("squad", "there are: mtrag, compound-qa, kiwi, inscoqa")):
        with pytest.raises(RequestError, match=message):
            entry_named(name)


@given(st.text(alphabet=".\\/:~ab\0\n", max_size=12) | st.text(max_size=30))
def test_patterns_refuse_paths_outside_the_folder(path):
    for entry in CATALOG.values():
        for origin in entry.origins:
            if origin.wants(path):
                assert path.isprintable()
                assert not {"/", "\\", "..", ".", ""} & set(PurePosixPath(path).parts)
                assert "\\" not in path
                assert "//" not in path


@pytest.mark.parametrize(
    ("name", "module", "file", "hint"),
    [
        ("mtrag", mtrag, "mtrag-human/x", "contains no mtrag-human/"),
        ("kiwi", kiwi, "interaction_data_new.jsonl", r"contains no interaction_data_new\.jsonl .* fangyuan/kiwi"),
        ("inscoqa", inscoqa, "test.jsonl", r"contains no train\.jsonl, validation\.jsonl or test\.jsonl; no public"),
        (
            "compound-qa",
            compound_qa,
            "data/Reasoning/Reasoning_Factual_Statement.jsonl",
            "contains no data/<Capability>",
        ),
    ],
)
def test_loaders_find_fetched_data(tmp_path, monkeypatch, name, module, file, hint):
    assert module.locate(None) == module.Source(root=module.DEMO_ROOT, demo=True)
    with pytest.raises(RequestError, match=f"--data: .*{hint}"):
        module.locate(tmp_path)
    root = tmp_path / CATALOG[name].folder
    (root / file).parent.mkdir(parents=True)
    (root / file).touch()
    source = module.Source(root=root, demo=False)
    assert module.locate(root) == module.locate(tmp_path) == source
    assert source.name == CATALOG[name].folder
    monkeypatch.setenv("TURNMARK_DATA", str(tmp_path))
    assert module.locate(None) == source
    monkeypatch.setenv("TURNMARK_DATA", str(tmp_path / "none"))
    with pytest.raises(RequestError, match=r"TURNMARK_DATA: .*is no folder"):
        module.locate(None)
