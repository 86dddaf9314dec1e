"""The release check: build wheel and sdist, install the wheel in a clean environment, and do the main job there.

    python -m tests.release [--out dist] [--environment DIR]

1. Builds both with `python -m build`, which makes its own environment from the build requirements in pyproject.toml.
2. Compares the files of the wheel with those of the checkout, since files that are not Python must be included too.
3. Makes a clean environment, and installs the wheel with the pinned versions and no extra.
4. Works in another folder with its own home: builds an index over the demo documents, asks a question, scores two
   benchmarks, reads the report and runs `doctor`.

Exits with 0 if everything succeeds. `--environment` keeps the environment for the next run, because installing PyTorch
takes most of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
QUESTION = (ROOT / "corpora" / "demo" / "questions.txt").read_text(encoding="utf-8").splitlines()[0]
ROOMS = ("corpora", "retrieval", "assistant", "evaluation", "turnmark")


def built(out: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist, and return their paths."""
    for old in (*out.glob("turnmark-*.whl"), *out.glob("turnmark-*.tar.gz")):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, stdout=sys.stderr)
    (wheel,), (sdist,) = out.glob("turnmark-*.whl"), out.glob("turnmark-*.tar.gz")
    return wheel, sdist


def wanted() -> set[str]:
    """Return the installed path of every file of the package that git tracks or would track."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", *ROOMS]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    files = (path for path in listed if (ROOT / path).is_file())
    return {path if path.startswith("turnmark/") else f"turnmark/{path}" for path in files}


def contents(wheel: Path, sdist: Path) -> tuple[set[str], set[str]]:
    """Return the paths in the wheel, and the paths in the sdist below its top folder."""
    with zipfile.ZipFile(wheel) as zipped, tarfile.open(sdist) as tarred:
        return set(zipped.namelist()), {name.partition("/")[2] for name in tarred.getnames()}


def missing(wheel: Path, sdist: Path) -> list[str]:
    """Return what the wheel or the sdist lacks, and what does not belong in the wheel."""
    in_wheel, in_sdist = contents(wheel, sdist)
    faults = [f"the wheel lacks {path}" for path in sorted(wanted() - in_wheel)]
    faults += [f"the sdist lacks {path}" for path in sorted(wanted() - in_sdist)]
    strange = {path for path in in_wheel if not path.startswith("turnmark/") and ".dist-info/" not in path}
    return faults + [f"the wheel has {path}, which is no part of it" for path in sorted(strange)]


def installed(wheel: Path, environment: Path) -> Path:
    """Install the wheel in a clean environment, and return its `turnmark`."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True, stdout=sys.stderr)
    # Builds with the same version number differ in content.
    subprocess.run([*pip, "--force-reinstall", "--no-deps", str(wheel)], check=True, stdout=sys.stderr)
    return environment / "bin" / "turnmark"


def main_job(turnmark: Path, folder: Path) -> list[str]:
    """Do the main job in `folder`, and return what is wrong with the results."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TURNMARK_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}
    python = turnmark.with_name("python")

    def run(*words: str) -> str:
        began = time.monotonic()
        ran = subprocess.run(
            [str(turnmark), *words], cwd=folder, env=bare, capture_output=True, text=True, timeout=PATIENCE
        )
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  turnmark {' '.join(words)}\n")
        if ran.returncode:
            raise SystemExit(f"turnmark {' '.join(words)} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        return ran.stdout

    command = [str(python), "-c", "import turnmark.corpora as corpora; print(corpora.__path__[0])"]
    package = subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True, check=True).stdout.strip()
    problems = [] if Path(package).is_relative_to(turnmark.parents[1]) else [f"ran from {package}, not from the wheel"]
    run("index", "build", f"{package}/demo/documents", "--name", "demo")
    reply = json.loads(run("ask", QUESTION, "--index", "demo", "--json"))
    if not reply["answer"] or not reply["citations"]:
        problems.append(f"ask: no answer with a citation: {reply['answer'][:200]!r}")
    for words in (("mtrag", "--task", "retrieval"), ("compound-qa",)):
        summary = json.loads(run("eval", *words, "--out", f"runs/{words[0]}", "--json"))
        if not summary["n"] or summary["failed"]:
            problems.append(f"eval {words[0]}: n {summary['n']}, failed {summary['failed']}")
    run("report", "runs/mtrag", "runs/compound-qa", "--html", "report.html")
    if (folder / "report.html").stat().st_size < 10_000:
        problems.append("report.html is too small to be one")
    if not json.loads(run("doctor", "--json"))["healthy"]:
        problems.append("doctor found something broken")
    return problems


def main() -> int:
    """Run the whole check."""
    words = argparse.ArgumentParser(description="wheel and sdist, installed clean, and the main job done")
    words.add_argument("--out", type=Path, default=ROOT / "dist")
    words.add_argument("--environment", type=Path, help="default: a new one that is thrown away")
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wheel, sdist = built(options.out)
    problems = missing(wheel, sdist)
    with tempfile.TemporaryDirectory(prefix="turnmark-release-") as scratch:
        environment = options.environment or Path(scratch) / "environment"
        folder = Path(scratch) / "elsewhere"
        folder.mkdir()
        turnmark = installed(wheel, environment.absolute())
        problems += main_job(turnmark, folder)
    for path in (wheel, sdist):
        print(f"{os.path.relpath(path)}  {path.stat().st_size / 1e6:.2f} MB")
    print("\n".join(problems) or "the wheel holds every file of the packages, installs clean, and does the main job")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
