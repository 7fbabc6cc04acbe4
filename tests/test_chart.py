"""The chain rule of mapped domains: physical derivatives of known functions, from derivatives along the box."""

import jax
import jax.numpy as jnp
import numpy as np

from seponet import Domain, Grid, Mapped, Normal, Periodic, Points, Problem, Value
from seponet.derivatives import multi_index
from seponet.equations.chart import Chart
from seponet.equations.linear_parts import fuse
from seponet.equations.pullback import physical_derivative
from seponet.equations.symbols import Symbol
from seponet.functions import GaussianField, Scalar, SpectralField

TWO_PI = 2 * np.pi


def chart_of(problem: Problem) -> Chart:
    assert problem.chart is not None
    return problem.chart


def evaluate(problem, inputs, expressions, where, function):
    """Expressions along the box for s = `function` of the physical coordinates, whose derivatives along the box come
    from automatic differentiation through the map: nothing here uses the chain rule that is tested."""
    chart, domain = chart_of(problem), problem.domain
    mesh = [np.asarray(m).reshape(-1) for m in np.meshgrid(*where.points, indexing="ij")]
    count = max((len(f) for f in inputs.values()), default=1)
    betas = list(dict.fromkeys(s.alpha for e in expressions for s in e.symbols if s.kind == "field"))

    def at(row, *point):
        one = {name: f[row[None]] for name, f in inputs.items()}

        def s(*coordinates):
            located = chart.locate(one, Grid(domain.names, tuple(c[None] for c in coordinates)))
            return function(*(located[name].reshape(()) for name in domain.physical_names))

        def derivative(beta):
            found = s
            for name, order in beta:
                for _ in range(order):
                    found = jax.jacfwd(found, argnums=domain.names.index(name))
            return found(*point)

        return [derivative(beta) for beta in betas]

    pairs = [jnp.repeat(jnp.arange(count), len(mesh[0])), *(jnp.tile(m, count) for m in mesh)]
    along_box = dict(zip(betas, jax.jit(jax.vmap(at))(*pairs), strict=True))
    found = []
    for expression in expressions:
        values = {
            s: along_box[s.alpha].reshape(count, *where.shape) if s.kind == "field" else s.evaluate(inputs, where)
            for s in expression.symbols
        }
        result = jax.jit(lambda arrays, e=expression: e.function(*arrays))([values[s] for s in expression.symbols])
        found.append(np.broadcast_to(result, (count, *where.shape)))
    return found


def physical(problem, *names):
    """Physical derivatives of s as expressions along the box."""
    symbols = [Symbol("field", "s", problem.domain.parse_derivative(name)) for name in names]
    return [physical_derivative(symbol, chart_of(problem)) for symbol in symbols]


def grid_of(domain, seed=0, points=4):
    rng = np.random.default_rng(seed)
    return Grid.of(
        domain,
        {n: jnp.asarray(np.sort(rng.uniform(a.lower + 0.1 * a.length, a.upper, points))) for n, a in domain.axes},
    )


def close(got, wanted):
    assert np.max(np.abs(got - wanted)) <= 1e-10 * np.max(np.abs(wanted))


POLAR = (lambda rho, theta: rho * jnp.cos(theta), lambda rho, theta: rho * jnp.sin(theta))


