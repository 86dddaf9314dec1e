"""The Python API in a Jupyter kernel: progress that is updated in place, runs as text, as tables and as drawings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client import manager

from tests.conftest import DEMO, ROOT
from tests.patience import PATIENCE

pytestmark = pytest.mark.server

RUN = "from pathlib import Path\nfrom tests.evaluation.reported import SUMMARY\nrun = tm.Run(Path('run'), SUMMARY)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PYTHONPATH", str(ROOT), prepend=":")
        started, client = manager.start_new_kernel(startup_timeout=PATIENCE)
    try:
        client.execute_interactive("import turnmark as tm", timeout=PATIENCE)
        yield client
    finally:
        client.stop_channels()
        started.shutdown_kernel(now=True)


def outputs(kernel: Any, code: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the kind and the content of each output of a cell."""
    messages: list[tuple[str, dict[str, Any]]] = []
    kernel.execute_interactive(
        code, timeout=PATIENCE, output_hook=lambda message: messages.append((message["msg_type"], message["content"]))
    )
    return [(kind, content) for kind, content in messages if kind not in ("status", "execute_input")]


def test_build_updates_one_line_and_removes_it(kernel: Any) -> None:
    shown = outputs(kernel, f"index = tm.Index.build({str(DEMO / 'documents')!r}, 'demo', retriever='bm25')")
    kinds = [kind for kind, _ in shown]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    assert len({content["transient"]["display_id"] for _, content in shown}) == 1
    lines = [content["data"] for _, content in shown]
    assert "reading: 80" in [line["text/plain"] for line in lines]
    assert any('<progress max="80" value="0">' in line.get("text/html", "") for line in lines)
    assert lines[-1] == {"text/plain": "", "text/html": ""}


def test_printed_run_is_plain_text(kernel: Any) -> None:
    shown = outputs(kernel, f"{RUN}\nprint(run)")
    assert {kind for kind, _ in shown} == {"stream"}
    text = "".join(content["text"] for _, content in shown)
    assert "rouge_l.word" in text
    assert "\x1b" not in text


def test_run_is_shown_as_tables_and_its_plot_as_svg(kernel: Any) -> None:
    ((_, run),) = outputs(kernel, f"{RUN}\nrun")
    assert "| rouge\\_l.word |" in run["data"]["text/markdown"]
    ((_, plot),) = outputs(kernel, f"{RUN}\nrun.plot()")
    assert plot["data"]["image/svg+xml"].startswith("<svg ")
    assert plot["data"]["text/plain"].startswith("Plot('mtrag generation (rag)")
