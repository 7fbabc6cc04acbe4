"""Conditions on faces of the domain.

A condition is only *declared* here. The model decides whether it is imposed softly, as a term of the loss, or exactly,
by construction (`calculus/lift.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from jaxtyping import Array

from ..derivatives import Trace
from ..domain import Domain
from .expression import Expression
from .symbols import Vocabulary
from .terms import Face, LinearCondition, Term

RightHandSide = float | int | str | Callable[..., Array]
"""The right-hand side of a condition: a number, the name of an input (`"u"`, `"u_x"`), or a function of named inputs
and coordinates (`lambda t: jnp.sin(t)`)."""

FacePosition = Mapping[str, float | tuple[float, ...]]
"""The position of a face, an axis and the coordinate there: `{"t": 0}`, or both ends `{"x": (0, 1)}`."""


@dataclass(frozen=True)
class Value:
    """s = data on a face: an initial condition (`{"t": 0}`) or a Dirichlet condition (`{"x": (0, 1)}`: both ends).

    **Arguments:**

    - `at`: the face, an axis and the coordinate there: `{"t": 0}`; both ends are `{"x": (0, 1)}`.
    - `equals`: the data: a number, the name of an input (`"u"`, `"u_x"`), or a function of inputs and coordinates.
    - `field`: which one, if there are several.
    """

    at: FacePosition
    equals: RightHandSide = 0.0
    field: str | None = None

    def linear(self, vocabulary: Vocabulary) -> list[LinearCondition]:
        return _linear(self, (1.0,), vocabulary)


@dataclass(frozen=True)
class Derivative:
    """d^order s / dn^order = data on a face, along the coordinate n (at both ends in its positive direction).

    A Neumann condition, or the second initial condition of an equation of second order in time. One that is `implied`
    follows from the equation and the other conditions, as the slope of a solution at t = 0 does: it is imposed where
    the axis is exact, which leaves less to learn, and is never a term of the loss.

    **Arguments:**

    - `at`: the face, an axis and the coordinate there: `{"t": 0}`; both ends are `{"x": (0, 1)}`.
    - `equals`: the data: a number, the name of an input (`"u"`, `"u_x"`), or a function of inputs and coordinates.
    - `field`: which one, if there are several.
    - `order`: of the derivative.
    - `implied`: whether it follows from the equation.
    """

    at: FacePosition
    equals: RightHandSide = 0.0
    field: str | None = None
    order: int = 1
    implied: bool = False

    def linear(self, vocabulary: Vocabulary) -> list[LinearCondition]:
        if self.order < 1:
            raise ValueError(f"a Derivative on {show_face(self.at)} needs order >= 1; got {self.order} (0 is a Value)")
        return _linear(self, (0.0,) * self.order + (1.0,), vocabulary)


@dataclass(frozen=True)
class Robin:
    """value * s + derivative * ds/dn = data on a face, along the coordinate n in its positive direction.

    **Arguments:**

    - `at`: the face, an axis and the coordinate there: `{"t": 0}`; both ends are `{"x": (0, 1)}`.
    - `value`, `derivative`: the two weights, numbers.
    - `equals`: the data: a number, the name of an input (`"u"`, `"u_x"`), or a function of inputs and coordinates.
    - `field`: which one, if there are several.
    """

    at: FacePosition
    value: float
    derivative: float
    equals: RightHandSide = 0.0
    field: str | None = None

    def linear(self, vocabulary: Vocabulary) -> list[LinearCondition]:
        if self.value == 0 == self.derivative:
            raise ValueError(
                f"the Robin condition on {show_face(self.at)} says nothing: value and derivative are both 0"
            )
        return _linear(self, (self.value, self.derivative), vocabulary)


@dataclass(frozen=True)
class Residual:
    """Any elementwise residual on a face: `Residual({"x": 0}, lambda s, s_x, u: s_x - u * s**4)`. Always soft.

    **Arguments:**

    - `at`: the face, an axis and the coordinate there: `{"t": 0}`; both ends are `{"x": (0, 1)}`.
    - `residual`: a function whose argument names are the request, as those of an equation.
    - `name`: what the term is called in logs and weights.
    """

    at: FacePosition
    residual: Callable[..., Array]
    name: str | None = None

    def terms(self, vocabulary: Vocabulary) -> list[Term]:
        expression = Expression.parse(self.residual, vocabulary, f"the residual on {show_face(self.at)}")
        return [
            Term(face_label(axis, node, self.name or "residual"), expression, Face(axis, (node,)))
            for axis, node in face_positions(self.at, vocabulary.domain, self)
        ]


Condition = Value | Derivative | Robin | Residual


def _linear(
    condition: Value | Derivative | Robin, weights: tuple[float, ...], vocabulary: Vocabulary
) -> list[LinearCondition]:
    field = field_of(condition, vocabulary)
    data = right_hand_side(condition.equals, vocabulary, f"the condition on {show_face(condition.at)}")
    kind = type(condition).__name__.lower()
    prefix = "" if kind == "value" else f"{kind} "
    prefix += f"{condition.order} " if isinstance(condition, Derivative) and condition.order > 1 else ""
    suffix = field if len(vocabulary.fields) > 1 else None
    implied = isinstance(condition, Derivative) and condition.implied
    conditions: list[LinearCondition] = []
    for axis, node in face_positions(condition.at, vocabulary.domain, condition):
        name = prefix + face_label(axis, node, suffix)
        conditions.append(LinearCondition(name, axis, field, Trace(node, weights), data, implied))
    return conditions


def field_of(condition: Any, vocabulary: Vocabulary) -> str:
    """The field that a condition is about: the one that it names, or the only one."""
    field = condition.field
    if field is None and len(vocabulary.fields) == 1:
        field = vocabulary.fields[0]
    if field is None or field not in vocabulary.fields:
        raise ValueError(
            f"the condition on {show_face(condition.at)} must say which field it is about: "
            f'field="{vocabulary.fields[0]}" for instance (fields: {", ".join(vocabulary.fields)}); got {field!r}'
        )
    return field


def right_hand_side(equals: Any, vocabulary: Vocabulary, label: str) -> Expression:
    """The data of a condition, from what may stand for them."""
    if isinstance(equals, str):
        try:
            symbol = vocabulary.parse(equals)
        except ValueError as error:
            raise ValueError(f"{label}: {error}") from None
        expression = Expression((symbol,), lambda value: value)
    elif callable(equals):
        expression = Expression.parse(cast("Callable[..., Array]", equals), vocabulary, label)
    else:
        return Expression.constant(float(equals))
    if expression.fields:
        raise ValueError(
            f"{label} equals something that holds the unknown `{expression.fields[0]}`; "
            "write it as a Residual on that face instead"
        )
    return expression


def face_positions(at: FacePosition, domain: Domain, condition: Any) -> list[tuple[str, float]]:
    """The axis and the coordinate of each face that a condition names."""
    if not isinstance(at, Mapping) or len(at) != 1:
        raise ValueError(
            f"{type(condition).__name__} needs one axis and where on it, for instance "
            f'{{"t": 0}} or {{"x": (0, 1)}}; got {at!r}'
        )
    ((axis, nodes),) = at.items()
    if axis not in domain and axis in domain.physical_names:
        raise ValueError(
            f"{type(condition).__name__} names {axis}, a coordinate of the map; conditions are on faces of its box, "
            f"whose axes are {', '.join(domain)}"
        )
    interval = domain.axis(axis)
    positions = [float(node) for node in (nodes if isinstance(nodes, tuple | list) else (nodes,))]
    for node in positions:
        if not interval.lower <= node <= interval.upper:
            raise ValueError(
                f"{axis} = {node:g} lies outside of the axis {axis} from {interval.lower:g} to {interval.upper:g}"
            )
    return [(axis, node) for node in positions]


def face_label(axis: str, node: float, what: str | None) -> str:
    """The name of a condition on a face."""
    return f"{axis}={node:g}" + (f" {what}" if what else "")


def show_face(at: Any) -> str:
    """A face in words."""
    return ", ".join(f"{axis} = {node}" for axis, node in at.items()) if isinstance(at, Mapping) else repr(at)
