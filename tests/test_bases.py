import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seponet.bases.base import Basis
from seponet.bases.orthonormal import Orthonormal
from seponet.bases.polynomial import Chebyshev, Legendre
from seponet.bases.quadrature import gauss, quadrature
from seponet.bases.spline import Spline
from seponet.bases.trigonometric import Fourier, Sine
from seponet.derivatives import Trace
from seponet.domain import Interval, Periodic
from seponet.functions.gaussian import KarhunenLoeve

AXIS = Interval(-0.5, 2.0)
FAMILIES = [Fourier, Sine, Legendre, Chebyshev]
DIRICHLET = (Trace(-0.5, (1.0,)), Trace(2.0, (1.0,)))


def everything(size: int) -> list[Basis]:
    knots = tuple((-0.5 + 2.5 * np.linspace(0, 1, size) ** 1.2).tolist())
    return [
        *(family(AXIS, size) for family in FAMILIES),
        Orthonormal(Legendre, AXIS, size, DIRICHLET),
        KarhunenLoeve(AXIS, size, 0.5),
        Spline.through(AXIS, knots),
    ]


def closed_form(family: type[Basis], x: np.ndarray, k: int, m: int) -> np.ndarray:
    length = AXIS.length
    place = (x - AXIS.lower) / length
    if family is Fourier:
        w = 2 * np.pi * ((k + 1) // 2)
        quarter = 0 if k % 2 or k == 0 else 1
        scale = np.sqrt((2 if k else 1) / length)
        return scale * (w / length) ** m * np.cos(w * place + (m - quarter) * np.pi / 2)
    if family is Sine:
        w = np.pi * (k + 1)
        return np.sqrt(2 / length) * (w / length) ** m * np.sin(w * place + m * np.pi / 2)
    polynomial, scale = {
        Legendre: (np.polynomial.Legendre, np.sqrt((2 * k + 1) / length)),
        Chebyshev: (np.polynomial.Chebyshev, 1.0),
    }[family]
    return scale * polynomial.basis(k).deriv(m)(2 * place - 1) * (2 / length) ** m


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_derivatives_are_the_closed_forms(family: type[Basis]) -> None:
    x = np.linspace(-0.5, 2.0, 41)
    table = family(AXIS, 12).table(x, 5)
    assert table.shape == (6, 41, 12)
    for m in range(6):
        exact = np.stack([closed_form(family, x, k, m) for k in range(12)], axis=-1)
        np.testing.assert_allclose(table[m], exact, rtol=0, atol=1e-12 * np.abs(exact).max())


@pytest.mark.parametrize("basis", everything(9), ids=lambda b: type(b).__name__)
def test_each_derivative_is_the_difference_quotient_of_the_one_before(basis: Basis) -> None:
    x, h = np.array([-0.4, 0.11, 0.9, 1.87]), 1e-5
    quotient = (basis.table(x + h, 3) - basis.table(x - h, 3)) / (2 * h)
    derivative = basis.table(x, 4)[1:]
    scale = np.abs(derivative).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(quotient / scale, derivative / scale, rtol=0, atol=1e-8)


@pytest.mark.parametrize("basis", everything(9), ids=lambda b: type(b).__name__)
def test_traced_points_equal_known_points(basis: Basis) -> None:
    x = jnp.linspace(-0.4, 1.9, 33)
    known = np.asarray(basis(x, 4))
    scale = np.abs(known).max(axis=(1, 2), keepdims=True)
    traced, slopes = jax.jit(lambda x: jax.jvp(lambda x: basis(x, 4), (x,), (jnp.ones_like(x),)))(x)
    np.testing.assert_allclose(traced / scale, known / scale, rtol=0, atol=1e-13)
    # Automatic differentiation sees through the splitting of phases and the search of knots.
    np.testing.assert_allclose(slopes[:-1] / scale[1:], known[1:] / scale[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "axis", "tolerance"),
    [
        (Fourier, Periodic(0.0, 1.0), 1e-6),
        (Fourier, Periodic(-1.0, 1.0), 1e-6),
        (Fourier, Periodic(0.0, 2 * np.pi), 2e-5),
        (Sine, Interval(0.0, 1.0), 1e-6),
        (Legendre, Interval(-1.0, 1.0), 1e-4),
        (Legendre, Interval(0.0, 1.0), 3e-4),
        (Chebyshev, Interval(-1.0, 1.0), 1e-4),
        (Chebyshev, Interval(0.0, 2 * np.pi), 5e-4),
    ],
)
def test_sixty_four_functions_in_float32(family: type[Basis], axis: Interval, tolerance: float) -> None:
    x = np.random.default_rng(0).uniform(axis.lower, axis.upper, 300).astype(np.float32)
    basis = family(axis, 64)
    exact = basis.table(x.astype(np.float64), 4)
    single = jax.jit(lambda x: basis(x, 4))(jnp.asarray(x))
    assert single.dtype == jnp.float32
    error = np.abs(single - exact).max(axis=1)
    size = np.abs(exact).max(axis=1)
    assert np.all(error <= tolerance * size)


@pytest.mark.parametrize("family", [Fourier, Sine, Legendre])
def test_families_are_orthonormal(family: type[Basis]) -> None:
    points, weights = gauss(AXIS, 80)
    values = family(AXIS, 20).table(points)[0]
    # Gauss points are eigenvalues, whose last digits hang on LAPACK; the Legendre functions multiply them.
    np.testing.assert_allclose(values.T @ (weights[:, None] * values), np.eye(20), rtol=0, atol=4e-13)


def energies(basis: Basis) -> np.ndarray:
    """The integrals of the squared derivatives."""
    points, weights = gauss(AXIS, 100)
    return weights @ basis.table(points, 1)[1] ** 2


@pytest.mark.parametrize(
    ("family", "traces", "raw"),
    [
        (Legendre, (), 24),
        (Legendre, DIRICHLET, 26),
        (Legendre, (Trace(-0.5, (0.0, 1.0)), Trace(2.0, (2.0, 1.0))), 26),
        (Legendre, (Trace(-0.5, (1.0,)), Trace(-0.5, (0.0, 1.0)), Trace(2.0, (0.0, 0.0, 1.0))), 27),
        (Legendre, (DIRICHLET[0], DIRICHLET[0]), 25),
        (Chebyshev, DIRICHLET, 26),
        (Sine, DIRICHLET, 24),
        (Fourier, (Trace(0.3, (1.0,)),), 25),
    ],
)
def test_orthonormal(family: type[Basis], traces: tuple[Trace, ...], raw: int) -> None:
    basis = Orthonormal(family, AXIS, 24, traces)
    assert basis.raw.size == raw
    points, weights = gauss(AXIS, 100)
    values = basis.table(points, 1)
    mass, stiffness = np.swapaxes(values, 1, 2) @ (weights[:, None] * values)
    np.testing.assert_allclose(mass, np.eye(24), atol=1e-11)
    np.testing.assert_allclose(stiffness, np.diag(np.diag(stiffness)), atol=1e-11 * stiffness[-1, -1])
    assert np.all(np.diff(np.diag(stiffness)) > -1e-10 * stiffness[-1, -1])
    for trace in traces:
        derivatives = basis.table(np.linspace(-0.5, 2.0, 101), trace.order)
        size = np.abs(trace.weights) @ np.abs(derivatives).max(axis=(1, 2))
        seen = np.array(trace.weights) @ basis.table(np.array([trace.at]), trace.order)[:, 0]
        np.testing.assert_allclose(seen / size, 0, atol=1e-12)


def test_orthonormal_is_separation_of_variables() -> None:
    # The low eigenfunctions of the Laplacian: sines for Dirichlet ends, cosines for Neumann ends.
    k = np.arange(1, 9)
    dirichlet = Orthonormal(Legendre, AXIS, 24, DIRICHLET)
    np.testing.assert_allclose(energies(dirichlet)[:8], (k * np.pi / 2.5) ** 2, rtol=1e-9)
    neumann = Orthonormal(Legendre, AXIS, 24, (Trace(-0.5, (0.0, 1.0)), Trace(2.0, (0.0, 1.0))))
    np.testing.assert_allclose(energies(neumann)[:8], ((k - 1) * np.pi / 2.5) ** 2, rtol=1e-5, atol=1e-9)
    x = np.linspace(-0.5, 2.0, 50)
    np.testing.assert_allclose(np.abs(dirichlet.table(x)[0][:, :4]), np.abs(Sine(AXIS, 4).table(x)[0]), atol=1e-9)


def test_a_basis_is_equal_and_hashes_by_value() -> None:
    assert Orthonormal(Legendre, AXIS, 4, DIRICHLET) == Orthonormal(Legendre, AXIS, 4, DIRICHLET)
    assert len({Fourier(AXIS, 4), Fourier(AXIS, 4), Fourier(AXIS, 5), Sine(AXIS, 4)}) == 3


def test_quadrature() -> None:
    points, weights = quadrature(AXIS, 6)
    assert weights.sum() == pytest.approx(2.5, rel=1e-14)
    assert weights @ points**11 == pytest.approx((2.0**12 - 0.5**12) / 12, rel=1e-13)
    points, weights = quadrature(Periodic(1.0, 3.0), 8)
    assert weights.sum() == pytest.approx(2, rel=1e-14)
    assert weights @ np.cos(np.pi * points) ** 6 == pytest.approx(2 * 5 / 16, rel=1e-13)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="at least one function; got size=0"):
        Fourier(AXIS, 0)
    with pytest.raises(ValueError, match=r"on the axis, in \[-0.5, 2.0\]; got one at 3.0"):
        Orthonormal(Legendre, AXIS, 4, (Trace(3.0, (1.0,)),))
