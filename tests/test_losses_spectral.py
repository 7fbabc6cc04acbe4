"""Spectral residuals: nodal bases, Fourier series on circles, and agreement with the pointwise loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from zoo import AllenCahn, quick_jit

from seponet import Derivative, Domain, Periodic, Points, Problem, Value, nn
from seponet.bases.cardinal import TrigonometricCardinal
from seponet.bases.fourier_grid import FourierGrid
from seponet.calculus.evaluate import evaluate
from seponet.calculus.model import FixedCoefficients
from seponet.derivatives import multi_index
from seponet.equations.problem import Derived
from seponet.equations.symbols import Symbol
from seponet.functions import Functions, SpectralField
from seponet.losses.pointwise import lift_losses, physics_loss
from seponet.losses.spectral import SpectralResidual
from seponet.problems import NavierStokes
from seponet.training.config import TrainConfig
from seponet.training.sampling import Sampler
from seponet.training.whitening import modal_weights, scale_modes


class Waves(Problem):
    r"""$s_t + 6 s s_x + s_{xxx} = 0$ with few waves, so that nothing is aliased; its slope at t = 0 follows from u."""

    domain = Domain(t=(0, 0.5), x=Periodic(-1, 2))
    inputs = {"u": SpectralField(domain["x"], sigma=1.0, tau=1.0, gamma=1.0, modes=2)}
    conditions = [Value({"t": 0}, equals="u"), Derivative({"t": 0}, equals="f", implied=True)]

    @property
    def derived(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        space = SpectralField(self.domain["x"], sigma=1.0, tau=1.0, gamma=1.0, modes=4)

        def slope(inputs):
            u, grid = inputs["u"], space.sensors(16)
            return space.fit(-6 * u(grid) * u(grid, multi_index(x=1)) - u(grid, multi_index(x=3)))

        return {"f": Derived(space, slope)}

    def equation(self, s, s_t, s_x, s_xxx):
        return s_t + 6 * s * s_x + s_xxx


def navier_stokes(count: int = 2, waves: int = 3):
    """Inputs whose series are short."""
    problem = NavierStokes()
    u = problem.inputs["u"].sample(jax.random.key(0), count)
    kept = jnp.where(jnp.arange(u.parameters.shape[1]) < 2 * waves + 1, 1.0, 0.0)
    return problem, problem.complete({"u": Functions(u.space, u.parameters * kept[None, :, None] * kept[None, None])})


def collocation(problem, **points):
    return Sampler.of(problem.domain, points, "gauss").draw(jax.random.key(0), (None,) * len(points))


@pytest.mark.parametrize("size", [7, 8])
def test_nodal_functions_are_cardinal_and_differentiate_their_interpolant(size):
    basis = TrigonometricCardinal(Periodic(-1, 2), size)
    nodes = -1 + 3 * np.arange(size) / size
    wave = 2 * np.pi * 3 / 3
    points = np.linspace(-1, 2, 11)
    values, slopes = basis.table(points, 1)
    np.testing.assert_allclose(values @ np.cos(wave * nodes + 0.3), np.cos(wave * points + 0.3), atol=1e-12)
    np.testing.assert_allclose(slopes @ np.cos(wave * nodes + 0.3), -wave * np.sin(wave * points + 0.3), atol=1e-11)
    if size % 2:
        np.testing.assert_allclose(basis.table(nodes)[0], np.eye(size), atol=1e-12)


def test_series_differentiate_move_between_grids_and_keep_their_mean_square():
    domain = Domain(x=Periodic(0, 2), y=Periodic(0, 1))

    def field(x, y):
        return np.cos(np.pi * x + 2 * np.pi * 2 * y) + 0.5 * np.sin(2 * np.pi * x)

    coarse, fine = FourierGrid(domain, (8, 7)), FourierGrid(domain, (13, 12))
    mesh = [np.meshgrid(2 * np.arange(n) / n, np.arange(m) / m, indexing="ij") for n, m in (coarse.sizes, fine.sizes)]
    series = coarse.transform(jnp.asarray(field(*mesh[0])))
    np.testing.assert_allclose(fine.inverse(coarse.resize(series, fine)), field(*mesh[1]), atol=1e-12)
    back = fine.resize(coarse.resize(series, fine), coarse)
    np.testing.assert_allclose(back, series, atol=1e-12)
    x, y = mesh[1]
    slope = fine.inverse(coarse.resize(series * coarse.derivative_multiplier(multi_index(x=1, y=1)), fine))
    np.testing.assert_allclose(slope, -4 * np.pi**2 * np.cos(np.pi * x + 4 * np.pi * y), atol=1e-11)
    squares = np.sum(coarse.multiplicity() * np.abs(np.asarray(series)) ** 2)
    np.testing.assert_allclose(squares, np.mean(field(*mesh[1]) ** 2), atol=1e-12)


@pytest.mark.parametrize("trunk", ["nodal", "fourier"])
def test_pointwise_and_spectral_residuals_agree_where_no_wave_is_cut(trunk):
    problem = Waves()
    inputs = problem.sample(jax.random.key(1), 3)
    model = nn.build(
        problem,
        decoder="tucker",
        rank={"t": 3, "x": 17},
        trunk={"t": "legendre", "x": trunk},
        exact="all",
        sensors=8,
        branch_width=5,
        branch_depth=1,
        key=jax.random.key(2),
    )
    # Waves up to 4, so those of the residual end at 8, the last that 17 functions have.
    keep = jnp.arange(17) < 9
    cores = jax.random.normal(jax.random.key(3), (3, 1, 3, 17))
    if trunk == "nodal":
        series = jnp.fft.rfft(cores, axis=-1)
        cores = jnp.fft.irfft(jnp.where(jnp.arange(9) < 5, series, 0), 17, axis=-1)
    else:
        cores = jnp.where(keep, cores, 0)
    where = collocation(problem, t=5, x=40)
    ones = jnp.ones((1, 3))
    spectral = quick_jit(SpectralResidual().loss)(model, inputs, where, ones, cores)
    pointwise = quick_jit(physics_loss)(FixedCoefficients(model, cores), inputs, where, ones)
    np.testing.assert_allclose(spectral.table, pointwise.table, rtol=1e-11)
    np.testing.assert_allclose(spectral.total, pointwise.total, rtol=1e-11)
    lift = quick_jit(SpectralResidual().table)(model, inputs, where, None, 3)
    np.testing.assert_allclose(lift, quick_jit(lift_losses)(model, inputs, where, 3), rtol=1e-11)


@pytest.fixture(scope="module")
def flow():
    problem, inputs = navier_stokes()
    model = nn.build(
        problem,
        decoder="tucker",
        rank={"t": 3, "x": 32, "y": 32},
        trunk={"t": "legendre", "x": "nodal", "y": "nodal"},
        exact="all",
        output="curl",
        branch="spectral",
        branch_width=4,
        branch_depth=1,
        channels=("u", "w_x", "f"),
        key=jax.random.key(2),
    )
    cores = 1e-2 * jax.random.normal(jax.random.key(3), (2, 1, 3, 32, 32))
    kept = np.abs(np.fft.fftfreq(32, 1 / 32))[:, None] + np.fft.rfftfreq(32, 1 / 32)[None] < 6
    return problem, inputs, model, jnp.fft.irfft2(jnp.fft.rfft2(cores) * kept[None, None, None], (32, 32))


def test_the_residuals_of_two_fields_from_a_stream_function_agree_too(flow):
    problem, inputs, model, cores = flow
    where, ones = collocation(problem, t=3, x=48, y=48), jnp.ones((2, 2))
    spectral = quick_jit(SpectralResidual().loss)(model, inputs, where, ones, cores).table
    pointwise = quick_jit(physics_loss)(FixedCoefficients(model, cores), inputs, where, ones).table
    np.testing.assert_allclose(spectral[0], pointwise[0], rtol=1e-9)
    assert np.all(spectral[1] < 1e-20 * spectral[0])
    assert np.all(pointwise[1] < 1e-20 * pointwise[0])


def test_a_curl_has_no_divergence_and_its_initial_state_and_slope_hold_anywhere(flow):
    problem, inputs, model, cores = flow
    generator = np.random.default_rng(0)
    where = Points.of(problem.domain, {n: jnp.asarray(generator.uniform(0, 0.1, 9)) for n in problem.domain})

    def values(symbols, where):
        found = quick_jit(lambda s: list(evaluate(s, inputs, where, symbols).values()))
        return found(FixedCoefficients(model, cores))

    symbols = [problem.vocabulary.parse(name) for name in ("p_x", "q_y", "p_xy", "q_yy")]
    p_x, q_y, p_xy, q_yy = values(symbols, where)
    np.testing.assert_allclose(p_x, -q_y, rtol=1e-10)
    np.testing.assert_allclose(p_xy, -q_yy, rtol=1e-10)
    start = where.fix("t", 0.0)
    symbols = [Symbol("field", "p"), Symbol("field", "q", multi_index(t=1))]
    p, q_t = values(symbols, start)
    np.testing.assert_allclose(p, inputs["u"](start)[0], atol=1e-12)
    np.testing.assert_allclose(q_t, inputs["f"](start)[1], atol=1e-11)


def test_the_derived_slope_is_the_equations(flow):
    problem, inputs, _, _ = flow
    grid = problem.inputs["u"].sensors(24)
    u, f, w = inputs["u"], inputs["f"], inputs["w"]
    turn = f(grid, multi_index(x=1))[1] - f(grid, multi_index(y=1))[0]
    velocity = u(grid)
    advection = velocity[0] * w(grid, multi_index(x=1)) + velocity[1] * w(grid, multi_index(y=1))
    diffusion = w(grid, multi_index(x=2)) + w(grid, multi_index(y=2))
    np.testing.assert_allclose(turn, problem.viscosity * diffusion - advection, atol=1e-10)
    # An input that is given as values has the same slope.
    from seponet.functions.interpolant import interpolate

    given = interpolate(problem.inputs["u"], jnp.moveaxis(u(problem.inputs["u"].sensors(30)), 0, 1))
    np.testing.assert_allclose(problem.complete({"u": given})["f"].parameters, f.parameters, atol=1e-10)


def test_implied_conditions_are_no_terms_of_a_soft_loss():
    assert [term.name for term in Waves().terms(("x",))] == ["equation", "t=0"]


def test_smoothing_divides_by_the_wavenumber_and_high_waves_are_cut():
    problem = Waves()
    model = nn.build(
        problem,
        decoder="tucker",
        rank={"t": 2, "x": 7},
        trunk={"t": "legendre", "x": "nodal"},
        exact="all",
        sensors=4,
        branch_width=2,
        branch_depth=1,
        key=jax.random.key(0),
    )
    torus, fine = model.fourier_grid(), FourierGrid(problem.domain["x"], (20,))
    x = 2 * np.pi * np.arange(20) / 20
    residual = jnp.asarray(np.cos(2 * x) + np.cos(5 * x))[None, None]
    plain = SpectralResidual()._squares(residual, fine, torus, "equation")
    smooth = SpectralResidual(1.0)._squares(residual, fine, torus, "equation")
    np.testing.assert_allclose(plain, [[0.5]], rtol=1e-12)
    np.testing.assert_allclose(smooth, [[0.5 / (2 * 2 * np.pi / 3) ** 2]], rtol=1e-12)


def test_scaled_modes_have_equal_effects_on_the_time_derivative(flow):
    problem, inputs, model, _ = flow
    weights = modal_weights(model)
    assert weights.shape == (3, 32, 17)
    t = np.polynomial.legendre.leggauss(20)
    slopes = model.trunks[0].bases[0].table(0.05 + 0.05 * t[0], 1)[1]
    for a, (k, m) in enumerate([(1, 0), (3, 4), (0, 15)]):
        squares = (t[1] / 2) @ slopes[:, a] ** 2 * (k**2 + m**2) * weights[a, k, m] ** 2
        np.testing.assert_allclose(squares, 1.0, rtol=1e-10)
    assert weights[0, 0, 0] == weights[0, 16, 3] == weights[0, 3, 16] == 0
    where = collocation(problem, t=3, x=24, y=24)
    scaled = scale_modes(model, SpectralResidual(1.0), inputs, where, jnp.ones(2), 0.5)
    outputs = jax.random.normal(jax.random.key(0), (2, model.size))
    twice = scale_modes(model, SpectralResidual(1.0), inputs, where, jnp.ones(2), 1.0)
    np.testing.assert_allclose(twice.whitening(outputs), 2 * scaled.whitening(outputs), rtol=1e-10)


def test_what_has_no_spectral_residual_is_refused():
    walls = nn.build(AllenCahn(), rank=2, sensors=4, branch_width=2, branch_depth=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match="exactly periodic axes"):
        SpectralResidual().check(walls, ("gauss", "gauss"))
    options = {"rank": 5, "sensors": 4, "branch_width": 2, "branch_depth": 1, "key": jax.random.key(0)}
    with pytest.raises(ValueError, match="nodal or Fourier trunk along x"):
        SpectralResidual().check(nn.build(Waves(), decoder="tucker", exact="all", **options), ("gauss", "gauss"))
    soft = nn.build(Waves(), decoder="tucker", exact=("x",), trunk="classical", **options)
    with pytest.raises(ValueError, match="soft are t=0"):
        SpectralResidual().check(soft, ("gauss", "gauss"))
    exact = nn.build(Waves(), decoder="tucker", exact="all", trunk="classical", **options)
    with pytest.raises(ValueError, match='sampling = "gauss"'):
        SpectralResidual().check(exact, ("uniform", "gauss"))
    SpectralResidual().check(exact, ("gauss", "gauss"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"whitening": "modal"}, 'whitening = "modal" scales the waves of train.loss.residual = "spectral"'),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)
