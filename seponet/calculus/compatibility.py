r"""Compatibility of conditions: whether the data of two axes agree where their faces meet.

Let l_a(s) = d_a on a face of axis a and l_b(s) = d_b on a face of axis b. Traces of different axes commute, so a smooth
s with both needs

    l_b(d_a) = l_a(d_b)    on the edge where the faces meet.

If they differ, a lift can't carry both (`lift.py`): with a declared first, l_b of the lift is d_b + h_a (l_b(d_a) -
l_a(d_b)), where the polynomial h_a of axis a does not decay. So the second condition is wrong along its *whole* face,
and no residual shows it. The remedy is to impose one of the two axes softly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._precision import double_precision
from ..bases.quadrature import quadrature
from ..derivatives import Trace, multi_index
from ..domain import Domain, Interval
from ..equations.problem import Problem
from ..equations.terms import LinearCondition
from ..locations import Evaluable, Grid
from .lift import make_data

THRESHOLD = 1e-6
"""Disagreements below this part of the solution do not matter: inputs come in float32, whose round-off is 6e-8 and
grows in derivatives of them, and no tolerance that is asked for is nearly as small."""

POINTS, ALONG = 1024, 32
"""The most points of an edge or a face, and the most along one of its axes: data vary there as inputs do."""


@dataclass(frozen=True)
class Disagreement:
    """Two conditions that no smooth function satisfies, and by how much.

    - `field`: the field that both are about.
    - `conditions`: their names, in the order in which they are declared.
    - `edge`: where their faces meet, the position on each of the two axes.
    - `lengths`: those of the axes whose lengths the size is relative to, because the conditions take derivatives.
    - `mean`, `largest`: over functions, the root mean square over the edge of l_b(d_a) - l_a(d_b), relative to the size
        of the field: to the largest root mean square, over a face, of the data of any condition. A derivative counts
        times the length of its axis.
    """

    field: str
    conditions: tuple[str, str]
    edge: tuple[tuple[str, float], tuple[str, float]]
    lengths: tuple[str, ...]
    mean: float
    largest: float

    @property
    def axes(self) -> tuple[str, str]:
        return self.edge[0][0], self.edge[1][0]

    def __str__(self) -> str:
        first, second = self.conditions
        where = " and ".join(f"{axis} = {node:g}" for axis, node in self.edge)
        if not np.isfinite(self.largest):
            return f'"{first}" and "{second}" contradict each other where {where}: their data are not finite there'
        unit = " and ".join([f"the size of {self.field}", *(f"the length of {axis}" for axis in self.lengths)])
        mean, largest = _percent(self.mean), _percent(self.largest)
        by = mean if mean == largest else f"{mean} on average over sampled inputs and {largest} at most"
        return f'"{first}" and "{second}" contradict each other where {where}: they differ by {by}, relative to {unit}'


def meeting_conditions(problem: Problem) -> list[tuple[LinearCondition, LinearCondition]]:
    """The pairs of conditions that could disagree: of one field, on two axes, and not both with zero data."""
    return [
        (a, b)
        for a, b in combinations(problem.linear_conditions, 2)
        if a.field == b.field and a.axis != b.axis and not (a.data.is_zero and b.data.is_zero)
    ]


def disagreements(problem: Problem, inputs: Mapping[str, Any]) -> list[Disagreement]:
    """The pairs of conditions that contradict each other for given inputs, the largest disagreement first.

    **Arguments:**

    - `problem`: the equation with its conditions, those that are `implied` included.
    - `inputs`: a batch of functions, as `problem.sample` gives it.
    """
    with double_precision():
        functions = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), dict(inputs))
        functions = problem.complete(functions)
        given = [c for c in problem.linear_conditions if not c.data.is_zero]
        data = {c.name: make_data(c.data, problem.spaces, functions) for c in given}
        pairs = meeting_conditions(problem)
        sizes = {field: _size(problem, field, data) for field in {a.field for a, _ in pairs}}
        measured = [_compare(problem.domain, a, b, data, sizes[a.field]) for a, b in pairs]
    return sorted((d for d in measured if d.largest > THRESHOLD), key=lambda d: d.largest, reverse=True)


def choose_exact(problem: Problem, inputs: Mapping[str, Any]) -> tuple[tuple[str, ...], list[Disagreement]]:
    """The axes whose conditions can be imposed exactly together, and the disagreements that keep others from it.

    Of two axes that contradict each other the periodic one stays exact, else the one with conditions at one end only
    (time, inflow: what enters there is carried into the whole domain), else the one that is declared first.
    """
    contradictions = disagreements(problem, inputs)
    ends = {
        name: {c.trace.at for c in problem.linear_conditions if c.axis == name}
        | {node for term in problem.free_conditions if term.face and term.face.axis == name for node in term.face.nodes}
        for name in problem.domain
    }
    declared = list(dict.fromkeys(c.axis for c in problem.linear_conditions))
    periodic = [name for name, axis in problem.domain.axes if axis.periodic]
    preferred = sorted(declared, key=lambda name: len(ends[name]) > 1)
    return compatible_axes(problem, [*periodic, *preferred], contradictions), contradictions


def compatible_axes(
    problem: Problem, preferred: Iterable[str], contradictions: Iterable[Disagreement]
) -> tuple[str, ...]:
    """The axes, in the order of the domain, that contradict none of those that are preferred to them."""
    conflicts = {frozenset(d.axes) for d in contradictions}
    chosen: list[str] = []
    for name in dict.fromkeys(preferred):
        if not any(frozenset((name, other)) in conflicts for other in chosen):
            chosen.append(name)
    return tuple(name for name in problem.domain if name in chosen)


def _compare(
    domain: Domain, a: LinearCondition, b: LinearCondition, data: Mapping[str, Evaluable], size: np.ndarray
) -> Disagreement:
    edge, weights = _rule(domain, {a.axis: a.trace.at, b.axis: b.trace.at})
    difference = _apply(b, data.get(a.name), edge) - _apply(a, data.get(b.name), edge)
    unit = size * _scale(a.trace, domain.axis(a.axis)) * _scale(b.trace, domain.axis(b.axis))
    absolute, unit = np.broadcast_arrays(_root_mean_square(difference, weights), unit)
    # Where all data vanish there is no size to compare with, and none is needed.
    relative = np.divide(absolute, unit, out=np.zeros(unit.shape), where=absolute != 0)
    relative = np.where(np.isnan(relative), np.inf, relative)
    return Disagreement(
        a.field,
        (a.name, b.name),
        ((a.axis, a.trace.at), (b.axis, b.trace.at)),
        tuple(c.axis for c in (a, b) if any(c.trace.weights[1:])),
        float(np.mean(relative)),
        float(np.max(relative)),
    )


def _apply(condition: LinearCondition, data: Evaluable | None, where: Grid) -> Float[np.ndarray, "functions *_"]:
    """The trace of a condition, applied to the data of another one; None is zero."""
    applied = np.zeros((1,) * (1 + len(where.shape)))
    for m, w in enumerate(condition.trace.weights):
        if w and data is not None:
            applied = applied + w * np.asarray(data(where, multi_index(**{condition.axis: m})))
    return applied


def _size(problem: Problem, field: str, data: Mapping[str, Evaluable]) -> Float[np.ndarray, " functions"]:
    """The size of each solution, as far as the data of its conditions tell."""
    size = np.zeros(1)
    for condition in problem.linear_conditions:
        if condition.field == field and condition.name in data:
            face, weights = _rule(problem.domain, {condition.axis: condition.trace.at})
            absolute = _root_mean_square(np.asarray(data[condition.name](face, ())), weights)
            size = np.maximum(size, absolute / _scale(condition.trace, problem.domain.axis(condition.axis)))
    return size


def _scale(trace: Trace, axis: Interval) -> float:
    """The size of a trace of a function of size one that varies over the length of the axis."""
    return sum(abs(w) * axis.length**-m for m, w in enumerate(trace.weights))


def _percent(part: float) -> str:
    return f"{100 * part:.0f}%" if part > 0.1 else f"{100 * part:.2g}%"


def _rule(domain: Domain, fixed: Mapping[str, float]) -> tuple[Grid, list[np.ndarray]]:
    """Quadrature on the part of the domain where some coordinates are fixed, with weights that sum to one."""
    free = len(domain) - len(fixed)
    count = min(ALONG, int(POINTS ** (1 / max(free, 1)) + 1e-9))
    points, weights = {}, []
    for name, axis in domain.axes:
        nodes, lengths = quadrature(axis, count) if name not in fixed else (np.array([fixed[name]]), axis.length)
        points[name] = jnp.asarray(nodes)
        weights.append(np.broadcast_to(lengths / axis.length, nodes.shape))
    return Grid.of(domain, points), weights


def _root_mean_square(
    values: Float[np.ndarray, "functions *_"], weights: list[np.ndarray]
) -> Float[np.ndarray, " functions"]:
    squares = np.broadcast_to(values**2, (values.shape[0], *(len(w) for w in weights)))
    for w in reversed(weights):
        squares = squares @ w
    return np.sqrt(squares)
