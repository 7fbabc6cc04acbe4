"""Families of functions of one variable, with exact derivatives: the bricks of function spaces and classical trunks.

A basis maps points `[n]` to values and derivatives `[order + 1, n, size]`. Called, it computes in JAX, in the dtype of
the points; `table` computes the same in NumPy float64, for constants. Both run the same lines, written against an
array module `xp`.

In float32 the 64th function is right to 5e-7 (trigonometric, on [0, 1]) or 2e-4 (polynomial: near the ends of the axis
the rounding of the point itself matters as much). Tables have no such error, so prefer fixed points for high orders.
"""

import functools
from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.core import Tracer
from jaxtyping import Array, Float, Float64

from .domain import Interval, Trace


@dataclass(frozen=True)
class Basis:
    """`size` functions on an axis. Subclasses are frozen and hashable, so that they may be static in a `jit`.

    **Arguments:**

    - `axis`: the interval or circle on which the functions live.
    - `size`: how many functions.
    """

    axis: Interval
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a basis needs at least one function; got size={self.size}")

    @abstractmethod
    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        """Values and derivatives in the array module of `points`."""

    def __call__(self, points: Float[Array, " n"], order: int = 0) -> Float[Array, "orders n size"]:
        """d^m f_k / dx^m for m = 0..order. Points known while tracing are tabulated, and cost a program nothing."""
        if not isinstance(points, Tracer):
            with jax.ensure_compile_time_eval():
                dtype = jnp.asarray(points).dtype
                return jnp.asarray(self.table(np.asarray(points, np.float64), order), dtype)
        return self.evaluate(points, order, jnp)

    def table(self, points: Float64[np.ndarray, " n"], order: int = 0) -> Float64[np.ndarray, "orders n size"]:
        """The same in NumPy float64."""
        return self.evaluate(points, order, np)


class _Trigonometric(Basis):
    """sqrt(2/L) cos(2 pi f_k (x - lower) / L - q_k pi/2): f_k cycles per axis, late by q_k quarter turns."""

    @abstractmethod
    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        """f_k and q_k."""

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        cycles, quarters = self.cycles()
        length = self.axis.length
        scale = np.where(cycles > 0, np.sqrt(2 / length), np.sqrt(1 / length))
        m = np.arange(order + 1)[:, None]
        turn = (m - quarters) % 4
        amplitude = scale * (2 * np.pi * cycles / length) ** m
        # The m-th derivative is a turn by m quarters: amplitude cos(phase + turn pi/2).
        cosine = xp.asarray(amplitude * np.array([1, 0, -1, 0])[turn], points.dtype)[:, None]
        sine = xp.asarray(amplitude * np.array([0, -1, 0, 1])[turn], points.dtype)[:, None]
        # Centred on zero rather than on `lower`: a shift of the points would cost float32 digits, one of constants not.
        phase = _phase(points / length, xp.asarray(cycles, points.dtype), xp)
        phase = phase - xp.asarray(2 * np.pi * (cycles * self.axis.lower / length % 1), points.dtype)[None]
        return cosine * xp.cos(phase)[None] + sine * xp.sin(phase)[None]


def _phase(place: Any, cycles: Any, xp: ModuleType) -> Any:
    # 2 pi cycles place, without whole turns. The leading twelve bits of `place` are split off, so that whole turns are
    # removed without rounding: the 32nd harmonic is then as accurate in float32 as the first.
    leading = xp.round(4096 * place) / 4096
    turns = leading[:, None] * cycles[None]
    return 2 * np.pi * (turns - xp.round(turns) + (place - leading)[:, None] * cycles[None])


@dataclass(frozen=True)
class Fourier(_Trigonometric):
    """1, cos, sin, cos 2., sin 2., ... of 2 pi (x - lower) / L, L2-orthonormal. An even size ends with a cosine."""

    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        k = np.arange(self.size)
        return (k + 1.0) // 2, np.where(k > 0, 1 - k % 2, 0)


