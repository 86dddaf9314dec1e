"""The catalog: what it asks for is what the loaders read, and nothing else of a repository."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import DEMO
from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag
from turnmark.corpora.catalog import CATALOG, entry_named
from turnmark.corpora.errors import RequestError
from turnmark.corpora.fetching import checksum_of


def test_every_benchmark_is_there_once():
    served = [name for entry in CATALOG.values() for name in entry.benchmarks]
    assert sorted(served) == ["compound-qa", "inscoqa", "kiwi", "mtrag", "mtrag-s", "mtrag-un"]
    assert entry_named("mtrag-un") is entry_named("mtrag") is CATALOG["mtrag"]
    for name, message in (("inscoqa", "no public copy"), ("squad", "there are: mtrag, compound-qa, kiwi, inscoqa")):
        with pytest.raises(RequestError, match=message):
            entry_named(name)


@pytest.mark.parametrize("name", ["mtrag", "compound-qa"])
def test_the_layout_of_the_demo_is_wanted_whole(name):
    entry = CATALOG[name]
    paths = [path.relative_to(DEMO / entry.folder).as_posix() for path in (DEMO / entry.folder).rglob("*.*")]
    assert paths
    assert [path for path in paths if not entry.origins[0].wants(path)] == []


def test_other_files_are_not_wanted():
    origin = CATALOG["mtrag"].origins[0]
    for path in (
        "README.md", "scripts/evaluation/run_scoring.py", "corpora/document_level/clapnq.jsonl.zip", "x/LICENSE",
        "mtrag-human/generation_tasks/reference.jsonl/x", "mtrag-human/retrieval_tasks/../clapnq/qrels/dev.tsv",
        "corpora/passage_level/clapnq.jsonl\n", "corpora/passage_level/.jsonl", "corpora/passage_level/clapnqé.jsonl",
    ):  # fmt: skip
        assert origin.wants(path) is None, path


@given(st.text(alphabet=".\\/:~ab\0\n", max_size=12) | st.text(max_size=30))
def test_no_pattern_lets_a_path_out_of_the_folder(path):
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
        ("mtrag", mtrag, "mtrag-human/x", "holds no mtrag-human/"),
        ("kiwi", kiwi, "interaction_data_new.jsonl", r"holds no interaction_data_new\.jsonl .* fangyuan/kiwi"),
        ("inscoqa", inscoqa, "test.jsonl", r"holds no train\.jsonl, validation\.jsonl or test\.jsonl; no public"),
        ("compound-qa", compound_qa, "data/Reasoning/Reasoning_Factual_Statement.jsonl", "holds no data/<Capability>"),
    ],
)
def test_a_loader_looks_where_the_catalog_puts_the_data(tmp_path, monkeypatch, name, module, file, hint):
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


def test_checksums(tmp_path):
    (tmp_path / "x").write_bytes(b"hello\n")
    assert checksum_of(tmp_path / "x", "git") == "git:ce013625030ba8dba906f756967f9e9ca394464a"
    assert checksum_of(tmp_path / "x", "sha256") == f"sha256:{hashlib.sha256(b'hello' + bytes([10])).hexdigest()}"
