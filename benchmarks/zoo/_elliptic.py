r"""Elliptic equations on a box: a nodal Galerkin method (one spectral element), and a series for data on one side.

With s = 0 on the boundary, trial functions are the Lagrange polynomials of the Gauss-Lobatto nodes, integrals are sums
over the same nodes, and derivatives go to the test functions by parts. It shares nothing with the library's
discretisation: neither its modal bases nor its lifts nor its residuals. At a right angle the solution of Poisson's
equation is only as smooth as $r^2 \log r$, so convergence is algebraic but fast; each problem's `reference_resolution`
is verified against twice itself.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.linalg
from jaxtyping import Float

from seponet import Domain
from seponet.reference import sine_coefficients

Values = Float[np.ndarray, "functions *nodes"]


@functools.cache
def lobatto(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The `degree` + 1 Gauss-Lobatto nodes on (-1, 1), their weights, and their matrix of differentiation."""
    legendre = np.polynomial.legendre.Legendre.basis(degree)
    # The inner nodes are those of the Jacobi weight 1 - x^2: eigenvalues of its recurrence.
    k = np.arange(1, degree - 1)
    beside = np.sqrt(k * (k + 2) / ((2 * k + 1) * (2 * k + 3)))
    inner = scipy.linalg.eigvalsh_tridiagonal(np.zeros(degree - 1), beside)
    x = np.concatenate([[-1.0], inner, [1.0]])
    values = legendre(x)
    apart = x[:, None] - x + np.eye(degree + 1)
    derivative = values[:, None] / values / apart - np.eye(degree + 1)
    # The derivative of a constant is zero; this also rounds less than the closed form of the diagonal.
    derivative -= np.diag(derivative.sum(1))
    return x, 2 / (degree * (degree + 1) * values**2), derivative


def interpolation(nodes: Float[np.ndarray, " n"], points: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m n"]:
    """The matrix from values at `nodes` to the values of their polynomial at `points`, by the barycentric formula."""
    apart = (nodes[:, None] - nodes) * 4 / (nodes[-1] - nodes[0]) + np.eye(len(nodes))
    weights = 1 / apart.prod(1)
    gaps = points[:, None] - nodes
    hit = gaps == 0
    terms = np.where(hit.any(1, keepdims=True), hit, weights / np.where(hit, 1.0, gaps))
    return terms / terms.sum(1, keepdims=True)


def along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """A matrix applied to one axis."""
    return np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)


class Box:
    """Functions of degree `resolution` along each axis of a domain; arrays are `[functions, *nodes]`, ends included."""

    def __init__(self, domain: Domain, resolution: int) -> None:
        self.names = domain.names
        x, w, d = lobatto(resolution)
        halves = [axis.length / 2 for _, axis in domain.axes]
        self.nodes = [axis.lower + half * (x + 1) for (_, axis), half in zip(domain.axes, halves, strict=True)]
        self.derivatives = [d / half for half in halves]
        self.weights = functools.reduce(np.multiply.outer, [w * half for half in halves])
        self.axes = tuple(range(-len(halves), 0))
        # Along each axis the eigenfunctions of -d^2/dx^2: together they diagonalise the Laplacian.
        roots = [np.sqrt(w[1:-1] * half) for half in halves]
        stiff = [
            (e.T * w * half @ e)[1:-1, 1:-1] / np.outer(r, r)
            for e, half, r in zip(self.derivatives, halves, roots, strict=True)
        ]
        pairs = [np.linalg.eigh(matrix) for matrix in stiff]
        self.eigenvalues = functools.reduce(np.add.outer, [values for values, _ in pairs])
        self.modes = [vectors / root[:, None] for (_, vectors), root in zip(pairs, roots, strict=True)]

    def test(self, values: np.ndarray) -> np.ndarray:
        """The integrals against the test functions; zero for those of the boundary, which are not among them."""
        return self._inner(values * self.weights)

    def gradient(self, values: np.ndarray) -> list[np.ndarray]:
        """The derivative along each axis."""
        return [along(d, values, axis) for d, axis in zip(self.derivatives, self.axes, strict=True)]

    def test_gradient(self, flux: list[np.ndarray]) -> np.ndarray:
        """The integrals of a flux against the gradients of the test functions: minus its divergence, in weak form."""
        parts = zip(self.derivatives, flux, self.axes, strict=True)
        return self._inner(sum(along(d.T, part * self.weights, axis) for d, part, axis in parts))

    def invert(self, tested: np.ndarray, shift: float = 0.0) -> np.ndarray:
        """The solution of (-Laplacian - `shift`) s = f from `tested` = `test(f)`."""
        c = tested[(..., *(slice(1, -1),) * len(self.axes))]
        for vectors, axis in zip(self.modes, self.axes, strict=True):
            c = along(vectors.T, c, axis)
        c = c / (self.eigenvalues - shift)
        for vectors, axis in zip(self.modes, self.axes, strict=True):
            c = along(vectors, c, axis)
        return np.pad(c, [(0, 0)] * (c.ndim - len(self.axes)) + [(1, 1)] * len(self.axes))

    def at(self, values: np.ndarray, points: Mapping[str, np.ndarray]) -> np.ndarray:
        """The values on the tensor grid of `points`."""
        for name, nodes, axis in zip(self.names, self.nodes, self.axes, strict=True):
            values = along(interpolation(nodes, points[name]), values, axis)
        return values

    def _inner(self, values: np.ndarray) -> np.ndarray:
        inner = (..., *(slice(1, -1),) * len(self.axes))
        kept = np.zeros_like(values)
        kept[inner] = values[inner]
        return kept


