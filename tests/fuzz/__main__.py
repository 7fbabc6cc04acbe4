"""The whole campaign: `python -m fuzz [--seed N] [--seconds 600]` in `tests`; `make fuzz` does that.

Exit code 1 if anything was wrong. Every case follows from the seed; what there was no time for is not in the table.
"""

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from .table import Tally, show


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    logging.disable()  # what is damaged is told, a thousand times
    began, numbers = time.monotonic(), random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="seponet-fuzz-") as name:
        folder = Path(name)
        os.environ |= {"SEPONET_CACHE": str(folder / "cache"), "SEPONET_CONFIG": str(folder / "config")}
        tallies = campaign(folder, numbers, began, given.seconds)
    sys.stdout.write(f"seed {given.seed}, {time.monotonic() - began:.0f} s\n{show(tallies)}\n")
    return 1 if any(t.wrong for t in tallies) else 0


def campaign(folder: Path, numbers: random.Random, began: float, seconds: float) -> list[Tally]:
    """All attacks. Each ends at its part of the time, or with its cases: what one leaves over, those after it get."""
    from . import calls, flips, kills, memory

    def until(part: float) -> float:
        return began + part * seconds

    tallies = [
        kills.kill_runs(folder, numbers, 30, until(0.45)),
        memory.many_grids(60, until(0.6)),
        calls.call_flags(numbers, 10_000, until(0.63)),
        calls.call_settings(numbers, 10_000, until(0.66)),
        calls.call_operator(numbers, 10_000, until(0.74)),
        calls.call_methods(numbers, 10_000, until(0.77)),
        flips.flip_operators(folder, numbers, 300, until(0.8)),
        flips.flip_checkpoints(folder, numbers, 300, until(0.83)),
        flips.flip_testsets(folder / "cache" / "testsets", numbers, 150, until(0.88)),
    ]
    run = folder / "whole"
    if run.exists():
        tallies.append(flips.flip_runs(run, folder, numbers, 300, until(0.92)))
        tallies.append(calls.call_commands(run, folder, numbers, 10_000, until(0.97)))
    return tallies


if __name__ == "__main__":
    sys.exit(main())
