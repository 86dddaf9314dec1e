"""A setting of the assistant is declared once: its flags, keys, keywords and documentation come from the record."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conftest import ROOT
from turnmark.assistant.config import AssistantConfig
from turnmark.core.flags import flags_of


def table() -> Iterator[str]:
    """Yield the rows of the table in docs/configuration.md, as the record declares them."""
    yield "| setting | flag | default | meaning |"
    yield "|---|---|---|---|"
    for name, flag in flags_of(AssistantConfig).items():
        info = flag.info
        flags = f"`{flag.spelling} {info.metavar}`" + (f", `{info.envvar}`" if info.envvar else "")
        shown = info.show_default if isinstance(info.show_default, str) else f"`{flag.default}`" if flag.default else ""
        yield f"| `{name}` | {flags} | {shown} | {info.help} |"


def test_the_documented_settings_are_those_of_the_record() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page
