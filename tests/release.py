"""The release check: build wheel and sdist, install the wheel in a clean environment, and do the main job there.

    python -m tests.release [--out dist] [--environment DIR]

1. Builds both with `python -m build`, which makes its own environment from the build requirements in pyproject.toml.
2. Compares the files of the wheel with those of the checkout, since files that are not Python must be included too.
3. Makes a clean environment, and installs the wheel with the pinned versions and no extra.
4. Works in another folder with its own home: types the commands of README.md that need no language model, word for
   word, over the demo documents; then scores a benchmark, reads the report and runs `doctor`. No package of an extra is
   there.

Exits with 0 if everything succeeds. `--environment` keeps the environment for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from tests.docs.pages import blocks, examples
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
QUESTIONS = (ROOT / "turnmark" / "corpora" / "demo" / "questions.txt").read_text(encoding="utf-8")
NOT_TYPED = ("--generator", "model get", "mine.csv")
"""What is in commands of README.md that ask a model, fetch one, or read a file of the reader."""


def built(out: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist, and return their paths."""
    for old in (*out.glob("turnmark-*.whl"), *out.glob("turnmark-*.tar.gz")):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, stdout=sys.stderr)
    (wheel,), (sdist,) = out.glob("turnmark-*.whl"), out.glob("turnmark-*.tar.gz")
    return wheel, sdist


def wanted() -> set[str]:
    """Return the installed path of every file of the package that git tracks or would track."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "turnmark"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {path for path in listed if (ROOT / path).is_file()}


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


def readme_commands() -> list[str]:
    """Return the lines of README.md that run `turnmark` without a language model, in their order."""
    typed = [example for block in blocks() if block.page == "README.md" and block.kind == "shell"
             for example in examples(block)]  # fmt: skip
    lines = [example.typed.partition("  #")[0].rstrip() for example in typed if example.program == "turnmark"]
    return [line for line in lines if not any(words in line for words in NOT_TYPED)]


def main_job(turnmark: Path, folder: Path) -> list[str]:
    """Do the main job in `folder`, and return what is wrong with the results."""
    path = f"{turnmark.parent}:/usr/bin:/bin"
    bare = {"PATH": path, "HOME": str(folder), "TURNMARK_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}

    def run(line: str, stdin: str = "") -> str:
        began = time.monotonic()
        ran = subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder, env=bare, input=stdin, capture_output=True, text=True, timeout=PATIENCE
        )
        sys.stderr.write(f"{time.monotonic() - began:6.1f} s  {line}\n")
        if ran.returncode:
            raise SystemExit(f"{line} ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
        return ran.stdout

    package = run('python -c "import turnmark.corpora as corpora; print(corpora.__path__[0])"').strip()
    problems = [] if Path(package).is_relative_to(turnmark.parents[1]) else [f"ran from {package}, not from the wheel"]
    for line in readme_commands():
        if line.startswith("turnmark serve"):
            problems += served(line, folder, bare)
            continue
        printed = run(line, QUESTIONS if line.startswith("turnmark chat") else "")
        if not printed and not line.startswith(("turnmark mcp", "turnmark index")):
            problems.append(f"{line} printed nothing")
        if line.startswith("turnmark ask") and "[1]" not in printed:
            problems.append(f"{line}: no answer with a citation: {printed[:200]!r}")
    for benchmark in ("mtrag --task retrieval", "compound-qa"):
        summary = json.loads(run(f"turnmark eval {benchmark} --out runs/{benchmark.split()[0]} --json"))
        if not summary["n"] or summary["failed"]:
            problems.append(f"eval {benchmark}: n {summary['n']}, failed {summary['failed']}")
    run("turnmark report runs/mtrag runs/compound-qa --html report.html")
    if (folder / "report.html").stat().st_size < 10_000:
        problems.append("report.html is too small to be one")
    doctor = json.loads(run("turnmark doctor --json"))
    if not doctor["healthy"]:
        problems.append("doctor found something broken")
    present = [row["name"] for row in doctor["checks"] if row["section"] == "extras" and row["state"] == "ok"]
    problems += [f"the base installation has the extra {name}" for name in present]
    return problems


def served(line: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run a server until it prints its address, stop it as Ctrl-C does, and return what is wrong."""
    output = folder / "served.txt"
    with output.open("w") as stream:
        server = subprocess.Popen(line.split(), cwd=folder, env=environment, stdout=stream, stderr=stream)
        try:
            ends = time.monotonic() + PATIENCE
            while "http://" not in output.read_text() and server.poll() is None and time.monotonic() < ends:
                time.sleep(0.2)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)
    printed = output.read_text()
    return [] if "http://" in printed else [f"{line} printed no address: {printed[-500:]!r}"]


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
