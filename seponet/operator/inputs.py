"""Reading inputs: arrays, callables and labelled arrays of a user become batches of functions.

Arrays have the functions first, then the components (if the input has any), then the axes of the input; without the
functions' axis they are one function. Numbers and vectors follow the same rule with no axes.
"""

import logging
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer
from jaxtyping import Array

from .._text import percent
from ..equations.problem import Problem
from ..functions import Functions, Sampled, Scalar, Space, Vector
from ..functions.interpolant import Interpolant, interpolate
from .callables import between_samples, callables_in, sample

logger = logging.getLogger(__name__)

UNSEEN = 1e-3
"""The relative difference, between samples, of a callable and their interpolant that a user is told of."""


def read_inputs(
    problem: Problem, sensors: Mapping[str, Mapping[str, int]], given: Any
) -> tuple[dict[str, Functions], int | None]:
    """The inputs of a problem, as batches of functions, from what a user gives for them.

    An input that is given once serves all functions of the others. What is derived from the inputs may be among them,
    as it is in a sample of the problem, and stays.

    **Arguments:**

    - `problem`: whose inputs they are.
    - `sensors`: for each input its number of sensors along each axis; callables are sampled at least there.
    - `given`: for each input an array, an `xarray.DataArray`, a callable of the input's axes, a list of these,
        `Functions`, or numbers; without the mapping if there is one input, and None if there is none.

    **Returns:** for each input a batch of functions, and their number: None for one without a functions' axis.
    """
    computed: dict[str, Any] = {}
    if isinstance(given, Mapping) and not isinstance(given, xr.Dataset):
        computed = {name: f for name, f in given.items() if name in problem.derived and isinstance(f, Functions)}
        given = {name: value for name, value in given.items() if name not in computed}
    by_name = {**_named(problem.inputs, given), **computed}
    read = {name: _read(name, problem.spaces[name], sensors.get(name, {}), value) for name, value in by_name.items()}
    counts = {name: len(functions) for name, (functions, many) in read.items() if many}
    count = max(counts.values(), default=None)
    if not set(counts.values()) <= {1, count}:
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise ValueError(f"every input must come for the same number of functions, or for one; got {listed}")
    if count is None:
        return {name: functions for name, (functions, _) in read.items()}, None
    return {name: f if len(f) == count else f[np.zeros(count, int)] for name, (f, _) in read.items()}, count


def unseen(
    spaces: Mapping[str, Space],
    sensors: Mapping[str, Mapping[str, int]],
    given: Any,
    read: Mapping[str, Functions],
) -> dict[str, np.ndarray]:
    """For each input that callables were given for, how far these are from what was read: see `between_samples`."""
    found = {}
    for name, value in _named(spaces, given).items():
        functions = callables_in(value)
        if functions and len(spaces[name].domain):
            found[name] = between_samples(name, spaces[name], sensors[name], functions, read[name])
    return found