@dataclass(frozen=True)
class Sine(_Trigonometric):
    """sqrt(2/L) sin(k pi (x - lower) / L), k = 1..size: L2-orthonormal and zero at both ends."""

    def cycles(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(1, self.size + 1) / 2, np.ones(self.size, int)


class _Polynomial(Basis):
    """Polynomials p_0, p_1, ... of xi = 2 (x - lower) / L - 1 whose derivatives obey three-term recurrences.

    The derivatives of Legendre and Chebyshev polynomials are ultraspherical polynomials, so for every order m

        p_n^(m) = a_nm xi p_{n-1}^(m) - b_nm p_{n-2}^(m) + c_nm,    a = b = 0 for n <= m,    c = 0 for n != m,

    a recurrence as stable as that of the polynomials themselves; it runs for all orders at once.
    """

    @abstractmethod
    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """a (n - m), b (n - m) and p_m^(m) as functions of n (a column) and m (a row)."""

    @abstractmethod
    def scale(self, n: np.ndarray) -> np.ndarray:
        """The factor of p_n."""

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        n, m = np.arange(self.size, dtype=float)[:, None], np.arange(order + 1, dtype=float)[None]
        a, b, start = self.recurrence(n, m)
        step = np.maximum(n - m, 1)
        rows = (np.where(n > m, a / step, 0), np.where(n > m, b / step, 0), np.where(n == m, start, 0))
        a, b, c = (xp.asarray(row, points.dtype)[:, :, None] for row in rows)
        xi = (2 * (points - self.axis.lower) / self.axis.length - 1)[None]

        def advance(last: tuple[Any, Any], row: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], Any]:
            a, b, c = row
            new = a * xi * last[0] - b * last[1] + c
            return (new, last[0]), new

        zero = xp.zeros((order + 1, points.shape[0]), points.dtype)
        values = _scan(advance, (zero, zero), (a, b, c), xp)
        factor = self.scale(n.T) * (2 / self.axis.length) ** m.T
        return xp.transpose(values, (1, 2, 0)) * xp.asarray(factor, points.dtype)[:, None]


def _scan(advance: Any, state: Any, rows: Any, xp: ModuleType) -> Any:
    if xp is jnp:
        return jax.lax.scan(advance, state, rows, unroll=4)[1]
    values = []
    for row in zip(*rows, strict=True):
        state, value = advance(state, row)
        values.append(value)
    return np.stack(values)


@dataclass(frozen=True)
class Legendre(_Polynomial):
    """sqrt((2n + 1) / L) P_n(xi), n = 0..size-1: L2-orthonormal polynomials."""

    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # P_m^(m) = (2m - 1)!!
        return 2 * n - 1, n + m - 1, np.cumprod(np.maximum(2 * m - 1, 1), axis=1)

    def scale(self, n: np.ndarray) -> np.ndarray:
        return np.sqrt((2 * n + 1) / self.axis.length)


@dataclass(frozen=True)
class Chebyshev(_Polynomial):
    """T_n(xi), n = 0..size-1: of size one, equally good at every place, not L2-orthogonal."""

    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # From T_n^(m) = 2^(m-1) (m-1)! n C_{n-m}^(m); for m = 0 the usual recurrence, begun by T_1 = xi T_0.
        a = np.where(m > 0, 2 * n, np.where(n > 1, 2 * n, n))
        b = n * np.where(m > 0, (n + m - 2) / np.maximum(n - 2, 1), 1)
        # T_m^(m) = 2^(m-1) m!
        return a, b, np.cumprod(np.maximum(m, 1) * np.where(m > 1, 2, 1), axis=1)

    def scale(self, n: np.ndarray) -> np.ndarray:
        return np.ones_like(n)


class Combined(Basis):
    """Fixed linear combinations of the functions of another basis: f_k = sum_j raw_j matrix[j, k]."""

    @property
    @abstractmethod
    def raw(self) -> Basis: ...

    @property
    @abstractmethod
    def matrix(self) -> Float64[np.ndarray, "raw size"]: ...

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        values, matrix = self.raw.evaluate(points, order, xp), xp.asarray(self.matrix, points.dtype)
        return jnp.matmul(values, matrix, precision="highest") if xp is jnp else values @ matrix


