"""The average residual operator is that of a brute-force Jacobian, and whitening by it makes a linear loss a sphere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_losses_pointwise import gauss_grid
from zoo import Brusselator, Poisson, Reactor, Wave, quick_jit, small

from seponet import Domain, Periodic, Problem, nn
from seponet.calculus.evaluate import residuals
from seponet.calculus.model import FixedCoefficients
from seponet.functions import SpectralField
from seponet.losses.linearised import gram
from seponet.losses.pointwise import physics_loss
from seponet.training.whitening import whiten


def free(model: nn.OperatorNetwork, outputs: jax.Array, functions: int) -> FixedCoefficients:
    """The model with outputs of its branch that are given, the same for all functions."""
    rows = outputs[None] if model.whitening is None else model.whitening(outputs[None])
    shape = model.coefficient_shape()
    return FixedCoefficients(model, jnp.broadcast_to(rows.reshape(1, *shape), (functions, *shape)))


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (Brusselator, {"exact": ("t",), "trunk": "legendre", "decoder": "tucker", "rank": 2}),  # two fields, soft walls
        (Reactor, {"exact": ("t",), "rank": 4}),  # a nonlinear soft wall, learned trunks
    ],
)
def test_the_gram_matrix_is_that_of_the_jacobian(kind, config):
    problem = kind()
    model, inputs, collocation = small(problem, **config), problem.sample(jax.random.key(0), 3), gauss_grid(problem)
    terms = problem.terms(model.exact)
    weights = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2.0, (len(terms), 3)))

    def all_residuals(coefficients):
        found = residuals(free(model, coefficients, 3), inputs, collocation.where)
        scaled = []
        for term, w, r in zip(terms, weights, found.values(), strict=True):
            t, x = (jnp.ones(1) if q is None else q for q in collocation.quadrature(term.face))
            scaled.append(r * jnp.sqrt(w.reshape(3, 1, 1) * t[None, :, None] * x[None, None]))
        return jnp.concatenate([r.reshape(-1) for r in scaled])

    @quick_jit
    def run(collocation):
        jacobian = jax.jacfwd(all_residuals)(jnp.zeros(model.size))
        whole, diagonal = (gram(model, inputs, collocation, weights, diagonal=d) for d in (False, True))
        return jacobian, whole, diagonal, gram(model, inputs, collocation, weights, memory=1)

    jacobian, full, diagonal, row_by_row = run(collocation)
    expected = np.asarray(jacobian).T @ np.asarray(jacobian)
    assert len(terms) > len(problem.equations)
    np.testing.assert_allclose(full, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(row_by_row, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(diagonal, np.diagonal(expected), rtol=1e-11)


@pytest.mark.parametrize(
    ("kind", "config", "whitening"),
    [
        (Wave, {"exact": "all", "trunk": "classical", "decoder": "tucker"}, {"kind": "full", "ridge": 0.0}),
        (Poisson, {"trunk": "legendre", "decoder": "tucker"}, {"kind": "full", "ridge": 0.0}),  # all walls soft
        (Poisson, {"exact": "all", "rank": 4}, {"kind": "diagonal", "amplitude": 0.5}),
    ],
)
def test_the_whitened_loss_of_a_linear_problem_is_a_sphere(kind, config, whitening):
    """loss = |z - z*|^2 + constant, times the square of the amplitude; only its diagonal, for a diagonal whitening."""
    problem = kind()
    inputs, collocation = problem.sample(jax.random.key(0), 1), gauss_grid(problem)
    model = small(problem, **config)
    weights = jnp.linspace(1.0, 2.0, len(problem.terms(model.exact)))[:, None]
    model = whiten(model, inputs, collocation, weights, **whitening)

    @quick_jit
    def gradient(outputs):
        return jax.grad(lambda z: physics_loss(free(model, z, 1), inputs, collocation, weights).total)(outputs)

    # The loss is quadratic, so differences of its gradient are its Hessian.
    start = gradient(jnp.zeros(model.size))
    hessian = np.stack([gradient(row) - start for row in jnp.eye(model.size)])
    expected = 2 * whitening.get("amplitude", 1.0) ** 2
    np.testing.assert_allclose(np.diagonal(hessian), expected, rtol=1e-8)
    others = hessian - np.diag(np.diagonal(hessian))
    if whitening["kind"] == "full":
        np.testing.assert_allclose(others, 0, atol=1e-8)
    else:
        assert np.abs(others).max() > 0.1
        assert np.linalg.eigvalsh(hessian).min() > 0


def test_a_whitening_is_not_trained():
    problem = Wave()
    inputs, collocation = problem.sample(jax.random.key(0), 2), gauss_grid(problem)
    plain = small(problem, exact="all", trunk="classical", decoder="tucker", rank=2)
    white = whiten(plain, inputs, collocation, jnp.ones((1, 2)), kind="diagonal")
    masks = [jax.tree.leaves(nn.trainable(model)) for model in (plain, white)]
    assert sum(masks[0]) == sum(masks[1])
    assert len(masks[1]) == len(masks[0]) + 1


class Ring(Problem):
    r"""$s_{xx} = u$ on a circle: constants change nothing."""

    domain = Domain(x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain, sigma=20.0, tau=3.0, gamma=4.0)}

    def equation(self, s_xx, u):
        return s_xx - u


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_a_coefficient_without_effect_is_named(kind):
    model = small(Ring(), exact="all", trunk="fourier", decoder="tucker")
    inputs = Ring().sample(jax.random.key(0), 1)
    with pytest.raises(ValueError, match="coefficient 0 does not change any residual"):
        whiten(model, inputs, gauss_grid(Ring(), (7,)), jnp.ones((1, 1)), kind=kind)