def harmonic(
    side: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, " x"], y: Float[np.ndarray, " y"], modes: int
) -> Float[np.ndarray, "functions x y"]:
    r"""The harmonic function on the unit square with s = `side(x)` at y = 1 and s = 0 on the other sides.

    It is $\sum_k c_k \sin(k \pi x) \sinh(k \pi y) / \sinh(k \pi)$. Where `side` does not vanish at its ends, $c_k$ is
    $2 / (k \pi)$ (side(0) - (-1)^k side(1)) + O(k^-3), and s jumps at the corner, where it has no value. The sum of
    these parts times $\sin(k \pi x) e^{-k \pi (1 - y)}$ is an angle; what is left converges fast on the side too.
    """
    number = np.arange(1, modes + 1)
    k, ends = np.pi * number, side(np.array([0.0, 1.0]))
    jumps = 2 / k * (ends[:, :1] - (-1.0) ** number * ends[:, 1:])
    decay = np.exp(-np.outer(k, 1 - y))
    # Sines of imaginary angles without overflow.
    lifted = decay * (1 - np.exp(-2 * np.outer(k, y))) / (1 - np.exp(-2 * k))[:, None]
    smooth = sine_coefficients(side, modes)[:, :, None] * lifted - jumps[:, :, None] * decay
    angles = [
        2 / np.pi * np.arctan2(np.sin(np.pi * a)[:, None], np.exp(np.pi * (1 - y)) - np.cos(np.pi * a)[:, None])
        for a in (x, 1 - x)
    ]
    return np.sin(np.outer(x, k)) @ smooth + np.tensordot(ends, np.stack(angles), 1)


def solve_diffusion(box: Box, a: Values, f: Values) -> Values:
    r"""The solution of $-\nabla \cdot (a \nabla s) = f$ with a > 0."""
    root = np.sqrt(a)
    # In terms of w = sqrt(a) s the principal part is that of the Laplacian, which is inverted directly.
    return conjugate_gradients(
        lambda s: box.test_gradient([a * slope for slope in box.gradient(s)]),
        lambda r: box.invert(r / root) / root,
        box.test(f),
    )


def solve_elasticity(
    box: Box, lam: float, mu: float, forces: Sequence[Values]
) -> Float[np.ndarray, "2 functions *nodes"]:
    r"""The two displacements under two forces: $-\nabla \cdot \sigma$ = forces, with the stress
    $\sigma = \lambda \operatorname{tr}(e) + 2 \mu e$ of the strain e."""

    def apply(v: np.ndarray) -> np.ndarray:
        (p_x, p_y), (q_x, q_y) = box.gradient(v[:, 0]), box.gradient(v[:, 1])
        pressure, shear = lam * (p_x + q_y), mu * (p_y + q_x)
        stress = [[pressure + 2 * mu * p_x, shear], [shear, pressure + 2 * mu * q_y]]
        return np.stack([box.test_gradient(row) for row in stress], axis=1)

    return conjugate_gradients(apply, box.invert, box.test(np.stack(forces, axis=1))).swapaxes(0, 1)


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    right: Values,
    *,
    tolerance: float = 1e-11,
    iterations: int = 5000,
) -> Values:
    """The solutions of `apply(s)` = `right`, symmetric and positive, for all functions at once.

    **Arguments:**

    - `precondition`: about the inverse of `apply`, symmetric and positive too.
    - `tolerance`: what the preconditioned norm of each function's residual must fall by.
    """

    def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a * b).sum(axis=tuple(range(1, a.ndim)), keepdims=True)

    s, residual = np.zeros_like(right), right
    direction = z = precondition(residual)
    size = first = dot(residual, z)
    for _ in range(iterations):
        # Functions that are there stand still while others go on: their residuals would become zeros over zeros.
        moving = size > tolerance**2 * first
        if not np.any(moving):
            return s
        image = apply(direction)
        step = np.where(moving, size, 0.0) / np.where(moving, dot(direction, image), 1.0)
        s, residual = s + step * direction, residual - step * image
        z = precondition(residual)
        size, last = dot(residual, z), size
        direction = z + np.where(moving, size, 0.0) / np.where(moving, last, 1.0) * direction
    raise ValueError(f"conjugate gradients did not reach {tolerance} in {iterations} iterations")
