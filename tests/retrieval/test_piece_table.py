"""A tokenizer with few pieces returns what the complete one returns."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import DEMO, ROOT
from turnmark.retrieval.embedding import piece_table
from turnmark.retrieval.embedding.bert_files import read_tokenizer
from turnmark.retrieval.embedding.piece_table import PieceTable, open_pieces


@pytest.fixture(scope="module")
def tokenizer_path(tmp_path_factory):
    """Return the file of a tokenizer of the kind that multilingual models have, with a small vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=special, unk_token="<unk>", show_progress=False)
    texts = [path.read_text(encoding="utf-8") for path in sorted((DEMO / "documents" / "almanac").glob("*.md"))]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="module")
def both(tokenizer_path):
    """Return the complete tokenizer, and one that never loads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece_table, "MIN_FILE_BYTES", 0)
        patch.setattr(piece_table, "MAX_CHARACTERS", 10**9)
        complete = read_tokenizer.__wrapped__(tokenizer_path.parent)._load()
        yield complete, open_pieces(tokenizer_path, lambda: pytest.fail("it was loaded"))


def assert_same(both, texts):
    complete, table = both
    assert isinstance(table, PieceTable)
    for special in (True, False):
        expected = complete.encode_batch(texts, add_special_tokens=special)
        tokens = table.encode_batch(texts, special)
        assert [list(one.ids) for one in tokens] == [one.ids for one in expected]
        assert [list(one.offsets) for one in tokens] == [one.offsets for one in expected]


def test_tokens_are_those_of_the_complete_tokenizer(both):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert_same(both, [readme[start : start + 300] for start in range(0, 9000, 300)])
    assert_same(both, ["", " ", "水 ½ ﬁn", "▁▁ a▁b", "a\u0301\n\t"])


@given(st.lists(st.text(max_size=40).filter(lambda text: "<" not in text), max_size=4))
def test_tokens_of_any_text_are_those_of_the_complete_tokenizer(both, texts):
    assert_same(both, texts)


def test_loads_the_complete_tokenizer_for_much_text_and_written_special_tokens(tokenizer_path: Path, monkeypatch):
    monkeypatch.setattr(piece_table, "MIN_FILE_BYTES", 0)
    monkeypatch.setattr(piece_table, "MAX_CHARACTERS", 1000)
    complete = read_tokenizer.__wrapped__(tokenizer_path.parent)._load()
    for text in ("the sea</s>and the tide", "the tide " * 200):
        loaded: list[None] = []
        table = open_pieces(tokenizer_path, lambda loaded=loaded: loaded.append(None) or complete)
        table.encode("the tide")
        assert not loaded
        assert table.encode(text).ids == complete.encode(text).ids
        assert loaded
    monkeypatch.setattr(piece_table, "MIN_FILE_BYTES", 10**9)
    assert open_pieces(tokenizer_path, lambda: complete) is complete
