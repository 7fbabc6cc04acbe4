"""The angles at the corners of a mapped domain."""

from collections.abc import Mapping
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np

from ..derivatives import multi_index
from ..locations import Evaluable, Grid
from .chart import Chart, Jet

NEAR = 1e-6
"""How far from a corner, relative to the axes, the tangents are taken."""


Corner = tuple[tuple[str, float], tuple[str, float]]
"""The two faces that meet in a corner: axes of the box, and which ends of them."""


def corner_angles(chart: Chart, functions: Mapping[str, Evaluable]) -> dict[Corner, float]:
    """The largest angle at each corner over some functions, in degrees.

    Corners are where faces of two axes meet that coordinates replace, or along which the map varies; poles have none.
    The angle is that between the two curves that leave the corner, in the plane of the first two coordinates of space.
    """
    domain = chart.domain
    names = [n for n in domain.physical_names if n in chart.mapped or chart.moves_with(n)]
    axes = [n for n in domain if n in domain.replaced or (n in names and chart.moves_with(n))]
    angles: dict[Corner, float] = {}
    for first, second in combinations(axes, 2):
        if domain.axis(first).periodic or domain.axis(second).periodic:
            continue
        ends = [[(n, domain.axis(n).lower, 1.0), (n, domain.axis(n).upper, -1.0)] for n in (first, second)]
        for corner in product(*ends):
            if any((n, at) in domain.poles for n, at, _ in corner):
                continue
            (a, at_a, _), (b, at_b, _) = corner
            faces = ((a, at_a), (b, at_b))
            angles[faces] = _angle(chart, functions, dict(faces), {n: s for n, _, s in corner})
    return angles


def _angle(
    chart: Chart, functions: Mapping[str, Evaluable], at: Mapping[str, float], inwards: Mapping[str, float]
) -> float:
    points = {}
    for name, axis in chart.domain.axes:
        middle = axis.lower + axis.length / 2
        points[name] = np.array([at[name] + inwards[name] * NEAR * axis.length if name in at else middle])
    where = Grid.of(chart.domain, {name: jnp.asarray(p) for name, p in points.items()})

    def tangents(given: Mapping[str, Evaluable]) -> list[jax.Array]:
        jet = Jet(chart, {symbol: symbol.evaluate(given, where) for symbol in chart.symbols(1)})
        found = []
        for name in at:
            rates = [jnp.asarray(jet.rate(k, multi_index(**{name: 1}))) for k in chart.mapped]
            rates += [jnp.asarray(1.0 if kept == name else 0.0) for kept in at if kept in chart.kept]
            rows = max(r.size for r in rates)
            found.append(jnp.stack([jnp.broadcast_to(r.reshape(-1), (rows,)) for r in rates]))
        return found

    shapes = {name: functions[name] for name in chart.shapes}
    first, second = (sign * np.asarray(t) for sign, t in zip(inwards.values(), jax.jit(tangents)(shapes), strict=True))
    cosine = np.sum(first * second, axis=0) / (np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0))
    return float(np.max(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))))
