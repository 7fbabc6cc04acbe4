"""Newton's method and GMRES: each function to its own tolerance, by whatever path, in batches of any size."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from zoo import Poisson

from seponet import Derivative, Domain, Grid, Periodic, Problem, Value
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.discretise import newton as newton_module
from seponet.discretise import preconditioner
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.gmres import gmres
from seponet.discretise.newton import newton, newton_change
from seponet.discretise.preconditioner import make_preconditioner
from seponet.equations.symbols import Symbol
from seponet.functions import Functions, GaussianField, Scalar, SpectralField


class Duffing(Problem):
    """An oscillator that is pulled back by the cube of its displacement, over a few periods."""

    domain = Domain(t=(0, 6))
    inputs = {"a": Scalar(0.5, 1.5)}
    conditions = [Value({"t": 0}, equals="a"), Derivative({"t": 0})]

    def equation(self, s, s_tt):
        return s_tt + s**3


class Sheared(Problem):
    """Mixed derivatives couple what is diagonal without them."""

    domain = Poisson.domain
    inputs = Poisson.inputs
    conditions = Poisson.conditions

    def equation(self, s_xx, s_xy, s_yy, u):
        return s_xx + 1.9 * s_xy + s_yy - u


class Reaction(Problem):
    """Allen-Cahn in two dimensions and time: one periodic axis and one with insulated walls."""

    domain = Domain(t=(0, 0.5), x=Periodic(0, 1), y=(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals=lambda u, y: u * jnp.cos(jnp.pi * y)), Derivative({"y": (0, 1)})]

    def equation(self, s, s_t, s_xx, s_yy):
        return s_t - 0.05 * s_xx - 0.05 * s_yy - s + s**3


def random_systems(rng, count, n):
    return np.eye(n) + 0.4 / np.sqrt(n) * rng.normal(size=(count, n, n))


def product(matrices):
    return lambda x: jnp.einsum("fij,fj->fi", jnp.asarray(matrices), x, precision="highest")


def test_gmres_solves_each_function():
    rng = np.random.default_rng(0)
    matrices, target = random_systems(rng, 4, 30), rng.normal(size=(4, 30)) * np.array([[1.0], [1e-6], [1e6], [0.0]])
    matrices[2] = np.eye(30)  # ends at once, while others go on
    x, left = gmres(product(matrices), jnp.asarray(target), 1e-11, 40)
    expected = np.linalg.solve(matrices, target[..., None])[..., 0]
    np.testing.assert_array_less(np.linalg.norm(x - expected, axis=1), 1e-9 * np.linalg.norm(target, axis=1) + 1e-300)
    assert np.all(left <= 1e-11)
    assert np.all(np.asarray(x)[3] == 0.0)


def test_gmres_goes_on_when_a_function_has_used_up_its_space():
    matrices = np.stack([np.diag([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), random_systems(np.random.default_rng(1), 1, 6)[0]])
    target = np.random.default_rng(2).normal(size=(2, 6))
    x, _ = gmres(product(matrices), jnp.asarray(target), 0.0, 20)  # more iterations than there are directions
    np.testing.assert_allclose(x, np.linalg.solve(matrices, target[..., None])[..., 0], rtol=1e-9)


def test_gmres_stops_at_its_tolerance_and_tells_what_is_left():
    rng = np.random.default_rng(3)
    matrices, target = random_systems(rng, 3, 60), jnp.asarray(rng.normal(size=(3, 60)))
    errors = []
    for tolerance in (1e-2, 1e-5):
        x, left = gmres(product(matrices), target, tolerance, 50)
        residual = np.linalg.norm(target - product(matrices)(x), axis=1) / np.linalg.norm(target, axis=1)
        np.testing.assert_allclose(left, residual, rtol=1e-6)
        assert np.all(residual <= tolerance)
        errors.append(residual.max())
    assert errors[0] > 1e-4  # not further than was asked for
    _, left = gmres(product(matrices), target, 1e-8, 3)
    assert np.all(left > 1e-6)  # three directions are not enough, and this is said


def fresh(monkeypatch):
    """Programs that were compiled with other numbers are not reused."""
    step: Any = newton_module.newton_step
    monkeypatch.setattr(newton_module, "_brief_step", eqx.filter_jit(lambda *arguments: step(*arguments)))


def setting(problem, ranks, functions):
    discretisation = Discretisation.of(problem, problem.domain.names, ranks)
    nodes = tuple((name, 2 * rank + 4) for name, rank in discretisation.ranks)
    inputs = problem.sample(jax.random.key(5), functions)
    return discretisation, nodes, inputs, np.zeros((functions, *discretisation.coefficient_shape()))


def test_iterations_and_factorisations_give_the_same(monkeypatch):
    fresh(monkeypatch)
    discretisation, nodes, inputs, start = setting(Reaction(), {"t": 4, "x": 5, "y": 4}, 3)
    direct = newton(discretisation, nodes, inputs, start)
    assert direct.method == "direct"
    assert direct.converged.all()
    monkeypatch.setattr(newton_module, "DIRECT", 1)
    monkeypatch.setattr(newton_module, "LARGEST_DIRECT", 1)
    whole = newton(discretisation, nodes, inputs, start)
    monkeypatch.setattr(preconditioner, "DENSE", 1)
    made = make_preconditioner(discretisation, nodes, inputs, jnp.asarray(start))
    assert made.diagonal == (1, 2)
    assert made.inverses.shape == (5 * 4, 4, 4)
    blocks = newton(discretisation, nodes, inputs, start)
    assert np.linalg.norm(direct.coefficients) > 0.01 * np.linalg.norm(direct.norms)
    for solved in (whole, blocks):
        assert solved.method == "iterative"
        assert solved.converged.all()
        np.testing.assert_allclose(solved.coefficients, direct.coefficients, atol=1e-8 * direct.norms.max())
        np.testing.assert_allclose(solved.norms, direct.norms, rtol=1e-8)


def test_where_iterations_fail_matrices_are_factorised(monkeypatch):
    fresh(monkeypatch)
    monkeypatch.setattr(newton_module, "DIRECT", 1)
    monkeypatch.setattr("seponet.discretise.newton_step.ITERATIONS", 1)
    monkeypatch.setattr(preconditioner, "DENSE", 1)
    discretisation, nodes, inputs, start = setting(Sheared(), {"x": 7, "y": 8}, 2)
    solved = newton(discretisation, nodes, inputs, start)
    assert solved.method == "direct"
    assert solved.converged.all()
    assert np.all(newton_change(discretisation, nodes, inputs, solved.coefficients) < 1e-7)


def test_only_functions_whose_iterations_fail_are_factorised(monkeypatch):
    """Of three functions with one Jacobian but a start that is a solution for two, iterations leave the third."""
    fresh(monkeypatch)
    discretisation, nodes, inputs, start = setting(Sheared(), {"x": 7, "y": 8}, 3)
    exact = newton(discretisation, nodes, inputs, start)
    start[:2] = exact.coefficients[:2]
    monkeypatch.setattr(newton_module, "DIRECT", 1)
    monkeypatch.setattr("seponet.discretise.newton_step.ITERATIONS", 1)
    monkeypatch.setattr(preconditioner, "DENSE", 1)
    factorised, real = [], newton_module.newton_step

    def step(discretisation, nodes, inputs, c, target, preconditioner):
        if preconditioner is None:
            factorised.append(len(c))
        return real(discretisation, nodes, inputs, c, target, preconditioner)

    monkeypatch.setattr(newton_module, "_brief_step", step)
    solved = newton(discretisation, nodes, inputs, start)
    assert set(factorised) == {1}
    assert solved.converged.all()
    np.testing.assert_allclose(solved.coefficients, exact.coefficients, atol=1e-7 * exact.norms.max())


def test_continuation_reaches_what_newtons_method_does_not():
    problem = Duffing()
    discretisation = Discretisation.of(problem, ("t",), {"t": 40})
    start, nodes = np.zeros((2, 1, 40)), (("t", 120),)
    inputs = {"a": Functions(problem.inputs["a"], jnp.asarray([1.0, 1.5]))}
    led = newton(discretisation, nodes, inputs, start)
    assert led.converged.all()
    times = np.linspace(0, 6, 20)
    where = Grid.of(problem.domain, {"t": jnp.asarray(times)})
    symbol = Symbol("field", "s")
    values = evaluate(FixedCoefficients(discretisation, jnp.asarray(led.coefficients)), inputs, where, [symbol])[symbol]
    for amplitude, row in zip((1.0, 1.5), values, strict=True):
        truth = scipy.integrate.solve_ivp(
            lambda _, y: [y[1], -(y[0] ** 3)], (0, 6), [amplitude, 0.0], "DOP853", times, rtol=1e-10, atol=1e-10
        )
        np.testing.assert_allclose(row, truth.y[0], atol=1e-3 * amplitude)
    plain = newton(discretisation, nodes, inputs, start, led=np.zeros(2, bool))
    assert list(plain.converged) == [True, False]
    assert np.array_equal(plain.coefficients[0], led.coefficients[0])


def test_what_has_no_solution_is_told():
    class Beyond(Problem):
        """s'' + a exp(s) = 0 has two solutions up to a = 3.51, and none beyond."""

        domain = Domain(x=(0, 1))
        inputs = {"a": Scalar(1.0, 8.0)}
        conditions = [Value({"x": (0, 1)})]

        def equation(self, s, s_xx, a):
            return s_xx + a * jnp.exp(s)

    problem = Beyond()
    discretisation = Discretisation.of(problem, ("x",), {"x": 8})
    inputs = {"a": Functions(problem.inputs["a"], jnp.asarray([3.0, 6.0]))}
    solved = newton(discretisation, (("x", 20),), inputs, np.zeros((2, 1, 8)))
    assert list(solved.converged) == [True, False]


def test_batches_of_any_size_give_the_same(monkeypatch):
    class Diffusion(Problem):
        domain = Domain(x=(0, 1))
        inputs = {"u": GaussianField(domain, length_scale=0.3)}
        conditions = [Value({"x": (0, 1)})]

        def equation(self, s, s_xx, u):
            return s_xx - s**3 - 10 * u

    discretisation, nodes, inputs, start = setting(Diffusion(), {"x": 8}, 5)
    together = newton(discretisation, nodes, inputs, start)
    changes = newton_change(discretisation, nodes, inputs, 0.9 * together.coefficients)
    monkeypatch.setattr(newton_module, "_batch", lambda *_, **__: 2)
    apart = newton(discretisation, nodes, inputs, start)
    assert apart.coefficients.shape == together.coefficients.shape
    np.testing.assert_allclose(apart.coefficients, together.coefficients, atol=1e-9)
    np.testing.assert_allclose(apart.norms, together.norms, rtol=1e-8)
    np.testing.assert_allclose(
        newton_change(discretisation, nodes, inputs, 0.9 * together.coefficients), changes, rtol=1e-6
    )
    # A tenth of the solution is missing, and nearly so the step says (the equation is not quite linear).
    assert np.all((changes > 0.08) & (changes < 0.12))


def test_memory_bounds_the_functions_that_are_solved_at_a_time(monkeypatch):
    discretisation, nodes, _, _ = setting(Poisson(), {"x": 8, "y": 8}, 1)
    many = newton_module._batch(discretisation, nodes, 10_000)
    monkeypatch.setattr(newton_module, "MEMORY", newton_module.MEMORY // 4)
    assert newton_module._batch(discretisation, nodes, 10_000) == pytest.approx(many / 4, abs=1)
    monkeypatch.setattr(newton_module, "MEMORY", 1)
    assert newton_module._batch(discretisation, nodes, 10_000) == 1


def test_a_residual_that_is_not_a_number_is_no_solution():
    class Root(Problem):
        """Not real where the solution starts."""

        domain = Domain(t=(0, 1))
        conditions = [Value({"t": 0}, equals=1.0)]

        def equation(self, s, s_t):
            return s_t - jnp.sqrt(s - 10.0)

    discretisation = Discretisation.of(Root(), ("t",), {"t": 4})
    solved = newton(discretisation, (("t", 8),), {}, np.zeros((1, 1, 4)))
    assert not solved.converged.any()
    assert np.isinf(newton_change(discretisation, (("t", 8),), {}, solved.coefficients)).all()
