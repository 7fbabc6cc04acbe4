"""Mapped domains from end to end: what is refused, exact conditions on random walls, inverse maps, files."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seponet
from seponet import Derivative, Domain, Mapped, Normal, Periodic, Problem, Residual, Value, maps
from seponet.calculus.collocation import make_collocation
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.derivatives import multi_index
from seponet.discretise.discretisation import Discretisation
from seponet.discretise.level import distance, solve_level
from seponet.equations.chart import Chart
from seponet.equations.corners import corner_angles
from seponet.equations.folding import folded
from seponet.equations.symbols import Symbol
from seponet.functions import GaussianField, Scalar, SpectralField
from seponet.locations import Grid
from seponet.operator.placement import invert
from seponet.training.shapes import check_shapes, is_mixed

TWO_PI = 2 * np.pi
THETA = Domain(theta=Periodic(0, TWO_PI))


class Star(Problem):
    """A wall and its temperature, both random."""

    domain = maps.disk(lambda R: jnp.exp(0.25 * R))
    inputs = {
        "R": SpectralField(THETA, sigma=400.0, tau=3.0, gamma=6.0),
        "f": GaussianField(Domain(x=(-3, 3), y=(-3, 3)), length_scale=1.5),
    }
    conditions = [Value({"rho": 1}, equals="f")]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Channel(Problem):
    """A moving wall; the floor is insulated, exactly, because grid lines are upright there."""

    domain = maps.channel(lambda h, t: (0.7 + 0.2 * h) * (1 + 0.1 * t), x=Periodic(0, 1), t=(0, 1))
    inputs = {"h": SpectralField(domain["x"], sigma=100.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}), Value({"q": 1}, equals=lambda x, t: t * jnp.cos(TWO_PI * x)), Normal({"q": 0})]

    def equation(self, s_t, s_xx, s_yy):
        return s_t - s_xx - s_yy


def chart_of(problem: Problem) -> Chart:
    assert problem.chart is not None
    return problem.chart


def functions_of(problem, count=3, seed=0):
    return problem.sample(jax.random.key(seed), count)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mapped(Domain(p=(0, 1), q=(0, 1)), p=lambda p, q: p * q), "is an axis of the box and a coordinate"),
        (lambda: Mapped(Domain(p=(0, 1)), x=lambda p: p, y=lambda p: p), "they depend on too few axes"),
        (lambda: Mapped(Domain(p=(0, 1)), x=2.0), "must be a function of axes and inputs"),
        (
            lambda: Mapped(Domain(p=(0, 1), q=(0, 1)), pole={"p": 0.5}, x=lambda p: p),
            "that no coordinate replaces|end of an",
        ),
        (lambda: maps.annulus(1.0, 0.5), "0 < inner < outer"),
        (lambda: maps.transfinite(*[lambda p: (p, p)] * 4), "where they should meet"),
        (lambda: maps.ring([[0, 1]], 2.0), "needs at least 3 points"),
    ],
)
def test_a_map_that_is_none_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


DISK = maps.disk(1.0)
WALL = [Value({"rho": 1})]


def laplace(_self, s_xx, s_yy):
    return s_xx + s_yy


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"equation": lambda self, s_rho: s_rho}, "an axis of the box that the map replaces.*did you mean `s_y`"),
        ({"conditions": [Derivative({"rho": 1})]}, r'did you mean Normal\(\{"rho": 1\}'),
        ({"conditions": [*WALL, Value({"rho": 0})]}, "is a pole of the map"),
        ({"conditions": [Value({"x": 1})]}, "conditions are on faces of its box"),
        ({"conditions": [Normal({"rho": 0.5})]}, "Normal needs an end"),
        ({"domain": Mapped(Domain(p=(-1, 1), q=(0, 1)), x=lambda p: p**2, y=lambda q: q)}, "the map folds: det J is z"),
        ({"domain": Mapped(Domain(rho=(0.5, 1), theta=Periodic(0, 6)), x=lambda rho, theta: rho * jnp.cos(theta),
                           y=lambda rho, theta: rho * jnp.sin(theta))}, "theta is periodic, but the coordinate"),
        ({"inputs": {"f": GaussianField(Domain(x=(0, 1), rho=(0, 1)), length_scale=1.0)}}, "a function of either"),
        ({"domain": maps.disk("R")}, "`R` means nothing here"),
        ({"domain": maps.disk("f"), "inputs": {"f": GaussianField(Domain(x=(-1, 1), y=(-1, 1)), length_scale=1.0)}},
         "depends on the input 'f', a function of the coordinates x, y; a shape is a number, or a function of axes"),
    ],
)  # fmt: skip
def test_a_problem_that_is_none_says_what_was_meant(body, message):
    attributes = {"domain": DISK, "conditions": WALL, "equation": laplace, **body}
    with pytest.raises(ValueError, match=message):
        type("Wrong", (Problem,), attributes)


def test_conditions_hold_exactly_on_random_walls():
    problem = Star()
    inputs = functions_of(problem)
    discretisation = Discretisation.of(problem, problem.domain.names, {"rho": 5, "theta": 7})
    c = jax.random.normal(jax.random.key(1), (3, *discretisation.coefficient_shape()))
    wall = Grid.of(problem.domain, {"rho": jnp.array([1.0]), "theta": jnp.linspace(0.1, 6.0, 9)})
    symbol = Symbol("field", "s")
    found = evaluate(FixedCoefficients(discretisation, c), inputs, wall, [symbol])[symbol]
    at = chart_of(problem).locate(inputs, wall)
    wanted = inputs["f"].each((at["x"].reshape(3, -1), at["y"].reshape(3, -1)))
    np.testing.assert_allclose(found.reshape(3, -1), wanted, atol=1e-12 * np.max(np.abs(wanted)))


def test_normal_derivatives_hold_exactly_where_grid_lines_are_upright():
    problem = Channel()
    assert [c.name for c in problem.linear_conditions] == ["t=0", "q=1", "normal q=0"]
    inputs = functions_of(problem)
    discretisation = Discretisation.of(problem, problem.domain.names, {"t": 3, "x": 5, "q": 5})
    c = jax.random.normal(jax.random.key(1), (3, *discretisation.coefficient_shape()))
    floor = Grid.of(problem.domain, {"t": jnp.array([0.3, 1.0]), "x": jnp.linspace(0, 0.9, 7), "q": jnp.array([0.0])})
    s, slope = Symbol("field", "s"), Symbol("field", "s", multi_index(y=1))
    found = evaluate(FixedCoefficients(discretisation, c), inputs, floor, [s, slope])
    assert np.max(np.abs(found[slope])) <= 1e-12 * np.max(np.abs(found[s]))


def test_the_inverse_of_a_map_finds_points_and_says_what_is_outside():
    problem = Star()
    inputs = functions_of(problem, 1)
    box = {"rho": jnp.array([0.0, 0.3, 0.77, 1.0]), "theta": jnp.array([1.0, 2.0, 6.1, 4.0])}
    at = chart_of(problem).locate(inputs, seponet.Points.of(problem.domain, box))
    given = {name: jnp.append(at[name][0], 5.0) for name in "xy"}
    found, inside = jax.jit(lambda given: invert(chart_of(problem), inputs, given))(given)
    assert inside.tolist() == [True, True, True, True, False]
    np.testing.assert_allclose(found["rho"][1:4], box["rho"][1:], atol=1e-9)
    np.testing.assert_allclose(found["theta"][1:4], box["theta"][1:], atol=1e-9)


def test_solutions_are_those_of_the_equation_and_their_errors_are_physical():
    class Exact(Star):
        inputs = {"R": Star.inputs["R"]}
        conditions = [Value({"rho": 1}, equals=lambda x, y: jnp.sin(x) * jnp.exp(0.5 * y))]

        def equation(self, s_xx, s_yy, x, y):  # pyright: ignore[reportIncompatibleMethodOverride]
            return s_xx + s_yy + 0.75 * jnp.sin(x) * jnp.exp(0.5 * y)

    problem, inputs = Exact(), functions_of(Exact(), 2)
    levels = [
        solve_level(Discretisation.of(problem, problem.domain.names, ranks), (("rho", 20), ("theta", 64)), inputs, 2,
                    None, 1e-8)
        for ranks in ({"rho": 8, "theta": 21}, {"rho": 11, "theta": 31})
    ]  # fmt: skip
    nodes = make_collocation(levels[1].discretisation, levels[1].nodes)
    at = chart_of(problem).locate(inputs, nodes.where)
    weights = [np.asarray(w) for w in nodes.weights]
    exact = np.asarray(jnp.sin(at["x"]) * jnp.exp(0.5 * at["y"]))
    # The norm by another quadrature of the formula: int s^2 |det J| with det J = rho R^2 written by hand.
    R = np.exp(0.25 * np.asarray(inputs["R"](Grid(("theta",), (nodes.where["theta"],)))))
    element = np.asarray(nodes.where["rho"])[None, :, None] * R[:, None, :] ** 2
    squares = np.einsum("fij,i,j->f", exact**2 * element, *weights) * TWO_PI
    np.testing.assert_allclose(levels[1].solved.norms, np.sqrt(squares), rtol=1e-4)
    symbol = Symbol("field", "s")
    c = jnp.asarray(levels[0].solved.coefficients)
    found = evaluate(FixedCoefficients(levels[0].discretisation, c), inputs, nodes.where, [symbol])[symbol]
    wrong = np.einsum("fij,i,j->f", (found - exact) ** 2 * element, *weights) * TWO_PI
    true, told = np.sqrt(wrong / squares), distance(levels[0], levels[1], inputs)
    assert np.all(true < 2e-3)
    np.testing.assert_allclose(told, true, rtol=0.3)


def heat_lost(x, y, t, a):
    """ds/dn + 0.7 s of the solution below, with the wall's normal written by hand."""
    slope = 0.5 + 0.3 * a * jnp.sin(2 * t)
    normal = (jnp.cos(x) + slope * jnp.sin(x)) / jnp.sqrt(1 + slope**2)
    return jnp.cos(t) * jnp.exp(-y) * (normal + 0.7 * jnp.sin(x))


