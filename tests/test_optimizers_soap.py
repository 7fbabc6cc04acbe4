"""SOAP against the paper's algorithm, written out in NumPy, and against its limits: Adam, and rotated coordinates."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seponet.training.optimizers import scale_by_soap, soap


def gradients(shape, n, seed=0):
    """Gradients with a wide spectrum on both sides and fresh noise, as stochastic training gives."""
    rng = np.random.default_rng(seed)
    scales = [np.logspace(0, -2, size) for size in shape]
    outer = np.einsum("i,j->ij", *scales) if len(shape) == 2 else scales[0]
    return [rng.normal(size=shape) * outer for _ in range(n)]


def run(optimizer, sequence, params):
    state: Any = optimizer.init(params)
    update = jax.jit(optimizer.update)
    steps = []
    for g in sequence:
        updates, state = update(jax.tree.map(jnp.asarray, g), state, params)
        steps.append(updates)
    return steps, state


def literal_soap(sequence, b1, b2, beta, eps, frequency, sides):
    """Algorithm 3 of the paper line by line: the momentum stays unrotated; the first gradient initialises the bases."""
    m, n = sequence[0].shape
    left, right, first, second = np.zeros((m, m)), np.zeros((n, n)), np.zeros((m, n)), np.zeros((m, n))
    q_left, q_right = np.eye(m), np.eye(n)
    steps = []
    for t, g in enumerate(sequence):
        left, right = beta * left + (1 - beta) * g @ g.T, beta * right + (1 - beta) * g.T @ g
        if t == 0:
            if "left" in sides:
                q_left = np.linalg.eigh(left)[1][:, ::-1]
            if "right" in sides:
                q_right = np.linalg.eigh(right)[1][:, ::-1]
            steps.append(np.zeros((m, n)))
            continue
        first = b1 * first + (1 - b1) * g
        second = b2 * second + (1 - b2) * (q_left.T @ g @ q_right) ** 2
        rotated = (q_left.T @ first @ q_right) / (1 - b1**t)
        steps.append(q_left @ (rotated / (np.sqrt(second / (1 - b2**t)) + eps)) @ q_right.T)
        if t % frequency == 0:
            if "left" in sides:
                order = np.argsort(-np.diag(q_left.T @ left @ q_left))
                q_left, second = np.linalg.qr(left @ q_left[:, order])[0], second[order]
            if "right" in sides:
                order = np.argsort(-np.diag(q_right.T @ right @ q_right))
                q_right, second = np.linalg.qr(right @ q_right[:, order])[0], second[:, order]
    return steps


# One gradient of a matrix that isn't square leaves a part of the longer side's basis open: both sides need a square.
@pytest.mark.parametrize(
    ("shape", "sides"), [((7, 7), ("left", "right")), ((6, 8), ("left",)), ((8, 6), ("right",))], ids=str
)
def test_equals_the_algorithm_of_the_paper(shape, sides):
    sequence = gradients(shape, 20)
    options = {"b1": 0.9, "b2": 0.95, "eps": 1e-8, "frequency": 3}
    steps, _ = run(scale_by_soap(**options, shampoo_beta=0.8, max_size=7), sequence, jnp.zeros(shape))
    expected = literal_soap(sequence, beta=0.8, sides=sides, **options)
    np.testing.assert_allclose(np.stack(steps), np.stack(expected), rtol=1e-8, atol=1e-8)


def test_equals_adam_when_no_side_is_preconditioned():
    shapes = {"matrix": (5, 7), "vector": (7,), "scalar": ()}
    params = {name: jnp.ones(shape) for name, shape in shapes.items()}
    rng = np.random.default_rng(0)
    sequence = [{name: rng.normal(size=shape) for name, shape in shapes.items()} for _ in range(25)]
    ours, _ = run(soap(0.01, b1=0.9, b2=0.99, max_size=4), sequence, params)
    adam, _ = run(optax.adam(0.01, b1=0.9, b2=0.99), sequence, params)
    for a, b in zip(ours, adam, strict=True):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), a, b)


def test_trajectory_turns_with_the_coordinates():
    """Minimise a noisy ill-conditioned quadratic in W, and in U W V^T: the two runs stay images of each other."""
    n = 6
    rng = np.random.default_rng(1)
    u, v = np.linalg.qr(rng.normal(size=(2, n, n)))[0]
    rows, columns = np.diag(np.logspace(0, -2, n)), np.diag(np.logspace(0, -1, n))
    noise = gradients((n, n), 40, seed=2)

    def descend(optimizer, w, a, b, turn):
        state = optimizer.init(w)
        update = jax.jit(optimizer.update)
        for e in noise:
            updates, state = update(a @ w @ b + turn(jnp.asarray(e)), state)
            w = w + updates
        return w

    start = jnp.asarray(rng.normal(size=(n, n)))
    for optimizer, invariant in ((soap(0.02, frequency=4), True), (optax.adam(0.02), False)):
        plain = descend(optimizer, start, rows, columns, lambda e: e)
        turned = descend(optimizer, u @ start @ v.T, u @ rows @ u.T, v @ columns @ v.T, lambda e: u @ e @ v.T)
        error = np.abs(turned - u @ plain @ v.T).max()
        assert (error < 1e-8) if invariant else (error > 1e-2)


def test_beats_adam_on_ill_conditioned_least_squares():
    rng = np.random.default_rng(3)
    m, n = 12, 16
    u, v = np.linalg.qr(rng.normal(size=(m, m)))[0], np.linalg.qr(rng.normal(size=(n, n)))[0]
    a, b = u @ np.diag(np.logspace(0, -1.5, m)) @ u.T, v @ np.diag(np.logspace(0, -1.5, n)) @ v.T
    target = jnp.asarray(rng.normal(size=(m, n)))

    def loss(w):
        return jnp.sum((a @ (w - target) @ b) ** 2)

    def minimise(optimizer):
        def step(carry, _):
            w, state = carry
            updates, state = optimizer.update(jax.grad(loss)(w), state)
            return (w + updates, state), None

        w = jnp.zeros((m, n))
        return loss(jax.lax.scan(step, (w, optimizer.init(w)), length=300)[0][0])

    rate = optax.cosine_decay_schedule(0.1, 300)
    adam = min(minimise(optax.adam(rate, b1, b2)) for b1, b2 in ((0.9, 0.999), (0.95, 0.95)))
    assert minimise(soap(rate)) < 0.1 * adam


def test_keeps_still_where_the_gradient_vanishes():
    """A zero-initialised last layer sends no gradient to the others at first; nothing may become NaN or move."""
    params = jnp.ones((3, 4))
    steps, state = run(soap(0.1, frequency=2), [np.zeros((3, 4))] * 6 + gradients((3, 4), 12), params)
    assert not np.any(steps[:6])
    assert all(np.all(np.isfinite(step)) for step in steps)
    basis = state[0].moments.left.basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)


def test_takes_the_trees_of_equinox_and_kernels():
    class Net(eqx.Module):
        layer: eqx.nn.Linear
        kernel: jax.Array
        activation: object

    net = Net(eqx.nn.Linear(3, 4, key=jax.random.key(0)), jnp.ones((4, 3, 2, 2)), jax.nn.gelu)
    params, _ = eqx.partition(net, eqx.is_inexact_array)
    steps, state = run(soap(0.1, weight_decay=0.1), [params] * 3, params)
    assert jax.tree.structure(steps[-1]) == jax.tree.structure(params)
    assert steps[-1].kernel.shape == (4, 3, 2, 2)
    assert state[0].moments.kernel.right.basis.shape == (12, 12)
    assert state[0].moments.layer.bias.left is None
    assert state[0].moments.layer.bias.right is None
    # The first step of a preconditioned matrix is weight decay alone.
    np.testing.assert_allclose(steps[0].layer.weight, -0.01 * params.layer.weight, rtol=1e-12)


def test_keeps_float32():
    steps, state = run(soap(0.1), [np.float32(g) for g in gradients((4, 4), 12)], jnp.zeros((4, 4), jnp.float32))
    assert steps[-1].dtype == jnp.float32
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {np.dtype(np.float32), np.dtype(np.int32)}
    expected = literal_soap(gradients((4, 4), 12), 0.95, 0.95, 0.95, 1e-8, 10, ("left", "right"))
    np.testing.assert_allclose(steps[-1], -0.1 * expected[-1], atol=1e-4)


def test_compiles_once_and_its_state_is_arrays_that_can_be_donated():
    params = {"w": jnp.ones((5, 6)), "b": jnp.ones(6), "none": None}
    optimizer = soap(optax.constant_schedule(0.01), frequency=3)
    traces = 0

    def step(params, state):
        nonlocal traces
        traces += 1
        gradient = jax.tree.map(jnp.sin, params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    compiled = jax.jit(step, donate_argnums=(0, 1))
    state: Any = optimizer.init(params)
    for _ in range(30):
        params, state = compiled(params, state)
    assert traces == 1
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
    assert int(state[0].step) == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frequency": 0}, "`frequency` counts the steps"),
        ({"b1": 1.0}, "`b1` must be"),
        ({"shampoo_beta": -0.1}, "`shampoo_beta` must be"),
    ],
)
def test_refuses_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        soap(0.1, **options)


def test_refuses_parameters_that_are_not_real():
    with pytest.raises(ValueError, match="complex128"):
        soap(0.1).init(jnp.ones((2, 2), complex))
