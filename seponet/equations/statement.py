"""From what a user writes to what is solved: equations and conditions parsed, checked, and written along the box."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Array

from ..domain import Domain
from ..functions import Space
from ..mapped import Mapped
from .chart import Chart
from .checks import check_closed, check_names, check_periodic
from .conditions import Derivative, Residual, Robin, Value, face_positions
from .expression import Expression
from .folding import check_fixed_map
from .normal import Normal
from .pullback import pull_back
from .symbols import Vocabulary
from .terms import LinearCondition, Term

TIMES = ("t", "T", "time", "tau")
"""Names of axes that are no directions of space: what a normal is not taken along."""


@dataclass(frozen=True)
class Statement:
    """A problem as the calculus knows it, all symbols along the box.

    - `vocabulary`: the names that equations may use.
    - `chart`: the map of a mapped domain; None on a box.
    - `equations`: the residuals in the interior.
    - `linear`, `free`: the conditions that could be imposed exactly, and the others.
    """

    vocabulary: Vocabulary
    chart: Chart | None
    equations: tuple[Term, ...]
    linear: tuple[LinearCondition, ...]
    free: tuple[Term, ...]


def make_statement(
    domain: Domain,
    fields: tuple[str, ...],
    spaces: Mapping[str, Space],
    bodies: Sequence[tuple[str, Callable[..., Array]]],
    conditions: Sequence[Any],
    open_axes: Collection[str],
) -> Statement:
    """The statement of a problem; a `ValueError` says what is wrong with it."""
    vocabulary = Vocabulary(domain, fields, spaces)
    chart = Chart(domain, spaces) if isinstance(domain, Mapped) else None
    if chart is not None:
        check_fixed_map(chart)
    equations = tuple(
        Term(name, _along_box(Expression.parse(body, vocabulary, f"`{name}`"), chart, vocabulary))
        for name, body in bodies
    )
    linear: list[LinearCondition] = []
    free: list[Term] = []
    for condition in conditions:
        _check_faces(condition, chart, domain)
        if isinstance(condition, Residual):
            free.extend(
                Term(term.name, _along_box(term.expression, chart, vocabulary), term.face)
                for term in condition.terms(vocabulary)
            )
        elif isinstance(condition, Normal):
            exact, soft = condition.split(vocabulary, chart, TIMES)
            linear.extend(exact)
            free.extend(soft)
        elif isinstance(condition, Value | Derivative | Robin):
            for given in condition.linear(vocabulary):
                data = _along_box(given.data, chart, vocabulary)
                linear.append(LinearCondition(given.name, given.axis, given.field, given.trace, data, given.implied))
        else:
            raise ValueError(f"a condition is Value, Derivative, Robin, Normal or Residual; got {condition!r}")
    check_names([c.name for c in linear] + [t.name for t in free])
    check_periodic(domain, equations, linear, free)
    poles = domain.poles if isinstance(domain, Mapped) else ()
    check_closed(domain, (*open_axes, *(name for name, _ in poles)), equations, linear, free)
    return Statement(vocabulary, chart, equations, tuple(linear), tuple(free))


def _along_box(expression: Expression, chart: Chart | None, vocabulary: Vocabulary) -> Expression:
    return expression if chart is None else pull_back(expression, chart, vocabulary)


def _check_faces(condition: Any, chart: Chart | None, domain: Domain) -> None:
    """Refuse derivatives along the box in place of normal ones, and conditions at a pole."""
    if chart is None or not hasattr(condition, "at"):
        return
    kind = type(condition).__name__
    for axis, node in face_positions(condition.at, domain, condition):
        if (axis, node) in chart.domain.poles:
            raise ValueError(f"{axis} = {node:g} is a pole of the map, a point inside of the domain: drop the {kind}")
        if not isinstance(condition, Derivative | Robin):
            continue
        if axis in chart.domain.replaced or (axis not in TIMES and chart.moves_with(axis)):
            raise ValueError(
                f"{kind} on {axis} = {node:g} would be a derivative along the box, which is no normal derivative of a "
                f'mapped domain: did you mean Normal({{"{axis}": {node:g}}}, equals=...)?'
            )
        if chart.moves_with(axis):
            raise ValueError(
                f"{kind} on {axis} = {node:g} would follow the map, which moves with {axis}: write the derivative at a "
                f'point as Residual({{"{axis}": {node:g}}}, lambda s_{axis}: ...)'
            )