class Trapezoid(Problem):
    """A slanted wall that moves, with a soft Robin condition: s = sin(x) exp(-y) cos(t)."""

    domain = Mapped(
        Domain(t=(0, 1), p=(0, 1), q=(0, 1)),
        x=lambda t, p, q, a: p * (1 + 0.5 * q + 0.3 * a * q * jnp.sin(2 * t)),
        y=lambda q: q,
        keep=("t",),
    )
    inputs = {"a": Scalar(0.5, 1.0)}

    conditions = [
        Value({"t": 0}, equals=lambda x, y: jnp.sin(x) * jnp.exp(-y)),
        Value({"p": 0}),
        Normal({"p": 1}, value=0.7, equals=heat_lost),
        Value({"q": (0, 1)}, equals=lambda x, y, t: jnp.sin(x) * jnp.exp(-y) * jnp.cos(t)),
    ]

    def equation(self, s_t, s_xx, s_yy, x, y, t):
        return s_t - s_xx - s_yy + jnp.sin(x) * jnp.exp(-y) * jnp.sin(t)


def test_a_soft_condition_on_a_slanted_moving_wall_is_as_right_as_the_equation():
    problem = Trapezoid()
    assert [term.name for term in problem.free_conditions] == ["normal p=1"]
    inputs = functions_of(problem, 1)
    ranks = dict.fromkeys(problem.domain, 5)
    discretisation = Discretisation.of(problem, problem.domain.names, ranks)
    level = solve_level(discretisation, tuple((name, 9) for name in problem.domain), inputs, 1, None, 1e-9)
    where = Grid.of(problem.domain, {name: jnp.linspace(0, 1, 4) for name in problem.domain})
    symbol, at = Symbol("field", "s"), chart_of(problem).locate(inputs, where)
    found = evaluate(FixedCoefficients(discretisation, jnp.asarray(level.solved.coefficients)), inputs, where, [symbol])
    exact = jnp.sin(at["x"]) * jnp.exp(-at["y"]) * jnp.cos(at["t"])
    np.testing.assert_allclose(found[symbol], jnp.broadcast_to(exact, found[symbol].shape), atol=2e-4)


