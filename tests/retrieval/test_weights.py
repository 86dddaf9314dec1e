"""Rankers are measured on the index itself: one that cannot read the documents gets no say."""

from __future__ import annotations

import pytest

from tests.retrieval.conftest import write
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.search.list_weights import share_of
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.types import Query

CHINESE = {
    "kettle": "# 水壶\n\n每个月用白醋给水壶除垢一次。除垢以后要用清水冲洗两遍。水壶不能放进洗碗机里清洗。",
    "lamp": "# 台灯\n\n更换灯泡以前要先拔掉电源插头。台灯最多使用四十瓦的灯泡。灯罩可以用湿布擦拭干净。",
    "parking": "# 停车\n\n访客的汽车停在北门旁边的停车场。员工的停车证每年一月更换。晚上十点以后停车场关门。",
    "printer": "# 打印机\n\n打印机卡纸的时候打开后面的盖子。彩色打印需要部门主管批准。墨盒在三楼的仓库领取。",
    "library": "# 图书馆\n\n每位读者最多可以借五本书籍。借书的期限是三个星期。过期不还每天罚款两元钱。",
    "canteen": "# 食堂\n\n食堂中午十一点半开始供应午饭。素食的窗口在食堂的左边。饭卡可以在入口处充值。",
    "leave": "# 休假\n\n员工每年有二十天带薪休假。休假要提前两个星期申请。病假需要提供医院的证明。",
}


@pytest.mark.parametrize(
    ("mrr", "of_bm25", "at_home", "share"),
    [
        (0.5, 0.5, False, 1.0),
        (0.45, 0.5, False, 0.28),
        (0.2, 0.5, False, 0.0),
        (0.0, 0.5, True, 0.0),
        (0.3, 0.5, True, 1.0),
        (0.01, 0.5, True, 1.0),
        (0.4, 0.0, False, 1.0),
    ],
)
def test_share_of_the_usual_weight(mrr, of_bm25, at_home, share):
    assert share_of(mrr, of_bm25, at_home) == share


def test_an_embedder_that_cannot_read_the_documents_has_no_say(tmp_path):
    write(tmp_path / "docs", **CHINESE)
    build_index(tmp_path / "docs", "zh")
    index = open_index("zh")
    weights = index.manifest.weights
    assert weights["bm25"].share == 1
    assert weights["dense"].mrr < weights["bm25"].mrr
    assert weights["dense"].share < 0.5
    assert index.manifest.sure_from is None
    retriever = open_retriever(default_retriever(index), index)
    (hits,) = retriever.search([Query(text="水壶怎么除垢？")], 3)
    assert hits[0].passage.document == "kettle.md"
    assert hits[0].similarity is None


def test_an_embedder_keeps_its_weight_over_documents_in_its_language(notes):
    write(notes, tea="# Tea\n\nBoil the water first. Let the leaves steep for three minutes. Take them out then.")
    write(notes, jam="# Jam\n\nWash the berries with care. Cook them with sugar for an hour. Fill them into hot jars.")
    write(notes, soap="# Soap\n\nStir the lye into cold water. Melt the fat in a large pot. Pour the soap into a mold.")
    build_index(notes, "en")
    manifest = open_index("en").manifest
    assert manifest.languages == {"en": 6}
    assert {name: weight.share for name, weight in manifest.weights.items()} == {"bm25": 1, "dense": 1}


def test_search_explains_the_weights(turnmark, tmp_path):
    write(tmp_path / "docs", **CHINESE)
    assert turnmark("index", "build", str(tmp_path / "docs"), "--name", "zh").code == 0
    explained = turnmark("search", "停车证", "--index", "zh", "--explain").out
    assert "bm25: 100% of its usual weight; finds passages of this index with an MRR of" in explained
    share = open_index("zh").manifest.share_of("dense")
    assert f"dense: {share:.0%} of its usual weight" in explained


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("ضع جزءا من الخل وجزأين من الماء في الغلاية واتركها ثلاثين دقيقة.", 0.0),
        ("Налейте в чайник одну часть уксуса и две части воды, потом вскипятите.", 0.0),
        ("Einen Teil Essig und zwei Teile Wasser in den Kessel geben und aufkochen.", 0.3),
    ],
)
def test_index_too_small_to_measure_trusts_a_model_by_the_script(tmp_path, text, share):
    write(tmp_path / "docs", kettle=text)
    build_index(tmp_path / "docs", "small")
    weights = open_index("small").manifest.weights
    assert {name: weight.share for name, weight in weights.items()} == {"dense": share}
