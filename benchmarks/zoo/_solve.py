"""What the zoo measures of the solver: the discretisation that it chooses, the announced error and the true one."""

import time
from typing import Any

import jax
import numpy as np

from seponet._precision import double_precision
from seponet.calculus.compatibility import choose_exact
from seponet.discretise import Solution, solve_functions
from seponet.discretise.level import solve_level
from seponet.evaluation.errors import compare
from seponet.evaluation.testset import draw_functions
from seponet.runs.problems import make_problem
from zoo import address

Row = dict[str, Any]


def measure_solve(name: str, functions: int, tolerance: float) -> Row:
    """Unseen functions solved to a tolerance, held against the reference.

    `setup_seconds` is all that the first call takes, compilation and the choice of the discretisation included;
    `seconds_per_function` is what one more function costs on the chosen discretisation, and the reference's beside it.
    """
    problem = make_problem(address(name))
    inputs, points = draw_functions(problem, "test", functions), problem.grid()
    exact, contradictions = choose_exact(problem, inputs)
    began = time.perf_counter()
    solution = solve_functions(problem, inputs, tolerance, exact=exact)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    reference = problem.reference_solution(inputs, points)
    reference_seconds = time.perf_counter() - began
    errors = compare({field: solution(points, field) for field in problem.fields}, reference).relative_l2
    resolution = solution.resolution
    row = {
        "problem": name,
        "functions": functions,
        "tolerance": tolerance,
        "exact": list(exact),
        "contradictions": len(contradictions),
        "ranks": dict(solution.level.discretisation.ranks),
        "nodes": dict(solution.level.nodes),
        "method": solution.level.solved.method,
        "announced_mean": float(np.mean(solution.errors)),
        "announced_max": float(np.max(solution.errors)),
        "true_mean": float(np.mean(errors)),
        "true_max": float(np.max(errors)),
        "worst_ratio": float(np.max(errors / solution.errors)),
        "reached": int(np.sum(solution.reached)),
        "reason": solution.reason,
        "kinks": [str(kink) for kink in resolution.kinks],
        "setup_seconds": resolution.seconds,
        "seconds": seconds,
        "seconds_per_function": _again(solution, functions, tolerance),
        "reference_seconds_per_function": reference_seconds / functions,
    }
    # Programs of twenty problems would not fit in memory.
    jax.clear_caches()
    return row


def _again(solution: Solution, functions: int, tolerance: float) -> float:
    """Seconds for a function on the chosen discretisation, everything being compiled: the second of two calls."""
    level, shared = solution.level, solution.resolution.shared
    seconds = 0.0
    with double_precision():
        for _ in range(2):
            began = time.perf_counter()
            arguments = level.discretisation, level.nodes, solution.inputs, functions, None, 1e-3 * tolerance
            solve_level(*arguments, shared=shared)
            seconds = (time.perf_counter() - began) / functions
    return seconds
