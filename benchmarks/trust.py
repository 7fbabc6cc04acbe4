"""Can estimated errors be trusted? Coverage, looseness, false claims and costs, inside and outside of the distribution.

    seponet bench trust                      # the paper's problems and the zoo, one process each
    seponet bench trust --only burgers       # one of them
    seponet bench trust --render             # tables and figures from what is stored

A cell trains the general or the problem's `quick` recipe once (kept in the cache of the test sets), calibrates it, and
holds what it says against reference solutions that share nothing with the estimates: of new functions, of functions
twice and three times as large, and of half the length scale. Times are of a batch, after compilation.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from results import RESULTS
from study import Cell, Study

FUNCTIONS, SOLVED = 30, 8
"""Functions of each distribution whose errors are estimated, and those of them that are solved to tolerances."""

RTOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
OUTSIDE = 1e-2
"""The tolerances that solutions are asked for; the one of inputs outside of the distribution."""

SEED = 7_000_004
PAPER = ("diffusion_reaction", "burgers", "advection", "heat", "nonlinear_diffusion", "advection_informed")
ZOO = (
    "FisherKPP", "Darcy", "KdV", "Bratu", "Telegraph", "PoissonSource", "Helmholtz", "BurgersViscosity", "AllenCahn",
    "ShallowWater", "FitzHughNagumo", "Elasticity", "PoissonBoundary", "PoissonSines", "Schroedinger", "BlackScholes",
    "KuramotoSivashinsky", "AllenCahn2D", "Poisson3D", "HeatAnisotropic",
)  # fmt: skip
DISTRIBUTIONS = ("in", "x2", "x3", "rough")
NAMES = {"in": "as trained", "x2": "twice as large", "x3": "three times", "rough": "half the length scale"}


@dataclass(frozen=True)
class Trust(Cell):
    """One problem."""

    problem: str


def measure(cell: Trust) -> Mapping[str, Any]:
    """The operator of a problem, trained and calibrated, held against references."""
    operator, training = trained(cell.problem)
    if operator.calibration is None:
        raise SystemExit(f"{cell.problem} has no calibration")
    calibration = operator.calibration
    result: dict[str, Any] = {"training_seconds": training, "calibration": calibration.report()}
    problem = operator.problem
    points: dict[str, Any] = problem.grid()
    for name in DISTRIBUTIONS:
        inputs = drawn(problem, name)
        if inputs is None:
            continue
        exact, reference_error = solutions(problem, inputs, points)
        result[name] = _judge(operator, inputs, points, exact, reference_error, costs=name == "in")
    return result


def trained(name: str) -> tuple[Any, float | None]:
    """The operator, from the cache if it was trained before, and how long that took."""
    from zoo import PROBLEMS, address

    import seponet
    from seponet.evaluation.testset import cache_folder
    from seponet.runs.folder import RunFolder

    folder = cache_folder() / "trust" / name
    if not (folder / "operator").exists():
        problem = address(name) if name in PROBLEMS else name
        seponet.train(problem, "quick", out=folder, functions=0, figures=False, quiet=True, overwrite=folder.exists())
    operator = seponet.load(folder)
    if operator.calibration is None:
        operator = operator.calibrate()
        operator.save(folder / "operator", overwrite=True)
    return operator, RunFolder(folder).read_report().get("training_seconds")


def drawn(problem: Any, distribution: str) -> dict[str, Any] | None:
    """Functions of a distribution; None if its inputs have none that can be scaled, or no length scale."""
    import jax

    from seponet.functions import Functions
    from seponet.functions.space import Expansion

    with jax.enable_x64(False):
        sample = problem.sample(jax.random.key(SEED), FUNCTIONS)
        inputs: dict[str, Any] = {name: sample[name] for name in problem.inputs}
        if distribution == "in":
            return inputs
        changed = False
        for name, functions in inputs.items():
            space = functions.space
            if distribution == "rough":
                finer = _rougher(space)
                if finer is None:
                    continue
                others = finer.sample(jax.random.key(SEED), FUNCTIONS)
                size, theirs = (float(np.sqrt(np.mean(np.square(_values(f))))) for f in (functions, others))
                others = Functions(finer, jax.tree.map(lambda leaf, r=size / theirs: r * leaf, others.parameters))
                inputs[name], changed = others, True
            elif isinstance(space, Expansion):
                factor = float(distribution[1:])
                inputs[name] = Functions(space, jax.tree.map(lambda leaf, r=factor: r * leaf, functions.parameters))
                changed = True
    return inputs if changed else None


def _rougher(space: Any) -> Any:
    if hasattr(space, "length_scale") and isinstance(space.length_scale, int | float):
        return dataclasses.replace(space, length_scale=space.length_scale / 2)
    return dataclasses.replace(space, tau=2 * space.tau) if hasattr(space, "tau") else None


def _values(functions: Any) -> np.ndarray:
    return np.asarray(functions(functions.space.sensors(64 if len(functions.space.domain) == 1 else 24)))


def solutions(problem: Any, inputs: Any, points: Any) -> tuple[dict[str, np.ndarray], float]:
    """Reference solutions on a grid and their error: the problem's own, or the library's discretisation."""
    from seponet.discretise import solve_functions
    from seponet.reference import relative_l2

    if not problem.has_reference:
        solved = solve_functions(problem, inputs, 1e-4)
        return {f: solved(points, f) for f in problem.fields}, float(np.max(solved.errors))
    exact = problem.reference_solution(inputs, points)
    resolution = problem.reference_resolution
    if resolution is None:
        return exact, 0.0
    few = {name: f[:2] for name, f in inputs.items()}
    coarse = problem.reference_solution(few, points, resolution // 2)
    # Half the resolution differs from the whole one by more than the whole one from the truth.
    return exact, float(max(np.max(relative_l2(coarse[f], exact[f][:2])) for f in problem.fields)) / 3


def _errors(solution: Any, exact: Mapping[str, np.ndarray]) -> np.ndarray:
    import xarray as xr

    fields = solution if isinstance(solution, xr.Dataset) else {solution.name: solution}
    gap = sum(np.sum((_flat(fields[f]) - _flat(v)) ** 2, axis=1) for f, v in exact.items())
    size = sum(np.sum(_flat(v) ** 2, axis=1) for v in exact.values())
    return np.sqrt(np.asarray(gap) / np.asarray(size))


def _flat(values: Any) -> np.ndarray:
    array = np.asarray(values, np.float64)
    return array.reshape(len(array), -1)


def _judge(operator: Any, inputs: Any, points: Any, exact: Any, reference_error: float, *, costs: bool) -> Any:
    truth = _errors(operator.predict(inputs, **points), exact)
    found = operator.error(inputs)
    upper_90, upper_95 = found.upper_90.to_numpy(), found.upper_95.to_numpy()
    row: dict[str, Any] = {
        "functions": len(truth),
        "reference_error": reference_error,
        "error": float(np.mean(truth)),
        "coverage_90": float(np.mean(truth <= upper_90)),
        "coverage_95": float(np.mean(truth <= upper_95)),
        "looseness": float(np.median(upper_95 / truth)),
        "inside": float(np.mean(found.inside.to_numpy())),
        "truth": truth.tolist(),
        "estimate": found.error.to_numpy().tolist(),
        "upper_95": upper_95.tolist(),
        "solve": [],
    }
    few = {name: f[:SOLVED] for name, f in inputs.items()}
    known = {f: v[:SOLVED] for f, v in exact.items()}
    for rtol in RTOLS:
        # A reference can refute what it is more accurate than.
        if rtol > 3 * reference_error and (costs or rtol == OUTSIDE):
            row["solve"].append(_solve(operator, few, points, known, rtol))
    if costs:
        row["costs"] = _costs(operator, inputs, points, float(np.mean(truth)))
    return row


def _solve(operator: Any, inputs: Any, points: Any, exact: Any, rtol: float) -> dict[str, Any]:
    began = time.perf_counter()
    solved = operator.solve(inputs, rtol=rtol, **points)
    first = time.perf_counter() - began
    truth = _errors(solved, exact)
    claimed = solved.error.to_numpy() <= rtol
    return {
        "rtol": rtol,
        "first_seconds": first,
        "seconds": float(np.mean(solved.seconds.to_numpy())),
        "done": solved.done.to_numpy().tolist(),
        "claims": int(np.sum(claimed)),
        "false": int(np.sum(claimed & (truth > rtol))),
        "worst": float(np.max(np.where(claimed, truth / rtol, 0.0))),
        "truth": truth.tolist(),
    }


def _costs(operator: Any, inputs: Any, points: Any, error: float) -> dict[str, float]:
    """Milliseconds for a function: prediction, with its estimate, and `solve` at ten times the mean error."""
    count = FUNCTIONS
    rtol = min(10 * error, 0.5)
    actions: dict[str, Callable[[], Any]] = {
        "predict": lambda: operator.predict(inputs, **points),
        "predict_with_error": lambda: operator.predict(inputs, error=True, **points),
        "solve_at_ten_times_the_error": lambda: operator.solve(inputs, rtol=rtol, **points),
    }
    costs = {name: 1e3 * _fastest(action) / count for name, action in actions.items()}
    few = {name: f[:SOLVED] for name, f in inputs.items()}
    level = float(np.clip(error, 1e-5, 0.1))
    costs["solve_at_the_error"] = 1e3 * _fastest(lambda: operator.solve(few, rtol=level, **points), 1) / SOLVED
    costs["solve_from_zero"] = 1e3 * _fastest(lambda: _from_zero(operator, few, level), 1) / SOLVED
    return costs


def _from_zero(operator: Any, inputs: Any, rtol: float) -> None:
    """The same ladder, started from the lift instead of the network's answer."""
    from seponet._precision import double_precision
    from seponet.discretise.bandwidth import bandwidths
    from seponet.operator.error import ErrorEstimator
    from seponet.operator.gauss_newton import to_double
    from seponet.operator.ladder import Ladder, climb
    from seponet.operator.nodes import rounded

    base = ErrorEstimator(operator.model, operator.calibration).base()
    with double_precision():
        functions = to_double(dict(operator.problem.complete(inputs)))
        needs = [rounded(need) for need in bandwidths(functions, 1e-5)]
        climb(Ladder(base, needs), functions, np.zeros((SOLVED, *base.coefficient_shape())), rtol)


def _fastest(action: Callable[[], Any], repeats: int = 3) -> float:
    action()
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def render(study: Study[Trust]) -> None:
    """`tables/trust.md` and `results/trust.png`, from what is stored."""
    outcomes = {outcome.cell["problem"]: outcome for outcome in study.finished().values()}
    measured = {name: outcome.result for name, outcome in outcomes.items() if outcome.measured}
    if measured:
        from trust_figure import draw
        from trust_tables import write

        write(measured, {n: o.result["reason"] for n, o in outcomes.items() if o.status == "failed"})
        draw(measured, RESULTS.parent.parent / "docs" / "trust.png")


sys.path.insert(0, str(Path(__file__).parent))
STUDY = Study("trust", [Trust(name) for name in (*PAPER, *ZOO)], measure, __file__, limit=1200.0)

if __name__ == "__main__":
    sys.exit(STUDY.main(render=lambda: render(STUDY)))
