"""Memory of one process over many trainings of different PDEs, and over many grids: bounded, however many there are.

    seponet bench memory trainings      # the zoo with the general recipe and a few steps, calibrated; half an hour
    seponet bench memory equations      # twenty equations in one variable, not calibrated; four minutes
    seponet bench memory grids          # 500 grids of one operator; two minutes

Writes `results/memory_trainings.json` and so on: resident MiB after each, and by how much the
largest one after the tenth is above the tenth. At most 200 MiB are allowed; more is exit code 1.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# As many programs in a third of the time: what is measured is what is kept of them. JAX reads this when it starts.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

import jax
import jax.numpy as jnp
import numpy as np
import psutil
from results import machine, store
from zoo import PROBLEMS, address

import seponet
from seponet import nn
from seponet.functions import GaussianField
from seponet.operator.operator import Operator

ALLOWED, TENTH = 200, 9
"""MiB that may come after the tenth, and its index."""

STEPS, GRIDS = 5, 500


def trainings(names: list[str]) -> Iterator[str]:
    for name in names:
        train(address(name), 20)
        yield name


def train(problem: str | seponet.Problem, calibration: int) -> None:
    """Discretisation, solved functions, a few steps, validation; and a calibration on some functions."""
    warnings.simplefilter("ignore")  # five steps are no training, and it says so
    # What is compiled is the same for any tolerance; a coarse one is solved in less time.
    changes = {"train.steps": STEPS, "train.targets.first": 100}
    seponet.train(problem, "quick", tolerance=0.05, calibration=calibration, set=changes, quiet=True)


SOURCES: dict[str, Callable[[Any, Any], Any]] = {
    "s": lambda s, u: s - u,
    "s^2": lambda s, u: s**2 - u,
    "s^3": lambda s, u: s**3 - u,
    "s^5": lambda s, u: s**5 - u,
    "s + s^3": lambda s, u: s + s**3 - u,
    "s - s^3": lambda s, u: (s - s**3) / 4 - u,
    "s (1 - s)": lambda s, u: s * (1 - s) / 4 - u,
    "exp s": lambda s, u: jnp.exp(s) - u,
    "exp(-s)": lambda s, u: -jnp.exp(-s) - u,
    "sin s": lambda s, u: jnp.sin(s) - u,
    "cos s": lambda s, u: jnp.cos(s) - u,
    "tanh s": lambda s, u: jnp.tanh(s) - u,
    "atan s": lambda s, u: jnp.arctan(s) - u,
    "sinh s": lambda s, u: jnp.sinh(s) - u,
    "s / (1 + s^2)": lambda s, u: s / (1 + s**2) - u,
    "sqrt(1 + s^2)": lambda s, u: jnp.sqrt(1 + s**2) - u,
    "log(1 + s^2)": lambda s, u: jnp.log(1 + s**2) - u,
    "u s": lambda s, u: u * s / 4 - 1,
    "exp(u) s": lambda s, u: jnp.exp(u) * s - 1,
    "u + u s^2": lambda s, u: u * (1 + s**2 / 4),
}
"""Twenty equations s_xx = f(s, u), by their terms in s."""


def make_equation(source: Callable[[Any, Any], Any]) -> seponet.Problem:
    class Equation(seponet.Problem):
        domain = seponet.Domain(x=(0, 1))
        inputs = {"u": GaussianField(domain, length_scale=0.3)}
        conditions = [seponet.Value({"x": (0, 1)})]

        def equation(self, s, s_xx, u):
            return s_xx - source(s, u)

    return Equation()


def equations() -> Iterator[str]:
    for name, source in SOURCES.items():
        train(make_equation(source), 0)
        yield name


class Falling(seponet.Problem):
    domain = seponet.Domain(t=(0, 1))
    conditions = [seponet.Value({"t": 0}, equals=1.0)]

    def equation(self, s_t, s):
        return s_t + s


def grids() -> Iterator[str]:
    """Predictions of one operator, each on a grid of its own size."""
    operator = Operator(nn.build(Falling(), key=jax.random.key(0), exact="all"))
    for size in range(20, 20 + GRIDS):
        operator.predict(t=np.linspace(0, 1, size))
        yield str(size)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="seponet bench memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["trainings", "equations", "grids"])
    parser.add_argument("problems", nargs="*", help="some of the zoo, in this order; all by default, and stored")
    arguments = parser.parse_args()
    kinds = {"grids": grids, "equations": equations, "trainings": lambda: trainings(arguments.problems or [*PROBLEMS])}
    cases = kinds[arguments.what]()
    rows: list[dict[str, Any]] = []
    began, grown = time.perf_counter(), None
    for name in cases:
        row = {"case": name, "mib": round(resident(), 1), "maps": memory_maps(), "arrays_mib": round(arrays(), 1)}
        rows.append({**row, "seconds": round(time.perf_counter() - began, 1)})
        after = [row["mib"] for row in rows[TENTH:]]
        grown = round(max(after) - after[0], 1) if after else None
        if arguments.what != "grids" or len(rows) % 50 == 0:
            print(rows[-1], flush=True)
            if not arguments.problems:
                told = {"machine": machine(), "grown_mib": grown, "allowed_mib": ALLOWED, "rows": rows}
                store(f"memory_{arguments.what}", told)
    print(f"{len(rows)} {arguments.what}: at most {grown} MiB more than after the tenth ({ALLOWED} are allowed)")
    return int(grown is not None and grown > ALLOWED)


def resident() -> float:
    """MiB of this process in memory."""
    return psutil.Process().memory_info().rss / 2**20


def memory_maps() -> int | None:
    """Of which the kernel allows 65530: every compiled program has some."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else None


def arrays() -> float:
    """MiB of arrays that are still held."""
    return sum(array.nbytes for array in jax.live_arrays()) / 2**20


if __name__ == "__main__":
    sys.exit(main())
