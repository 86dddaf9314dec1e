"""The scene in which the examples of the pages are typed, made once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.scene import Scene, speaker
from tests.servers import ScriptedServer


@pytest.fixture(scope="package")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Set up a home with an index and a session, files, and a model that answers."""
    with ScriptedServer(speaker, models=[{"id": "tiny"}]) as server:
        yield Scene(tmp_path_factory.mktemp("scene"), server)
