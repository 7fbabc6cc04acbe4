"""Weak norms of residuals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain, Periodic, nn
from seponet.basis import quadrature
from seponet.loss import physics_loss
from seponet.norm import WeakNorm
from seponet.problems import Advection
from seponet.recipe import TrainConfig
from seponet.sampling import Sampler
from seponet.step import Stepper

KEY = jax.random.key(0)
DOMAIN = Domain(t=(0, 2), x=Periodic(0, 3))


@pytest.mark.parametrize("counts", [(7, 8), (6, 9)])
def test_order_zero_is_the_mean_square(counts):
    values = jax.random.normal(KEY, (4, *counts))
    weights = [quadrature(axis, n)[1] / axis.length for (_, axis), n in zip(DOMAIN.axes, counts, strict=True)]
    expected = np.einsum("fab,a,b->f", np.asarray(values) ** 2, *weights)
    found = WeakNorm.of(DOMAIN, counts, 0.0).squares(values)
    np.testing.assert_allclose(jnp.sum(found, axis=(1, 2)), expected, rtol=1e-12)


def test_a_wave_counts_less_by_its_wavenumber():
    (t, _), (x, _) = (quadrature(axis, 16) for _, axis in DOMAIN.axes)
    norm = WeakNorm.of(DOMAIN, (16, 16), 1.0)
    for k in (0, 1, 5):
        wave = np.ones_like(t)[:, None] * np.cos(2 * np.pi * k * x / 3)[None]
        expected = (0.5 if k else 1.0) / (1 + k**2)
        np.testing.assert_allclose(jnp.sum(norm.squares(jnp.asarray(wave)[None])), expected, rtol=1e-12)


def test_the_loss_of_order_zero_is_the_ordinary_one_and_so_is_its_gradient():
    problem = Advection()
    model = nn.build(problem, rank=4, exact="all", trunk_width=8, trunk_depth=1, branch_width=8, key=KEY)
    sampler = Sampler.of(problem.domain, 6, "gauss")
    inputs, collocation = problem.sample(KEY, 3), sampler.draw(KEY, sampler.density())
    weights = jnp.ones((1, 3))

    def loss(model, norm):
        return physics_loss(model, inputs, collocation, weights, norm=norm).total

    plain, weak = (eqx.filter_value_and_grad(loss)(model, n) for n in (None, WeakNorm.of(problem.domain, (6, 6), 0.0)))
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(weak), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"), [({"sampling": "uniform"}, "needs train.sampling = 'gauss'"), ({}, "needs all 8 rows")]
)
def test_what_it_needs_is_said(changes, message):
    model = nn.build(Advection(), rank=4, exact="all", key=KEY)
    config = TrainConfig(**{"points": 8, "sampling": "gauss", "weakness": 1.0, **changes})
    with pytest.raises(ValueError, match=message):
        Stepper(model, config, 8 if changes else 4, KEY)
