"""Compiled functions: what they compute does not depend on how they were compiled."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seponet._program import OwnProgram, compiled_briefly


@compiled_briefly
def iterate(x, steps: int, shift=None):
    """A few steps of a contraction, with static and missing arguments."""
    for _ in range(steps):
        x = jnp.tanh(x @ x.T) / 3 + (0.0 if shift is None else shift)
    return x


def plain(x, steps, shift=None):
    return inspect.unwrap(iterate)(x, steps, shift)


def test_a_program_compiled_in_a_hurry_computes_the_same():
    x = jnp.linspace(-1.0, 1.0, 25).reshape(5, 5)
    cases: list[tuple[Any, ...]] = [(x, 3), (x, 2, jnp.asarray(0.1))]
    for arguments in cases:
        np.testing.assert_allclose(iterate(*arguments), plain(*arguments), rtol=1e-12)
        np.testing.assert_allclose(OwnProgram(plain, brief=True)(*arguments), plain(*arguments), rtol=1e-12)


def test_it_may_be_part_of_another_program_and_be_differentiated():
    x = jnp.linspace(-1.0, 1.0, 9).reshape(3, 3)
    inside = jax.jit(lambda x: jax.lax.fori_loop(0, 2, lambda _, y: iterate(y, 2), x))(x)
    np.testing.assert_allclose(inside, plain(x, 4), rtol=1e-12)
    # Options of the compiler are for whole programs, so also what depends on no argument of one has to know of it.
    for constant in (lambda: iterate(x, 2), lambda: OwnProgram(plain, brief=True)(x, 2)):
        np.testing.assert_allclose(jax.jit(constant)(), plain(x, 2), rtol=1e-12)
    gradient = jax.grad(lambda x: jnp.sum(iterate(x, 2)))(x)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: jnp.sum(plain(x, 2)))(x), rtol=1e-12)
