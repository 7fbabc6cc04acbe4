"""Solutions beyond the window of time that an operator was trained on, window by window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
import xarray as xr

from .functions import Functions
from .nn.model import OperatorNetwork
from .solution import in_precision_of
from .windows import end_of_window

if TYPE_CHECKING:
    from .operator import Operator


def compose(operator: Operator, u: Any, coordinates: Mapping[str, Any], residual: bool = False) -> xr.Dataset:
    """What `Operator.advance` returns."""
    problem = operator.problem
    time = problem.time_axis()
    if time not in coordinates:
        raise ValueError(f"coordinates are needed for the axes {', '.join(problem.domain)}; {time} is missing")
    axis = problem.domain.axis(time)
    times = np.atleast_1d(np.asarray(coordinates[time], np.float64))
    elapsed = (times - axis.lower) / axis.length
    if not np.all(elapsed >= -1e-9):
        raise ValueError(f"solutions are continued from {time} = {axis.lower:g} on; got {times.min():g}")
    window = np.maximum(np.ceil(elapsed - 1e-9).astype(int) - 1, 0)
    last = int(window.max())
    parts: list[xr.Dataset] = []
    judged: list[xr.Dataset] = []
    with in_precision_of(operator.model):
        inputs, count = operator.read(u)
        for i in range(last + 1):
            here = window == i
            if np.any(here):
                local = np.clip(times[here] - i * axis.length, axis.lower, axis.upper)
                found = operator.predict(inputs, **{**coordinates, time: local})
                found = found.to_dataset() if isinstance(found, xr.DataArray) else found
                parts.append(found.assign_coords({time: times[here]}))
            if residual:
                judged.append(operator.residual(inputs))
            if i < last:
                inputs = advance_inputs(operator.model, inputs)
    order = np.argsort(np.argsort(window, kind="stable"), kind="stable")
    made = xr.concat(parts, time).isel({time: order}).transpose("function", *problem.domain, missing_dims="ignore")
    if judged:
        table = xr.concat(judged, "window").transpose("function", "window")
        made = made.merge(table.rename({name: f"residual {name}" for name in table.data_vars}))
    made = made if np.ndim(coordinates[time]) else made.isel({time: 0})
    return made if count is not None else made.isel(function=0)


@eqx.filter_jit
def advance_inputs(model: OperatorNetwork, inputs: dict[str, Functions]) -> dict[str, Functions]:
    """The inputs of the next window."""
    return end_of_window(model, model.sensors, inputs)
