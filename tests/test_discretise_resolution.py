"""Ranks and nodes for a tolerance: what is announced is true, and what is not reached is said."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import CIRCLE, TORUS, AllenCahn, KdV, Poisson

from seponet import Domain, Problem, Value
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.discretise import resolve, solve_functions
from seponet.discretise import solve as solve_module
from seponet.discretise.bandwidth import FINEST, bandwidths
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.level import distance, solve_level
from seponet.discretise.resolution import FINER
from seponet.equations.symbols import Symbol
from seponet.functions import Functions, GaussianField, Scalar, SolenoidalField, SpectralField
from seponet.functions.interpolant import interpolate
from seponet.locations import Grid
from seponet.reference import relative_l2
from seponet.runs.problems import make_problem


class Reaction(Problem):
    """s'' = s^3 + u between walls, with a source as rough as one likes."""

    length: float = 0.3
    domain = Domain(x=(0, 1))

    @property
    def inputs(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"u": GaussianField(self.domain, length_scale=self.length)}

    conditions = [Value({"x": (0, 1)})]

    def equation(self, s, s_xx, u):
        return s_xx - s**3 - 10 * u


class Ripples(Problem):
    """s = sin(6 pi x) sin(pi y): many waves along x, one along y."""

    domain = Domain(x=(0, 1), y=(0, 1))
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_xx, s_yy, x, y):
        return s_xx + s_yy + 37 * jnp.pi**2 * jnp.sin(6 * jnp.pi * x) * jnp.sin(jnp.pi * y)


class Tone(Problem):
    """s'' = -k^2 sin(k x): a number says how rough a solution is."""

    domain = Domain(x=(0, 1))
    inputs = {"k": Scalar(1.0, 5.0)}
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s_xx, k, x):
        return s_xx + k**2 * jnp.sin(k * x)

    def solution(self, k, x):
        return np.sin(k[:, None] * x) - x * np.sin(k)[:, None]


class Bratu(Problem):
    domain = Domain(x=(0, 1))
    conditions = [Value({"x": (0, 1)})]

    def equation(self, s, s_xx):
        return s_xx + 0.5 * (3.0 / np.cosh(0.75)) ** 2 * jnp.exp(s)


def sampled(problem: Problem, functions: int = 4, seed: int = 1) -> Any:
    return problem.sample(jax.random.key(seed), functions)


def waves(space, *functions) -> Any:
    """Functions by their values on fine uniform points of periodic axes."""
    points = [axis.lower + axis.length * np.arange(64) / 64 for _, axis in space.domain.axes]
    mesh = np.meshgrid(*points, indexing="ij")
    return interpolate(space, np.stack([f(*mesh) for f in functions]))


def _rolls(x, y):
    """Two components, the second of which has the shorter waves along x."""
    return np.stack([np.cos(x) * np.cos(y), np.cos(2 * x) * np.cos(y)])


def _turned(x, y):
    return _rolls(y, x)


def test_the_bandwidth_of_a_wave_is_its_number():
    space = SpectralField(CIRCLE, sigma=1.0, tau=1.0, gamma=2.0)
    cosine, sine = (waves(space, lambda x, f=f: f(2 * np.pi * 5 * x)) for f in (np.cos, np.sin))
    (of_cosine,), (of_sine,) = (bandwidths({"u": u}, 1e-6) for u in (cosine, sine))
    assert (of_cosine.input, of_cosine.axis) == ("u", "x")
    assert (of_cosine.functions, of_sine.functions) == (10, 11)  # 1, cos x, sin x, cos 2x, ...
    assert max(of_cosine.remainder, of_sine.remainder) < 1e-7
    # The roughest function counts, and only what is larger than the tolerance.
    mixed = waves(
        space, lambda x: np.cos(2 * np.pi * x), lambda x: np.cos(2 * np.pi * x) + 1e-3 * np.sin(6 * np.pi * x)
    )
    assert [bandwidths({"u": mixed}, tolerance)[0].functions for tolerance in (1e-2, 1e-4)] == [2, 7]


def test_bandwidths_belong_to_axes():
    space = SpectralField(TORUS, sigma=1.0, tau=1.0, gamma=2.0)
    along = bandwidths({"u": waves(space, lambda x, y: np.cos(x) * np.cos(7 * y))}, 1e-6)
    assert {b.axis: b.functions for b in along} == {"x": 2, "y": 14}


def test_what_no_basis_holds_is_told():
    space = SpectralField(CIRCLE, sigma=1.0, tau=1.0, gamma=2.0)
    points = np.arange(2048) / 2048
    (jump,) = bandwidths({"u": interpolate(space, np.sign(np.sin(2 * np.pi * points))[None])}, 1e-3)
    assert jump.functions == FINEST
    assert 0.01 < jump.remainder < 0.2


def test_all_components_count():
    space = SolenoidalField(TORUS, modes=3)
    functions = space.sample(jax.random.key(0), 3)
    along = bandwidths({"w": functions}, 1e-6)
    assert [b.axis for b in along] == ["x", "y"]
    assert all(b.functions <= 7 for b in along)
    each = [bandwidths({"w": waves(space, lambda x, y, f=f: f(x, y))}, 1e-6) for f in (_rolls, _turned)]
    assert [{b.axis: b.functions for b in of} for of in each] == [{"x": 4, "y": 2}, {"x": 2, "y": 4}]


@pytest.mark.parametrize("problem", [Poisson(), AllenCahn(), KdV()], ids=["Poisson", "AllenCahn", "KdV"])
def test_the_announced_error_is_true(problem):
    inputs, lines = sampled(problem), []
    resolution = resolve(problem, inputs, 1e-2, progress=lines.append)
    assert resolution.reached, resolution.describe()
    assert resolution.mean <= 1e-2
    fine = resolution.fine
    ranks = {name: round(FINER * rank) for name, rank in fine.discretisation.ranks}
    finer = Discretisation.of(problem, problem.domain.names, ranks)
    nodes = tuple((name, round(1.4 * n)) for name, n in fine.nodes)
    truth = solve_level(finer, nodes, problem.complete(inputs), 4, fine, 1e-7)
    assert truth.solved.converged.all()
    true, true_of_fine = (distance(level, truth, problem.complete(inputs)) for level in (resolution.coarse, fine))
    assert np.all(resolution.errors >= 0.5 * true)
    assert np.all(resolution.fine_errors >= 0.5 * true_of_fine)
    assert np.all(resolution.errors < 3 * true + 1e-5)  # nor is it much too large
    for name, rank in resolution.coarse.discretisation.ranks:
        assert dict(fine.discretisation.ranks)[name] >= 1.4 * rank
    assert len(lines) >= 2
    assert "functions solved" in lines[0]


def test_a_tolerance_out_of_reach_is_said_with_the_axis():
    problem = KdV()
    resolution = resolve(problem, sampled(problem, 2), 1e-6, largest=200)
    assert not resolution.reached
    assert resolution.fine.discretisation.size <= 200
    assert resolution.mean > 1e-6
    assert "converges slowly" in resolution.reason
    assert "the axis" in resolution.reason
    assert "was not reached: " in resolution.describe()


def test_equations_without_a_solution_are_said():
    class Beyond(Problem):
        domain = Domain(x=(0, 1))
        conditions = [Value({"x": (0, 1)})]

        def equation(self, s, s_xx):
            return s_xx + 10.0 * jnp.exp(s)

    resolution = resolve(Beyond(), {}, 1e-3, largest=20)
    assert not resolution.reached
    assert np.isinf(resolution.errors).all()
    assert resolution.reason == "Newton's method did not converge for 1 of 1 functions"


def test_each_axis_gets_what_it_needs():
    solution = solve_functions(Ripples(), {}, 1e-4)
    ranks = solution.resolution.ranks
    assert solution.reached.all()
    assert ranks["x"] > 1.4 * ranks["y"]
    points = {"x": np.linspace(0, 1, 40), "y": np.linspace(0, 1, 7)}
    truth = np.sin(6 * np.pi * points["x"])[:, None] * np.sin(np.pi * points["y"])
    assert np.abs(solution(points, "s")[0] - truth).max() < 2e-4


def test_nodes_see_rough_inputs():
    smooth, rough = (resolve(p, sampled(p), 1e-2) for p in (Reaction(0.3), Reaction(0.03)))
    assert smooth.reached
    assert rough.reached
    (band,) = rough.bandwidths
    assert band.functions > 3 * smooth.bandwidths[0].functions
    assert rough.nodes["x"] >= rough.ranks["x"] + band.functions
    assert rough.nodes["x"] > 2 * smooth.nodes["x"]
    assert rough.quadrature.max() < 1e-3


def test_a_solution_is_the_lift_and_its_coefficients(monkeypatch):
    problem = Reaction()
    inputs = sampled(problem, 3)
    solution = solve_functions(problem, inputs, 1e-2)
    assert solution.reached.all()
    assert solution.reason == ""
    points = {"x": np.linspace(0, 1, 6)}
    symbol = Symbol("field", "s", (("x", 1),))
    where = Grid.of(problem.domain, {n: jnp.asarray(p) for n, p in points.items()})
    model = FixedCoefficients(solution.level.discretisation, jnp.asarray(solution.level.solved.coefficients))
    expected = np.asarray(evaluate(model, problem.complete(inputs), where, [symbol])[symbol])
    slope = solution(points, "s", (("x", 1),))
    assert slope.shape == (3, 6)
    np.testing.assert_allclose(slope, expected, atol=1e-10 * np.abs(expected).max())
    values = solution(points, "s")
    np.testing.assert_allclose(values[:, [0, -1]], 0.0, atol=1e-10 * np.abs(values).max())
    monkeypatch.setattr(solve_module, "CHUNK", 7)
    np.testing.assert_allclose(solution(points, "s", (("x", 1),)), slope, atol=1e-12 * np.abs(expected).max())


def test_many_functions_are_solved_like_few():
    problem = Reaction()
    inputs = sampled(problem, 14)
    many = solve_functions(problem, inputs, 1e-4)
    assert many.errors.shape == (14,)
    assert many.reached.all()
    chosen = [3, 8, 13]
    few = solve_functions(problem, {"u": inputs["u"][np.asarray(chosen)]}, 1e-6)
    points = {"x": np.linspace(0, 1, 50)}
    truth = few(points, "s")
    errors = np.linalg.norm(many(points, "s")[chosen] - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert np.all(errors < 1e-4)
    assert np.all(errors <= 2 * many.errors[chosen] + 1e-6)


def test_functions_that_are_rougher_than_the_rest_are_solved_too():
    problem = Tone()
    k = np.linspace(1.0, 5.0, 20)
    k[1] = 40.0  # not among those that the discretisation is chosen on first
    lines: list[str] = []
    solution = solve_functions(
        problem, {"k": Functions(problem.inputs["k"], jnp.asarray(k))}, 1e-3, progress=lines.append
    )
    assert "8 of 8 functions solved" in lines[0]
    assert solution.reached.all(), solution.reason
    x = np.linspace(0, 1, 301)
    truth = problem.solution(k, x)
    errors = np.linalg.norm(solution({"x": x}, "s") - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert np.all(errors <= 1e-3)
    assert np.all(errors <= 2 * solution.errors + 1e-9)


def test_a_problem_without_inputs_has_one_solution_with_its_error():
    solution = solve_functions(Bratu(), {}, 1e-8)
    points = {"x": np.linspace(0, 1, 30)}
    truth = 2 * np.log(np.cosh(0.75) / np.cosh((points["x"] - 0.5) * 1.5))
    error = np.linalg.norm(solution(points, "s")[0] - truth) / np.linalg.norm(truth)
    assert solution.reached.all()
    assert error <= max(2 * solution.errors[0], 1e-12)
    assert solution.errors[0] < 1e-8


def test_a_tolerance_is_a_relative_error():
    for tolerance in (0.0, 1.0, -1e-3):
        with pytest.raises(ValueError, match="tolerance is a relative error between 0 and 1"):
            solve_functions(Bratu(), {}, tolerance)


def test_a_loose_tolerance_does_not_lose_the_fourth_derivatives_of_an_input():
    problem = make_problem(f"{Path(__file__).parent.parent / 'benchmarks' / 'zoo' / 'kuramoto_sivashinsky.py'}")
    inputs = {"u": problem.sample(jax.random.key(3), 8)["u"]}
    solution = solve_functions(problem, inputs, 0.1)
    assert np.all(solution.reached)
    points = {"t": np.linspace(0, 8, 21), "x": 22 * np.arange(64) / 64}
    exact = problem.reference_solution(inputs, points)["s"]
    assert np.all(relative_l2(solution(points, "s"), exact) < solution.errors)
