"""Training on solved functions on mapped domains: what is fitted is the physical L2 norm."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain, Mapped, Periodic, Problem, Value, maps, nn
from seponet.discretise.correction import Corrected, Corrector
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.metric import Metric, mean_volume
from seponet.discretise.norms import increment_norms
from seponet.discretise.preconditioner import Preconditioner
from seponet.functions import Scalar, SpectralField
from seponet.losses.tested import discretisation_of
from seponet.training.solved_step import solve_batch
from seponet.training.targets import solution_components

THETA = Domain(theta=Periodic(0, 2 * np.pi))


class Star(Problem):
    """A random wall: the problem is invariant to rotations, and |det J| = rho R(theta)^2 is not."""

    domain = maps.disk(lambda R: jnp.exp(0.25 * R))
    inputs = {"R": SpectralField(THETA, sigma=1600.0, tau=3.0, gamma=6.0)}
    conditions = [Value({"rho": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy + 1.0


class Annulus(Problem):
    """Two fields with different conditions on a map of products, whose size is an input, over time."""

    fields = ("a", "b")
    domain = Mapped(
        Domain(t=(0, 2), p=(0, 1), theta=Periodic(0, 2 * np.pi)),
        x=lambda p, theta, c: c * jnp.exp(p) * jnp.cos(theta),
        y=lambda p, theta, c: c * jnp.exp(p) * jnp.sin(theta),
    )
    inputs = {"c": Scalar(0.5, 2.0)}
    conditions = [Value({"p": 0}, field="a"), Value({"p": (0, 1)}, field="b"), Value({"t": 0}, field="a")]

    def equation_a(self, a_t, b_xx, b_yy):
        return a_t - b_xx - b_yy

    def equation_b(self, b, a):
        return b - a


def norms_of(problem, count=6, seed=0):
    """Norms of random coefficients: by the metric, by quadrature, and of the coefficients themselves."""
    discretisation = Discretisation.of(problem, problem.domain.names, dict.fromkeys(problem.domain, 5))
    nodes = tuple((name, 16) for name in problem.domain)
    inputs = problem.sample(jax.random.key(seed), count)
    metric = Metric.of(discretisation, inputs, nodes)
    assert metric is not None
    c = np.random.default_rng(seed).normal(size=(count, *discretisation.coefficient_shape()))
    rows = c.reshape(count, -1)
    volume = np.asarray(mean_volume(discretisation, inputs, nodes))
    np.testing.assert_allclose(metric.restore(metric.flatten(rows)), rows, atol=1e-12)
    other = np.roll(rows, 1, axis=0)
    np.testing.assert_allclose(metric.dual(other) @ rows.T, other @ metric.flatten(rows).T, atol=1e-10)
    ours = np.sqrt(volume * np.sum(metric.flatten(rows) ** 2, axis=1))
    box = np.sqrt(volume * np.sum(rows**2, axis=1))
    return ours, np.asarray(increment_norms(discretisation, inputs, nodes, jnp.asarray(c))), box


def test_the_metric_is_the_physical_norm_where_the_volume_element_is_a_product():
    ours, true, box = norms_of(Annulus())
    np.testing.assert_allclose(ours, true, rtol=1e-10)
    assert np.max(np.abs(box / true - 1)) > 0.03


def test_the_metric_is_near_the_physical_norm_of_random_shapes():
    ours, true, _ = norms_of(Star(), 32)
    np.testing.assert_allclose(ours, true, rtol=0.25)
    assert abs(np.mean(ours / true) - 1) < 0.05


def test_a_box_has_no_metric():
    class Box(Problem):
        domain = Domain(x=(0, 1))
        inputs = {"a": Scalar(0.0, 1.0)}
        conditions = [Value({"x": (0, 1)})]

        def equation(self, s_xx, a):
            return s_xx + a

    discretisation = Discretisation.of(Box(), ("x",), {"x": 4})
    assert Metric.of(discretisation, Box().sample(jax.random.key(0), 2), (("x", 8),)) is None
    np.testing.assert_array_equal(mean_volume(discretisation, {}, (("x", 8),)), 1.0)


class Known(Corrector):
    """In place of a solver: coefficients that are taken for solutions."""

    coefficients: Any = None

    def __call__(self, inputs: Any, start: Any) -> Corrected:
        norms = increment_norms(self.discretisation, inputs, self.nodes, self.coefficients)
        return Corrected(self.coefficients, 0 * norms, norms, norms > 0)


@pytest.mark.parametrize("invariant", ["", "theta"])
def test_what_is_fitted_has_physical_distances(invariant):
    """Components and weights as a training makes them, with and without rotations built in."""
    problem, count = Star(), 24
    model = nn.build(problem, decoder="tucker", rank={"rho": 4, "theta": 5}, trunk="classical", exact="all",
                     sensors=16, invariant=invariant, key=jax.random.key(0))  # fmt: skip
    inputs = problem.sample(jax.random.key(5), count)
    ours, nodes = discretisation_of(model), (("rho", 12), ("theta", 24))
    c = jax.random.normal(jax.random.key(6), (count, *model.coefficient_shape()))
    known = Known(ours, nodes, Preconditioner(jnp.zeros((1, 1, 1)), ()), 1, 1, coefficients=c)
    solved, good = solve_batch(model, known, inputs, model.encode(inputs), 0 * c)
    assert np.all(good)
    weights = np.asarray(solved.weights)
    vectors, duals = solution_components(model, known, solved, weights, 1e-9, jax.random.key(7))
    assert duals is not None
    np.testing.assert_allclose(vectors @ duals.T, np.eye(len(vectors)), atol=1e-10)
    assert len(vectors) == model.size
    # Relative norms of all functions are one, however large their shapes are.
    seen = np.sqrt(weights * np.sum((np.asarray(solved.targets) @ duals.T) ** 2, axis=1))
    np.testing.assert_allclose(seen, 1.0, atol=0.4)
    assert abs(np.mean(seen) - 1) < 0.05
