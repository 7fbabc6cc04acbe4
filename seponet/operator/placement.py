"""Where predictions on a mapped domain are: coordinates of grids, and the inverse of a map at given points."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..equations.chart import Chart, Jet
from ..equations.problem import Problem
from ..functions import Functions
from ..locations import Evaluable, Location, Points
from ..mapped import Mapped
from ..placed import REPLACES

CANDIDATES = {1: 65, 2: 25, 3: 11}
"""Points along each mapped axis among which the first guess of an inverse is chosen."""

STARTS, STEPS, LIMIT = 3, 12, 0.25
"""Guesses that Newton's method starts from, its steps from each, and the longest of them relative to an axis."""


def physical_coordinates(
    problem: Problem, inputs: Mapping[str, Functions], where: Location, kept: tuple[str, ...], *, many: bool
) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
    """The coordinates of a map on a grid or at points of the box, as labelled arrays need them; none on a box.

    **Arguments:**

    - `kept`: the axes of a grid that the labelled array has; others were given as one number.
    - `many`: whether it has a functions' axis. Coordinates have one too if the shape is an input.
    """
    chart = problem.chart
    if chart is None:
        return {}
    found = chart.compiled_locate({name: inputs[name] for name in chart.shapes}, where)
    located = {name: found[name] for name in chart.mapped}
    labelled: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {}
    attributes = {REPLACES: " ".join(chart.domain.replaced)}
    for name, values in located.items():
        array = np.asarray(values)
        varies = bool(chart.shapes)
        dims: list[str] = ["function"] if varies and many else []
        # A coordinate that no shape changes has one row for all functions, and is told for each like the others.
        rows = max(len(values) for values in located.values())
        array = np.broadcast_to(array, (rows, *array.shape[1:])) if dims else array[0]
        if isinstance(where, Points):
            spread = np.broadcast_to(array, (*array.shape[: len(dims)], *where.shape))
            labelled[name] = (*dims, "point"), spread, attributes
            continue
        axes = [n for n in where.names if n in kept and (n in chart.domain.replaced or chart.moves_with(n))]
        full = np.broadcast_to(array, (*array.shape[: len(dims)], *where.shape))
        index = [slice(None) if n in axes else 0 for n in where.names]
        labelled[name] = (*dims, *axes), full[(*[slice(None)] * len(dims), *index)], attributes
    return labelled


def invert(
    chart: Chart, functions: Mapping[str, Evaluable], given: Mapping[str, Float[Array, " points"]]
) -> tuple[dict[str, Float[Array, " points"]], Bool[Array, " points"]]:
    """The points of the box that a map puts at given coordinates, for one function; may be traced.

    Newton's method from the nearest of a grid of candidates.

    **Arguments:**

    - `functions`: batches of one function, for the inputs that the map depends on.
    - `given`: for each coordinate its values, those of axes that are kept included.

    **Returns:** the coordinates in the box, and whether there is such a point: others lie outside of the domain.
    """
    domain = chart.domain
    kept = {name: given[name] for name in chart.kept}
    guesses, size = _candidates(chart, functions, given)

    def place(box: Mapping[str, Array]) -> dict[str, Array]:
        return chart.locate(functions, Points(domain.names, tuple({**kept, **box}[n] for n in domain.names)))

    def missed(box: Mapping[str, Array]) -> Array:
        located = place(box)
        return jnp.sqrt(sum((located[k][0] - given[k]) ** 2 for k in chart.mapped))

    def step(box: Mapping[str, Array]) -> tuple[dict[str, Array], Array]:
        """The next guess, and how far it is from this one, relative to the axes."""
        where = Points(domain.names, tuple({**kept, **box}[n] for n in domain.names))
        jet = Jet(chart, {symbol: symbol.evaluate(functions, where) for symbol in chart.symbols(1)})
        located = chart.locate(functions, where)
        moved: dict[str, Array] = {}
        change = jnp.zeros_like(next(iter(box.values())))
        for axis in domain.replaced:
            delta = sum(jet.inverse(axis, k) * (given[k][None] - located[k]) for k in chart.mapped)
            delta = jnp.nan_to_num(jnp.broadcast_to(jnp.asarray(delta), (1, len(box[axis])))[0])
            limit = LIMIT * domain.axis(axis).length
            moved[axis] = _inside(domain, axis, box[axis] + jnp.clip(delta, -limit, limit))
            change = jnp.maximum(change, jnp.abs(moved[axis] - box[axis]) / domain.axis(axis).length)
        return moved, change

    def improve(carry: tuple[Array, dict[str, Array], Array]) -> tuple[Array, dict[str, Array], Array]:
        return carry[0] + 1, *step(carry[1])

    def moving(carry: tuple[Array, dict[str, Array], Array]) -> Array:
        return (carry[0] < STEPS) & jnp.any(carry[2] > tiny)

    def attempt(carry: tuple[Array, dict[str, Array], Array]) -> tuple[Array, dict[str, Array], Array]:
        number, best, distance = carry
        start = {axis: values[number] for axis, values in guesses.items()}
        _, found, _ = jax.lax.while_loop(moving, improve, (jnp.asarray(0), start, jnp.ones_like(distance)))
        reached = missed(found)
        better = reached < distance
        chosen = {axis: jnp.where(better, found[axis], best[axis]) for axis in best}
        return number + 1, chosen, jnp.minimum(distance, reached)

    def unfinished(carry: tuple[Array, dict[str, Array], Array]) -> Array:
        return (carry[0] < STARTS) & jnp.any(carry[2] > near)

    first = {axis: values[0] for axis, values in guesses.items()}
    tiny = 1e-2 * jnp.sqrt(jnp.finfo(first[domain.replaced[0]].dtype).eps)
    near = 0.2 * jnp.sqrt(jnp.finfo(first[domain.replaced[0]].dtype).eps) * size
    far = jnp.full_like(first[domain.replaced[0]], jnp.inf)
    _, found, distance = jax.lax.while_loop(unfinished, attempt, (jnp.asarray(0), first, far))
    return {**kept, **found}, distance <= near


