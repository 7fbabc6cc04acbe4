"""Frozen operators, run by NumPy alone: this one file is all that is needed. Copy it where you like.

    import seponet_frozen                      # or: from seponet import frozen
    operator = seponet_frozen.load("burgers.npz")
    operator.sensors["u"]                      # where u is needed: the points along each of its axes
    s = operator(u)                            # [*grid] for u [*sensors], [functions, *grid] for [functions, *sensors]

A frozen operator is a list of array operations for one grid, made by `seponet.Operator.export`. Its format is described
in seponet's `docs/frozen-format.md`.
"""

import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


class FrozenOperator:
    """A frozen operator: calls map values at sensors to fields on the grid that it was exported for.

    - `inputs`: for each input the shape of its values at the sensors, components first.
    - `sensors`: for each input the points along each of its axes.
    - `coordinates`: the points of the grid along each axis, in the order of the results' axes.
    - `fields`: what a call returns.
    - `about`: what the export says about the operator: the problem, its constants, when it was trained.

    **Arguments:**

    - `header`: the program.
    - `numbers`: its constants, one after the other.
    - `dtype`: in which precision to compute. The constants have that of float32.
    """

    def __init__(self, header: Mapping[str, Any], numbers: np.ndarray, dtype: Any = np.float32) -> None:
        if header.get("format") != FORMAT:
            raise ValueError(
                f"this file reads frozen operators of format {FORMAT}; got format {header.get('format')}: take the "
                "seponet_frozen.py that was written beside it"
            )
        self.header, self.dtype = header, np.dtype(dtype)
        self.about: Mapping[str, Any] = header.get("about", {})
        self.inputs = {entry["name"]: tuple(entry["shape"]) for entry in header["inputs"]}
        self.sensors = {
            name: {axis: np.array(points) for axis, points in entry["sensors"].items()}
            for name, entry in self.about.get("inputs", {}).items()
        }
        self.coordinates = {axis: np.array(points) for axis, points in self.about.get("coordinates", {}).items()}
        self.fields = tuple(entry["name"] for entry in header["outputs"])
        self._constants = [
            numbers[entry["offset"] : entry["offset"] + math.prod(entry["shape"])].reshape(entry["shape"]).astype(dtype)
            for entry in header["constants"]
        ]

    def __call__(self, u: Any = None) -> Any:
        """The fields for one function or many: an array, or a dictionary by name if there are several.

        `u` is a mapping from the names of the inputs; without it if there is one input.
        """
        values, many = self._read(u)
        results = [value if many else value[0] for value in self._run(values)]
        named = dict(zip(self.fields, results, strict=True))
        return named if len(named) > 1 else results[0]

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name} {list(shape)}" for name, shape in self.inputs.items())
        outputs = ", ".join(f"{entry['name']} {entry['shape']}" for entry in self.header["outputs"])
        return f"FrozenOperator({self.about.get('problem', '')}: {inputs or 'no input'} -> {outputs})"

    def _read(self, u: Any) -> tuple[list[np.ndarray], bool]:
        given: Mapping[str, Any] = u if isinstance(u, Mapping) else {} if u is None else {next(iter(self.inputs)): u}
        if set(given) != set(self.inputs):
            raise ValueError(f"the inputs are {', '.join(self.inputs) or 'none'}; got {', '.join(given) or 'none'}")
        values = {name: np.asarray(given[name], self.dtype) for name in self.inputs}
        extra = {values[name].ndim - len(shape) for name, shape in self.inputs.items()}
        for name, shape in self.inputs.items():
            if values[name].shape[values[name].ndim - len(shape) :] != shape or len(extra) > 1 or not extra <= {0, 1}:
                raise ValueError(
                    f"input {name!r} must have the shape {shape} or {('functions', *shape)} (alike for all inputs); "
                    f"got {values[name].shape}"
                )
        many = extra == {1}
        counts = {len(value) for value in values.values()} if many else {1}
        if len(counts) > 1:
            raise ValueError(f"all inputs must come for as many functions; got {sorted(counts)}")
        return [value if many else value[None] for value in values.values()], many

    def _run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: list[np.ndarray | None] = list(inputs)
        functions = len(inputs[0]) if inputs else 1
        operations = self.header["operations"]
        last = {i: step for step, entry in enumerate(operations) for i in entry["arguments"]}
        kept = {entry["value"] for entry in self.header["outputs"]}
        for step, entry in enumerate(operations):
            arguments = [values[i] if i >= 0 else self._constants[-1 - i] for i in entry["arguments"]]
            with np.errstate(all="ignore"):
                values.append(OPERATIONS[entry["operation"]](entry, functions, *arguments))
            for i in entry["arguments"]:
                if i >= 0 and last[i] == step and i not in kept:
                    values[i] = None
        results = [
            np.broadcast_to(values[entry["value"]], (functions, *entry["shape"])) for entry in self.header["outputs"]
        ]
        return [np.array(result) for result in results]


