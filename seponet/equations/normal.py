r"""Conditions on the outward normal derivative, on walls of any shape.

On the face $\xi_a$ = const of a map, with $g^{ab} = \sum_i A_{ai} A_{bi}$ over the coordinates of space and
$\sigma = \pm 1$ at the upper and lower end,

$$\frac{\partial s}{\partial n} = \frac{\sigma}{\sqrt{g^{aa}}} \sum_b g^{ab}\, s_{,b}.$$

Where grid lines meet the wall at right angles only b = a is left, a condition on one axis of the box: it can be imposed
exactly. Elsewhere it couples the axes, and is a residual on the face.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..derivatives import Trace, multi_index
from .chart import Chart, Jet, Values
from .conditions import FacePosition, RightHandSide, face_label, face_positions, field_of, right_hand_side, show_face
from .expression import Expression
from .operators import BoxOperator, Derivative, simplify
from .pullback import pull_back
from .symbols import Symbol, Vocabulary
from .terms import Face, LinearCondition, Term


@dataclass(frozen=True)
class Normal:
    """ds/dn + value * s = data on a face, n being the outward normal: Neumann, or Robin with a `value`.

    On a box it is the derivative along the axis, away from the domain. On a mapped domain it is exact where grid lines
    meet the face at right angles (a circle in polar coordinates, a flat wall), and soft elsewhere.

    **Arguments:**

    - `at`: the face, at an end of an axis: `{"q": 1}`, or both ends `{"q": (0, 1)}`.
    - `equals`, `value`: the right-hand side, and the factor of s.
    - `field`: of several fields, which.
    """

    at: FacePosition
    equals: RightHandSide = 0.0
    value: float = 0.0
    field: str | None = None

    def split(
        self, vocabulary: Vocabulary, chart: Chart | None, times: Collection[str]
    ) -> tuple[list[LinearCondition], list[Term]]:
        """The conditions that can be imposed exactly, and the others as residuals.

        **Arguments:**

        - `chart`: the map, None on a box.
        - `times`: the axes that are no directions of space.
        """
        field = field_of(self, vocabulary)
        data = right_hand_side(self.equals, vocabulary, f"the condition on {show_face(self.at)}")
        suffix = field if len(vocabulary.fields) > 1 else None
        linear: list[LinearCondition] = []
        free: list[Term] = []
        for axis, node in face_positions(self.at, vocabulary.domain, self):
            interval = vocabulary.domain.axis(axis)
            if node not in (interval.lower, interval.upper):
                raise ValueError(
                    f"Normal needs an end of the axis {axis}, {interval.lower:g} or {interval.upper:g}; got {node:g}"
                )
            if axis in times:
                raise ValueError(f"Normal is about walls, and {axis} is time; use Derivative({{{axis!r}: {node:g}}})")
            sigma = 1.0 if node == interval.upper else -1.0
            name = f"normal {face_label(axis, node, suffix)}"
            if chart is None:
                linear.append(LinearCondition(name, axis, field, Trace(node, (self.value, sigma)), data))
                continue
            given = pull_back(data, chart, vocabulary)
            slope = normal_derivative(chart, field, axis, node, times)
            exact = _exact(slope, axis, node, self.value, given)
            if exact is None:
                free.append(Term(name, _residual(slope, field, self.value, given), Face(axis, (node,))))
            else:
                linear.append(LinearCondition(name, axis, field, *exact))
        return linear, free


def normal_derivative(chart: Chart, field: str, axis: str, node: float, times: Collection[str]) -> BoxOperator:
    """The outward normal derivative on a face, as an operator along the box."""
    interval = chart.domain.axis(axis)
    sigma = 1.0 if node == interval.upper else -1.0
    space = [name for name in chart.domain.physical_names if name not in times]

    def factors(values: Values) -> dict[Derivative, Any]:
        jet = Jet(chart, values)
        metric = {b: _metric(jet, axis, b, space) for b in chart.domain}
        scale = sigma / jnp.sqrt(jnp.asarray(metric[axis]))
        return {
            (field, multi_index(**{b: 1})): scale * g
            for b, g in metric.items()
            if not (isinstance(g, float) and g == 0.0)
        }

    return simplify(chart, factors, chart.symbols(1), {axis: node})


def _metric(jet: Jet, a: str, b: str, space: Collection[str]) -> Any:
    total: Any = 0.0
    for name in space:
        first, second = jet.inverse(a, name), jet.inverse(b, name)
        if not any(isinstance(f, float) and f == 0.0 for f in (first, second)):
            total = total + first * second
    return total


def _exact(
    slope: BoxOperator, axis: str, node: float, value: float, data: Expression
) -> tuple[Trace, Expression] | None:
    """The condition as a trace along its axis; None if it is none."""
    if [beta for _, beta in slope.derivatives] != [multi_index(**{axis: 1})]:
        return None
    ((leader, ((_, number),)),) = slope.groups
    if leader is None:
        return Trace(node, (value, number)), data
    if value:
        return None
    if data.is_zero:
        return Trace(node, (0.0, 1.0)), data
    symbols = tuple(dict.fromkeys((*data.symbols, *slope.symbols)))

    def scaled(*arguments: Array) -> Array:
        values = dict(zip(symbols, arguments, strict=True))
        return data(values) / slope.functions(values)[leader]

    return Trace(node, (0.0, 1.0)), Expression(symbols, scaled)


def _residual(slope: BoxOperator, field: str, value: float, data: Expression) -> Expression:
    own = (Symbol("field", field),) if value else ()
    derivatives = tuple(Symbol("field", *derivative) for derivative in slope.derivatives)
    symbols = tuple(dict.fromkeys((*own, *derivatives, *slope.symbols, *data.symbols)))

    def residual(*arguments: Array) -> Array:
        values = dict(zip(symbols, arguments, strict=True))
        left = slope(values)
        left = left + value * values[own[0]] if own else left
        return left if data.is_zero else left - data(values)

    return Expression(symbols, residual)
