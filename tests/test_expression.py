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
        ("kappa", "a constant of the problem is written `self.kappa`"),
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
        (lambda s, x: s - np.sin(x), "calls NumPy.*jax.numpy"),
        (lambda s, x: s if x > 0 else -s, r"asks for the value.*`jnp\.where"),
        (lambda s: s * float(s), r"asks for the value.*`jnp\.where"),
        (lambda *derivatives: derivatives[0], r"takes `\*derivatives`; name each argument"),
        (lambda **derivatives: 0.0, "takes `.*derivatives`; name each argument"),
    ],
)
def test_a_body_that_is_not_elementwise_fails_with_a_sentence(body, sentence):
    with pytest.raises(ValueError, match=f"^the body.*{sentence}"):
        Expression.parse(body, VOCABULARY, "the body")


MIXING = {
    "mean": (lambda s: s - jnp.mean(s), r"a sum or mean \(`reduce_sum`\) along the functions, t, x"),
    "mean over functions": (lambda s: s - jnp.mean(s, axis=0, keepdims=True), r"`reduce_sum`\) along the functions:"),
    "mean of an input": (lambda s, u: s - jnp.mean(u), r"`reduce_sum`\) along the functions, x:"),
    "mean in a compiled function": (lambda s: jax.jit(lambda v: v - v.mean())(s), "a sum or mean"),
    "sum under checkpoint": (lambda s: jax.checkpoint(lambda v: v - v.sum())(s), "a sum or mean"),
    "maximum": (lambda s: s / jnp.max(jnp.abs(s)), r"a maximum \(`reduce_max`\) along the functions, t, x"),
    "maximum of a coordinate": (lambda s, x: s - jnp.max(x), r"a maximum \(`reduce_max`\) along x:"),
    "softmax": (jax.nn.softmax, "a maximum .* along x"),
    "any": (lambda s: jnp.where(jnp.any(s < 0), s, 0), "`all` or `any`"),
    "branch": (lambda s: jax.lax.cond(jnp.all(s > 0), lambda: s, lambda: -s), "`all` or `any`"),
    "cumulative sum": (lambda s: jnp.cumsum(s, axis=2), r"a cumulative sum \(`cumsum`\) along x:"),
    "prefix sums": (lambda s: jax.lax.associative_scan(jnp.add, s, axis=1), "along t:"),
    "shift": (lambda s: jnp.roll(s, 1, axis=1), "indexing or a shift .* along t:"),
    "differences": (lambda s: jnp.gradient(s, axis=2), "indexing or a shift .* along x:"),
    "padding": (lambda s: jax.lax.pad(s, s.dtype.type(0), [(0, 0, 0), (0, 0, 0), (1, -1, 0)]), "padding .* along x:"),
    "trapezoidal rule": (lambda s, x: s - jnp.trapezoid(s, x, axis=2)[..., None], "along x:"),
    "sorting": (jnp.sort, r"sorting \(`sort`\) along x:"),
    "largest": (lambda s: s - jax.lax.top_k(s, 1)[0], "sorting .* along x:"),
    "median": (lambda s: s - jnp.median(s, axis=1, keepdims=True), "along t:"),
    "reversal": (lambda s: s + s[:, ::-1], "a reversal .* along t:"),
    "first function": (lambda s: s - s[:1], "indexing .* along the functions:"),
    "left end": (lambda s: s - s[:, :, :1], "indexing .* along x:"),
    "chosen points": (lambda s: s - jnp.take(s, jnp.array([0]), axis=2), r"indexing .*`gather`\) along x:"),
    "a place of its own": (lambda s: s - jax.lax.dynamic_slice_in_dim(s, 0, 1, 2), "`dynamic_slice`.* along x:"),
    "writing": (lambda s: s.at[:, 0].set(0.0), r"writing to single elements \(`scatter`\) along t:"),
    "Fourier transform": (lambda s: jnp.fft.ifft(jnp.fft.fft(s)).real, "a Fourier transform .* along x:"),
    "matrix": (lambda s: s @ jnp.ones((s.shape[2], s.shape[2])), r"a product of matrices .*along x:"),
    "Gram matrix": (lambda s: s @ (s.mT @ s), r"a product of matrices .*along t:"),
    "moving sum": (
        lambda s: jax.lax.reduce_window(s, 0.0, jax.lax.add, (1, 1, 3), (1, 1, 1), "SAME"),
        "a moving sum .* along x:",
    ),
    "reshape": (lambda s: s.reshape(s.shape[::-1]).transpose(2, 1, 0), "a reshape .* along the functions, t, x:"),
    "flat": (lambda s: s.ravel()[::-1].reshape(s.shape), "a reshape .* along the functions, t, x:"),
    "loop": (lambda s: jax.lax.scan(lambda c, v: (c + v, c), s[0] * 0, s)[1], "along the functions:"),
    "loop over functions": (lambda s: jax.lax.map(lambda v: v - 1.0, s), r"a loop \(`scan`\) along the functions:"),
}


