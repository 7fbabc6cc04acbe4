"""Predictions of a Zarr store, chunk by chunk into another: in flat memory, and again only what is not done.

The chunks are written beside, into a store in `<output>.part`, where it is also noted which of them are whole. Whoever
gives the same command again goes on there; the complete store takes its name at the end.
"""

import hashlib
import importlib.util
import json
import logging
import math
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr

from .._files import interrupts_held, read_record, write_record
from ..operator.lazy import FUNCTION
from ..operator.operator import Operator

logger = logging.getLogger(__name__)

NOTES, STORE = "done.json", "store.zarr"
CHUNK = 32 * 2**20
"""Bytes of predictions in a chunk, about."""


def open_inputs(problem: Any, path: Path) -> dict[str, xr.DataArray]:
    """The inputs of a problem in a Zarr store, nothing of them loaded: a variable for each, or a single one."""
    _need_zarr()
    if not path.is_dir():
        raise ValueError(f"there is no Zarr store {path}")
    if _is_array(path):
        raise ValueError(
            f"{path} is a bare array of Zarr's, without names of dimensions: write it as a dataset, "
            "xarray.Dataset({name: (dimensions, values)}).to_zarr(...)"
        )
    try:
        with warnings.catch_warnings():
            # A store without consolidated metadata is opened a little slower.
            warnings.simplefilter("ignore", RuntimeWarning)
            dataset = xr.open_zarr(path, chunks=None)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} can't be read as a Zarr store: {reason}") from None
    variables, names = [str(name) for name in dataset.data_vars], list(problem.inputs)
    if len(names) == 1 and names[0] not in variables and len(variables) == 1:
        return {names[0]: dataset[variables[0]]}
    missing = [name for name in names if name not in variables]
    if missing:
        raise ValueError(f"{path} has the variables {', '.join(variables) or 'none'}, none called {missing[0]!r}")
    return {name: dataset[name] for name in names}