def test_shapes_that_fold_are_told_and_never_sampled(caplog):
    class Folding(Problem):
        domain = maps.channel(lambda h: 0.4 + 0.3 * h, x=Periodic(0, 1))
        inputs = {"h": SpectralField(domain["x"], sigma=2500.0, tau=5.0, gamma=4.0)}
        conditions = [Value({"q": (0, 1)})]
        equation = laplace

    problem = Folding()
    raw = problem.draw(jax.random.key(0), 64)
    share = float(jnp.mean(folded(chart_of(problem), raw)))
    assert 0.05 < share < 0.5
    assert not np.any(folded(chart_of(problem), problem.sample(jax.random.key(0), 64)))
    with caplog.at_level(logging.WARNING):
        check_shapes(problem)
    assert "shapes fold" in caplog.text
    assert "x = " in caplog.text
    with pytest.raises(ValueError, match="of 256 shapes fold"):
        check_shapes(type("Wilder", (Folding,), {"domain": maps.channel(lambda h: 0.1 + 2 * h, x=Periodic(0, 1))})())


def test_an_input_whose_box_is_too_small_is_refused():
    small = {"R": Star.inputs["R"], "f": GaussianField(Domain(x=(-1, 1), y=(-3, 3)), length_scale=1.0)}
    with pytest.raises(ValueError, match="enlarge the box of 'f'"):
        check_shapes(type("Small", (Star,), {"inputs": small})())