@pytest.mark.parametrize("name", MIXING)
def test_a_body_that_mixes_points_or_functions_is_refused_although_its_shape_is_right(name):
    body, sentence = MIXING[name]
    with pytest.raises(ValueError, match=f"^the body must be elementwise, but it has .*{sentence}.*(at|for) one point"):
        Expression.parse(renamed(body), VOCABULARY, "the body")


def renamed(body):
    """The body as a function of `s` if it has another signature, as JAX's own have."""
    return body if body.__name__ == "<lambda>" else lambda s: body(s)


def matrix(p, q):
    return jnp.moveaxis(jnp.asarray([[2 + p**2, q], [q, 2 + q**2]]), (0, 1), (-2, -1))


LEGAL = {
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "select": lambda s: jnp.select([s > 0, s < 0], [s, -s], 0.0),
    "piecewise": lambda s: jnp.piecewise(s, [s < 0, s >= 0], [lambda v: -v, lambda v: v**2]),
    "polynomial": lambda s: jnp.polyval(jnp.arange(7.0), s),
    "table": lambda s: jnp.interp(s, jnp.linspace(0, 1, 11), jnp.arange(11.0)),
    "special function": lambda s: jax.scipy.special.expi(1 + s**2),
    "modulus of a complex number": lambda s: jnp.abs(jnp.exp(1j * s)),
    "derivative of a potential": lambda s: jax.grad(lambda v: jnp.sum(v**4))(s),
    "derivative in a compiled function": lambda s: jax.jit(jax.grad(lambda v: jnp.sum(v**4)))(s),
    "loop at every point": lambda s: jnp.vectorize(
        lambda v: jax.lax.while_loop(lambda w: jnp.abs(w**2 - v) > 1e-3, lambda w: (w + v / w) / 2, v)
    )(s),
    "sines of a coordinate": lambda s, x: s * jnp.sum(jnp.sin(x[..., None] * jnp.ones((1, 1, 1, 5))), axis=-1),
    "component": lambda s, b: b[0] * s + b[1:3].sum(0),
    "norm of components": lambda s, b: s / jnp.linalg.norm(b, axis=0),
    "largest component": lambda s, b: s * jnp.max(b, axis=0),
    "changed component": lambda s, b: s * b.at[0].set(1.0).prod(0),
    "chosen components": lambda s, b: s * b[np.array([0, 2])].sum(0),
    "scalar product": lambda s, s_x, b: jnp.einsum("i...,i...->...", b[:2], jnp.stack([s, s_x])),
    "constant matrix": lambda s, s_x: jnp.tensordot(jnp.asarray([[1.0, 2.0]]), jnp.stack([s, s_x]), 1)[0],
    "determinant": lambda s, s_x: jnp.linalg.det(matrix(s, s_x)),
    "linear system": lambda s, s_x: jnp.linalg.solve(matrix(s, s_x), jnp.ones((*s.shape, 2, 1)))[..., 0, 0],
    "array of numbers": lambda s: s * np.ones(s.shape),
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_body_that_is_elementwise_is_accepted_however_it_is_written(name):
    components = Vector([0.0] * 7, [1.0] * 7)
    vocabulary = Vocabulary(DOMAIN, ("s",), {**VOCABULARY.inputs, "b": components})
    expression = Expression.parse(renamed(LEGAL[name]), vocabulary, "the body")
    shapes = {"field": (2, 3, 4), "coordinate": (1, 1, 4), "input": (7, 2, 1, 1)}
    keys = jax.random.split(jax.random.key(0), len(expression.symbols))
    values = {s: jax.random.uniform(k, shapes[s.kind]) for s, k in zip(expression.symbols, keys, strict=True)}
    whole = expression(values)
    single = {s: v[..., :1, :1, :1] for s, v in values.items()}
    np.testing.assert_allclose(whole[:1, :1, :1], expression(single), rtol=1e-5)


@pytest.mark.parametrize("body", [lambda s, s_t, s_xx: 1j * s_t + s_xx * s, lambda u: jnp.exp(1j * u)])
def test_a_complex_body_is_to_be_written_as_two_fields(body):
    with pytest.raises(ValueError, match=r"^the body must be real.*real and imaginary part as two fields"):
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