def read_sensor_values(
    spaces: Mapping[str, Space], sensors: Mapping[str, Mapping[str, int]], given: Any
) -> tuple[dict[str, Array], bool]:
    """The inputs of a problem as values at the sensors. It may be traced, so it takes no callables and no other grids.

    **Returns:** for each input `[functions, *components, *sensors]`, and whether the user gave the functions' axis.
    """
    by_name = dict(_named(spaces, given))
    for name, value in by_name.items():
        # What is being traced has no values yet, only a type.
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
            by_name[name] = _numbers(name, value)
            _check_values(name, np.atleast_1d(by_name[name]))
        elif jnp.iscomplexobj(value):
            raise ValueError(f"input {name!r} must be real; got complex numbers")
    values = {name: jnp.asarray(by_name[name], float) for name in spaces}
    shapes = {name: _shape(space, sensors[name]) for name, space in spaces.items()}
    ranks = {values[name].ndim - len(shape) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if len(ranks) > 1 or not ranks <= {0, 1} or values[name].shape[values[name].ndim - len(shape) :] != shape:
            raise ValueError(
                f"input {name!r} must be given at its sensors, with the shape {shape} or {('functions', *shape)} "
                f"(alike for all inputs); got {values[name].shape}. Other grids and callables are for `predict`."
            )
    many = ranks == {1}
    return {name: v if many else v[None] for name, v in values.items()}, many


def _shape(space: Space, counts: Mapping[str, int]) -> tuple[int, ...]:
    return (() if space.components is None else (space.components,)) + tuple(counts[name] for name in space.domain)


def _named(spaces: Mapping[str, Space], given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping) and not isinstance(given, xr.Dataset):
        by_name: Mapping[str, Any] = given
    elif given is None:
        by_name = {}
    elif len(spaces) == 1:
        by_name = {next(iter(spaces)): given}
    else:
        names = ", ".join(spaces) or "none"
        raise ValueError(f"the inputs are {names}; give a mapping from their names, got {type(given).__name__}")
    if set(by_name) != set(spaces):
        raise ValueError(f"the inputs are {', '.join(spaces) or 'none'}; got {', '.join(map(str, by_name)) or 'none'}")
    return by_name


def _read(name: str, space: Space, counts: Mapping[str, int], value: Any) -> tuple[Functions, bool]:
    if isinstance(value, Functions):
        if value.space.domain != space.domain or value.space.components != space.components:
            raise ValueError(
                f"input {name!r} has the axes {space.domain.axes} and {space.components} components; "
                f"got functions with {value.space.domain.axes} and {value.space.components}"
            )
        return value, True
    given = callables_in(value)
    if given:
        data, coordinates = np.stack([sample(name, space, counts, function) for function in given]), None
        many = not callable(value)
    elif isinstance(value, xr.DataArray):
        data, many, coordinates = _labelled(name, space, value)
    else:
        data, many, coordinates = *_array(name, space, value), None
    _check_values(name, data)
    _tell_range(name, space, data)
    if not coordinates:
        try:
            functions = interpolate(space, data)
        except ValueError as error:
            raise ValueError(f"input {name!r}: {error}") from None
        if given and len(space.domain):
            _tell_between(name, between_samples(name, space, counts, given, functions), data.shape)
        return functions, many
    try:
        fit = Sampled(space.domain, data, coordinates)
    except ValueError as error:
        raise ValueError(f"input {name!r}: {error}") from None
    return Functions(Interpolant(fit.domain, fit.bases, fit.components), jnp.asarray(fit.coefficients)), many


def _check_values(name: str, data: np.ndarray) -> None:
    """Refuse what is not finite, or would not be in the precision in which it is used."""
    largest = np.finfo(jax.dtypes.canonicalize_dtype(float)).max
    wrong = ~(np.abs(data) <= largest)
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        wanted = f"at most {largest:.2g} in this precision" if np.isfinite(data[index]) else "finite"
        raise ValueError(f"input {name!r} must be {wanted}; got {data[index]} in function {index[0]}")


def _tell_range(name: str, space: Space, data: np.ndarray) -> None:
    """Warn of numbers outside of the range that they were declared with: no network has seen any like them."""
    if not isinstance(space, Scalar | Vector):
        return
    low, high = (np.broadcast_to(np.asarray(bound, np.float64), data.shape) for bound in (space.low, space.high))
    # A bound of float32 that was rounded is no number outside.
    slack = 1e-6 * np.maximum(np.abs(low), np.abs(high))
    outside = (data < low - slack) | (data > high + slack)
    if np.any(outside):
        wanted = f"[{low[outside][0]:g}, {high[outside][0]:g}]"
        logger.warning(
            "input %r is declared in %s, and %g is outside: no network has seen its like",
            name,
            wanted,
            data[outside][0],
        )


def _tell_between(name: str, apart: np.ndarray, shape: tuple[int, ...]) -> None:
    """Warn of callables that their samples do not show: what is computed is for the interpolants of these."""
    if not np.all(np.isfinite(apart)):
        raise ValueError(f"input {name!r} must be finite everywhere; got numbers that are not, between its samples")
    if np.max(apart) > UNSEEN:
        logger.warning(
            "input %r is more than its samples show: between them (%s) it differs by %s from their interpolant, which "
            "the answer is for; smooth its jumps or kinks, or give values on a grid that is fine enough",
            name,
            " x ".join(map(str, shape[1:])),
            percent(float(np.max(apart))),
        )


def _numbers(name: str, value: Any) -> np.ndarray:
    """What a user gave as an array of float64, if it consists of real numbers."""
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        raise ValueError(f"input {name!r} has masked values; fill them first (numpy.ma.filled)")
    try:
        kind = np.asarray(value).dtype.kind
    except (TypeError, ValueError):
        kind = "O"
    if kind == "c":
        raise ValueError(f"input {name!r} must be real; got complex numbers, so give real and imaginary part apart")
    if kind not in "biufO":
        raise ValueError(f"input {name!r} must be an array of numbers; got the type {np.asarray(value).dtype}")
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"input {name!r} must be an array of numbers, a DataArray, a callable or Functions; "
            f"got {type(value).__name__} (inside `jit` and `grad`, call `evaluate` with values at the sensors)"
        ) from None


def _array(name: str, space: Space, value: Any) -> tuple[np.ndarray, bool]:
    data = _numbers(name, value)
    one = (() if space.components is None else ("components",)) + space.domain.names
    if data.ndim not in (len(one), len(one) + 1) or 0 in data.shape:
        wanted = f"[{', '.join(one)}] or [{', '.join(('functions', *one))}]"
        raise ValueError(f"input {name!r} must have the axes {wanted}; got the shape {data.shape}")
    many = data.ndim > len(one)
    data = data if many else data[None]
    if space.components is not None and data.shape[1] != space.components:
        raise ValueError(f"input {name!r} has {space.components} components; got {data.shape[1]}")
    return data, many


def _labelled(name: str, space: Space, value: xr.DataArray) -> tuple[np.ndarray, bool, dict[str, np.ndarray]]:
    components = () if space.components is None else ("component",)
    dims = (*components, *space.domain.names)
    missing = [str(axis) for axis in dims if axis not in value.dims]
    others = [dim for dim in value.dims if dim not in dims]
    if missing or len(others) > 1:
        raise ValueError(
            f"input {name!r} must have the dimensions {', '.join(dims) or 'none'} and at most one more, for the "
            f"functions; got {', '.join(map(str, value.dims)) or 'none'}"
        )
    data, many = _array(name, space, value.transpose(*others, *dims).to_numpy())
    return data, many, {axis: value.coords[axis].to_numpy() for axis in space.domain if axis in value.coords}
