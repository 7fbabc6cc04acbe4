"""Measured exponents of the cost of derivatives beside the paper's Table 1.

    seponet bench complexity

The job of Table 1: all d first derivatives of s on N^d points for one function, trunks of L layers with width and rank
r. One of N, d, r, L changes at a time; exponents are least-squares slopes of log cost over log size. Beside them stand
the slopes of the paper's formulas over the same sizes, term by term with equal constants: an exponent in a table of
complexities is a limit, which sizes that fit here need not have reached.
"""

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study import Cell, Finished, Study

MODELS = ("seponet_cp", "seponet_tucker", "deeponet_repeated", "deeponet")
BASE = {"N": 128, "d": 2, "r": 64, "L": 4}
SWEEPS = {
    "N": (64, 128, 256, 512),
    "r": (32, 64, 128, 256),
    "L": (2, 4, 8, 16),
    "d": (2, 3, 4),
}
FIXED = {"d": {"N": 16}}
"""What else is different in a sweep: four dimensions need few points."""
TUCKER = 16
"""Rank along each axis of the Tucker decoder, unless r is swept (then r / 8)."""
COORDINATES = "abcd"


@dataclass(frozen=True)
class Sweep(Cell):
    """A model, and what changes."""

    model: str
    variable: str


def cells() -> tuple[Sweep, ...]:
    return tuple(Sweep(model, variable) for variable in SWEEPS for model in MODELS)


def sizes(variable: str) -> list[dict[str, int]]:
    return [{**BASE, **FIXED.get(variable, {}), variable: value} for value in SWEEPS[variable]]


def measure(cell: Sweep) -> Mapping[str, Any]:
    rows = [{**size, **cost(cell.model, size, cell.variable)} for size in sizes(cell.variable)]
    return {"rows": rows}


def cost(model: str, size: Mapping[str, int], variable: str) -> dict[str, float]:
    """Median seconds, and bytes of results and temporaries."""
    import jax
    import jax.numpy as jnp

    from seponet import Problem, nn
    from seponet.calculus.evaluate import evaluate
    from seponet.derivatives import multi_index
    from seponet.domain import Domain
    from seponet.equations.conditions import Value
    from seponet.equations.symbols import Symbol
    from seponet.functions import GaussianField
    from seponet.locations import Grid

    names = COORDINATES[: size["d"]]
    whole = Domain(**dict.fromkeys(names, (0, 1)))

    class Transport(Problem):
        """s = u at a = 0; only its derivatives are asked for."""

        domain = whole
        inputs = {"u": GaussianField(whole["b"], length_scale=0.2)}
        conditions = [Value({"a": 0}, equals="u")]

        def equation(self, s_a: Any) -> Any:
            return s_a

    rank = size["r"] if model != "seponet_tucker" else size["r"] // 8 if variable == "r" else TUCKER
    network = nn.build(
        Transport(),
        kind="seponet" if model.startswith("seponet") else model,
        decoder="tucker" if model == "seponet_tucker" else "cp",
        rank=rank,
        trunk_width=size["r"],
        trunk_depth=size["L"],
        branch_width=8,
        branch_depth=1,
        sensors=16,
        key=jax.random.key(0),
    )
    where = Grid(tuple(names), (jnp.linspace(0.0, 1.0, size["N"]),) * size["d"])
    inputs = network.problem.sample(jax.random.key(1), 1)
    symbols = [Symbol("field", "s", multi_index(**{name: 1})) for name in names]
    compiled = jax.jit(lambda where: list(evaluate(network, inputs, where, symbols).values())).lower(where).compile()
    jax.block_until_ready(compiled(where))
    times: list[float] = []
    while len(times) < 5 or (len(times) < 50 and sum(times) < 0.5):
        began = time.perf_counter()
        jax.block_until_ready(compiled(where))
        times.append(time.perf_counter() - began)
        if sum(times) > 10:
            break
    analysis = compiled.memory_analysis()
    space = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    return {"seconds": statistics.median(times), "bytes": float(space)}


