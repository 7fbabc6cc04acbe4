"""Other people's PDEs: each file is short, and its reference solves what the file says, on its own evidence."""

import os
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev

from seponet import Grid, Problem
from seponet.derivatives import order_along
from seponet.reference import relative_l2
from seponet.runs.problems import make_problem

FOLDER = Path(__file__).parent.parent / "benchmarks" / "zoo"
PROBLEMS = runpy.run_path(str(FOLDER / "__init__.py"))["PROBLEMS"]
NODES, WIDTH = 11, 0.015
"""Points along each axis of a patch on which a reference is taken as a polynomial, and its share of the axis."""


@cache
def load(name: str) -> Problem:
    return make_problem(str(FOLDER / PROBLEMS[name]))


@cache
def inputs(name: str):
    return load(name).sample(jax.random.key(5), 2)


each = pytest.mark.parametrize("name", PROBLEMS)


def test_twenty_problems_are_registered_and_no_file_is_forgotten():
    files = {path.name for path in FOLDER.glob("*.py") if not path.name.startswith("_")}
    assert {address.partition(":")[0] for address in PROBLEMS.values()} == files
    assert len(PROBLEMS) == 20


@each
def test_a_problem_is_one_class_in_at_most_thirty_lines(name):
    file, _, kind = PROBLEMS[name].partition(":")
    assert kind == name == type(load(name)).__name__
    # Without a name: there is exactly one problem in the file.
    assert make_problem(str(FOLDER / file)) == load(name)
    lines = (FOLDER / file).read_text().splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 120


def test_a_file_of_the_zoo_works_from_any_folder_and_imports_what_is_beside_it(tmp_path):
    command = [sys.executable, "-m", "seponet", "reference", str(FOLDER / "kdv.py:KdV"), "--functions", "2"]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1]), "SEPONET_CACHE": str(tmp_path)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert "2 test functions of KdV" in shown
    assert float(shown.split("reference: ")[1].split(" ")[0]) < 1e-6


def test_the_benchmark_measures_a_reference(tmp_path):
    command = [sys.executable, str(FOLDER), "--references", "Telegraph", "--functions", "2"]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert "'problem': 'Telegraph', 'functions': 2" in shown


def patch(problem: Problem, **sides: float) -> dict[str, np.ndarray]:
    """Chebyshev points along each axis, near its middle, or inwards from one of its `sides`."""
    points = {}
    unit = (1 - np.cos(np.pi * np.arange(NODES) / (NODES - 1))) / 2
    for name, axis in problem.domain.axes:
        start = 0.4 if name not in sides else 0.0 if sides[name] == axis.lower else 1 - WIDTH
        points[name] = axis.lower + axis.length * (start + WIDTH * unit)
        if name in sides:
            # To the last digit: solvers treat a face itself specially.
            points[name][0 if start == 0 else -1] = sides[name]
    return points


def differentiate(values: np.ndarray, x: np.ndarray, axis: int, order: int) -> np.ndarray:
    """A derivative of the polynomial through `values` at the points x, along one axis."""
    unit = 2 * (x - x[0]) / (x[-1] - x[0]) - 1
    flat = np.moveaxis(values, axis, 0).reshape(NODES, -1)
    coefficients = np.linalg.solve(chebyshev.chebvander(unit, NODES - 1), flat)
    derivative = chebyshev.chebder(coefficients, order, 2 / (x[-1] - x[0])) if order else coefficients
    table = chebyshev.chebvander(unit, derivative.shape[0] - 1) @ derivative
    return np.moveaxis(table.reshape(NODES, *np.delete(values.shape, axis)), 0, axis)


def solve(name: str, points) -> dict[str, np.ndarray]:
    return load(name).reference_solution(inputs(name), points)


@cache
def solve_beside(name: str, axis: str, side: float):
    """A patch beside a face, and the reference there: several conditions may share it."""
    points = patch(load(name), **{axis: side})
    return points, solve(name, points)


