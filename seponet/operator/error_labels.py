"""Estimated errors with names, and in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from .._text import percent
from .estimate import Calibration, Estimate


def label_errors(found: Estimate, count: int | None, attributes: Mapping[str, Any]) -> xr.Dataset:
    """Estimates with names; without the functions' axis if `count` is None."""
    dims = () if count is None else ("function",)
    columns: dict[str, np.ndarray] = {
        "error": np.asarray(found.error),
        "upper_90": np.asarray(found.upper_90),
        "upper_95": np.asarray(found.upper_95),
        "score": np.asarray(found.score),
        "inside": np.asarray(found.score) <= 1,
    }
    texts = {
        "error": "estimated relative L2 error, fields together",
        "upper_90": "the error is below it with a probability of 90%, for inputs inside",
        "upper_95": "the error is below it with a probability of 95%, for inputs inside",
        "score": "how far outside of the calibrated inputs; at most 1 is inside",
        "inside": "whether the input is like those of the calibration",
    }
    return xr.Dataset(
        {n: (dims, v if count is not None else v[0], {"long_name": texts[n]}) for n, v in columns.items()},
        attrs=dict(attributes),
    )


def with_errors(predicted: xr.DataArray | xr.Dataset, errors: xr.Dataset) -> xr.DataArray | xr.Dataset:
    """A prediction with the estimates of its functions as coordinates."""
    labelled = with_coordinates(predicted, {name: errors.variables[name] for name in ("error", "upper_95", "inside")})
    labelled.attrs |= {"error_level": errors.attrs["level"], "error_note": errors.attrs["note"]}
    return labelled


def with_coordinates(labelled: xr.DataArray | xr.Dataset, more: Mapping[str, xr.Variable]) -> xr.DataArray | xr.Dataset:
    """The same with more coordinates, none of which is an index."""
    if isinstance(labelled, xr.Dataset):
        return labelled.assign_coords(more)
    # `assign_coords` aligns everything anew, which takes a quarter of a prediction of a hundred functions.
    coordinates = xr.Coordinates({**labelled.coords.variables, **more}, indexes=labelled.xindexes)
    return xr.DataArray(labelled.variable, coordinates, name=labelled.name)


def describe_calibration(calibration: Calibration) -> str:
    """What a calibration has found, in one line."""
    report = calibration.report()
    return (
        f"errors are estimated at the level {calibration.level!r}, calibrated on {len(calibration.truths)} of "
        f"{calibration.functions} fresh functions (mean error {percent(calibration.error)}): "
        f"90% of the errors are below {report['upper_90']:.2g} times the estimate, 95% below "
        f"{report['upper_95']:.2g} times"
    )


def functions_in_words(rows: Sequence[int]) -> str:
    """Some numbers of functions, for a message."""
    shown = ", ".join(str(row) for row in rows[:8])
    return f"{shown}, ..." if len(rows) > 8 else shown
