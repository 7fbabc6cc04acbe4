"""Finite elements: biquadratic, isoparametric, on meshes from formulas of their own (scikit-fem)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse.linalg
from environments import make_importable

from seponet import Functions, Grid, Points

Array = np.ndarray
Place = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Case:
    """One domain as finite elements see it.

    - `place`: from the unit square, or from [-1, 1]^2 for a disk, to the plane, for one function of the inputs.
    - `periodic`: whether the second direction closes.
    - `fixed`: values on the sides of the square, by name; sides that are left out are insulated.
    - `source`: the right-hand side at points.
    """

    place: Place
    fixed: Mapping[str, Callable[[Array, Array], Array]]
    source: Callable[[Array, Array], Array]
    periodic: bool = False
    square: tuple[float, float] = (0.0, 1.0)


def zero(a: Array, b: Array) -> Array:
    return 0.0 * a * b


def one(a: Array, b: Array) -> Array:
    return zero(a, b) + 1.0


def at_points(functions: Functions, x: Array, y: Array) -> Array:
    """A function of x and y."""
    where = Points(("x", "y"), (jnp.asarray(x.reshape(-1)), jnp.asarray(y.reshape(-1))))
    return np.asarray(functions(where)).reshape(x.shape)


def along(functions: Functions, axis: str, at: Array) -> Array:
    """A function of one axis."""
    values = functions(Grid((axis,), (jnp.asarray(np.asarray(at).reshape(-1)),)))
    return np.asarray(values).reshape(np.shape(at))


def graded(t: Array) -> Array:
    """Cells that shrink towards corners, where solutions are singular."""
    return 0.5 * (1 - np.cos(np.pi * t))


def case(name: str, inputs: Mapping[str, Functions]) -> Case:
    """The domain of a problem for inputs of one function each; formulas are written here once more, in NumPy."""
    walls = {"left": zero, "right": zero, "bottom": zero, "top": zero}
    if name == "Annulus":
        return Case(
            lambda a, b: ((0.5 + 0.5 * a) * np.cos(2 * np.pi * b), (0.5 + 0.5 * a) * np.sin(2 * np.pi * b)),
            {"left": zero, "right": zero},
            lambda x, y: at_points(inputs["f"], x, y),
            periodic=True,
        )
    if name == "Ring":

        def ring(a: Array, b: Array) -> tuple[Array, Array]:
            angle = 2 * np.pi * b
            r = 0.45 * np.exp(0.2 * along(inputs["R"], "theta", angle % (2 * np.pi)))
            x = (1 - a) * r * np.cos(angle) + a * 1.3 * np.cos(angle)
            return x, (1 - a) * r * np.sin(angle) + a * np.sin(angle)

        return Case(ring, {"left": one, "right": zero}, zero, periodic=True)
    if name == "Star":

        def star(a: Array, b: Array) -> tuple[Array, Array]:
            u, v = a * np.sqrt(1 - b**2 / 2), b * np.sqrt(1 - a**2 / 2)
            r = np.exp(0.25 * along(inputs["R"], "theta", np.arctan2(v, u) % (2 * np.pi)))
            return r * u, r * v

        return Case(star, walls, one, square=(-1.0, 1.0))
    if name == "Channel":
        return Case(
            lambda a, b: (b, a * 0.6 * np.exp(0.3 * along(inputs["h"], "x", b % 1.0))),
            {"left": lambda _, b: along(inputs["g"], "x", b % 1.0)},
            zero,
            periodic=True,
        )
    if name in ("Corner120", "Corner150"):
        angle = np.radians(float(name[-3:]))
        return Case(
            lambda a, b: (graded(a) + np.cos(angle) * graded(b), np.sin(angle) * graded(b)),
            walls,
            lambda x, y: at_points(inputs["f"], x, y),
        )
    if name == "Quadrilateral":

        def sides(a: Array, b: Array) -> tuple[Array, Array]:
            a, b = graded(a), graded(b)
            bump, bulge = np.sin(np.pi * a), np.sin(np.pi * b)
            x = a + (1 - a) * (-0.1 * bulge) + a * 0.2 * bulge
            return x, b + (1 - b) * 0.15 * bump + b * 0.2 * bump

        return Case(sides, walls, lambda x, y: at_points(inputs["f"], x, y))
    raise ValueError(name)


@dataclass(frozen=True)
class Reference:
    """A solution: the nodes, where they are in the square, the values there, and the mass matrix."""

    x: Array
    y: Array
    box: Array
    values: Array
    mass: Any

    def error(self, values: Array) -> float:
        """The relative L2 error of values at the nodes."""
        difference = values - self.values
        return float(np.sqrt(difference @ self.mass @ difference / (self.values @ self.mass @ self.values)))


def solve(given: Case, cells: int) -> Reference:
    """-s_xx - s_yy = source on `cells` x `cells` elements (twice as many round a periodic direction)."""
    make_importable("skfem")
    import skfem
    from skfem.helpers import dot, grad

    low, high = given.square
    lines = [np.linspace(low, high, n + 1) for n in (cells, 2 * cells if given.periodic else cells)]
    flat = skfem.MeshQuad2.from_mesh(skfem.MeshQuad.init_tensor(*lines))
    a, b = flat.doflocs
    mesh = replace(flat, doflocs=np.stack(given.place(a, b)))
    basis = skfem.Basis(mesh, skfem.ElementQuad2(), intorder=5)
    stiffness = skfem.BilinearForm(lambda u, v, _: dot(grad(u), grad(v))).assemble(basis)
    mass = skfem.BilinearForm(lambda u, v, _: u * v).assemble(basis)
    load = skfem.LinearForm(lambda v, w: given.source(w.x[0], w.x[1]) * v).assemble(basis)
    # The degrees of freedom in the flat mesh say which side they are on.
    box = skfem.Basis(flat, skfem.ElementQuad2(), intorder=2).doflocs
    sides = {"left": box[0] == low, "right": box[0] == high, "bottom": box[1] == low, "top": box[1] == high}
    master = np.arange(basis.N)
    if given.periodic:
        lower, upper = np.flatnonzero(sides["bottom"]), np.flatnonzero(sides["top"])
        master[upper[np.argsort(box[0][upper])]] = lower[np.argsort(box[0][lower])]
    merged = scipy.sparse.csr_matrix((np.ones(basis.N), (np.arange(basis.N), master)), (basis.N, basis.N))
    values, free = np.zeros(basis.N), master == np.arange(basis.N)
    for name, data in given.fixed.items():
        values[sides[name]] = data(box[0], box[1])[sides[name]]
        free &= ~sides[name]
    matrix, right = merged.T @ stiffness @ merged, merged.T @ (load - stiffness @ values)
    inner = np.flatnonzero(free)
    correction = np.zeros(basis.N)
    correction[inner] = scipy.sparse.linalg.spsolve(matrix[inner][:, inner].tocsc(), right[inner])
    place = basis.doflocs
    return Reference(place[0], place[1], box, values + merged @ correction, mass)
