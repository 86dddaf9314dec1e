"""The audit never passes without having asked; licences that bind a whole program are found."""

from __future__ import annotations

import json

import pytest

from tests import audit, licences

GOOD = {"name": "a", "version": "1", "vulns": []}


@pytest.mark.parametrize(
    ("code", "out", "err", "expected"),
    [
        (0, json.dumps({"dependencies": [GOOD]}), "", 0),
        (1, json.dumps({"dependencies": [{**GOOD, "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]}), "", 1),
        (1, "", "ERROR: Connection refused", 3),
        (0, "", "", 3),
        (0, json.dumps({"dependencies": []}), "", 3),
        (0, json.dumps({"dependencies": [{"name": "a", "skip_reason": "not found"}]}), "", 3),
        (0, "[1]", "", 3),
    ],
)
def test_only_what_was_asked_passes(code: int, out: str, err: str, expected: int) -> None:
    verdict_code, lines = audit.verdict(code, out, err)
    assert verdict_code == expected
    assert ("COULD NOT ASK" in lines[0]) == (expected == 3)


@pytest.mark.parametrize(
    ("words", "family"),
    [
        ("GPL-3.0-or-later", "strong copyleft"),
        ("GNU General Public License v2 (GPLv2)", "strong copyleft"),
        ("GNU Affero General Public License v3", "strong copyleft"),
        ("GNU Lesser General Public License v3 (LGPLv3)", "weak copyleft"),
        ("MPL-2.0", "weak copyleft"),
        ("MPL-2.0 AND MIT", "weak copyleft"),
        ("Apache Software License", "Apache-2.0"),
        ("Apache-2.0 OR BSD-3-Clause", "BSD"),
        ("BSD 3-Clause", "BSD"),
        ("MIT License", "MIT"),
        ("Commercial, all rights reserved", ""),
        ("permitted", ""),
    ],
)
def test_families(words: str, family: str) -> None:
    assert licences.family_of(words) == family
