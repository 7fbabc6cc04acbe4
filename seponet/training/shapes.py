"""Whether sampled shapes of a mapped domain are domains: no folds, no tears; and which corners they have."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

from .._precision import double_precision
from ..equations.chart import Chart
from ..equations.corners import Corner, corner_angles
from ..equations.folding import at_point, check_closing, describe_folds
from ..equations.problem import Problem
from ..functions import Functions
from ..locations import Grid

logger = logging.getLogger(__name__)

FUNCTIONS = 256
"""Shapes that are looked at."""

MOST = 0.5
"""The share of folded shapes above which the space of shapes is not what is meant."""

WIDE = 150.0
"""Corners with larger angles, in degrees, leave a singularity that polynomials resolve slowly."""

WIDE_MIXED = 95.0
"""The same between a wall with a value and one with a slope. Right angles are mirror images of straight walls."""


def check_shapes(problem: Problem) -> None:
    """Tell which share of the sampled shapes folds and where, and refuse maps that tear or leave an input's box."""
    chart = problem.chart
    if chart is None:
        return
    with double_precision():
        drawn = problem.draw(jax.random.key(2), FUNCTIONS) if problem.inputs else {}
        drawn = {name: jax.tree.map(lambda leaf: jnp.asarray(leaf, float), f) for name, f in drawn.items()}
        if chart.shapes:
            share, text = describe_folds(chart, drawn)
            if share > MOST:
                raise ValueError(f"{type(problem).__name__}: {text}")
            if share:
                logger.warning("%s; folded ones are left out of every sample", text)
            check_closing(chart, {name: drawn[name] for name in chart.shapes})
        sample = problem.sample(jax.random.key(2), FUNCTIONS) if problem.inputs else {}
        _check_boxes(problem, chart, sample)
        angles = corner_angles(chart, sample)
    wide = {c: angle for c, angle in angles.items() if angle > (WIDE_MIXED if is_mixed(problem, c) else WIDE)}
    if wide:
        corner, angle = max(wide.items(), key=lambda item: item[1] * (1 + is_mixed(problem, item[0])))
        logger.warning(
            "the corner %s has an angle of %.0f degrees%s: solutions are singular there, and a tolerance takes many "
            "functions along both axes",
            at_point(dict(corner)),
            angle,
            " between a wall with a value and one with a slope" if is_mixed(problem, corner) else "",
        )
    for term in problem.free_conditions:
        if term.name.startswith("normal "):
            logger.info(
                "the condition %s is soft, since grid lines meet that wall at an angle: it holds as well as the "
                "equation does",
                term.name,
            )


def is_mixed(problem: Problem, corner: Corner) -> bool:
    """Whether a field has a value on one wall of a corner and a slope on the other: the singularity is then that of
    twice the angle."""
    for field in problem.fields:
        orders = [_orders(problem, field, axis, at) for axis, at in corner]
        if orders in ([{0}, {1}], [{1}, {0}]):
            return True
    return False


def _orders(problem: Problem, field: str, axis: str, at: float) -> set[int]:
    """The orders of derivatives that the conditions of a field on a face take."""
    linear = [c for c in problem.linear_conditions if (c.field, c.axis, c.trace.at) == (field, axis, at)]
    free = [t for t in problem.free_conditions if t.face and t.face.axis == axis and at in t.face.nodes]
    slopes = [s for term in free for s in term.expression.fields if s.name == field and s.alpha]
    return {min(c.trace.order, 1) for c in linear} | ({1} if slopes else set())


def _check_boxes(problem: Problem, chart: Chart, inputs: dict[str, Functions]) -> None:
    """Refuse inputs of coordinates whose box does not hold the domain."""
    physical = [name for name in problem.spaces if problem.vocabulary.is_physical(name)]
    if not physical:
        return
    points = {
        n: jnp.asarray(np.linspace(a.lower, a.upper, 33 if len(problem.domain) < 3 else 9))
        for n, a in problem.domain.axes
    }
    where = Grid.of(problem.domain, points)
    located = jax.jit(lambda given: chart.locate(given, where))({name: inputs[name] for name in chart.shapes})
    for name in physical:
        for axis, interval in problem.spaces[name].domain.axes:
            low, high = float(jnp.min(located[axis])), float(jnp.max(located[axis]))
            slack = 1e-6 * interval.length
            if low < interval.lower - slack or high > interval.upper + slack:
                raise ValueError(
                    f"{type(problem).__name__}: the input {name!r} is declared for {axis} from {interval.lower:g} to "
                    f"{interval.upper:g}, and the domain reaches from {low:.4g} to {high:.4g} on sampled shapes: "
                    f"enlarge the box of {name!r}"
                )
