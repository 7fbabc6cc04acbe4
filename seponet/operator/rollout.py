"""Solutions beyond the window of time that an operator was trained on, window by window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from .._precision import in_precision_of
from ..calculus.evaluate import evaluate
from ..calculus.model import Model
from ..equations.symbols import Symbol
from ..functions import Functions
from ..locations import Grid
from ..nn.model import OperatorNetwork, Sensors
from .request import read_coordinate

if TYPE_CHECKING:
    from .operator import Operator


WINDOWS = 100_000
"""The most windows of time: each takes a pass of the model, and adds its error."""


def roll_out(
    operator: Operator, u: Any, coordinates: Mapping[str, Any], residual: bool = False, error: bool = False
) -> xr.Dataset:
    """The solution over as many windows of time as it takes; see `Operator.advance`.

    The state at the end of each window is the input of the next.
    """
    problem = operator.problem
    time = problem.time_axis()
    if time not in coordinates:
        raise ValueError(f"coordinates are needed for the axes {', '.join(problem.domain)}; {time} is missing")
    axis = problem.domain.axis(time)
    times = np.atleast_1d(read_coordinate(time, coordinates[time]))
    elapsed = (times - axis.lower) / axis.length
    if not np.all(np.isfinite(times)) or np.max(elapsed, initial=0.0) > WINDOWS:
        far = times[~np.isfinite(times) | (elapsed > WINDOWS)][0]
        raise ValueError(
            f"solutions are continued by at most {WINDOWS:,} windows of {axis.length:g}; got {time} = {far:g}"
        )
    if not np.all(elapsed >= -1e-9):
        raise ValueError(f"solutions are continued from {time} = {axis.lower:g} on; got {times.min():g}")
    window = np.maximum(np.ceil(elapsed - 1e-9).astype(int) - 1, 0)
    last = int(window.max())
    parts: list[xr.Dataset] = []
    residuals: list[xr.Dataset] = []
    errors: list[xr.Dataset] = []
    with in_precision_of(operator.model):
        inputs, count = operator.read_inputs(u)
        for i in range(last + 1):
            in_window = window == i
            if np.any(in_window):
                local = np.clip(times[in_window] - i * axis.length, axis.lower, axis.upper)
                fields = operator.predict(inputs, **{**coordinates, time: local})
                fields = fields.to_dataset() if isinstance(fields, xr.DataArray) else fields
                parts.append(fields.assign_coords({time: times[in_window]}))
            if residual:
                residuals.append(operator.residual(inputs))
            if error:
                errors.append(operator.error(inputs))
            if i < last:
                inputs = advance_inputs(operator.model, inputs)
    # The windows are concatenated; the ranks of the times' windows bring back the order of the user's times.
    order = np.argsort(np.argsort(window, kind="stable"), kind="stable")
    solution = xr.concat(parts, time).isel({time: order}).transpose("function", *problem.domain, missing_dims="ignore")
    if residuals:
        table = xr.concat(residuals, "window").transpose("function", "window")
        solution = solution.merge(table.rename({name: f"residual {name}" for name in table.data_vars}))
    if errors:
        solution = solution.merge(_accumulated(xr.concat(errors, "window")))
    solution = solution if np.ndim(coordinates[time]) else solution.isel({time: 0})
    return solution if count is not None else solution.isel(function=0)


def _accumulated(errors: xr.Dataset) -> xr.Dataset:
    """The errors of all windows so far, relative to the solution, (function, window).

    An error at the end of a window is handed on to the next one. It is taken to keep its part of the solution there,
    neither damped nor amplified by the equation, so estimates are summed over windows: too much where the equation
    forgets, too little where it is chaotic. A window whose input is outside leaves all later ones outside.
    """
    sums = errors[["error", "upper_90", "upper_95"]].cumsum("window")
    inside = errors[["inside"]].astype(int).cumprod("window").astype(bool)
    return sums.merge(inside).transpose("function", "window")


@eqx.filter_jit
def advance_inputs(model: OperatorNetwork, inputs: dict[str, Functions]) -> dict[str, Functions]:
    """The inputs of the next window."""
    return end_of_window(model, model.sensors, inputs)


def end_of_window(model: Model, sensors: Sensors, inputs: Mapping[str, Functions]) -> dict[str, Functions]:
    """The inputs of the next window: the state at the end of this one, as functions of the inputs' spaces.

    **Arguments:**

    - `model`: whose solution is continued.
    - `sensors`: the grid on which the state is read.
    - `inputs`: the inputs of this window.
    """
    problem = model.problem
    time = problem.time_axis()
    counts = {axis: n for _, axes in sensors for axis, n in axes}
    missing = [name for name in problem.domain if name not in counts and name != time]
    if missing:
        raise ValueError(f"the model has no sensors along {', '.join(missing)} to read a state at")
    points = {
        name: [axis.upper]
        if name == time
        else np.linspace(axis.lower, axis.upper, counts[name], endpoint=not axis.periodic)
        for name, axis in problem.domain.axes
    }
    # The points are constants of a traced program, so that bases are tabulated.
    with jax.ensure_compile_time_eval():
        grid = Grid.of(problem.domain, {name: jnp.asarray(p, float) for name, p in points.items()})
    symbols = [Symbol("field", field) for field in problem.fields]
    fields = evaluate(model, inputs, grid, symbols)
    along = 1 + problem.domain.names.index(time)
    restarted = problem.restart(inputs, {s.name: jnp.squeeze(fields[s], along) for s in symbols})
    # A method of the user's may hand on what was derived from the inputs of this window; it follows anew.
    return {name: restarted[name] for name in problem.inputs}
