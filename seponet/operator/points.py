"""An operator at points that are given by the coordinates of a map: where they are in the box depends on the shape."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from .._precision import in_precision_of
from ..calculus.evaluate import evaluate
from ..calculus.model import FixedCoefficients, Model
from ..equations.folding import refuse_folds
from ..equations.symbols import Symbol
from ..functions import Functions
from ..locations import Points
from .evaluator import CompiledEvaluator, Inputs, check_finite, sensors_of
from .inputs import read_inputs
from .placement import check_coordinates, invert

MOST = 1 << 22
"""Values that are held at a time, about."""


class PointEvaluator:
    """Evaluation at scattered points of a mapped domain, NaN outside of it. It does what a `CompiledEvaluator` does.

    **Arguments:** as there; `coordinates` are those of the map, and axes that it keeps.
    """

    points = True

    def __init__(
        self,
        model: Model,
        coefficients: Callable[[Inputs], Array],
        coordinates: Mapping[str, Any],
        *,
        symbols: Sequence[Symbol],
        memory: int,
    ) -> None:
        chart = model.problem.chart
        assert chart is not None
        self.model, self.coefficients, self.symbols, self.memory = model, coefficients, tuple(symbols), memory
        self.chart = chart
        self.coordinates = _read(model.problem.domain.physical_names, coordinates)
        with in_precision_of(model), jax.ensure_compile_time_eval():
            given = {name: jnp.asarray(c, float) for name, c in self.coordinates.items()}
        self.where = Points(tuple(given), tuple(given.values()))
        self._arrays, self._static = eqx.partition(model, eqx.is_array)
        self._compiled = jax.jit(jax.vmap(self._one, in_axes=(None, 0, 0)))

    def __call__(self, u: Any = None) -> xr.DataArray | xr.Dataset:
        """The fields for one or many functions, given as for `Operator.predict`."""
        with in_precision_of(self.model):
            inputs, count = read_inputs(self.model.problem, sensors_of(self.model.problem, self.model.sensors), u)
            inputs = self.model.problem.complete(inputs)
            refuse_folds(self.chart, inputs)
            return self.label(self.compute(inputs, count or 1), count, inputs)

    def evaluate(self, values: Any = None) -> Any:
        raise ValueError(
            "values at the sensors are evaluated at points of the box: give its axes "
            f"{', '.join(self.model.problem.domain)} instead of coordinates, or use predict"
        )

    def compute(self, inputs: Inputs, count: int, coefficients: Array | None = None) -> list[np.ndarray]:
        """For every symbol an array `[functions, points]`, NaN outside of the domain."""
        beta = self.coefficients(inputs) if coefficients is None else coefficients
        held = len(self.where.points[0]) * max(self.model.size // 16, 64)
        batch = int(np.clip(MOST // held, 1, count))
        parts: list[list[np.ndarray]] = []
        for start in range(0, count, batch):
            rows = np.minimum(np.arange(start, start + batch), count - 1)
            one = {name: f[rows] for name, f in inputs.items()}
            parts.append([np.asarray(v) for v in self._compiled(self._arrays, beta[rows], one)])
        values = [np.concatenate(arrays)[:count] for arrays in zip(*parts, strict=True)]
        inside = ~np.isnan(values[-1])
        for symbol, value in zip(self.symbols, values[:-1], strict=True):
            check_finite(str(symbol), np.where(inside, value, 0.0))
        return [np.where(inside, value, np.nan) for value in values[:-1]]

    def label(
        self, values: Sequence[np.ndarray], count: int | None, _inputs: Mapping[str, Functions]
    ) -> xr.DataArray | xr.Dataset:
        """The values of every symbol with names and coordinates; without the functions' axis if `count` is None."""
        dims = ("point",) if count is None else ("function", "point")
        coords = {name: ("point", c) for name, c in self.coordinates.items()}
        arrays = {
            str(symbol): xr.DataArray(value if count is not None else value[0], coords, dims, name=str(symbol))
            for symbol, value in zip(self.symbols, values, strict=True)
        }
        return xr.Dataset(arrays) if len(arrays) > 1 else next(iter(arrays.values()))

    def _one(self, arrays: Any, coefficients: Array, inputs: Inputs) -> list[Array]:
        """One function: the place of each point in the box, and the fields there; last, NaN where there is none."""
        model = eqx.combine(arrays, self._static)
        alone = jax.tree.map(lambda leaf: leaf[None], inputs)
        box, inside = invert(self.chart, alone, dict(zip(self.where.names, self.where.points, strict=True)))
        where = Points.of(model.problem.domain, box)
        fields = evaluate(FixedCoefficients(model, coefficients[None]), alone, where, self.symbols)
        values = [jnp.broadcast_to(fields[symbol], (1, *where.shape))[0] for symbol in self.symbols]
        return [*values, jnp.where(inside, 0.0, jnp.nan)]


AnyEvaluator = CompiledEvaluator | PointEvaluator


def make_evaluator(
    model: Model,
    coefficients: Callable[[Inputs], Array],
    coordinates: Mapping[str, Any],
    *,
    points: bool,
    symbols: Sequence[Symbol],
    memory: int,
) -> AnyEvaluator:
    """The evaluator for coordinates: of the box, or points by the coordinates of a map."""
    if points and check_coordinates(model.problem, coordinates):
        return PointEvaluator(model, coefficients, coordinates, symbols=symbols, memory=memory)
    return CompiledEvaluator(model, coefficients, coordinates, points=points, symbols=symbols, memory=memory)


def _read(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        try:
            arrays[name] = np.atleast_1d(np.asarray(given[name], np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"the coordinate {name!r} must be numbers; got {type(given[name]).__name__}") from None
        if arrays[name].ndim != 1 or not np.all(np.isfinite(arrays[name])) or not arrays[name].size:
            raise ValueError(f"the coordinate {name!r} must be a number or a list of finite ones")
    sizes = {a.size for a in arrays.values()} - {1} or {1}
    if len(sizes) > 1:
        listed = ", ".join(f"{a.size} of {name}" for name, a in arrays.items())
        raise ValueError(f"points need as many coordinates along every axis; got {listed}")
    (size,) = sizes
    return {name: np.broadcast_to(a, (size,)) for name, a in arrays.items()}