class Disk(Problem):
    domain = Mapped(Domain(rho=(0, 1), theta=Periodic(0, TWO_PI)), pole={"rho": 0}, x=POLAR[0], y=POLAR[1])
    conditions = [Value({"rho": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy + 1.0


class Channel(Problem):
    """0 < y < h(x, t) c, moving, with a random wall and a number."""

    domain = Mapped(Domain(t=(0, 1), x=(0, 1), q=(0, 1)), y=lambda q, h, c, t: q * (2 + h) * c * (1 + 0.3 * t**2))
    inputs = {"h": GaussianField(domain["x"], length_scale=0.5, variance=0.05), "c": Scalar(0.5, 1.5)}
    conditions = [Value({"t": 0}), Value({"q": (0, 1)}), Value({"x": (0, 1)})]

    def equation(self, s_t, s_xx, s_yy, s_xy, y):
        return s_t - s_xx - s_yy - 0.3 * y * s_xy


class Ball(Problem):
    """Spherical coordinates: three mapped axes."""

    domain = Mapped(
        Domain(r=(0.5, 1), a=(0.5, 2), b=(0, 1)),
        x=lambda r, a, b: r * jnp.sin(a) * jnp.cos(b),
        y=lambda r, a, b: r * jnp.sin(a) * jnp.sin(b),
        z=lambda r, a: r * jnp.cos(a),
    )
    conditions = [Value({"r": (0.5, 1)}), Value({"a": (0.5, 2)}), Value({"b": (0, 1)})]

    def equation(self, s_xx, s_yy, s_zz):
        return s_xx + s_yy + s_zz


def plane(x, y):
    return jnp.sin(1.3 * x + 0.4 * y) * jnp.exp(0.5 * y) + x**2 * y


def partial(function, *places):
    for place in places:
        function = jax.grad(function, argnums=place)
    return function


def test_physical_derivatives_in_polar_coordinates():
    problem, where = Disk(), grid_of(Disk.domain)
    names = ("x", "xx", "xy", "xyy")
    at = chart_of(problem).locate({}, where)
    points = at["x"].reshape(-1), at["y"].reshape(-1)
    found = evaluate(problem, {}, physical(problem, *names), where, plane)
    for name, got in zip(names, found, strict=True):
        close(got.reshape(-1), jax.vmap(partial(plane, *("xy".index(c) for c in name)))(*points))


def test_the_polar_laplacian_is_the_textbook_one():
    expression = Disk().equations[0].expression
    rho = Symbol("coordinate", "rho")
    names = {"s_rhorho": 1.7, "s_thetatheta": -0.3, "s_rho": 0.9}
    # Neither the mixed derivative nor the angle is left: one number fewer to contract, and a rotation changes nothing.
    assert {str(symbol) for symbol in expression.symbols} == {*names, "rho"}
    values = {s: jnp.full((1, 1, 1), 0.8 if s == rho else names[str(s)]) for s in expression.symbols}
    wanted = names["s_rhorho"] + names["s_rho"] / 0.8 + names["s_thetatheta"] / 0.8**2 + 1.0
    np.testing.assert_allclose(expression(values), wanted, rtol=1e-14)


def test_a_conformal_map_needs_one_contraction():
    class Annulus(Problem):
        domain = Mapped(
            Domain(p=(0, 1), theta=Periodic(0, TWO_PI)),
            x=lambda p, theta: jnp.exp(p) * jnp.cos(theta),
            y=lambda p, theta: jnp.exp(p) * jnp.sin(theta),
        )
        conditions = [Value({"p": (0, 1)})]

        def equation(self, s_xx, s_yy):
            return 2 * (s_xx + s_yy) - 1.0

    expression = Annulus().equations[0].expression
    shapes = {s: (2, 3, 4) if s.kind == "field" else (1, 3, 1) for s in expression.symbols}
    (atom,) = fuse(expression, shapes, jnp.float64).atoms
    assert {str(symbol): weight for symbol, weight in atom} == {"s_pp": 1.0, "s_thetatheta": 1.0}


def test_derivatives_on_a_moving_domain_with_a_shape_as_input():
    problem, where = Channel(), grid_of(Channel.domain, points=3)
    inputs = problem.sample(jax.random.key(3), 2)

    def function(t, x, y):
        return jnp.cos(t + 0.5 * x) * jnp.exp(0.3 * y) + t * x**2 * y**2

    names = ("t", "xx", "xy", "ty")
    at = chart_of(problem).locate(inputs, where)
    found = evaluate(problem, inputs, physical(problem, *names), where, function)
    for name, got in zip(names, found, strict=True):
        points = [np.broadcast_to(at[n], got.shape).reshape(-1) for n in "txy"]
        close(got.reshape(-1), jax.vmap(partial(function, *("txy".index(c) for c in name)))(*points))


def test_an_equation_is_rewritten_with_its_body_unchanged():
    problem, where = Channel(), grid_of(Channel.domain, points=3)
    inputs = problem.sample(jax.random.key(1), 2)

    def function(t, x, y):
        return jnp.sin(t + x) * y**3 + x**2 * y

    (got,) = evaluate(problem, inputs, [problem.equations[0].expression], where, function)
    at = chart_of(problem).locate(inputs, where)
    points = [np.broadcast_to(at[n], got.shape).reshape(-1) for n in "txy"]

    def residual(t, x, y):
        d = {name: partial(function, *("txy".index(c) for c in name))(t, x, y) for name in ("t", "xx", "yy", "xy")}
        return d["t"] - d["xx"] - d["yy"] - 0.3 * y * d["xy"]

    close(got.reshape(-1), jax.vmap(residual)(*points))


def test_three_mapped_axes():
    problem, where = Ball(), grid_of(Ball.domain, points=3)

    def function(x, y, z):
        return jnp.exp(0.5 * x) * jnp.sin(y) * z**2

    (got,) = evaluate(problem, {}, [problem.equations[0].expression], where, function)
    at = chart_of(problem).locate({}, where)
    points = [np.broadcast_to(at[n], got.shape).reshape(-1) for n in "xyz"]
    wanted = jax.vmap(lambda *p: sum(partial(function, i, i)(*p) for i in range(3)))(*points)
    close(got.reshape(-1), wanted)


class Star(Problem):
    domain = Mapped(
        Domain(rho=(0, 1), theta=Periodic(0, TWO_PI)),
        pole={"rho": 0},
        x=lambda rho, theta, R: rho * (1 + 0.2 * R) * jnp.cos(theta),
        y=lambda rho, theta, R: rho * (1 + 0.2 * R) * jnp.sin(theta),
    )
    inputs = {
        "R": SpectralField(domain["theta"], sigma=3.0, tau=2.0, gamma=4.0),
        "f": GaussianField(Domain(x=(-2, 2), y=(-2, 2)), length_scale=1.0),
    }
    conditions = [Normal({"rho": 1}, equals="f", value=0.5)]

    def equation(self, s, s_xx, s_yy, f, f_x, R_y):
        return s_xx + s_yy - s + f + f_x * R_y


def test_rotations_of_a_star_change_nothing_but_its_inputs():
    class Plain(Star):
        conditions = [Value({"rho": 1})]

        def equation(self, s_xx, s_yy):  # pyright: ignore[reportIncompatibleMethodOverride]
            return s_xx + s_yy + 1.0

    symbols = {str(symbol) for symbol in Plain().equations[0].expression.symbols}
    assert "theta" not in symbols
    assert {"R", "R_theta", "R_thetatheta", "s_rhotheta"} <= symbols


def test_inputs_of_coordinates_and_physical_derivatives_of_inputs():
    problem, where = Star(), grid_of(Star.domain)
    inputs = problem.sample(jax.random.key(2), 2)
    expression = problem.equations[0].expression
    (got,) = evaluate(problem, inputs, [expression], where, lambda x, y: x * 0.0)
    at = chart_of(problem).locate(inputs, where)

    def radius(x, y, row):
        theta = jnp.arctan2(y, x) % TWO_PI
        return inputs["R"][row : row + 1](Grid(("theta",), (theta[None],)))[0, 0]

    for row in range(2):
        x, y = (np.asarray(at[n][row]).reshape(-1) for n in "xy")
        one = inputs["f"][row : row + 1]
        f = one(Points(("x", "y"), (jnp.asarray(x), jnp.asarray(y))))[0]
        f_x = one(Points(("x", "y"), (jnp.asarray(x), jnp.asarray(y))), multi_index(x=1))[0]
        slope = jax.vmap(jax.grad(lambda x, y, row=row: radius(x, y, row), argnums=1))(jnp.asarray(x), jnp.asarray(y))
        close(got[row].reshape(-1), np.asarray(f + f_x * slope))


def test_normal_derivatives_on_a_random_wall():
    problem = Star()
    (term,) = problem.free_conditions
    inputs = problem.sample(jax.random.key(4), 2)
    where = grid_of(Star.domain).fix("rho", 1.0)
    (got,) = evaluate(problem, inputs, [term.expression], where, plane)
    at = chart_of(problem).locate(inputs, where)
    theta = np.asarray(where["theta"])
    for row in range(2):
        x, y = (np.asarray(at[n][row]).reshape(-1) for n in "xy")
        R = 1 + 0.2 * np.asarray(inputs["R"](Grid(("theta",), (where["theta"],))))[row]
        slope = 0.2 * np.asarray(inputs["R"](Grid(("theta",), (where["theta"],)), multi_index(theta=1)))[row]
        # The tangent is d(R cos, R sin)/dtheta, and the outward normal stands on it to the right.
        tangent = np.stack([slope * np.cos(theta) - R * np.sin(theta), slope * np.sin(theta) + R * np.cos(theta)])
        n = np.stack([tangent[1], -tangent[0]]) / np.linalg.norm(tangent, axis=0)
        gradient = jax.vmap(jax.grad(plane, argnums=(0, 1)))(jnp.asarray(x), jnp.asarray(y))
        f = inputs["f"].each((jnp.asarray(at["x"]).reshape(2, -1), jnp.asarray(at["y"]).reshape(2, -1)))[row]
        wanted = gradient[0] * n[0] + gradient[1] * n[1] + 0.5 * plane(x, y) - f
        close(got[row].reshape(-1), np.asarray(wanted))
