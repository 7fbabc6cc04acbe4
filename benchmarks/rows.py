"""Whether equilibrated rows help where functions are solved: Darcy's equation as it is, and divided by its coefficient.

    seponet bench rows

The residual at a point scaled by the size of its own linearisation is, for Darcy's equation, the residual divided by
the coefficient. For two length scales of the medium, this compares in one basis: the error of the solutions against a
finer discretisation of the equation as it is, and what the solver of training leaves of them in how much time.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from results import machine, store

from seponet import Domain, Problem, Value
from seponet._precision import double_precision
from seponet._program import OwnProgram
from seponet.discretise import Discretisation
from seponet.discretise.correction import make_corrector
from seponet.discretise.discretisation import prolong
from seponet.discretise.newton import newton
from seponet.functions import GaussianField

RANKS, FINE, FUNCTIONS, BATCH = (12, 16), 26, 8, 100


def _darcy(length: float, equilibrated: bool) -> Problem:
    class Darcy(Problem):
        domain = Domain(x=(0, 1), y=(0, 1))
        inputs = {"u": GaussianField(domain, length_scale=length)}
        conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

        def equation(self, s_x, s_y, s_xx, s_yy, u, u_x, u_y):
            flow = s_xx + s_yy + u_x * s_x + u_y * s_y
            return flow + jnp.exp(-u) if equilibrated else jnp.exp(u) * flow + 1

    return Darcy()


def _solve(problem: Problem, rank: int, inputs: Any) -> tuple[Discretisation, np.ndarray, np.ndarray]:
    discretisation = Discretisation.of(problem, ("x", "y"), {"x": rank, "y": rank})
    nodes = tuple((name, 2 * rank + 16) for name in ("x", "y"))
    start = np.zeros((FUNCTIONS, *discretisation.coefficient_shape()))
    solved = newton(discretisation, nodes, inputs, start, tolerance=1e-8)
    return discretisation, solved.coefficients, solved.norms


def _length(c: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(c**2, axis=tuple(range(1, c.ndim))))


def measure(length: float, equilibrated: bool, rank: int) -> dict[str, Any]:
    problem = _darcy(length, equilibrated)
    with double_precision():
        inputs = problem.sample(jax.random.key(1), FUNCTIONS)
        fine, wanted, norms = _solve(_darcy(length, False), FINE, inputs)
        coarse, c, _ = _solve(problem, rank, inputs)
        errors = _length(prolong(coarse, fine, c) - wanted) / norms
    row: dict[str, Any] = {"length": length, "equilibrated": equilibrated, "rank": rank}
    row["error"] = float(np.mean(errors))
    nodes, key = tuple((name, 2 * rank + 16) for name in ("x", "y")), jax.random.key(2)
    functions = problem.sample(jax.random.key(3), BATCH)
    start = jnp.zeros((BATCH, *coarse.coefficient_shape()))
    exact = None
    for iterations in (60, 10):
        corrector = make_corrector(problem, coarse, nodes, key, steps=10, iterations=iterations, tolerance=1e-3)
        program = OwnProgram(corrector)
        corrected = jax.block_until_ready(program(functions, start))
        began = time.process_time()
        corrected = jax.block_until_ready(program(functions, start))
        row[f"ms_{iterations}"] = 1e3 * (time.process_time() - began) / BATCH
        row[f"solved_{iterations}"] = float(np.mean(corrected.solved))
        solution = np.asarray(corrected.coefficients)
        exact = solution if exact is None else exact
        left = _length(solution - exact) / np.asarray(corrected.norms)
        row[f"left_{iterations}"] = float(np.mean(left))
    return row


def main() -> None:
    rows = []
    for length in (0.25, 0.1):
        for rank in RANKS:
            for equilibrated in (False, True):
                rows.append(measure(length, equilibrated, rank))
                print(rows[-1], flush=True)
                store("rows", {"machine": machine(), "functions": FUNCTIONS, "rows": rows})


if __name__ == "__main__":
    main()