def _inside(domain: Mapped, axis: str, values: Array) -> Array:
    """Values on an axis: wrapped round a periodic one, and kept between the ends of an interval."""
    interval = domain.axis(axis)
    if interval.periodic:
        return interval.lower + jnp.mod(values - interval.lower, interval.length)
    # A pole has no inverse; a point next to it has.
    slack = 1e-9 * interval.length if axis in dict(domain.poles) else 0.0
    return jnp.clip(values, interval.lower + slack, interval.upper - slack)


def _candidates(
    chart: Chart, functions: Mapping[str, Evaluable], given: Mapping[str, Float[Array, " points"]]
) -> tuple[dict[str, Float[Array, "starts points"]], Array]:
    """The points of a coarse grid of the box that are nearest to given coordinates; and the size of the domain."""
    domain = chart.domain
    count = CANDIDATES[len(domain.replaced)]
    lines = [np.linspace(axis.lower, axis.upper, count) for axis in (domain.axis(n) for n in domain.replaced)]
    coarse = [m.reshape(-1) for m in np.meshgrid(*lines, indexing="ij")]
    total, points = len(coarse[0]), len(next(iter(given.values())))
    if any(chart.moves_with(axis) for axis in chart.kept):
        # The map is another one at each point.
        box = {name: jnp.tile(jnp.asarray(c), points) for name, c in zip(domain.replaced, coarse, strict=True)}
        box |= {name: jnp.repeat(given[name], total) for name in chart.kept}
        located = chart.locate(functions, Points(domain.names, tuple(box[n] for n in domain.names)))
        near = {k: jnp.broadcast_to(located[k], (1, points * total)).reshape(points, total) for k in chart.mapped}
    else:
        middle = {n: jnp.full(total, given[n][0]) for n in chart.kept}
        box = {name: jnp.asarray(c) for name, c in zip(domain.replaced, coarse, strict=True)} | middle
        located = chart.locate(functions, Points(domain.names, tuple(box[n] for n in domain.names)))
        near = {k: jnp.broadcast_to(located[k], (1, total)) for k in chart.mapped}
    distances = sum((near[k] - given[k][:, None]) ** 2 for k in chart.mapped)
    _, chosen = jax.lax.top_k(-distances, STARTS)
    size = jnp.sqrt(sum((jnp.max(near[k]) - jnp.min(near[k])) ** 2 for k in chart.mapped))
    return {name: jnp.asarray(c)[chosen].T for name, c in zip(domain.replaced, coarse, strict=True)}, size


def check_coordinates(problem: Problem, given: Mapping[str, Any]) -> bool:
    """Whether points are given by the coordinates of a map rather than by the axes of its box; a `ValueError` if by
    neither."""
    domain = problem.domain
    if problem.chart is None or set(given) == set(domain):
        return False
    if set(given) == set(domain.physical_names):
        return True
    raise ValueError(
        f"points are given by the coordinates {', '.join(domain.physical_names)}, or by the axes of the box "
        f"{', '.join(domain)}; got {', '.join(given) or 'none'}"
    )