def test_corners_have_angles():
    rhombus = Mapped(Domain(p=(0, 1), q=(0, 1)), x=lambda p, q: p - 0.5 * q, y=lambda q: np.sqrt(0.75) * q, keep=())
    problem = type("P", (Problem,), {"domain": rhombus, "conditions": [Value({"p": (0, 1)}), Value({"q": (0, 1)})],
                                     "equation": laplace})()  # fmt: skip
    angles = corner_angles(chart_of(problem), {})
    assert sorted(round(a, 3) for a in angles.values()) == [60.0, 60.0, 120.0, 120.0]
    assert not any(is_mixed(problem, corner) for corner in angles)


def test_a_soft_condition_and_a_corner_of_two_kinds_are_told(caplog):
    """The half of an L: between the diagonal, which is even, and a wall the singularity is that of 270 degrees."""
    corners = {"bottom": (-1, -1), "right": (1, -1), "far": (1, 0), "reentrant": (0, 0)}
    sides = [("bottom", "right"), ("reentrant", "far"), ("bottom", "reentrant"), ("right", "far")]
    half = maps.transfinite(*(np.array([corners[a], corners[b]], float) for a, b in sides))
    conditions = [Value({"q": (0, 1)}), Value({"p": 1}), Normal({"p": 0})]
    problem = type("L", (Problem,), {"domain": half, "conditions": conditions, "equation": laplace})()
    assert "soft      normal p=0" in str(problem)
    with caplog.at_level("INFO", "seponet"):
        check_shapes(problem)
    assert "normal p=0 is soft, since grid lines meet that wall at an angle" in caplog.text
    assert "p = 0, q = 1 has an angle of 135 degrees between a wall with a value and one with a slope" in caplog.text


def test_a_free_residual_takes_physical_derivatives():
    class Radiating(Problem):
        domain = DISK
        conditions = [Residual({"rho": 1}, lambda s, s_x, s_y, x, y: x * s_x + y * s_y + s**4 - 1)]

        def equation(self, s_xx, s_yy):
            return s_xx + s_yy

    # On the unit circle x s_x + y s_y is the radial derivative: the angle is gone.
    symbols = {str(s) for s in Radiating().free_conditions[0].expression.symbols}
    assert {"s", "s_rho"} <= symbols
