"""Whether the parts of a problem fit together: constants, names, axes without ends, axes without conditions."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..derivatives import order_along
from ..domain import Domain
from .terms import LinearCondition, Term


def check_constants(constants: Mapping[str, Any]) -> None:
    """Refuse numbers that are none."""
    for name, value in constants.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"the constant {name} must be finite; got {value}")


def check_names(names: Sequence[str]) -> None:
    """Refuse two conditions of one name."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"two conditions are called {name!r}; drop one if it repeats the other, or give a Residual its own name"
            )


def check_periodic(
    domain: Domain, equations: Sequence[Term], linear: Sequence[LinearCondition], free: Sequence[Term]
) -> None:
    """Refuse conditions on axes without ends, but for one value that pins what the equations leave open.

    A field that is differentiated along the periodic axis, along no other, and never stands alone, as in s_xx = u, is
    determined up to a constant along it, so one value there is needed. Anywhere else it is one condition too many.
    """
    needless = [(t.name, t.face.axis) for t in free if t.face is not None]
    for condition in linear:
        alphas = [s.alpha for t in equations for s in t.expression.fields if s.name == condition.field]
        open_constant = bool(alphas) and all([axis for axis, _ in a] == [condition.axis] for a in alphas)
        alone = [(c.axis, c.field) for c in linear].count((condition.axis, condition.field)) == 1
        if not (open_constant and alone and condition.trace.order == 0):
            needless.append((condition.name, condition.axis))
    for name, axis in needless:
        interval = domain.axis(axis)
        if interval.periodic:
            raise ValueError(
                f"the condition {name!r} is on the axis {axis}, which is periodic and has no ends: drop it, or make "
                f"the axis an interval, {axis}=({interval.lower:g}, {interval.upper:g}); only a field that the "
                f"equations differentiate along {axis} alone, and so leave a constant of open, may have one Value there"
            )


def check_closed(
    domain: Domain,
    open_axes: Collection[str],
    equations: Sequence[Term],
    linear: Sequence[LinearCondition],
    free: Sequence[Term],
) -> None:
    """Refuse an axis along which the equations differentiate and that has no condition, unless that is meant."""
    conditioned = {c.axis for c in linear} | {t.face.axis for t in free if t.face is not None}
    for name, axis in domain.axes:
        differentiated = any(order_along(s.alpha, name) for term in equations for s in term.expression.fields)
        if differentiated and not axis.periodic and name not in conditioned and name not in open_axes:
            raise ValueError(
                f"the equation differentiates along {name}, but there is no condition on {name}: add for instance "
                f'Value({{"{name}": {axis.lower:g}}}, equals=...), make the axis Periodic, or set '
                f'open_axes = ("{name}",)'
            )
