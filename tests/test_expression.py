"""Argument names are read as requests; formulas are differentiated by the chain rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain, Grid
from seponet.derivatives import multi_index
from seponet.equations.expression import Expression
from seponet.equations.symbols import Symbol, Vocabulary
from seponet.functions import Scalar, SpectralField, Vector

DOMAIN = Domain(t=(0, 1), x=(0, 1))
VOCABULARY = Vocabulary(
    DOMAIN,
    ("s", "q"),
    {
        "u": SpectralField(DOMAIN["x"], sigma=20.0, tau=3.0, gamma=4.0),
        "nu": Scalar(0.1, 1.0),
        "a": Vector([0.0], [1.0]),
    },
)


@pytest.mark.parametrize(
    ("argument", "symbol"),
    [
        ("s", Symbol("field", "s")),
        ("q_txx", Symbol("field", "q", multi_index(t=1, x=2))),
        ("s_xtx", Symbol("field", "s", multi_index(t=1, x=2))),
        ("s_xxxx", Symbol("field", "s", multi_index(x=4))),
        ("u", Symbol("input", "u")),
        ("u_xx", Symbol("input", "u", multi_index(x=2))),
        ("nu", Symbol("input", "nu")),
        ("t", Symbol("coordinate", "t")),
    ],
)
def test_a_name_is_a_request(argument, symbol):
    assert VOCABULARY.parse(argument) == symbol


def test_a_symbol_is_written_as_its_argument():
    assert [str(VOCABULARY.parse(name)) for name in ("s", "q_txx", "u_x", "t")] == ["s", "q_txx", "u_x", "t"]


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("s_xy", "`s_xy` differentiates along `y`; the axes are t, x"),
        ("w_x", "`w_x` means nothing here: the fields are s, q, the inputs u, nu, a, the axes t, x"),
        ("nux", "did you mean `nu`"),
        ("kappa", "write a constant as `self.name`"),
        ("u_t", "`u` is a function of x and does not depend on `t`"),
        ("nu_x", "`nu` is a constant and does not depend on `x`"),
        ("x_x", "differentiates the coordinate `x`"),
    ],
)
def test_a_name_without_meaning_is_explained(argument, sentence):
    with pytest.raises(ValueError, match=sentence):
        VOCABULARY.parse(argument)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lambda s, s_x: jnp.mean(s + s_x), r"must be elementwise.*returned \(\)"),
        (lambda s: jnp.mean(s, axis=0, keepdims=True), "must be elementwise"),
        (lambda s: jnp.stack([s, s]), "must be elementwise"),
        (lambda s: (s, s), "it returned tuple"),
        (lambda s, a: s - a, "fails on arrays of values"),
        (lambda s: s.nonsense, "fails on arrays of values.*nonsense"),
        (lambda *derivatives: derivatives[0], r"takes `\*derivatives`; name each argument"),
        (lambda **derivatives: 0.0, "takes `.*derivatives`; name each argument"),
    ],
)
def test_a_body_that_is_not_elementwise_fails_with_a_sentence(body, sentence):
    with pytest.raises(ValueError, match=f"^the body.*{sentence}"):
        Expression.parse(body, VOCABULARY, "the body")


def test_data_may_lack_axes_that_a_residual_may_not():
    Expression.parse(lambda u: u, VOCABULARY, "data")
    Expression.parse(lambda t, x: jnp.sin(t), VOCABULARY, "data")


def test_the_derivative_of_data_is_the_chain_rule():
    """d/dx and d2/dx2 of nu sin(u) u_x x^2 + t, against finite differences of the formula itself."""
    formula = Expression.parse(lambda u, u_x, x, t, nu: nu * jnp.sin(u) * u_x * x**2 + t, VOCABULARY, "data")
    keys = jax.random.split(jax.random.key(0))
    given = {"u": VOCABULARY.inputs["u"].sample(keys[0], 2), "nu": VOCABULARY.inputs["nu"].sample(keys[1], 2)}
    h = 1e-3
    centre = jnp.asarray([0.3, 0.6])
    offsets = h * jnp.arange(-2.0, 3.0)
    grid = Grid.of(DOMAIN, {"t": jnp.asarray([0.5]), "x": (centre[:, None] + offsets[None]).reshape(-1)})

    def values(expression, where):
        known = {symbol: symbol.evaluate(given, where) for symbol in expression.symbols}
        return np.broadcast_to(expression(known), (2, *where.shape))

    table = values(formula, grid).reshape(2, 2, 5)
    at = Grid.of(DOMAIN, {"t": grid["t"], "x": centre})
    once = formula.differentiate("x", VOCABULARY.inputs)
    twice = once.differentiate("x", VOCABULARY.inputs)
    first = table @ np.array([1, -8, 0, 8, -1]) / (12 * h)
    second = table @ np.array([-1, 16, -30, 16, -1]) / (12 * h**2)
    scale = np.abs(second).max()
    np.testing.assert_allclose(values(once, at)[:, 0], first, atol=1e-7 * scale)
    np.testing.assert_allclose(values(twice, at)[:, 0], second, atol=1e-6 * scale)
    in_time = formula.differentiate("t", VOCABULARY.inputs)
    np.testing.assert_allclose(values(in_time, at), 1.0)
    np.testing.assert_array_equal(values(Expression.constant(2.0).differentiate("x", {}), at), 0.0)
