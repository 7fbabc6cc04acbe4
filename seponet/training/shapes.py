"""Whether sampled shapes of a mapped domain are domains: no folds, no tears; and which corners they have."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

from .._precision import double_precision
from ..equations.chart import Chart
from ..equations.corners import corner_angles
from ..equations.folding import check_closing, describe_folds
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
    wide = {corner: angle for corner, angle in angles.items() if angle > WIDE}
    if wide:
        corner, angle = max(wide.items(), key=lambda item: item[1])
        logger.warning(
            "the corner %s has an angle of %.0f degrees: solutions are singular there, and a tolerance takes many "
            "functions along both axes",
            corner,
            angle,
        )


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
