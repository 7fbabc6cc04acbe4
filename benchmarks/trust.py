"""Can estimated errors be trusted? Coverage, looseness, false claims and costs, inside and outside of the distribution.

    seponet bench trust                      # the paper's problems and the zoo, one process each
    seponet bench trust --only burgers       # one of them
    seponet bench trust --render             # tables, figures and numbers of the docs from what is stored

A cell takes the operator of its problem from `runs/trust` or `runs/zoo` (any recipe), or trains `quick` there,
calibrates it if it is not, and holds what it says against reference solutions that share nothing with the estimates: of
new functions, of functions twice and three times as large, and of half the length scale. Errors are integrals, by
Gauss's rule: sums over a uniform grid with its end points differ from them, by a tenth where an error is largest at the
boundary. Times are processor times of a batch on a uniform grid, after compilation, so that other work on the machine
does not count.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from study import Cell, Study

from seponet.domain import Periodic

FUNCTIONS, SOLVED = 100, 16
"""Functions of each distribution whose errors are estimated, and those of them that are solved to tolerances."""

FEWER = 40
"""Functions of problems with more than two axes."""

RTOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
OUTSIDE = 1e-2
"""The tolerances that solutions are asked for; the one of inputs outside of the distribution."""

SEED = 7_000_004
PROBLEMS = (
    "burgers", "advection", "diffusion_reaction", "nonlinear_diffusion", "heat", "KdV", "Darcy", "FitzHughNagumo",
    "BurgersViscosity", "PoissonBoundary", "Schroedinger", "advection_informed", "Telegraph", "FisherKPP", "AllenCahn",
    "Bratu", "PoissonSource", "Helmholtz", "ShallowWater", "Elasticity", "PoissonSines", "BlackScholes",
    "KuramotoSivashinsky", "AllenCahn2D", "Poisson3D", "HeatAnisotropic",
)  # fmt: skip
"""The most telling ones first."""

DISTRIBUTIONS = ("in", "x2", "x3", "rough")
RUNS = Path(__file__).parent.parent / "runs"
FIGURE = Path(__file__).parent.parent / "docs" / "trust.png"


@dataclass(frozen=True)
class Trust(Cell):
    """One problem."""

    problem: str


def measure(cell: Trust) -> Mapping[str, Any]:
    """The operator of a problem, trained and calibrated, held against references."""
    operator, training = trained(cell.problem)
    if operator.calibration is None:
        raise SystemExit(f"{cell.problem} has no calibration")
    problem = operator.problem
    result: dict[str, Any] = {"training": training, "calibration": operator.calibration.report()}
    for name in DISTRIBUTIONS:
        inputs = drawn(problem, name)
        if inputs is not None:
            result[name] = _judge(operator, inputs, costs=name == "in")
    return result


def trained(name: str) -> tuple[Any, dict[str, Any]]:
    """The operator of a problem, trained if there is none, and where it comes from."""
    from zoo import PROBLEMS as ZOO
    from zoo import address

    import seponet
    from seponet.runs.folder import RunFolder

    own = RUNS / "trust" / name
    folder = next((f for f in (own, *sorted(RUNS.glob(f"zoo/*/{name}"))) if (f / "operator").exists()), own)
    if not (folder / "operator").exists():
        problem = address(name) if name in ZOO else name
        seponet.train(problem, "quick", out=folder, functions=0, figures=False, quiet=True, overwrite=folder.exists())
    operator = seponet.load(folder, trust=True)
    if operator.calibration is None:
        operator = operator.calibrate()
        operator.save(folder / "operator", overwrite=True)
    report = RunFolder(folder).read_report()
    return operator, {"folder": str(folder.relative_to(RUNS)), **{k: report.get(k) for k in ("recipe", "steps")}}


def counted(problem: Any) -> int:
    """How many functions of each distribution are looked at."""
    return FUNCTIONS if len(problem.domain) <= 2 else FEWER


def drawn(problem: Any, distribution: str) -> dict[str, Any] | None:
    """Functions of a distribution; None if its inputs have none that can be scaled, or no length scale."""
    import jax

    from seponet.functions import Functions
    from seponet.functions.space import Expansion

    with jax.enable_x64(False):
        sample = problem.sample(jax.random.key(SEED), counted(problem))
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
                others = finer.sample(jax.random.key(SEED), counted(problem))
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


def quadrature(problem: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Nodes along each axis, as many as the problem's grid has, and the weights of the grid, flattened."""
    points: dict[str, np.ndarray] = {}
    weights, grid = np.ones(1), problem.grid()
    for name, axis in problem.domain.axes:
        count = len(grid[name])
        if isinstance(axis, Periodic):
            points[name], along = axis.lower + axis.length * np.arange(count) / count, np.ones(count)
        else:
            nodes, along = np.polynomial.legendre.leggauss(count)
            points[name] = axis.lower + axis.length * (nodes + 1) / 2
        weights = np.multiply.outer(weights, along).ravel()
    return points, weights


