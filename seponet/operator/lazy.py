"""Prediction of inputs that are too many to hold: Dask-backed `xarray` data in, the same out, chunk by chunk.

A chunk of functions is predicted where and when Dask wants it: on threads, or in the processes of a cluster, which get
the operator as the bytes of its saved folder and load it once.
"""

import functools
import hashlib
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..equations.problem import Problem

if TYPE_CHECKING:
    from .operator import Operator

FUNCTION = "function"


def is_lazy(u: Any) -> bool:
    """Whether an input, or one of several, is `xarray` data in chunks that are not loaded yet."""
    given = u.values() if isinstance(u, Mapping) and not isinstance(u, xr.Dataset) else [u]
    return any(isinstance(value, xr.DataArray) and value.chunks is not None for value in given)


def predict_lazily(operator: "Operator", u: Any, options: Mapping[str, Any]) -> xr.DataArray | xr.Dataset:
    """What `Operator.predict` gives, with one chunk for each chunk of functions; nothing but one function is computed.

    **Arguments:**

    - `u`: the inputs, by name if there are several. Those in chunks may have them along the functions only: others are
        joined.
    - `options`: the other arguments of `Operator.predict`.
    """
    spaces = operator.problem.inputs
    by_name: dict[str, Any] = dict(u) if isinstance(u, Mapping) else {next(iter(spaces), ""): u}
    if set(by_name) != set(spaces):
        raise ValueError(f"the inputs are {', '.join(spaces) or 'none'}; got {', '.join(map(str, by_name)) or 'none'}")
    split: dict[str, xr.DataArray] = {}
    fixed: dict[str, Any] = {}
    axes: dict[str, list[str]] = {}
    for name, value in by_name.items():
        components = () if spaces[name].components is None else ("component",)
        axes[name] = [*components, *spaces[name].domain.names]
        many = [dim for dim in value.dims if dim not in axes[name]] if isinstance(value, xr.DataArray) else []
        if len(many) == 1 and set(axes[name]) <= set(value.dims):
            split[name] = value.rename({many[0]: FUNCTION}).transpose(FUNCTION, *axes[name])
        else:
            # One for all functions, or something that `predict` will have a word about.
            fixed[name] = value.compute() if isinstance(value, xr.DataArray) else value
    counts = {value.sizes[FUNCTION] for value in split.values()}
    if len(counts) != 1 or not counts.pop():
        raise ValueError(
            "data in chunks needs a dimension of functions beside the input's axes, as long for every input; got "
            + ", ".join(f"{name} of shape {np.shape(value)}" for name, value in by_name.items())
        )
    first = {name: value.isel({FUNCTION: slice(0, 1)}).compute() for name, value in split.items()}
    template = operator.predict({**first, **fixed}, **options)
    varying = [str(name) for name, c in template.coords.items() if FUNCTION in c.dims]
    if varying:
        raise ValueError(
            f"{', '.join(varying)} are different for every function, and lazy predictions have coordinates for all of "
            "them alone: predict chunks of functions that are loaded"
        )
    fields = {template.name: template} if isinstance(template, xr.DataArray) else dict(template.data_vars)
    dims = [dim for dim in next(iter(fields.values())).dims if dim != FUNCTION]
    places = {n: (axes[n], dict(v.drop_vars(FUNCTION, errors="ignore").coords)) for n, v in split.items()}
    block = _Block(operator, fixed, places, options)
    # An axis of an input has other points than that of the result, so that it is called otherwise here.
    own = {name: {axis: f"{axis} of {name}" for axis in axes[name]} for name in split}
    arrays = [
        value.drop_vars([*value.coords]).chunk(dict.fromkeys(axes[name], -1)).rename(own[name])
        for name, value in split.items()
    ]
    computed = xr.apply_ufunc(
        block,
        *arrays,
        input_core_dims=[[*own[name].values()] for name in split],
        output_core_dims=[dims] * len(fields),
        dask="parallelized",
        output_dtypes=[value.dtype for value in fields.values()],
        dask_gufunc_kwargs={"output_sizes": {dim: template.sizes[dim] for dim in dims}},
    )
    computed = computed if isinstance(computed, tuple) else (computed,)
    labelled = {
        name: array.assign_coords(value.coords).rename(name).assign_attrs(value.attrs)
        for (name, value), array in zip(fields.items(), computed, strict=True)
    }
    return (
        next(iter(labelled.values()))
        if isinstance(template, xr.DataArray)
        else xr.Dataset(labelled, attrs=template.attrs)
    )


class _Block:
    """The prediction of one chunk: arrays of inputs to arrays of fields. It can be sent to other processes."""

    def __init__(self, operator: "Operator", fixed: Any, inputs: Any, options: Any) -> None:
        self.operator, self.fixed, self.inputs, self.options = operator, fixed, inputs, dict(options)
        self.lock = threading.Lock()

    def __call__(self, *blocks: np.ndarray) -> Any:
        given = {
            name: xr.DataArray(block, coords, (FUNCTION, *axes))
            for block, (name, (axes, coords)) in zip(blocks, self.inputs.items(), strict=True)
        }
        # One chunk at a time in each process, so that its memory is that of one.
        with self.lock:
            predicted = self.operator.predict({**given, **self.fixed}, **self.options)
        if isinstance(predicted, xr.DataArray):
            return predicted.to_numpy()
        return tuple(predicted[name].to_numpy() for name in predicted.data_vars)

    def __reduce__(self) -> Any:
        files = operator_files(self.operator)
        return _rebuilt, (files, type(self.operator.problem), self.fixed, self.inputs, self.options)


def operator_files(operator: "Operator") -> dict[str, bytes]:
    """The files of the folder that `Operator.save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        operator.save(Path(folder) / "operator")
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _rebuilt(files: dict[str, bytes], problem: type[Problem], *rest: Any) -> "_Block":
    digest = hashlib.sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()
    return _Block(_load_once(digest, tuple(files.items()), problem), *rest)


@functools.lru_cache(maxsize=4)
def _load_once(digest: str, files: tuple[tuple[str, bytes], ...], problem: type[Problem]) -> "Operator":
    """An operator from its files: many chunks come to one process, and all of them compile the same."""
    del digest
    from .operator import load

    with tempfile.TemporaryDirectory() as folder:
        for name, content in files:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return load(Path(folder) / "operator", problem=problem)