def load(path: str | Path, dtype: Any = np.float32) -> FrozenOperator:
    """The frozen operator in an `.npz` file that `seponet.Operator.export` wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            header, numbers = json.loads(bytes(stored["program"]).decode()), stored["numbers"]
    except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no frozen operator, or is damaged ({error}); export it again") from None
    return FrozenOperator(header, numbers, dtype)


def _erf(x: np.ndarray) -> np.ndarray:
    # Numerical Recipes' Chebyshev fit of erfc, good to 1.2e-7.
    t = 1 / (1 + 0.5 * np.abs(x))
    tail = t * np.exp(-x * x + np.polynomial.polynomial.polyval(t, ERFC))
    return np.where(x >= 0, 1 - tail, tail - 1).astype(x.dtype)


ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587)
ERFC = (*ERFC, -0.82215223, 0.17087277)

MAPS: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "erf": _erf,
}
COMBINATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "atan2": np.arctan2,
    "rem": np.fmod,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


# Values have the functions first; constants have no such axis. Operations take their settings, the number of functions,
# and their arguments.


def _map(entry: Mapping[str, Any], _: int, x: np.ndarray) -> np.ndarray:
    return MAPS[entry["function"]](x)


def _combine(entry: Mapping[str, Any], _: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return COMBINATIONS[entry["function"]](x, y).astype(np.result_type(x, y), copy=False)


def _select(_entry: Mapping[str, Any], _: int, which: np.ndarray, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
    return np.where(which != 0, yes, no)


def _constant(entry: Mapping[str, Any], functions: int, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, (functions, *entry["shape"]))


def _reshape(entry: Mapping[str, Any], functions: int, x: np.ndarray) -> np.ndarray:
    return x.reshape(functions, *entry["shape"])


def _transpose(entry: Mapping[str, Any], _: int, x: np.ndarray) -> np.ndarray:
    return x.transpose(0, *(i + 1 for i in entry["order"]))


def _broadcast(entry: Mapping[str, Any], functions: int, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, (functions, *entry["shape"]))


def _concatenate(entry: Mapping[str, Any], functions: int, *values: np.ndarray) -> np.ndarray:
    rank = len(entry["shape"])
    whole = [v if v.ndim > rank else np.broadcast_to(v, (functions, *v.shape)) for v in values]
    return np.concatenate(whole, entry["axis"] + 1)


def _slice(entry: Mapping[str, Any], _: int, x: np.ndarray) -> np.ndarray:
    bounds = zip(entry["start"], entry["stop"], entry["step"], strict=True)
    return x[(slice(None), *(slice(*b) for b in bounds))]


def _pad(entry: Mapping[str, Any], _: int, x: np.ndarray) -> np.ndarray:
    widths = [(0, 0), *zip(entry["before"], entry["after"], strict=True)]
    return np.pad(x, widths, constant_values=entry["value"])


def _take(_entry: Mapping[str, Any], functions: int, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return x.reshape(functions, -1)[:, indices.astype(np.int64)]


def _reduce(entry: Mapping[str, Any], _: int, x: np.ndarray) -> np.ndarray:
    return REDUCTIONS[entry["function"]](x, axis=tuple(i + 1 for i in entry["axes"]))


def _einsum(entry: Mapping[str, Any], _: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One product of (stacks of) matrices: np.einsum would loop where both operands have the functions' axis."""
    letters, out = entry["equation"].split("->")
    left, right = letters.split(",")
    batch = [c for c in out if c in left and c in right]
    summed = [c for c in left if c not in out]
    rows, columns = ([c for c in side if c in out and c not in batch] for side in (left, right))
    sizes = {
        c: n for side, v in ((left, x), (right, y)) for c, n in zip(side, v.shape[v.ndim - len(side) :], strict=True)
    }

    def matrices(value: np.ndarray, side: str, *groups: list[str]) -> np.ndarray:
        shift = value.ndim - len(side)
        order = [shift + side.index(c) for group in groups for c in group]
        shape = [sizes[c] for c in groups[0]] + [math.prod(sizes[c] for c in group) for group in groups[1:]]
        return value.transpose(*range(shift), *order).reshape(*value.shape[:shift], *shape)

    a, b = matrices(x, left, batch, rows, summed), matrices(y, right, batch, summed, columns)
    if not batch and b.ndim == 2:
        # A constant on the right: all functions in one product.
        product = (a.reshape(-1, a.shape[-1]) @ b).reshape(*a.shape[:-1], b.shape[-1])
    else:
        product = a @ b
    lead = product.ndim - len(batch) - 2
    found = [*batch, *rows, *columns]
    product = product.reshape(*product.shape[:lead], *(sizes[c] for c in found))
    return product.transpose(*range(lead), *(lead + found.index(c) for c in out))


OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "map": _map,
    "combine": _combine,
    "select": _select,
    "constant": _constant,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
    "slice": _slice,
    "pad": _pad,
    "take": _take,
    "reduce": _reduce,
    "einsum": _einsum,
}
