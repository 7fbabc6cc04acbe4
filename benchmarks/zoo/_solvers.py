"""Evolution equations by spectral methods: waves on a circle, cosines between insulated walls, ETDRK4 in time.

Linear parts with constant coefficients are exact, products are taken at the nodes of the basis. It shares nothing with
the library's discretisation: neither its polynomials in time nor its lifts nor its residuals. Each user's `resolution`
refines space and time together, so the difference to twice the resolution is the error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import scipy.fft
from _exponential import solve_semilinear
from jaxtyping import Float, Inexact

from seponet import Domain

Points = Mapping[str, Float[np.ndarray, " n"]]

FINER = 16
"""How many times more nodes the projection of an initial state takes."""


class Modes(Protocol):
    """A basis with a fast transform; arrays are `[..., *nodes]` and `[..., *modes]`."""

    domain: Domain
    nodes: tuple[Float[np.ndarray, " n"], ...]

    def project(self, function: Callable[..., np.ndarray]) -> Inexact[np.ndarray, "*coefficients"]:
        """Coefficients of a function of the points along each axis."""
        ...

    def forward(self, values: Float[np.ndarray, "*values"]) -> Inexact[np.ndarray, "*coefficients"]:
        """Coefficients from the values at the nodes."""
        ...

    def backward(self, coefficients: Inexact[np.ndarray, "*coefficients"]) -> Float[np.ndarray, "*values"]:
        """Values at the nodes from coefficients."""
        ...

    def at(self, coefficients: Inexact[np.ndarray, "*coefficients"], points: Points) -> Float[np.ndarray, "*values"]:
        """Values on the grid of `points`."""
        ...


class Fourier:
    """The waves $e^{ikx}$ on one periodic axis, with `size` nodes; products keep two thirds of them (no aliasing).

    `k` are the wavenumbers, of which `forward` returns the coefficients for k >= 0.
    """

    def __init__(self, domain: Domain, size: int) -> None:
        ((self.name, axis),) = domain.axes
        self.domain, self.size, self.lower = domain, size, axis.lower
        self.nodes = (axis.lower + axis.length * np.arange(size) / size,)
        self.k = 2 * np.pi / axis.length * np.arange(size // 2 + 1)
        self.kept = np.arange(size // 2 + 1) < size / 3

    def project(self, function: Callable[..., np.ndarray]) -> Inexact[np.ndarray, "*coefficients"]:
        return self.forward(function(*self.nodes))

    def forward(self, values: Float[np.ndarray, "*values"]) -> Inexact[np.ndarray, "*coefficients"]:
        return self.kept * scipy.fft.rfft(values)

    def backward(self, coefficients: Inexact[np.ndarray, "*coefficients"]) -> Float[np.ndarray, "*values"]:
        return scipy.fft.irfft(coefficients, self.size)

    def at(self, coefficients: Inexact[np.ndarray, "*coefficients"], points: Points) -> Float[np.ndarray, "*values"]:
        phase = np.outer(self.k, points[self.name] - self.lower)
        return (coefficients @ (np.exp(1j * phase) * np.where(self.k > 0, 2, 1)[:, None])).real / self.size


class Cosine:
    """The cosines that are flat at both ends of each axis, with `size` nodes (the midpoints) along each.

    `laplacian` are their eigenvalues, `[*modes]`, weighted by a diffusivity for each axis if there are several.
    """

    def __init__(self, domain: Domain, size: int) -> None:
        self.domain, self.size = domain, size
        self.nodes = tuple(axis.lower + axis.length * (np.arange(size) + 0.5) / size for _, axis in domain.axes)
        squares = [(np.pi / axis.length * np.arange(size)) ** 2 for _, axis in domain.axes]
        self.laplacian = -sum(np.meshgrid(*squares, indexing="ij"))
        self.over = tuple(range(-len(domain), 0))

    def project(self, function: Callable[..., np.ndarray]) -> Inexact[np.ndarray, "*coefficients"]:
        # What does not fit the walls has a kink there, and midpoint sums err by h^2 times its slope: hence finer ones.
        fine = Cosine(self.domain, FINER * self.size)
        coefficients = fine.forward(function(*fine.nodes)) / FINER ** len(self.domain)
        return coefficients[(..., *(slice(self.size),) * len(self.domain))]

    def forward(self, values: Float[np.ndarray, "*values"]) -> Inexact[np.ndarray, "*coefficients"]:
        return scipy.fft.dctn(values, axes=self.over)

    def backward(self, coefficients: Inexact[np.ndarray, "*coefficients"]) -> Float[np.ndarray, "*values"]:
        return scipy.fft.idctn(coefficients, axes=self.over)

    def at(self, coefficients: Inexact[np.ndarray, "*coefficients"], points: Points) -> Float[np.ndarray, "*values"]:
        k = np.arange(self.size)
        for name, axis in self.domain.axes:
            waves = np.cos(np.pi * np.outer(k, (points[name] - axis.lower) / axis.length))
            # Contracts the first remaining axis of modes and appends the points, so the axes end up in order.
            matrix = waves * np.where(k > 0, 2, 1)[:, None] / (2 * self.size)
            coefficients = np.tensordot(coefficients, matrix, ((-len(self.domain),), (0,)))
        return coefficients


def evolve(
    fields: tuple[str, ...],
    modes: Modes,
    initial: Sequence[Callable[..., Float[np.ndarray, "functions *nodes"]] | float],
    linear: Sequence[Inexact[np.ndarray, "*modes"] | float],
    nonlinear: Callable[..., Sequence[Float[np.ndarray, "functions *nodes"]]],
    points: Points,
    *,
    steps: int,
    after: Inexact[np.ndarray, "*modes"] | float = 1.0,
) -> dict[str, Float[np.ndarray, "functions t *space"]]:
    r"""Solutions of $\dot c = \Lambda c + M N(s)$ at `points`, by field; c are the coefficients of s in a basis.

    **Arguments:**

    - `fields`: their names; each of the next arguments has one entry for each.
    - `modes`: the basis.
    - `initial`: the states at t = 0, as functions of the points along each axis of space or as numbers.
    - `linear`: $\Lambda$, with or without an axis of functions.
    - `nonlinear`: N, from the values of the fields at the nodes, one argument for each, to values at the nodes.
    - `points`: the times "t" and the points along each axis of space.
    - `steps`: from t = 0 to the last time, at least.
    - `after`: M, of all fields: ik for the derivative of a flux.
    """
    over, times = len(modes.domain), points["t"]
    # States are [fields, functions, *modes].
    diagonal = np.stack(np.broadcast_arrays(*linear))
    diagonal = diagonal if diagonal.ndim == 2 + over else diagonal[:, None]

    def start(*x: np.ndarray) -> np.ndarray:
        return np.stack(np.broadcast_arrays(*(state(*x) if callable(state) else state for state in initial)))

    def rate(coefficients: np.ndarray) -> np.ndarray:
        return after * modes.forward(np.stack(nonlinear(*modes.backward(coefficients))))

    states = solve_semilinear(diagonal, rate, modes.project(start), times, steps=steps)
    values = np.moveaxis(modes.at(states, points), 0, -1 - over)
    if times[0] == 0:
        # The state itself: its series converges slowly where it does not fit the walls.
        values[(..., 0, *(slice(None),) * over)] = start(*(points[name] for name in modes.domain))
    return dict(zip(fields, values, strict=True))


def solve_schroedinger(
    domain: Domain,
    potential: Callable[..., Float[np.ndarray, "functions n"]],
    initial: Callable[..., np.ndarray],
    points: Points,
    resolution: int,
) -> Inexact[np.ndarray, "functions t x"]:
    r"""Wave functions $\psi = e^{-iHt} \psi_0$, where $H = -\partial_{xx}/2 + V$ acts on the waves of a periodic axis.

    **Arguments:**

    - `potential`, `initial`: maps from points to V, `[functions, n]`, and to $\psi_0$, `[n]`.
    - `resolution`: the number of waves. Exact in time: H is a Hermitian matrix, whose eigenvectors are computed.
    """
    ((name, axis),) = domain.axes
    x = axis.lower + axis.length * np.arange(resolution) / resolution
    k = 2 * np.pi / axis.length * np.fft.fftfreq(resolution, 1 / resolution)
    # From values at the nodes to coefficients of the waves: unitary.
    waves = np.exp(-1j * np.outer(k, x - axis.lower)) / np.sqrt(resolution)
    energy, states = np.linalg.eigh(np.diag(k**2 / 2) + (waves * potential(x)[:, None]) @ waves.conj().T)
    start = np.conj(states.swapaxes(1, 2)) @ (waves @ np.asarray(initial(x), complex))
    c = (np.exp(-1j * energy[:, None] * points["t"][:, None]) * start[:, None]) @ states.swapaxes(1, 2)
    return c @ np.exp(1j * np.outer(k, points[name] - axis.lower)) / np.sqrt(resolution)
