"""Kills at file operations: a run that is killed anywhere goes on to the very operator of the one that was not.

An audit hook sees every file that a process opens, renames or removes. At the n-th operation inside of the run folder
the process ends at once, without any cleaning up, as by `kill -9`.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .table import Tally

CHILD = """
import os, sys
out, last, resume = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "resume"
done = 0

def watch(event, arguments):
    global done
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if not (writes or event in ("os.rename", "os.remove", "os.mkdir", "os.chmod")):
        return
    if isinstance(arguments[0], (str, bytes)) and os.fsdecode(arguments[0]).startswith(out):
        done += 1
        if done == last:
            os._exit(137)

import seponet
sys.addaudithook(watch)
settings = {
    "model.rank": 3, "model.trunk": "mlp", "model.decoder": "cp", "model.exact": "all", "model.trunk_width": 4,
    "model.trunk_depth": 1, "model.invariant": "", "train.whitening": "none", "train.loss.residual": "pointwise",
    "train.steps": 40, "train.checkpoint": 0.0, "train.polish": 8, "train.sampling": {"points": 4, "method": "gauss"},
    "train.optimizer.name": "adam", "train.targets.pool": 0,
}
seponet.train(sys.argv[4], out=out, resume=resume, functions=0, figures=False, quiet=True, set=settings)
print(done)
"""

PROBLEM = """
from seponet import Domain, Problem, Value

class Falling(Problem):
    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s_t, s):
        return s_t + s
"""


def child(folder: Path, out: Path, last: int, how: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "SEPONET_CONFIG": str(folder / "config"),
        "SEPONET_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-c", CHILD, str(out), str(last), how, f"{folder / 'falling.py'}:Falling"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def kill_runs(folder: Path, numbers: random.Random, times: int, until: float) -> Tally:
    """As many kills as are asked for, and as there is time for."""
    tally = Tally("kills at file operations")
    (folder / "falling.py").write_text(PROBLEM)
    whole = child(folder, folder / "whole", -1, "anew")
    if whole.returncode != 0:
        tally.count(whole.stderr[-300:], "the run that is not killed")
        return tally
    total, expected = int(whole.stdout), stored(folder / "whole")
    for i in range(times):
        if time.monotonic() > until:
            break
        out, last = folder / f"run{i}", numbers.randrange(1, total)
        killed = child(folder, out, last, "anew")
        again = child(folder, out, -1, "resume")
        if killed.returncode not in (0, 137) or again.returncode != 0:
            tally.count((killed.stderr + again.stderr)[-300:], f"kill at operation {last} of {total}")
            continue
        left = [path.name for path in out.rglob(".*")]
        same = stored(out) == expected
        tally.count("harmless" if same and not left else f"same: {same}, left: {left}", f"kill at {last} of {total}")
    return tally


def stored(run: Path) -> list[bytes]:
    """The arrays of a run's operator."""
    (file,) = (run / "operator").glob("arrays*.npz")
    with np.load(file) as arrays:
        return [arrays[name].tobytes() for name in arrays.files]
