"""Series arithmetic against nested differentiation and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.calculus import taylor

ORDER = 4

rules = {
    "exp": (jnp.exp, taylor.exp),
    "sin": (jnp.sin, taylor.sin),
    "cos": (jnp.cos, taylor.cos),
    "tanh": (jnp.tanh, taylor.tanh),
    "square": (jnp.square, taylor.square),
    "gelu": (jax.nn.gelu, taylor.gelu),
}


def series(seed: int = 0, shape: tuple[int, ...] = (3, 2), order: int = ORDER) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(order + 1, *shape)))


@pytest.mark.parametrize("name", rules)
@pytest.mark.parametrize("order", [0, ORDER])
def test_rule_equals_nested_jvp(name, order):
    function, rule = rules[name]
    x = series(order=order)
    ours, nested = jax.jit(lambda x: (rule(x), taylor.push(function, x)))(x)
    np.testing.assert_allclose(ours, nested, rtol=0, atol=1e-10)


def test_sine_of_a_line_has_the_textbook_coefficients():
    # sin(w t) about 0: 0, w, 0, -w^3/3!, 0, w^5/5!
    w = 1.7
    got = taylor.sin(jnp.array([0.0, w, 0.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(got, [0, w, 0, -(w**3) / 6, 0, w**5 / 120], atol=1e-15)


def test_product_of_polynomials():
    # (1 + 2t + 3t^2)(4 + 5t + 6t^2) = 4 + 13t + 28t^2 + ...
    got = taylor.multiply(jnp.array([1.0, 2.0, 3.0]), jnp.array([4.0, 5.0, 6.0]))
    np.testing.assert_allclose(got, [4, 13, 28])


def test_pythagoras_holds_for_series():
    @jax.jit
    def sum_of_squares(x):
        s, c = taylor.sin_cos(x)
        return taylor.multiply(s, s) + taylor.multiply(c, c)

    one = sum_of_squares(series())
    np.testing.assert_allclose(one[0], 1.0, atol=1e-12)
    np.testing.assert_allclose(one[1:], 0.0, atol=1e-12)


def test_derivatives_are_unnormalised():
    x = np.linspace(-1, 1, 5)
    got = jax.jit(lambda x: taylor.derivatives(lambda y: jnp.concatenate([y**5, jnp.exp(2 * y)], -1), x, 3))(x)
    assert got.shape == (4, 5, 2)
    np.testing.assert_allclose(got[..., 0], [x**5, 5 * x**4, 20 * x**3, 60 * x**2], atol=1e-13)
    np.testing.assert_allclose(got[..., 1], [2**k * np.exp(2 * x) for k in range(4)], rtol=1e-13)


def test_partials_of_three_coordinates():
    def function(p):
        x, y, z = p[..., :1], p[..., 1:2], p[..., 2:]
        return jnp.sin(2 * x) * y**3 * jnp.exp(3 * z)

    p = np.random.default_rng(1).normal(size=(4, 3))
    got = np.asarray(jax.jit(lambda p: taylor.partials(function, p, (1, 2, 1)))(p))
    assert got.shape == (2, 3, 2, 4, 1)
    x, y, z = p.T
    np.testing.assert_allclose(got[1, 2, 0, :, 0], 2 * np.cos(2 * x) * 6 * y * np.exp(3 * z), rtol=1e-12)
    np.testing.assert_allclose(got[0, 1, 1, :, 0], np.sin(2 * x) * 3 * y**2 * 3 * np.exp(3 * z), rtol=1e-12)


def test_partials_want_an_order_for_each_coordinate():
    with pytest.raises(ValueError, match="each of the 3 coordinates"):
        taylor.partials(jnp.sin, jnp.zeros((2, 3)), (1, 2))


def test_push_prefers_the_module_s_own_rule():
    class Marked:
        def __call__(self, x):
            return x

        def taylor(self, s):
            return 7 * s

    x = series()
    np.testing.assert_allclose(taylor.push(Marked(), x), 7 * x)


def test_float32_stays_float32():
    x = series().astype(jnp.float32)
    for function, rule in rules.values():
        assert jax.eval_shape(rule, x).dtype == jnp.float32
        assert jax.eval_shape(lambda x, f=function: taylor.push(f, x), x).dtype == jnp.float32