def formula(model: str, what: str, size: Mapping[str, float]) -> float:
    """Table 1, both terms with the constant one."""
    n, d, r, layers = (size[key] for key in "NdrL")
    if model.startswith("seponet"):
        return n * d * layers * r**2 + n**d * r * d if what == "seconds" else n * r * d + n**d
    return n**d * layers * r**2 if what == "seconds" else n**d * layers * r


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The least-squares exponent of costs = constant * sizes^exponent."""
    import numpy as np

    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def exponent(variable: str, rows: Sequence[Mapping[str, float]], costs: Sequence[float]) -> float:
    """The exponent of a variable; the dimension's is the slope of log_N cost over d, so that N^d has 1."""
    if variable == "d":
        import numpy as np

        return float(np.polyfit([row["d"] for row in rows], np.log(costs) / np.log(rows[0]["N"]), 1)[0])
    return slope([row[variable] for row in rows], costs)


STUDY = Study("complexity", cells(), measure, __file__, limit=300.0)

PAPER = {
    ("seponet", "seconds"): "O(N d L r² + N^d r d)",
    ("seponet", "bytes"): "O(N r d + N^d)",
    ("deeponet", "seconds"): "O(N^d L r²)",
    ("deeponet", "bytes"): "O(N^d L r)",
}


WHY = """Where they differ from the formulas:

- *SepONet, time.* 0.12 ms are left at the smallest size (N = 16, d = 2), where next to nothing is computed; that
  flattens the slopes in N, r and d. And the formula adds operations of unequal price: `N^d r d` is one matrix product
  at the machine's full rate, `N d L r^2` has a sine for every number of every layer, so its exponents (1 in N and L,
  2 in r, 0 in d) count for more than with equal constants.
- *SepONet, memory.* In d dimensions all factors but one are multiplied first, which takes `N^(d-1) r` for each
  derivative: with N = 16 < r = 64 (the sweep of d) that is four fifths of 5.3 MB in four dimensions, and not in the
  formula. Training does this slab by slab. In two dimensions about eight arrays of `N r` are held (values and
  derivatives of two trunks, scaled by coefficients) where the formula counts two, so r weighs more.
- *PI-DeepONet, done well.* Forward mode keeps no layers, so memory does not grow with L (the formula is that of
  reverse mode), and what comes after the layers, which L does not change, is two thirds of the time at L = 2. Times
  grow a little faster than N^d because the arrays leave the caches on the way, between 8 and 34 MB.
- *PI-DeepONet, as in the paper.* r^1.6 instead of r^2: narrow matrix products are slower than wide ones.
"""


def render() -> None:
    import tables
    from scaling_tables import NAMES

    finished: Finished = STUDY.finished()
    parts = [
        "# Complexity",
        "All first derivatives on N^d points for one function (the paper's Table 1), forward pass only. "
        f"Base: N = {BASE['N']}, d = {BASE['d']}, r = {BASE['r']}, L = {BASE['L']}; the sweep of d has N = "
        f"{FIXED['d']['N']}. Each entry: measured exponent (slope of the paper's formula over the same sizes). For d "
        "it is the factor of N that one more dimension costs: 1 means N^d. The Tucker decoder is not in the paper; "
        f"its rank is {TUCKER} along each axis, r / 8 where r is swept. –: not run yet.",
    ]
    for quantity, heading in (("seconds", "Time"), ("bytes", "Memory")):
        rows = []
        for model in MODELS:
            family = "seponet" if model.startswith("seponet") else "deeponet"
            entries = [_entry(finished, model, variable, quantity) for variable in SWEEPS]
            claim = "–" if model == "seponet_tucker" else PAPER[family, quantity]
            rows.append([NAMES[model], claim, *entries])
        swept = [f"{v} = {', '.join(map(str, values))}" for v, values in SWEEPS.items()]
        parts += [f"## {heading}", tables.markdown(["", "paper, Table 1", *swept], rows)]
    tables.write("complexity", [*parts, WHY.rstrip()])


def _entry(finished: Finished, model: str, variable: str, what: str) -> str:
    outcome = finished.get(Sweep(model, variable).id)
    if outcome is None:
        return "–"
    if not outcome.measured:
        return f"failed ({outcome.result['reason']})"
    rows = outcome.result["rows"]
    measured = exponent(variable, rows, [row[what] for row in rows])
    if model == "seponet_tucker":
        return f"**{measured:z.2f}**"
    claimed = exponent(variable, rows, [formula(model, what, row) for row in rows])
    return f"**{measured:z.2f}** ({claimed:z.2f})"


if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
