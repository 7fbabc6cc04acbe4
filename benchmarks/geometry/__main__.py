"""Domains that are no boxes: discretisations, solutions to 1e-3 and networks, against finite elements (scikit-fem).

    seponet bench geometry                     # all seven domains without networks, stored in results/geometry/
    seponet bench geometry --only Star
    seponet bench geometry --train             # the general recipe, untouched, and what `solve` makes of it
    python benchmarks/render.py                # the table in docs/geometry.md, from what is stored

References are isoparametric biquadratic elements; what is stored
as their error is their distance to those of a mesh with half as many cells along each side.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from results import RESULTS, machine, store

from geometry.domains import PROBLEMS
from geometry.fem import Reference, case, solve
from seponet import Points
from seponet._precision import double_precision, to_double
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.discretise.level import Level
from seponet.discretise.resolution import resolve
from seponet.equations.symbols import Symbol
from seponet.operator.calibrate import network_coefficients
from seponet.operator.placement import invert
from seponet.operator.solving import solve_to
from seponet.runs.config import RunConfig
from seponet.runs.train import run

FUNCTIONS, CELLS, SEED = 8, 48, 11
TOLERANCE, RECIPE = 1e-3, "quick"


def references(problem: Any, inputs: Any, cells: int) -> list[Reference]:
    """The solution of each function by finite elements."""
    rows = [{name: f[i : i + 1] for name, f in inputs.items()} for i in range(FUNCTIONS)]
    with double_precision():
        return [solve(case(type(problem).__name__, row), cells) for row in rows]


def level_errors(inputs: Any, level: Level, exact: list[Reference]) -> np.ndarray:
    """The true errors of the solutions of a discretisation, at the nodes of the elements."""
    errors = []
    with double_precision():
        for i, reference in enumerate(exact):
            one = {name: f[i : i + 1] for name, f in inputs.items()}
            c = jnp.asarray(level.solved.coefficients[i : i + 1])
            found = values_at(level.discretisation, one, c, jnp.asarray(reference.x), jnp.asarray(reference.y))
            errors.append(reference.error(on_nodes(np.asarray(found), reference)))
    return np.asarray(errors)


@eqx.filter_jit
def values_at(model: Any, inputs: Any, c: Any, x: Any, y: Any) -> Any:
    """A solution at points by their coordinates, NaN outside: what `PointEvaluator` does, compiled once for all."""
    chart, symbol = model.problem.chart, Symbol("field", "s")
    box, inside = invert(chart, inputs, {"x": x, "y": y})
    where = Points.of(model.problem.domain, {name: box[name] for name in model.problem.domain})
    return jnp.where(inside, evaluate(FixedCoefficients(model, c), inputs, where, [symbol])[symbol][0], jnp.nan)


def on_nodes(values: np.ndarray, reference: Reference) -> np.ndarray:
    """Values at the nodes; a node on the wall that rounding has put outside takes the wall's own value."""
    outside = np.isnan(values)
    if np.mean(outside) > 0.05:
        raise SystemExit(f"{np.mean(outside):.1%} of the nodes are not found in the domain")
    return np.where(outside, reference.values, values)


def measure(name: str, train: bool) -> dict[str, Any]:
    problem = PROBLEMS[name]()
    with double_precision():
        inputs = problem.sample(jax.random.key(SEED), FUNCTIONS)
    fine, coarse = references(problem, inputs, CELLS), references(problem, inputs, CELLS // 2)
    row: dict[str, Any] = {"problem": name, "functions": FUNCTIONS, "cells": CELLS}
    row["reference_error"] = reference_error(fine, coarse)
    path = RESULTS / "geometry" / f"{name}.json"
    if train and path.exists():  # the discretisation was measured before
        row |= {k: v for k, v in json.loads(path.read_text()).items() if k != "machine"}
        row["network"] = measure_network(problem, inputs, fine)
        return row
    began = time.perf_counter()
    resolution = resolve(problem, inputs, TOLERANCE, progress=print)
    row |= {
        "ranks": resolution.ranks,
        "nodes": resolution.nodes,
        "announced": float(np.max(resolution.errors)),
        "seconds": time.perf_counter() - began,
    }
    true = level_errors(inputs, resolution.coarse, fine)
    finer = level_errors(inputs, resolution.fine, fine)
    row |= {"mean": float(np.mean(true)), "largest": float(np.max(true))}
    row |= {"solve_mean": float(np.mean(finer)), "solve_largest": float(np.max(finer))}
    return row


def reference_error(fine: list[Reference], coarse: list[Reference]) -> float:
    """The largest relative difference of two nested meshes at the nodes that both have: the coarser one's error, of
    which the finer one has a fifth or less."""
    differences = []
    for first, second in zip(fine, coarse, strict=True):
        values = {tuple(at): value for at, value in zip(first.box.round(9).T, first.values, strict=True)}
        common = np.array([values[tuple(at)] for at in second.box.round(9).T])
        differences.append(second.error(common))
    return float(np.max(differences))


def measure_network(problem: Any, inputs: Any, exact: list[Reference]) -> dict[str, Any]:
    """The general recipe, and solutions to 1e-3. Fitting seconds are those that the recipe asks for, trained seconds
    those from the start to the last step, with the choice of ranks, solving, compilation and validation; processor
    seconds are of all that `train` does, calibration included."""
    began = time.perf_counter(), time.process_time()
    outcome = run(RunConfig.make(type(problem), RECIPE, 0, {}))
    seconds, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    operator, trained = outcome.operator, outcome.trained
    assert trained is not None
    errors, solved = [], []
    coefficients = network_coefficients(operator.model, inputs)
    answer = solve_to(operator._estimator, operator.read_inputs(inputs)[0], FUNCTIONS, TOLERANCE, 2**29)
    for i, reference in enumerate(exact):
        one = {name: f[i : i + 1] for name, f in inputs.items()}
        with double_precision():
            at = jnp.asarray(reference.x), jnp.asarray(reference.y)
            c = jnp.asarray(np.asarray(coefficients[i : i + 1], np.float64))
            found = values_at(operator.model.discretisation, to_double(one), c, *at)
        errors.append(reference.error(on_nodes(np.asarray(found), reference)))
    solved = list(errors)
    for rows, level in answer.parts:
        part = {name: f[rows] for name, f in inputs.items()}
        for row, error in zip(rows, level_errors(part, level, [exact[r] for r in rows]), strict=True):
            solved[row] = error
    return {
        "recipe": RECIPE,
        "steps": trained.steps,
        "fitting_seconds": trained.history[-1]["seconds"] - trained.history[0]["seconds"],
        "trained_seconds": trained.seconds,
        "seconds": seconds,
        "processor_seconds": processor,
        "verdict": outcome.verdict.reason,
        "mean": float(np.mean(errors)),
        "largest": float(np.max(errors)),
        "solve_mean": float(np.mean(solved)),
        "solve_largest": float(np.max(solved)),
        "solve_announced": float(np.max(answer.errors)),
        "corrected": int(sum(len(rows) for rows, _ in answer.parts)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*PROBLEMS], default=[*PROBLEMS])
    parser.add_argument("--train", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.only:
        row = measure(name, arguments.train)
        print(row, flush=True)
        store(f"geometry/{name}", {**row, "machine": machine()})


if __name__ == "__main__":
    main()
