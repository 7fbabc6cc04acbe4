"""Memory over many grids in one process: bounded, however many there are."""

import time

import jax
import numpy as np
import psutil

from seponet import Domain, Problem, Value, nn
from seponet.operator.operator import Operator

from .flips import SMALL
from .table import Tally

ALLOWED = 200
"""MiB by which a process may grow after its tenth grid."""


class Falling(Problem):
    domain = Domain(t=(0, 1))
    conditions = [Value({"t": 0}, equals=1.0)]

    def equation(self, s_t, s):
        return s_t + s


def many_grids(grids: int, until: float) -> Tally:
    tally = Tally(f"MiB after the tenth grid (<= {ALLOWED})")
    operator = Operator(nn.build(Falling(), key=jax.random.key(0), exact="all", **SMALL))
    tenth = 0.0
    for i in range(grids):
        if time.monotonic() > until:
            break
        operator.predict(t=np.linspace(0, 1, 20 + i))
        used = psutil.Process().memory_info().rss / 2**20
        tenth = used if i == 9 else tenth
        grown = used - tenth if i > 9 else 0.0
        tally.count("harmless" if grown <= ALLOWED else f"{grown:.0f} MiB more than after the tenth", f"grid {i}")
    return tally
