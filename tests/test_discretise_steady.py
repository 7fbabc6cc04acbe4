"""The inverse Jacobian of each function, where the coefficients of its equation do not depend on time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, KdV, Wave

from seponet import Domain, Periodic, Problem, Value
from seponet._precision import double_precision
from seponet.discretise import correction
from seponet.discretise import newton as newton_module
from seponet.discretise.correction import make_corrector
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.newton import newton
from seponet.discretise.preconditioner import Preconditioner, is_solvable
from seponet.discretise.steady import SteadyInverse, make_inverse, make_steady
from seponet.discretise.tested import TestedResiduals
from seponet.functions import GaussianField, Positive, Scalar, SpectralField
from seponet.operator.ladder import Ladder
from seponet.problems import Advection, Burgers


class Carried(Problem):
    """Transport with storage that depends on the place, too."""

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {
        "u": Positive(GaussianField(domain["x"], length_scale=0.3), floor=0.5),
        "a": Positive(GaussianField(domain["x"], length_scale=0.5), floor=1.0),
    }
    conditions = [Value({"t": 0}, equals=lambda x: x**2), Value({"x": 0})]

    def equation(self, s, s_t, s_x, u, a):
        return a * s_t + u * s_x + u * s


class Potential(Problem):
    """A wave function in a given potential: two fields that turn into each other."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"v": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=3.0)}
    fields = ("p", "q")
    conditions = [Value({"t": 0}, field="p", equals=lambda x: jnp.cos(2 * jnp.pi * x)), Value({"t": 0}, field="q")]

    def equation_p(self, p_t, q, q_xx, v):
        return p_t + 0.02 * q_xx - v * q

    def equation_q(self, q_t, p, p_xx, v):
        return q_t - 0.02 * p_xx + v * p


class Seasonal(Problem):
    """A speed that changes with time."""

    domain, inputs, conditions = Advection.domain, Advection.inputs, Advection.conditions

    def equation(self, s_t, s_x, u, t):
        return s_t + (1 + t) * u * s_x


class Damped(Problem):
    """Not linear."""

    domain, inputs, conditions = Advection.domain, Advection.inputs, Advection.conditions

    def equation(self, s, s_t, s_x, u):
        return s_t + u * s_x + s**2


class Faded(Problem):
    """One number for all places."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0), "nu": Scalar(0.01, 0.1)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s_t, s_xx, nu):
        return s_t - nu * s_xx


STEADY = [(Carried(), {"t": 7, "x": 8}), (Potential(), {"t": 6, "x": 9}), (Faded(), {"t": 5, "x": 7})]


def discretised(problem, ranks, exact=None):
    discretisation = Discretisation.of(problem, problem.domain.names if exact is None else exact, ranks)
    return discretisation, tuple((name, 2 * rank + 4) for name, rank in discretisation.ranks)


@pytest.mark.parametrize(("problem", "ranks"), STEADY)
def test_it_is_the_inverse_of_every_functions_own_matrix(problem, ranks):
    discretisation, nodes = discretised(problem, ranks)
    with double_precision():
        inputs = problem.sample(jax.random.key(0), 4)
        steady = make_steady(discretisation, nodes, inputs, 4)
        assert isinstance(steady, SteadyInverse)
        tested = TestedResiduals(discretisation, nodes, inputs, 4)
        shape = (4, *discretisation.coefficient_shape())
        _, slopes = tested.linearise(jnp.ones(shape))
        rows = jax.random.normal(jax.random.key(1), (4, tested.rows))
        expected = np.linalg.solve(tested.jacobian(slopes)[:, 0], np.asarray(rows)[..., None]).reshape(shape)
        np.testing.assert_allclose(steady.at(tested, slopes)(rows), expected, atol=1e-9 * np.max(np.abs(expected)))


@pytest.mark.parametrize(
    "problem", [Seasonal(), Damped(), Burgers(), KdV(), Wave(), AllenCahn()], ids=lambda p: type(p).__name__
)
def test_slopes_that_change_with_time_or_state_and_second_orders_have_none(problem):
    discretisation, nodes = discretised(problem, dict.fromkeys(problem.domain, 5))
    with double_precision():
        inputs = problem.sample(jax.random.key(0), 3)
        assert make_steady(discretisation, nodes, inputs, 3) is None
        start = jnp.zeros((3, *discretisation.coefficient_shape()))
        assert isinstance(make_inverse(discretisation, nodes, inputs, start), Preconditioner)


def test_conditions_that_are_rows_of_their_own_have_none():
    problem = Carried()
    discretisation, nodes = discretised(problem, {"t": 5, "x": 5}, exact=("t",))
    with double_precision():
        assert make_steady(discretisation, nodes, problem.sample(jax.random.key(0), 3), 3) is None


def test_a_corrector_solves_transport_in_single_precision_without_iterations(monkeypatch):
    """Thirty functions in time: eigenvectors of the derivative would have lost all digits."""
    problem = Advection()
    discretisation, nodes = discretised(problem, {"t": 30, "x": 30})
    corrector = make_corrector(problem, discretisation, nodes, jax.random.key(0), steps=4, iterations=1, tolerance=1e-4)
    assert corrector.linear
    assert isinstance(corrector.preconditioner, SteadyInverse)
    inputs, start = problem.sample(jax.random.key(1), 12), jnp.zeros((12, *discretisation.coefficient_shape()))
    corrected = jax.jit(corrector.__call__)(inputs, start)
    assert np.all(corrected.solved)
    assert np.max(corrected.change) < 1e-4
    with double_precision():
        exact = newton(discretisation, nodes, inputs, np.zeros(start.shape), tolerance=1e-10)
    distance = np.linalg.norm((corrected.coefficients - exact.coefficients).reshape(12, -1), axis=1)
    assert np.all(distance < 1e-4 * exact.norms)
    # In parts, and from anywhere, they are the same.
    monkeypatch.setattr(correction, "HELD", 5 * 4 * corrector.preconditioner.held(discretisation))
    split = jax.jit(dataclasses.replace(corrector).__call__)(inputs, start + 1.0)
    assert np.all(split.solved)
    np.testing.assert_allclose(split.coefficients, corrected.coefficients, atol=1e-4 * float(np.max(exact.norms)))


def test_newtons_method_takes_it_for_large_bases(monkeypatch):
    problem = Carried()
    discretisation, nodes = discretised(problem, {"t": 8, "x": 9})
    with double_precision():
        inputs, start = problem.sample(jax.random.key(0), 5), np.zeros((5, *discretisation.coefficient_shape()))
        direct = newton(discretisation, nodes, inputs, start, tolerance=1e-10)
        monkeypatch.setattr(newton_module, "DIRECT", 10)
        own = newton(discretisation, nodes, inputs, start, tolerance=1e-10)
    assert (direct.method, own.method) == ("direct", "iterative")
    assert np.all(own.converged)
    np.testing.assert_allclose(own.coefficients, direct.coefficients, atol=1e-8 * np.max(np.abs(direct.coefficients)))


def test_a_ladder_climbs_beyond_what_one_matrix_for_all_functions_allows():
    problem = Advection()
    base, _ = discretised(problem, {"t": 60, "x": 60})
    with double_precision():
        inputs = problem.sample(jax.random.key(0), 2)
        ladder = Ladder(base, inputs, np.zeros((2, *base.coefficient_shape())))
        above = ladder.discretisation(1)
    assert above is not None
    assert not is_solvable(above)
    seasonal, _ = discretised(Seasonal(), {"t": 60, "x": 60})
    with double_precision():
        assert Ladder(seasonal, inputs, np.zeros((2, *base.coefficient_shape()))).discretisation(1) is None