def evaluate(name: str, symbols, points, solution):
    """The values of symbols, fields from a reference."""
    problem = load(name)
    where = Grid.of(problem.domain, {axis: jnp.asarray(x) for axis, x in points.items()})
    values = {}
    for symbol in symbols:
        if symbol.kind != "field":
            values[symbol] = symbol.evaluate(inputs(name), where)
            continue
        value = solution[symbol.name]
        for i, axis in enumerate(problem.domain):
            value = differentiate(value, points[axis], 1 + i, order_along(symbol.alpha, axis))
        values[symbol] = jnp.asarray(value)
    return values


@each
def test_a_reference_satisfies_its_equations(name):
    problem, points = load(name), patch(load(name))
    solution = solve(name, points)
    for term in problem.equations:
        expression = term.expression
        values = evaluate(name, expression.symbols, points, solution)
        # Away from the ends of the patch, where derivatives of a polynomial are worst.
        inner = (..., *(slice(2, -2),) * len(points))
        residual = np.asarray(expression(values))[inner]
        # What the terms amount to, whatever their coefficients: the change by each symbol's share.
        shares = []
        for symbol in expression.fields:

            def along(value, symbol=symbol, expression=expression, values=values):
                return expression({**values, symbol: value})

            shares.append(jax.jvp(along, (values[symbol],), (values[symbol],))[1][inner])
        scale = np.sqrt(np.mean(sum(np.abs(share) for share in shares) ** 2))
        assert np.sqrt(np.mean(residual**2)) < 1e-3 * scale, term.name


@each
def test_a_reference_satisfies_its_conditions(name):
    problem = load(name)
    assert not problem.free_conditions
    for condition in problem.linear_conditions:
        points, solutions = solve_beside(name, condition.axis, condition.trace.at)
        solution = solutions[condition.field]
        i = 1 + problem.domain.names.index(condition.axis)
        orders = [differentiate(solution, points[condition.axis], i, m) for m in range(len(condition.trace.weights))]
        side = 0 if condition.trace.at == points[condition.axis][0] else -1
        weighted = [w * np.take(d, [side], i) for w, d in zip(condition.trace.weights, orders, strict=True)]
        traced = np.sum(weighted, axis=0)
        at = {**points, condition.axis: points[condition.axis][[side]]}
        data = condition.data(evaluate(name, condition.data.symbols, at, {}))
        # Against the size of the same derivatives inside of the patch, which are those of a polynomial.
        scale = max(np.abs(d).max() for w, d in zip(condition.trace.weights, orders, strict=True) if w)
        tolerance = 1e-5 if len(orders) == 1 else 1e-3
        np.testing.assert_allclose(traced, np.broadcast_to(data, traced.shape), atol=tolerance * scale, rtol=0)
    for axis in (axis for axis, interval in problem.domain.axes if interval.periodic):
        points = patch(problem)
        points[axis] = np.array([problem.domain.axis(axis).lower, problem.domain.axis(axis).upper])
        for solution in solve(name, points).values():
            ends = np.moveaxis(solution, 1 + problem.domain.names.index(axis), 0)
            np.testing.assert_allclose(*ends, atol=1e-12 * np.abs(solution).max())


@each
def test_a_reference_is_converged(name):
    problem = load(name)
    if problem.reference_resolution is None:
        return
    points = {axis: x[:: len(x) // 5] for axis, x in problem.grid().items()}
    coarse, fine = (problem.reference_solution(inputs(name), points, n * problem.reference_resolution) for n in (1, 2))
    for field in problem.fields:
        assert relative_l2(coarse[field], fine[field]).max() < 1e-5


def test_an_easy_function_waits_for_a_hard_one_of_its_batch():
    """Contrasts of 1 and of about 1e8: one needs a handful of iterations, the other hundreds."""
    darcy = load("Darcy")
    points = {"x": np.linspace(0, 1, 5), "y": np.linspace(0, 1, 5)}
    drawn = inputs("Darcy")["u"][:1]
    scaled = [jax.tree.map(lambda leaf, r=r: r * leaf, drawn) for r in (0.0, 4.0)]
    both = jax.tree.map(lambda *parts: jnp.concatenate(parts), *scaled)
    alone = [darcy.reference_solution({"u": f}, points, 20)["s"] for f in scaled]
    together = darcy.reference_solution({"u": both}, points, 20)["s"]
    assert np.all(relative_l2(np.concatenate(alone), together) < 1e-8)
