"""No library that Turnmark uses looks up a host or stores a device id, whatever extras are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tests.corpora.made import scan
from tests.patience import PATIENCE

LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
CODE = f"""
import importlib, sys, time
from pathlib import Path

def refuse(event, arguments):
    if event in {LOOKUPS}:
        print("LOOKED UP", arguments[0], flush=True)
        raise OSError("this process may not resolve names")

sys.addaudithook(refuse)
from turnmark.assistant.llm.generators.openvino_model import genai
if "openvino_genai" in sys.argv:
    genai()
if "ragas" in sys.argv:
    from turnmark.evaluation.judging.ragas import stub_vertex_classes
    stub_vertex_classes()
for name in sys.argv[2:]:
    importlib.import_module(name)
from tests.corpora.reading import read_pdf
if "rapidocr" in sys.modules:
    print(read_pdf(Path(sys.argv[1]), "scan.pdf").text)
time.sleep(2)
print("FINISHED")
"""


def test_libraries_of_all_extras_look_up_no_host_and_store_no_device_id(tmp_path: Path) -> None:
    scan(tmp_path / "scan.pdf", ["The mill has three gates."])
    cleared = ("ORT_DISABLE_TELEMETRY", "DO_NOT_TRACK", "ANONYMIZED_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY")
    environment = {name: value for name, value in os.environ.items() if name not in cleared} | {
        "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TURNMARK_HOME": str(tmp_path / "home"),
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "scan.pdf"), *modules_of_extras()], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert "FINISHED" in ran.stdout, ran.stderr
    assert "LOOKED UP" not in ran.stdout
    stored = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert not [path for path in stored if path.name.lower() in ("deviceid", "microsoft", ".onnxruntime")]


def modules_of_extras() -> list[str]:
    """Return the installed modules of all extras that users install. The server vLLM is a program of its own."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {
        canonicalize_name(Requirement(line).name)
        for extra, lines in extras.items()
        if extra not in ("dev", "vllm")
        for line in lines
    }
    return [
        module
        for module, owners in sorted(packages_distributions().items())
        if module.isidentifier() and wanted & {canonicalize_name(owner) for owner in owners}
    ]
