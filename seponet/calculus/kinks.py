r"""Kinks in the data of exact conditions: found, and smoothed.

The derivatives of a lift come from automatic differentiation, which is blind to what happens at single points: the
second derivative of max(x - 1, 0) is a unit impulse, and its computed one is zero everywhere. The residual then misses
the impulse and the solution is silently wrong. It shows where a derivative does not integrate to the differences of
what it is the derivative of. The remedy is to replace the lift along such an axis by its projection on polynomials (or
waves): all derivatives of that are consistent, and what it misses of the lift becomes smaller the more there are.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from ..bases.base import Basis
from ..bases.polynomial import Legendre
from ..bases.quadrature import gauss, quadrature
from ..bases.trigonometric import Fourier
from ..derivatives import MultiIndex, multi_index, order_along
from ..domain import Interval
from ..equations.problem import Problem
from ..locations import Evaluable, Grid, Location, Points
from .lift import make_lift
from .projectors import Projector, make_projectors

CELLS, NODES = 256, 4
"""Cells along an axis, and Gauss points in each: what a kink does to an integral is then below 1e-4 of it."""

BLURRED = 5e-4
"""What a kink inside of a cell may leave of an error, relative to a solution and whatever the basis: 2.2e-4 of
Black-Scholes prices. Nothing with smoothed data is announced with less."""

THRESHOLD = 1e-3
"""A derivative that misses more than this part of the largest value it should lead to has lost a jump."""


@dataclass(frozen=True)
class Kink:
    """A jump in a derivative of a field's data.

    - `field`, `axis`, `at`: of which field, along which axis, and about where.
    - `order`: the order of the derivative that jumps; 0 is a jump of the data themselves.
    - `size`: the jump, relative to the largest value of that derivative.
    """

    field: str
    axis: str
    at: float
    order: int
    size: float

    def __str__(self) -> str:
        what = "jump" if self.order == 0 else "have a kink" if self.order == 1 else f"jump in derivative {self.order}"
        return f"the data of {self.field} {what} at {self.axis} = {self.at:.3g}"


def find_kinks(problem: Problem, exact: Collection[str], inputs: Mapping[str, Evaluable]) -> list[Kink]:
    """The kinks in the data of exact conditions, for given inputs; the largest of each field and axis."""
    kinks: list[Kink] = []
    for field in problem.fields:
        lift = make_lift(problem, field, exact, inputs)
        if lift is None:
            continue
        for name, axis in problem.domain.axes:
            for order in range(problem.highest_order(name, field)):
                size, at = _largest_jump(lift, problem, name, axis, order)
                if size > THRESHOLD:
                    kinks.append(Kink(field, name, at, order, size))
                    break
    return kinks


def smooth(lift: Evaluable, name: str, basis: Basis, projector: Projector | None) -> Evaluable:
    """A lift projected on the functions of one axis, in L2; its traces there stay what they are.

    **Arguments:**

    - `name`, `basis`: the axis, and the functions.
    - `projector`: that of the exact conditions of the axis, or None.
    """
    points, weights, _ = _composite(basis.axis, CELLS if not basis.axis.periodic else CELLS // 2)
    analysis = weights[:, None] * basis.table(points)[0]

    def project(where: Location, alpha: MultiIndex) -> Array:
        m = order_along(alpha, name)
        across = multi_index(**(dict(alpha) | {name: 0}))
        if isinstance(where, Grid):
            axis = where.names.index(name)
            fine = Grid(where.names, tuple(jnp.asarray(points) if n == name else where[n] for n in where.names))
            values = lift(fine, across)
            values = jnp.broadcast_to(values, (values.shape[0], *fine.shape))
            matrix = _derivative(basis, where[name], m, analysis)
            return jnp.moveaxis(jnp.tensordot(values, matrix, ((1 + axis,), (0,)), precision="highest"), -1, 1 + axis)
        total = len(points)
        spread = {n: jnp.repeat(where[n], total) for n in where.names} | {
            name: jnp.tile(jnp.asarray(points), where.shape[0])
        }
        values = lift(Points(where.names, tuple(spread[n] for n in where.names)), across)
        values = jnp.broadcast_to(values, (values.shape[0], where.shape[0] * total)).reshape(-1, where.shape[0], total)
        coefficients = jnp.matmul(values, jnp.asarray(analysis), precision="highest")
        return jnp.sum(coefficients * _derivative(basis, where[name], m)[None], axis=-1)

    if projector is None:
        return project
    given, kept = projector(lift), projector(project)
    return lambda where, alpha: project(where, alpha) + given(where, alpha) - kept(where, alpha)


def smooth_lift(
    problem: Problem,
    field: str,
    exact: Collection[str],
    inputs: Mapping[str, Evaluable],
    smoothed: Collection[str],
    ranks: Mapping[str, int],
) -> Evaluable | None:
    """The lift of one field (`make_lift`), projected along the axes `smoothed` on as many functions as there are trial
    functions (`ranks`) and exact conditions."""
    lift = make_lift(problem, field, exact, inputs)
    if lift is None:
        return None
    projectors = {p.name: p for p in make_projectors(problem, field, exact)}
    for name in smoothed:
        projector = projectors.get(name)
        size = ranks[name] + (len(projector.traces) if projector else 0)
        lift = smooth(lift, name, smoothing_basis(problem.domain.axis(name), size), projector)
    return lift


def _derivative(basis: Basis, points: Array, m: int, analysis: np.ndarray | None = None) -> Array:
    """The m-th derivatives `[n, size]`, or their product with `analysis` from the left. It is computed while tracing if
    the points are constants: the compiler would take seconds to fold it."""

    def compute() -> Array:
        values = basis(points, m)[m]
        return values if analysis is None else jnp.matmul(jnp.asarray(analysis), values.T, precision="highest")

    if isinstance(points, Tracer):
        return compute()
    with jax.ensure_compile_time_eval():
        return compute()


def smoothing_basis(axis: Interval, size: int) -> Basis:
    """The functions that data are projected on: waves on a periodic axis, polynomials on an interval."""
    return Fourier(axis, size | 1) if axis.periodic else Legendre(axis, size)


def _largest_jump(lift: Evaluable, problem: Problem, name: str, axis: Interval, order: int) -> tuple[float, float]:
    """What the next derivative misses of the differences of this one, relative to its largest value; and where."""
    points, weights, edges = _composite(axis, CELLS)
    others = {n: quadrature(a, 3)[0] for n, a in problem.domain.axes if n != name}
    value = _along(lift, problem, others | {name: edges}, name, order)
    slope = _along(lift, problem, others | {name: points}, name, order + 1)
    integrals = np.sum((slope * weights).reshape(*slope.shape[:-1], CELLS, NODES), axis=-1)
    missed = np.max(np.abs(np.diff(value, axis=-1) - integrals).reshape(-1, CELLS), axis=0)
    # Smooth but steep data are integrated to rounding; a jump shows in single cells.
    size = float(np.max(missed) / max(float(np.max(np.abs(value))), 1e-300)) if np.max(missed) > 0 else 0.0
    cell = int(np.argmax(missed))
    return size, float(0.5 * (edges[cell] + edges[cell + 1]))


def _along(
    lift: Evaluable, problem: Problem, points: Mapping[str, np.ndarray], name: str, order: int
) -> Float[np.ndarray, "functions *_"]:
    grid = Grid.of(problem.domain, {n: jnp.asarray(p) for n, p in points.items()})
    values = np.asarray(lift(grid, multi_index(**{name: order})))
    values = np.broadcast_to(values, (values.shape[0], *grid.shape))
    return np.moveaxis(values, 1 + problem.domain.names.index(name), -1)


def _composite(axis: Interval, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss points and weights in each of some cells, and the edges of these: equal on a periodic axis, finer towards
    the ends of an interval, as the waves of polynomials are. With equal ones, polynomials of degree 62 were orthogonal
    to a per cent only, and lifts of higher degrees were something else."""
    unit, nodes = np.linspace(0.0, 1.0, cells + 1), gauss(Interval(0.0, 1.0), NODES)
    edges = axis.lower + axis.length * (unit if axis.periodic else 0.5 - 0.5 * np.cos(np.pi * unit))
    starts, widths = edges[:-1, None], np.diff(edges)[:, None]
    return (starts + widths * nodes[0]).reshape(-1), (widths * nodes[1]).reshape(-1), edges
