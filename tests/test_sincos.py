"""Sine and cosine in one sweep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.calculus.sincos import sin_cos


@pytest.mark.parametrize(("largest", "error"), [(1.0, 1.2e-7), (50.0, 1.5e-7), (8000.0, 3e-7)])
def test_it_is_accurate_to_round_off_in_float32(largest, error):
    x = np.linspace(-largest, largest, 200_001).astype(np.float32)
    s, c = sin_cos(jnp.asarray(x))
    assert s.dtype == c.dtype == np.float32
    assert np.max(np.abs(s - np.sin(x.astype(float)))) < error
    assert np.max(np.abs(c - np.cos(x.astype(float)))) < error


def test_it_is_the_compilers_own_in_float64():
    x = jnp.linspace(-30.0, 30.0, 101)
    s, c = sin_cos(x)
    # Both round; a few units in the last place of one.
    np.testing.assert_allclose(s, np.sin(x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(c, np.cos(x), rtol=0, atol=1e-15)


def test_it_can_be_differentiated_in_both_directions_and_again():
    x = jnp.linspace(-3.0, 3.0, 11)
    third = jax.jvp(lambda x: jax.jvp(lambda x: sin_cos(x)[1], (x,), (jnp.ones_like(x),))[1], (x,), (x,))[1]
    np.testing.assert_allclose(third, -np.cos(x) * x, atol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(sin_cos(x)[0] ** 2))(x), np.sin(2 * x), atol=1e-14)


def test_no_turn_is_lost():
    x = np.arange(-400, 401) * (np.pi / 4)
    single = x.astype(np.float32)
    s, c = sin_cos(jnp.asarray(single))
    # In double precision: NumPy's sine in single precision has an error of its own, which hangs on the processor.
    np.testing.assert_allclose(s, np.sin(single.astype(float)), rtol=0, atol=2e-7)
    np.testing.assert_allclose(c, np.cos(single.astype(float)), rtol=0, atol=2e-7)
