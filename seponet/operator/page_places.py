"""Where a page draws the points of a mapped domain: coordinates that may move with the input."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..equations.problem import Problem
from ..functions import Functions
from ..functions.interpolant import interpolate
from ..locations import Grid

COARSE = 25
"""Points along each axis that tell how far a shape reaches."""

USUAL = 0.9
"""The part of the samples that fit into the frame; it grows with larger ones."""


class Places:
    """The coordinates of a map on the grid of a page; none on a box.

    **Arguments:**

    - `problem`: the problem.
    - `points`: for each axis its points, or one number.
    """

    def __init__(self, problem: Problem, points: Mapping[str, Any]) -> None:
        self.problem, self.chart = problem, problem.chart
        self.grid = Grid.of(problem.domain, {name: jnp.atleast_1d(jnp.asarray(p)) for name, p in points.items()})
        self.held = tuple(i for i, name in enumerate(problem.domain) if not np.ndim(points[name]))

    def outputs(self, sensor_values: Mapping[str, Array]) -> dict[str, Array]:
        """The coordinates as `place:x`, by their names: with the axes of the fields, of size one where nothing changes
        along them."""
        if self.chart is None:
            return {}
        inputs = self.problem.inputs
        functions = {name: interpolate(inputs[name], sensor_values[name][None]) for name in self.chart.shapes}
        located = self.chart.locate(functions, self.grid)
        return {f"place:{name}": jnp.squeeze(located[name][0], self.held) for name in self.chart.mapped}

    def about(self, sampled: Mapping[str, Functions]) -> dict[str, Any]:
        """What a page needs to know: for each coordinate the axis that it replaces, and how far it reaches over some
        samples, so that the frame does not move with every stroke."""
        if self.chart is None:
            return {}
        domain = self.chart.domain
        coarse = {n: jnp.linspace(axis.lower, axis.upper, COARSE) for n, axis in domain.axes}
        functions = {name: sampled[name] for name in self.chart.shapes}
        located = self.chart.compiled_locate(functions, Grid.of(domain, coarse))
        described: dict[str, Any] = {}
        for name, axis in zip(self.chart.mapped, domain.replaced, strict=True):
            each = np.asarray(located[name]).reshape(len(located[name]), -1)
            extent = [np.quantile(each.min(axis=1), 1 - USUAL), np.quantile(each.max(axis=1), USUAL)]
            described[name] = {"replaces": axis, "extent": [float(end) for end in extent]}
        return {"places": described}
