"""The six problems: registered, well posed, and solved by their references."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Grid, nn
from seponet.calculus.evaluate import residuals
from seponet.problems import PROBLEMS, Burgers, NavierStokes, find_problem, name_of
from seponet.problems.published import paper_reference
from seponet.reference import relative_l2

KEY = jax.random.key(0)
NAMES = list(PROBLEMS)


def few_points(problem, count=9):
    return {name: np.linspace(axis.lower, axis.upper, count) for name, axis in problem.domain.axes}


@pytest.mark.parametrize("name", NAMES)
def test_the_registry_knows_its_problems(name):
    problem = find_problem(name)()
    assert name_of(problem) == name
    assert type(problem).__doc__
    assert problem.has_reference
    assert problem.reference_resolution


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'burgers'"):
        find_problem("Burger")


def test_constants_belong_to_the_instance():
    assert Burgers(nu=0.02) != Burgers()
    assert NavierStokes(duration=1.0).domain.axis("t").upper == 1.0
    assert repr(Burgers(nu=0.02)) == "Burgers(nu=0.02)"


@pytest.mark.parametrize("name", NAMES)
def test_grid_equals_points(name):
    problem = PROBLEMS[name]()
    small: dict[str, Any] = {
        "rank": 3,
        "trunk_width": 6,
        "trunk_depth": 1,
        "branch_width": 6,
        "branch_depth": 1,
        "sensors": 6,
    }
    model = nn.build(problem, exact="all", wavenumbers=2, key=KEY, **small)
    counts = (5, 7, 4)
    points = {
        axis: jnp.linspace(interval.lower, interval.upper, n + 2)[1:-1]
        for n, (axis, interval) in zip(counts, problem.domain.axes, strict=False)
    }
    grid = Grid.of(problem.domain, points)
    inputs = problem.sample(KEY, 2)
    evaluate = eqx.filter_jit(residuals)
    on_grid, at_points = evaluate(model, inputs, grid), evaluate(model, inputs, grid.mesh())
    for term, values in on_grid.items():
        scale = float(jnp.max(jnp.abs(values))) + 1.0
        np.testing.assert_allclose(values.reshape(2, -1), at_points[term], atol=1e-10 * scale)


# The smallest resolution at which the solution is as close to its refinement as the tolerance says.
CASES = {
    "diffusion_reaction": (64, 1e-4),
    "advection": (48, 1e-4),
    "advection_informed": (48, 1e-4),
    "burgers": (128, 1e-4),
    "nonlinear_diffusion": (32, 5e-3),
    "heat": (128, 1e-6),
    "navier_stokes": (64, 2e-2),
}


@pytest.mark.parametrize("name", NAMES)
def test_references_satisfy_their_conditions_and_converge(name):
    problem = PROBLEMS[name]()
    inputs = problem.sample(jax.random.key(3), 2)
    points = few_points(problem)
    resolution, tolerance = CASES[name]
    coarse, fine = (problem.reference(inputs, points, n) for n in (resolution, 2 * resolution))
    assert set(coarse) == set(problem.fields)
    for field in problem.fields:
        assert coarse[field].shape == (2, *(9 for _ in problem.domain))
        assert np.all(relative_l2(coarse[field], fine[field]) < tolerance)
    grid = Grid.of(problem.domain, {axis: jnp.asarray(p) for axis, p in points.items()})
    for condition in problem.linear_conditions:
        if condition.axis == "t" and condition.trace.weights == (1.0,):
            symbols = {
                s: inputs[s.name](grid.fix("t", 0.0), s.alpha) if s.kind == "input" else grid.coordinate(s.name)
                for s in condition.data.symbols
            }
            expected = np.broadcast_to(condition.data(symbols), (2, 1, *(9 for _ in list(problem.domain)[1:])))
            np.testing.assert_allclose(fine[condition.field][:, :1], expected, atol=2e-6)


def test_the_slope_that_the_equation_implies_is_that_of_the_reference():
    problem = PROBLEMS["navier_stokes"]()
    inputs, step = problem.sample(jax.random.key(3), 2), 1e-3
    points = {**few_points(problem), "t": step * np.arange(3)}
    found = problem.reference(inputs, points, 128)
    grid = Grid.of(problem.domain, {axis: jnp.asarray(p) for axis, p in points.items()}).fix("t", 0.0)
    implied = [c for c in problem.linear_conditions if c.implied]
    assert [c.field for c in implied] == ["p", "q"]
    for condition in implied:
        expected = condition.data({s: inputs[s.name](grid, s.alpha) for s in condition.data.symbols})[:, 0]
        start, middle, end = np.moveaxis(found[condition.field], 1, 0)
        slope = (4 * middle - 3 * start - end) / (2 * step)
        assert np.all(relative_l2(slope, np.asarray(expected)) < 2e-3)


def test_what_the_known_part_leaves_of_an_advected_state_has_no_kink():
    """One-sided slopes and curvatures in t at the characteristic from the corner, by differences of the solution."""
    problem, step = PROBLEMS["advection_informed"](), 1e-4
    inputs = problem.sample(jax.random.key(3), 2)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    x = 0.3
    u = np.asarray(inputs["u"](Grid(("x",), (jnp.asarray(x * (nodes + 1) / 2),))))
    arrivals = x * (1 / u) @ weights / 2
    stencil = {0: np.array([-1.5, 2.0, -0.5]) / step, 1: np.array([1.0, -2.0, 1.0]) / step**2}
    for i, arrival in enumerate(arrivals):
        own = {"u": inputs["u"][i : i + 1]}
        t = arrival + step * np.arange(-2, 3)
        known = problem.singular_part(own)["s"]
        grid = Grid(("t", "x"), (jnp.asarray(t), jnp.asarray([x])))
        state = problem.reference(own, {"t": t, "x": np.array([x])}, 256)["s"][0, :, 0]
        rest = state - np.asarray(known(grid, ()))[0, :, 0]
        for order, w in stencil.items():
            jumps = [w @ f[2:] - (-1) ** (1 + order) * w @ f[2::-1] for f in (state, rest)]
            scale = abs(w @ rest[2:]) + 1.0
            assert abs(jumps[1]) < 0.03 * scale
            assert order or abs(jumps[0]) > 1.0  # the solution itself has a kink


@pytest.mark.parametrize("name", [name for name in NAMES if name != "navier_stokes"])
def test_solvers_like_the_papers_are_close_to_the_converged_ones(name):
    problem = PROBLEMS[name]()
    inputs = problem.sample(jax.random.key(3), 2)
    grid = problem.grid()
    points = grid if len(grid) < 3 else {"t": grid["t"][::10], "x": grid["x"][::4], "y": grid["y"][::4]}
    coarse = paper_reference(problem, inputs, points)["s"]
    error = relative_l2(coarse, problem.reference(inputs, points, CASES[name][0])["s"])
    assert np.all(error < 0.03)


def test_a_problem_without_a_solver_says_so():
    problem = NavierStokes()
    with pytest.raises(ValueError, match="NavierStokes has no solver like the paper's; compare with reference='conv"):
        paper_reference(problem, problem.sample(KEY, 1), problem.grid())
