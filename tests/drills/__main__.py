"""All drills, and their table: `python -m tests.drills [--quick | --minutes N] [--only NAME] [--seed N]`.

Whole: 200 kills, as many of a watch, 200 damaged files of each type, 10 minutes of fuzzing for each parser, 200 turns
of eight clients (`load`). Quick: 20, and seconds.
The exit code is 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.drills.tally import Drill, Effort, Tally, table


def drills() -> dict[str, Drill]:
    """Name -> drill. Those that fork come first: the others start threads."""
    from tests.drills import damaged, disk, fuzz, hostile, kills, load, sql, updates, uploads, watched

    return {
        "kills": kills.drills, "updates": updates.drills, "watch": watched.drills, "disk": disk.drills,
        "hostile": hostile.drills, "uploads": uploads.drills, "sql": sql.drills,
        "damaged": damaged.drills, "fuzz": fuzz.drills, "leaving": load.leaving, "agent": load.agent, "long": load.long,
    }  # fmt: skip


def main() -> int:
    """Run what is asked for, and print the table."""
    words = argparse.ArgumentParser(description="what goes wrong in the world, brought about on purpose")
    words.add_argument("--quick", action="store_true", help="20 kills, 5 seconds for each parser")
    words.add_argument("--minutes", type=float, default=10.0, help="of fuzzing for each parser (default 10)")
    words.add_argument("--kills", type=int, help="kills, and damaged files of each type (default 200; quick 20)")
    words.add_argument("--turns", type=int, help="of eight clients at once (default 200; quick 20)")
    words.add_argument("--only", action="append", metavar="NAME", help=", ".join(drills()))
    words.add_argument("--parser", action="append", default=[], metavar="NAME", help="fuzz this one, as in the table")
    words.add_argument("--seed", type=int, default=0)
    options = words.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TURNMARK_PRECISION", "fp32")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from tests.drills.forking import warm

    warm()
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="turnmark-drills-") as scratch:
        effort = Effort(
            kills=options.kills or (20 if options.quick else 200),
            seconds=5.0 if options.quick else options.minutes * 60,
            parsers=tuple(options.parser), seed=options.seed, scratch=Path(scratch),
            turns=options.turns or (20 if options.quick else 200),
        )  # fmt: skip
        for name, drill in drills().items():
            if options.only and name not in options.only:
                continue
            began = time.monotonic()
            for tally in drill(effort):
                sys.stderr.write(
                    f"{time.monotonic() - began:7.1f} s  {tally.name}: {tally.survived} of {tally.tried}\n"
                )
                tallies.append(tally)
    print(table(tallies))
    return 1 if any(tally.lost for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