def transfer(
    operator: Operator,
    inputs: Mapping[str, xr.DataArray],
    output: Path,
    *,
    points: Mapping[str, Any],
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int]:
    """Predict all functions of `inputs` on a grid into the Zarr store `output`.

    **Arguments:**

    - `inputs`: for each input its data, which is read chunk by chunk. One without a dimension of functions serves all.
    - `points`: the points of the grid along each axis.
    - `overwrite`: replace `output`, and what a broken transfer has left.
    - `progress`: is told (functions done, functions).

    **Returns:** the number of functions, and how many of them had been done before.
    """
    _need_zarr()
    part = output.with_name(f"{output.name}.part")
    if overwrite:
        shutil.rmtree(part, ignore_errors=True)
    elif output.exists():
        raise ValueError(f"{output} exists already: choose another --output, or replace it with --overwrite")
    many = {name: _function_dim(operator, name, value) for name, value in inputs.items()}
    counts = {inputs[name].sizes[dim] for name, dim in many.items() if dim is not None}
    if len(counts) != 1 or not (count := counts.pop()):
        raise ValueError(
            "a store needs a dimension of functions beside the input's axes, as long for every input and not empty; "
            + ", ".join(
                f"{name} has the axes {', '.join(operator.problem.inputs[name].domain.names) or 'none'} and came with "
                f"{dict(value.sizes)}"
                for name, value in inputs.items()
            )
        )

    def predict(start: int, stop: int) -> xr.Dataset:
        chosen = {n: v if many[n] is None else v.isel({many[n]: slice(start, stop)}) for n, v in inputs.items()}
        try:
            predicted = operator.predict({name: value.load() for name, value in chosen.items()}, **points)
        except ValueError as error:
            if stop - start == count:
                raise
            raise ValueError(f"of the functions from {start} on: {error}") from None
        return predicted.to_dataset() if isinstance(predicted, xr.DataArray) else predicted

    first = predict(0, 1)
    each = sum(variable.nbytes for variable in first.variables.values() if FUNCTION in variable.dims)
    rows = int(np.clip(CHUNK // max(each, 1), 1, count))
    for name, value in inputs.items():
        _warn_of_chunks(name, value, many[name], rows)
    identity = _identity(operator, inputs, points, rows)
    done = _begin(part, first, count, rows, identity)
    before = _functions(done, rows, count)
    for chunk in range(-(-count // rows)):
        if chunk not in done:
            start, stop = chunk * rows, min((chunk + 1) * rows, count)
            predicted = predict(start, stop)
            varying = [n for n in predicted.variables if FUNCTION in predicted[n].dims]
            predicted[varying].drop_vars(set(predicted.coords) - set(varying)).to_zarr(
                part / STORE, region={FUNCTION: slice(start, stop)}, consolidated=False
            )
            done.append(chunk)
            write_record(part / NOTES, {"identity": identity, "done": sorted(done)})
        if progress is not None:
            progress(_functions(done, rows, count), count)
    _consolidate(part / STORE)
    with interrupts_held():
        shutil.rmtree(output, ignore_errors=True)
        (part / STORE).replace(output)
        shutil.rmtree(part)
    return count, before


def _begin(part: Path, first: xr.Dataset, count: int, rows: int, identity: str) -> list[int]:
    """Make the store, with nothing in it; or the chunks that an earlier transfer of the same has done."""
    import dask.array as da

    if (part / NOTES).exists():
        try:
            notes = read_record(part / NOTES)
        except ValueError as error:
            raise ValueError(f"{part / NOTES} is damaged ({error}): begin anew with --overwrite") from None
        if notes["identity"] != identity:
            raise ValueError(f"{part} is of other inputs, another operator or grid: remove it, or give --overwrite")
        return list(notes["done"])
    if part.exists():
        raise ValueError(f"{part} is there without the notes of a transfer: remove it, or give --overwrite")

    def empty(value: xr.DataArray) -> xr.DataArray:
        if FUNCTION not in value.dims:
            return value
        shape = tuple(count if dim == FUNCTION else n for dim, n in zip(value.dims, value.shape, strict=True))
        chunks = tuple(rows if dim == FUNCTION else n for dim, n in zip(value.dims, value.shape, strict=True))
        return xr.DataArray(da.zeros(shape, chunks=chunks, dtype=value.dtype), dims=value.dims, attrs=value.attrs)

    layout = xr.Dataset(
        {name: empty(value.drop_vars([*value.coords])) for name, value in first.data_vars.items()},
        coords={name: empty(value.drop_vars([*value.coords])).variable for name, value in first.coords.items()},
        attrs=first.attrs,
    )
    part.mkdir()
    layout.to_zarr(part / STORE, compute=False, consolidated=False)
    write_record(part / NOTES, {"identity": identity, "done": []})
    return []


def _consolidate(store: Path) -> None:
    """Write the metadata of all arrays in one place, where readers look first."""
    import zarr

    with warnings.catch_warnings():
        # In the third format that is a convention, which readers know all the same.
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(str(store))


def _function_dim(operator: Operator, name: str, value: xr.DataArray) -> Any:
    space = operator.problem.inputs[name]
    known = {*space.domain.names, *(() if space.components is None else ("component",))}
    others = [dim for dim in value.dims if dim not in known]
    return others[0] if len(others) == 1 else None


def _warn_of_chunks(name: str, value: xr.DataArray, dim: Any, rows: int) -> None:
    """Say where memory will not be flat: a chunk is read whole, however little of it is wanted."""
    chunks = dict(zip(value.dims, value.encoding.get("chunks") or value.shape, strict=True))
    # What lies side by side is read together.
    held = value.dtype.itemsize * math.prod(n if d == dim else value.sizes[d] for d, n in chunks.items())
    if dim is not None and chunks[dim] > 2 * rows and held > 2 * CHUNK:
        logger.warning(
            "a chunk of %s holds %d functions (%.0f MiB with all its axes), and is read again for every %d of them: "
            "store it in chunks of about %d functions",
            name,
            chunks[dim],
            held / 2**20,
            rows,
            rows,
        )


def _is_array(path: Path) -> bool:
    """Whether the root of a store is an array rather than a group."""
    if (path / ".zarray").exists():
        return True
    try:
        return json.loads((path / "zarr.json").read_text())["node_type"] == "array"
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _functions(done: list[int], rows: int, count: int) -> int:
    return sum(min((chunk + 1) * rows, count) - chunk * rows for chunk in done)


def _identity(operator: Operator, inputs: Mapping[str, xr.DataArray], points: Mapping[str, Any], rows: int) -> str:
    """What the chunks of a transfer depend on; of the inputs, where they are and what they look like."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(operator.model, eqx.is_array)):
        digest.update(f"{leaf.dtype}{leaf.shape}".encode() + np.asarray(leaf).tobytes())
    for name, value in inputs.items():
        source = str(value.encoding.get("source", ""))
        head = value.isel({dim: slice(0, 2) for dim in value.dims}).to_numpy()
        digest.update(
            json.dumps([name, source, {str(d): n for d, n in value.sizes.items()}, str(value.dtype)]).encode()
        )
        digest.update(head.tobytes())
    for name, where in sorted(points.items()):
        digest.update(name.encode() + np.asarray(where, np.float64).tobytes())
    return f"{digest.hexdigest()[:32]}-{rows}"


def _need_zarr() -> None:
    for name in ("dask", "zarr"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"Zarr stores need {name}: pip install 'seponet[scale]'")
