"""Where the values of a labelled array are in space: by its axes, or by the coordinates of a map."""

import numpy as np
import xarray as xr

REPLACES = "replaces"
"""The attribute of a map's coordinates that names the axes they take the place of."""


def mapped_coordinates(values: xr.DataArray | xr.Dataset) -> tuple[str, ...]:
    """The coordinates of a map that an array has."""
    return tuple(str(name) for name, c in values.coords.items() if REPLACES in c.attrs)


def positions(values: xr.DataArray, axes: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The coordinates of every value, by name, in the order of space; each `[*axes]`.

    **Arguments:**

    - `values`: an array whose dimensions are `axes`.
    """
    mapped = list(mapped_coordinates(values))
    replaced = {axis for name in mapped for axis in str(values[name].attrs[REPLACES]).split()}
    names: list[str] = []
    for axis in axes:
        if axis not in replaced:
            names.append(axis)
        elif mapped:
            names.append(mapped.pop(0))
    sizes = {axis: values.sizes[axis] for axis in axes}
    placed: dict[str, np.ndarray] = {}
    for name in (*names, *mapped):
        own = values[name] if name in values.coords else xr.DataArray(np.arange(sizes[name]), dims=(name,))
        spread = own.reset_coords(drop=True).broadcast_like(values.reset_coords(drop=True)).transpose(*axes)
        placed[name] = spread.to_numpy().astype(np.float64)
    return placed
