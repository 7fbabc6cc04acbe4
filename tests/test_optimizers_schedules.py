"""Schedules, and the registry of optimizers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seponet.training.optimizers import cosine, exponential, make_optimizer, make_schedule


def test_exponential_is_the_papers():
    rate = exponential()
    np.testing.assert_allclose(np.array([rate(0), rate(1000), rate(2500)]), [1e-3, 0.9e-3, 1e-3 * 0.9**2.5], rtol=1e-12)


def test_cosine_with_warmup():
    rate = cosine(2.0, steps=110, warmup=10, final=0.5)
    np.testing.assert_allclose(
        np.array([rate(t) for t in (0, 5, 10, 60, 110, 500)]), [0.0, 1.0, 2.0, 1.25, 0.5, 0.5], atol=1e-12
    )
    assert cosine(2.0, steps=100)(0) == 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exponential(rate=-1.0), "`rate` must be positive; got -1.0"),
        (lambda: cosine(1e-3, steps=10, warmup=10), "`steps - warmup` must be positive"),
        (lambda: cosine(1e-3, steps=10, warmup=-1), "`warmup` must be at least 0; got -1"),
        (lambda: make_optimizer("saop", 1e-3), "no optimizer 'saop' .did you mean 'soap'"),
        (lambda: make_optimizer("lion", 1e-3), "choose one of adam, muon, soap"),
        (lambda: make_optimizer("soap", 1e-3, frequncy=3), "no option 'frequncy' .did you mean 'frequency'"),
        (lambda: make_schedule("cosin", rate=1.0), "did you mean 'cosine'"),
        (lambda: make_schedule("cosine", rate=1.0), "needs steps"),
    ],
)
def test_mistakes_say_what_to_write(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["adam", "soap", "muon"])
def test_every_optimizer_trains_an_equinox_network(name):
    x = jnp.linspace(-1, 1, 64)[:, None]  # the best straight line through sin(3x) leaves 28% of the loss at the start
    net = eqx.nn.MLP(1, 1, 16, 2, jnp.tanh, key=jax.random.key(0))
    params, static = eqx.partition(net, eqx.is_inexact_array)
    optimizer = make_optimizer(name, make_schedule("cosine", rate=2e-2, steps=200))

    def loss(params):
        return jnp.mean((jax.vmap(eqx.combine(params, static))(x) - jnp.sin(3 * x)) ** 2)

    def step(carry, _):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    trained, _ = jax.lax.scan(step, (params, optimizer.init(params)), length=200)[0]
    assert loss(trained) < 0.02 * loss(params)
