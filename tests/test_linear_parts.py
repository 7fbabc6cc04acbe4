"""Linear parts of equations are found, and what is rewritten on top of them is the equation itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet import Domain
from seponet.equations.expression import Expression
from seponet.equations.linear_parts import fuse
from seponet.equations.symbols import Vocabulary
from seponet.functions import Scalar, SpectralField

DOMAIN = Domain(t=(0, 1), x=(0, 1), y=(0, 1))
VOCABULARY = Vocabulary(
    DOMAIN,
    ("s", "q"),
    {"u": SpectralField(DOMAIN["x"], sigma=20.0, tau=3.0, gamma=4.0), "nu": Scalar(0.1, 1.0)},
)
SHAPE = (2, 3, 4, 2)


def shape_of(symbol):
    if symbol.kind == "field":
        return SHAPE
    lengths = {"u": (2, 1, 4, 1), "nu": (2, 1, 1, 1), "t": (1, 3, 1, 1), "x": (1, 1, 4, 1), "y": (1, 1, 1, 2)}
    return lengths[symbol.name]


def split(body):
    """The atoms as dictionaries, and the largest difference of the fused residual from the body itself."""
    expression = Expression.parse(body, VOCABULARY, "body")
    generator = np.random.default_rng(0)
    values = {s: jnp.asarray(generator.normal(size=shape_of(s))) for s in expression.symbols}
    fused = fuse(expression, {s: shape_of(s) for s in expression.symbols}, jnp.float64)
    atoms = {atom: sum((c * values[symbol] for symbol, c in atom), jnp.zeros(())) for atom in fused.atoms}
    others = {s: v for s, v in values.items() if s.kind != "field"}
    found, direct = fused.evaluate(atoms, others), expression(values)
    assert found.shape == direct.shape
    error = jnp.max(jnp.abs(found - direct)) / (1e-300 + jnp.max(jnp.abs(direct)))
    return [{str(symbol): c for symbol, c in atom} for atom in fused.atoms], float(error)


@jax.jit
def flux(s, s_x):
    return s * s_x


@jax.jit
def diffuse(s_xx, s_yy):
    return 0.5 * (s_xx + s_yy)


@jax.custom_jvp
def cube(s):
    return s**3


cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))

BODIES = {
    "burgers": (
        lambda s, s_t, s_x, s_xx: s_t + s * s_x - 0.01 * s_xx,
        [{"s": 1}, {"s_x": 1}, {"s_t": 1, "s_xx": -0.01}],
    ),
    "diffusion-reaction": (
        lambda s, s_t, s_xx, u: s_t - 0.02 * s_xx - 0.03 * s**2 - u,
        [{"s": 1}, {"s_t": 1, "s_xx": -0.02}],
    ),
    "advection": (lambda s_t, s_x, u: s_t + u * s_x, [{"s_x": 1}, {"s_t": 1}]),
    "nonlinear diffusion": (
        lambda s, s_t, s_x, s_y, s_xx, s_yy: s_t - 0.1 * (s_x**2 + s_y**2 + s * (s_xx + s_yy)),
        [{"s_x": 1}, {"s_y": 1}, {"s": 1}, {"s_xx": 1, "s_yy": 1}, {"s_t": 1}],
    ),
    "linear with data": (
        lambda s_t, s_xx, u, t: u * t - s_t + s_xx / 4 - 1.0 + 2 * s_t,
        [{"s_t": 1, "s_xx": 0.25}],
    ),
    "number in the middle": (lambda s_t, s_x: 3.0 - s_t - 1.0 - s_x * 2, [{"s_t": 1, "s_x": 2}]),
    "jitted helpers": (
        lambda s, s_x, s_t, s_xx, s_yy: s_t + flux(s, s_x) - diffuse(s_xx, s_yy),
        [{"s": 1}, {"s_x": 1}, {"s_t": 1, "s_xx": -0.5, "s_yy": -0.5}],
    ),
    "square": (lambda s, s_t: jnp.square(s + 2 * s_t) + s_t, [{"s": 1, "s_t": 2}, {"s_t": 1}]),
    "a function of a combination": (
        lambda s, s_xx, s_t: jnp.sin(2 * s - s_xx) - s_t,
        [{"s": 1, "s_xx": -0.5}, {"s_t": 1}],
    ),
    "division by a field": (lambda s, s_t: 2.0 / (s + 3.0) - s_t, [{"s": 1}, {"s_t": 1}]),
    "division by a number": (lambda s, s_t: (s_t - s) / 7.0, [{"s": 1, "s_t": -1}]),
    "scalar input": (lambda s_t, s_xx, nu: s_t - nu * s_xx, [{"s_xx": 1}, {"s_t": 1}]),
    "two fields": (lambda s, q, s_t, q_xx: s_t + 2 * q_xx - s * q, [{"s": 1}, {"q": 1}, {"q_xx": 1, "s_t": 0.5}]),
    "multiples of one atom": (lambda s, s_x: (2 * s + 4 * s_x) ** 2 - jnp.exp(s + 2 * s_x), [{"s": 1, "s_x": 2}]),
    "array constants": (lambda s, s_x: jnp.asarray(2.0) * s + np.float64(0.5) * s_x, [{"s": 1, "s_x": 0.25}]),
    "cancellation": (lambda s, s_x: (s - s) + s_x, [{"s_x": 1}]),
    "everything cancels": (lambda s: s - s, []),
    "a constant that is zero": (lambda s, s_x: s * (0.0 * s_x) + 0.0 * s, [{"s": 1}]),
    "branching": (lambda s, s_t: jnp.where(s > 0, s, 2 * s_t), [{"s": 1}, {"s_t": 1}]),
    "custom derivative": (lambda s, s_t: cube(s) + s_t, [{"s": 1}, {"s_t": 1}]),
    "no field": (lambda u, x: u * x, []),
}


@pytest.mark.parametrize("name", BODIES)
def test_atoms_are_the_linear_parts_and_the_residual_is_unchanged(name):
    body, expected = BODIES[name]
    atoms, error = split(body)
    assert error < 1e-14
    key = lambda atom: sorted(atom.items())  # noqa: E731
    assert sorted(atoms, key=key) == sorted(
        [{k: pytest.approx(c) for k, c in atom.items()} for atom in expected], key=key
    )


def test_the_fused_residual_can_be_differentiated():
    """The loss and the conditioning differentiate it with respect to the atoms."""
    expression = Expression.parse(BODIES["burgers"][0], VOCABULARY, "body")
    fused = fuse(expression, dict.fromkeys(expression.symbols, SHAPE), jnp.float64)
    names = [str(atom[0][0]) for atom in fused.atoms]
    values = [jnp.full(SHAPE, 2.0 + i) for i in range(3)]
    slopes = jax.grad(lambda v: fused.evaluate(dict(zip(fused.atoms, v, strict=True)), {}).sum())(values)
    s, s_x, rest = (names.index(name) for name in ("s", "s_x", "s_t"))
    np.testing.assert_allclose(slopes[s], values[s_x])
    np.testing.assert_allclose(slopes[s_x], values[s])
    np.testing.assert_allclose(slopes[rest], 1.0)
