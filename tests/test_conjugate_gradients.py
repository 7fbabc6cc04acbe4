"""Least squares by conjugate gradients agree with a factorisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.operator.conjugate_gradients import conjugate_gradients


def products(matrices):
    """Products with a matrix for each function; what is seen comes in two parts."""

    def push(x):
        seen = jnp.einsum("fij,fj->fi", matrices, x)
        return [seen[:, :5], seen[:, 5:].reshape(len(seen), 2, -1)]

    like = jax.ShapeDtypeStruct((len(matrices), matrices.shape[2]), matrices.dtype)
    pull = jax.linear_transpose(push, like)
    return push, lambda parts: pull(parts)[0]


def test_every_function_gets_its_own_solution():
    matrices = jax.random.normal(jax.random.key(0), (4, 15, 6)) * jnp.logspace(0, -2, 6)[None, None]
    target = jax.random.normal(jax.random.key(1), (4, 15)).at[2].set(0.0)
    push, pull = products(matrices)
    split = [target[:, :5], target[:, 5:].reshape(4, 2, -1)]
    # The third is solved before the first iteration, and must stay so while the others go on.
    found, done = jax.jit(lambda b: conjugate_gradients(push, pull, b, 1e-12, 100))(split)
    assert np.all(done)
    expected = [np.linalg.lstsq(np.asarray(a), np.asarray(b))[0] for a, b in zip(matrices, target, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_early_end_is_an_improvement(most):
    matrices = jax.random.normal(jax.random.key(0), (3, 15, 8))
    target = jax.random.normal(jax.random.key(1), (3, 15))
    push, pull = products(matrices)
    split = [target[:, :5], target[:, 5:].reshape(3, 2, -1)]

    def left(x):
        return jnp.linalg.norm(jnp.einsum("fij,fj->fi", matrices, x) - target, axis=1)

    (fewer, _), (more, done) = (conjugate_gradients(push, pull, split, 1e-12, n) for n in (most - 1, most))
    assert np.all(left(more) < left(fewer))
    assert not np.any(done)