@dataclass(frozen=True)
class Orthonormal(Combined):
    """The first `size` functions of a family that satisfy homogeneous conditions exactly: separation of variables.

    The span of the family, restricted to the functions on which every trace vanishes, is given the basis with

        int f_j f_k = delta_jk    and    int f_j' f_k' = energies_k delta_jk,    energies ascending.

    As many raw functions are taken as leave `size` of them: two Dirichlet traces cost Legendre two, Sine none.

    **Arguments:**

    - `family`: the class of the raw basis: `Fourier`, `Sine`, `Legendre` or `Chebyshev`.
    - `axis`, `size`: as for every basis.
    - `traces`: the functionals that vanish.
    """

    family: type[Basis]
    traces: tuple[Trace, ...]

    def __init__(self, family: type[Basis], axis: Interval, size: int, traces: tuple[Trace, ...] = ()) -> None:
        for name, value in {"axis": axis, "size": size, "family": family, "traces": tuple(traces)}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()
        for trace in self.traces:
            if not axis.lower <= trace.at <= axis.upper:
                raise ValueError(
                    f"a trace must be taken on the axis, in [{axis.lower}, {axis.upper}]; got one at {trace.at}"
                )

    @property
    def raw(self) -> Basis:
        return self.family(self.axis, _orthonormal(self)[0].shape[0])

    @property
    def matrix(self) -> Float64[np.ndarray, "raw size"]:
        return _orthonormal(self)[0]

    @property
    def energies(self) -> Float64[np.ndarray, " size"]:
        """int (f_k')^2."""
        return _orthonormal(self)[1]


@functools.cache
def _orthonormal(basis: Orthonormal) -> tuple[np.ndarray, np.ndarray]:
    if basis.family is Fourier and not basis.traces:
        # It is so already; rounding would turn cosines and sines of equal energy into each other.
        raw = Fourier(basis.axis, basis.size)
        return np.eye(basis.size), (2 * np.pi * raw.cycles()[0] / basis.axis.length) ** 2
    # A rank can grow with the number of raw functions (a second derivative sees no linear function), at most to the
    # number of traces.
    count, null = basis.size, _null_space(basis, basis.size)
    while null.shape[1] < basis.size:
        count += basis.size - null.shape[1]
        null = _null_space(basis, count)
    # Exact for polynomials, and converged for the highest sine.
    points, weights = gauss(basis.axis, 2 * count + 20)
    values = basis.family(basis.axis, count).table(points, 1) @ null
    mass, stiffness = np.swapaxes(values, 1, 2) @ (weights[:, None] * values)
    energies, rotation = scipy.linalg.eigh(stiffness, mass)
    matrix = null @ rotation
    largest = np.argmax(np.abs(matrix), axis=0)
    return matrix * np.sign(matrix[largest, np.arange(basis.size)]), energies


def _null_space(basis: Orthonormal, count: int) -> np.ndarray:
    if not basis.traces:
        return np.eye(count)
    raw = basis.family(basis.axis, count)
    rows = []
    for trace in basis.traces:
        weights = np.array(trace.weights)
        everywhere = np.abs(raw.table(np.linspace(basis.axis.lower, basis.axis.upper, 4 * count + 1), trace.order))
        # Relative to what the functional could see elsewhere on the axis: the sines' own zeros count as zero.
        size = np.abs(weights) @ everywhere.max(axis=(1, 2))
        rows.append(weights @ raw.table(np.array([trace.at]), trace.order)[:, 0] / size)
    _, singular, right = np.linalg.svd(np.array(rows))
    return right[int(np.sum(singular > 1e-10)) :].T


_gauss = functools.cache(np.polynomial.legendre.leggauss)


def gauss(axis: Interval, n: int) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """Gauss-Legendre points and weights on an axis."""
    points, weights = _gauss(n)
    return axis.lower + axis.length * (points + 1) / 2, axis.length * weights / 2


def quadrature(axis: Interval, n: int) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """The best points and weights for smooth functions: Gauss-Legendre on an interval, uniform on a circle."""
    if axis.periodic:
        return axis.lower + axis.length * np.arange(n) / n, np.full(n, axis.length / n)
    return gauss(axis, n)