def _errors(solution: Any, exact: Mapping[str, np.ndarray], weights: np.ndarray) -> np.ndarray:
    import xarray as xr

    fields = {solution.name: solution} if isinstance(solution, xr.DataArray) else solution
    gap = sum((_flat(fields[f]) - _flat(v)) ** 2 @ weights for f, v in exact.items())
    size = sum(_flat(v) ** 2 @ weights for v in exact.values())
    return np.sqrt(np.asarray(gap) / np.asarray(size))


def _flat(values: Any) -> np.ndarray:
    array = np.asarray(values, np.float64)
    return array.reshape(len(array), -1)


def _judge(operator: Any, inputs: Any, *, costs: bool) -> dict[str, Any]:
    points, weights = quadrature(operator.problem)
    exact, reference_error = solutions(operator.problem, inputs, points)
    evaluator = operator.compile(**points)
    read, count = operator.read_inputs(inputs)
    predicted = dict(zip(map(str, evaluator.symbols), evaluator.compute(read, count), strict=True))
    truth = _errors({name: predicted[name] for name in exact}, exact, weights)
    # `predict` refuses an answer that is no number, which happens far from what a network was trained on.
    known = np.isfinite(truth)
    found = operator.error(inputs).isel(function=known)
    truth, upper_90, upper_95 = truth[known], found.upper_90.to_numpy(), found.upper_95.to_numpy()
    told = np.isfinite(upper_95)  # an upper value that is infinite says that nothing is known
    row: dict[str, Any] = {
        "functions": len(truth),
        "refused": int(np.sum(~known)),
        "reference_error": reference_error,
        "error": float(np.mean(truth)),
        "coverage_90": float(np.mean(truth <= upper_90)),
        "coverage_95": float(np.mean(truth <= upper_95)),
        "looseness": float(np.median((upper_95 / truth)[told])) if np.any(told) else None,
        "unknown": float(np.mean(~told)),
        "inside": float(np.mean(found.inside.to_numpy())),
        "truth": truth.tolist(),
        "estimate": found.error.to_numpy().tolist(),
        "upper_95": [float(value) if np.isfinite(value) else None for value in upper_95],
        "solve": [],
    }
    few = {name: f[:SOLVED] for name, f in inputs.items()}
    known = {f: v[:SOLVED] for f, v in exact.items()}
    for rtol in RTOLS:
        # A reference can refute what it is more accurate than.
        if rtol > 3 * reference_error and (costs or rtol == OUTSIDE):
            row["solve"].append(_solve(operator, few, points, known, weights, rtol))
    if costs:
        row["costs"] = _costs(operator, inputs, row["error"])
    return row


def _solve(operator: Any, inputs: Any, points: Any, exact: Any, weights: np.ndarray, rtol: float) -> dict[str, Any]:
    solved = operator.solve(inputs, rtol=rtol, **points)
    truth = _errors(solved, exact, weights)
    claimed = solved.error.to_numpy() <= rtol
    return {
        "rtol": rtol,
        "done": solved.done.to_numpy().tolist(),
        "claims": int(np.sum(claimed)),
        "false": int(np.sum(claimed & (truth > rtol))),
        "worst": float(np.max(np.where(claimed, truth / rtol, 0.0))),
        "error": solved.error.to_numpy().tolist(),
        "truth": truth.tolist(),
    }


def _costs(operator: Any, inputs: Any, error: float) -> dict[str, Any]:
    """Processor milliseconds for a function: prediction, with its estimate, `solve` at ten times the mean error; the
    correction of a function to the mean error, from the network's answer and from zero; and the problem's solver."""
    points: dict[str, Any] = operator.problem.grid()
    count = counted(operator.problem)
    rtol = min(10 * error, 0.5)
    actions: dict[str, Callable[[], Any]] = {
        "predict": lambda: operator.predict(inputs, **points),
        "predict_with_error": lambda: operator.predict(inputs, error=True, **points),
        "solve_at_ten_times_the_error": lambda: operator.solve(inputs, rtol=rtol, **points),
    }
    costs: dict[str, Any] = {name: 1e3 * _fastest(action) / count for name, action in actions.items()}
    costs["accepted_at_ten_times_the_error"] = operator.solve(inputs, rtol=rtol, **points).attrs["network"] / count
    few = {name: f[:SOLVED] for name, f in inputs.items()}
    for name, action in _corrections(operator, few, float(np.clip(error, 1e-5, 0.1))).items():
        costs[name] = 1e3 * _fastest(action, 1) / SOLVED
    return costs | _tailored(operator.problem, few, points, error)


def _corrections(operator: Any, inputs: Any, rtol: float) -> dict[str, Callable[[], Any]]:
    """The same ladder, from the network's answer and from the lift alone."""
    from seponet._precision import double_precision, to_double
    from seponet.operator.calibrate import network_coefficients
    from seponet.operator.climb import climb
    from seponet.operator.solving import UNSEEN

    estimator = operator._estimator
    complete = operator.read_inputs(inputs)[0]
    coefficients = network_coefficients(operator.model, complete)

    def correct(zero: bool) -> None:
        with double_precision():
            functions = to_double(dict(complete))
            needs = estimator.needs(functions, np.zeros(SOLVED, bool), UNSEEN * rtol)
            start = estimator.start(functions, coefficients)
            climb(estimator.ladder, needs, functions, 0 * start if zero else start, rtol)

    return {"correct": lambda: correct(False), "correct_from_zero": lambda: correct(True)}


def _tailored(problem: Any, inputs: Any, points: Any, error: float) -> dict[str, Any]:
    """The problem's own solver at the coarsest resolution, halved again and again, that is as accurate."""
    if not problem.has_reference:
        return {}
    finest, best = problem.reference_resolution, None
    exact: dict[str, np.ndarray] = {}
    weights = np.ones(int(np.prod([len(along) for along in points.values()])))
    for resolution in [None] if finest is None else [finest // 2**i for i in range(5) if finest // 2**i >= 8]:
        more = () if resolution is None else (resolution,)
        try:
            solved = problem.reference_solution(inputs, points, *more)
        except (ValueError, ArithmeticError):  # too coarse for this solver
            break
        exact = exact or solved
        if best is not None and not np.mean(_errors(_labelled(solved), exact, weights)) <= error:
            break
        best = 1e3 * _fastest(lambda m=more: problem.reference_solution(inputs, points, *m), 1) / SOLVED
    return {"tailored": best}


def _labelled(fields: Mapping[str, np.ndarray]) -> Any:
    import xarray as xr

    return xr.Dataset({f: (("function", *(f"{f}{i}" for i in range(v.ndim - 1))), v) for f, v in fields.items()})


def _fastest(action: Callable[[], Any], repeats: int = 3) -> float:
    """The least processor time, after one call that compiles."""
    action()
    times: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


def render() -> None:
    """`tables/trust.md`, `docs/trust.png`, and the numbers of the documents, from what is stored."""
    outcomes = {outcome.cell["problem"]: outcome for outcome in STUDY.finished().values()}
    measured = {name: outcome.result for name, outcome in outcomes.items() if outcome.measured}
    if measured:
        import render as documents
        from trust_figure import draw
        from trust_tables import write

        documents.write()
        write(measured, {n: o.result["reason"] for n, o in outcomes.items() if o.status == "failed"})
        draw(measured, FIGURE)


sys.path.insert(0, str(Path(__file__).parent))
STUDY = Study("trust", [Trust(name) for name in PROBLEMS], measure, __file__, limit=5400.0)

if __name__ == "__main__":
    sys.exit(STUDY.main(render=render))
