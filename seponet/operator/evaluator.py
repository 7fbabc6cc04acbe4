"""An operator on one grid, or at one set of points: what depends on the location alone is computed once."""

import functools
import gc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer
from jaxtyping import Array

from .._machine import return_free_memory
from .._precision import in_precision_of, is_double
from ..calculus.basis_values import BasisValues
from ..calculus.evaluate import derivatives_along_box, evaluate
from ..calculus.model import FixedCoefficients, Model
from ..equations.folding import refuse_folds
from ..equations.symbols import Symbol
from ..functions import Functions
from ..functions.interpolant import interpolate
from ..locations import Grid, Location, Points
from .inputs import read_inputs, read_sensor_values
from .placement import physical_coordinates
from .request import check_size, locate, sensors_of

Inputs = dict[str, Functions]


class CompiledEvaluator:
    """Compiled evaluation of fields and derivatives at a fixed location; `Operator.compile` makes one.

    A new input costs one pass of the branch and one contraction with tables of the trunks, plus the lift. Large results
    are computed in chunks of functions, and of rows of the first axis, so that the working memory stays bounded.

    **Arguments:**

    - `model`: the operator network, or a discretisation, whose coefficients are given.
    - `coefficients`: the compiled map from inputs to the model's coefficients.
    - `coordinates`: for each axis its points, or one number; see `locate`.
    - `points`: whether they are the coordinates of scattered points rather than the axes of a grid.
    - `symbols`: what to evaluate; one gives a DataArray, several a Dataset.
    - `memory`: the working memory in bytes; it bounds the chunks, approximately.
    """

    def __init__(
        self,
        model: Model,
        coefficients: Callable[[Inputs], Array],
        coordinates: Mapping[str, Any],
        *,
        points: bool,
        symbols: Sequence[Symbol],
        memory: int,
    ) -> None:
        self.model, self.coefficients, self.symbols, self.memory = model, coefficients, tuple(symbols), memory
        self.points = points
        # An evaluator may be asked for first in a program that is being traced, and is kept for later ones.
        with in_precision_of(model):
            with jax.ensure_compile_time_eval():
                self.where, self.coordinates = locate(model.problem.domain, coordinates, points=points)
            self._prepare()

    def _prepare(self) -> None:
        model = self.model
        self._arrays, self._static = eqx.partition(model, eqx.is_array)
        self._compiled = jax.jit(self._values)
        self._chunks: dict[int, tuple[int, int]] = {}
        self._single: CompiledEvaluator | None = None
        table = jax.eval_shape(self._basis_values, self._arrays, self.where)
        small = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(table)) <= self.memory / 2
        # A grid is a constant of the traced program, so that classical bases are tabulated in float64; scattered points
        # may be too many for one.
        where = self.where if isinstance(self.where, Points) else None
        with jax.ensure_compile_time_eval():
            self._table = jax.jit(self._basis_values)(self._arrays, where) if small else None

    def __call__(self, u: Any = None) -> xr.DataArray | xr.Dataset:
        """The fields for one or many functions, given as for `Operator.predict`."""
        with in_precision_of(self.model):
            inputs, count = read_inputs(self.model.problem, sensors_of(self.model.problem, self.model.sensors), u)
            refuse_folds(self.model.problem.chart, self.model.problem.complete(inputs))
            return self.label(self.compute(inputs, count or 1), count, inputs)

    def evaluate(self, values: Any = None) -> Any:
        """The fields for values at the sensors: a pure function, which may be compiled and differentiated.

        `values` is `[*sensors]` or `[functions, *sensors]`, or a mapping from the names of the inputs to such arrays.
        The result is an array, or a dictionary of them if there are several symbols; outside of a program that is being
        traced, one that is not finite is a `ValueError`.
        """
        if self.model is not self._traceable.model:
            return self._traceable.evaluate(values)
        spaces = self.model.problem.inputs
        sensor_values, many = read_sensor_values(spaces, sensors_of(self.model.problem, self.model.sensors), values)
        inputs = {name: interpolate(spaces[name], value) for name, value in sensor_values.items()}
        if set(sensor_values) != {name for name, _ in self.model.sensors}:
            sensor_values = self.model.encode(inputs)
        fields = self._values(self._arrays, self.model.coefficients(sensor_values), inputs, self._table, None)
        for symbol, value in zip(self.symbols, fields, strict=True):
            if not isinstance(value, Tracer):
                check_finite(str(symbol), np.asarray(value))
        fields = {str(symbol): value if many else value[0] for symbol, value in zip(self.symbols, fields, strict=True)}
        fields = {name: value.reshape(self._kept(value)) for name, value in fields.items()}
        return fields if len(fields) > 1 else next(iter(fields.values()))

    @property
    def _traceable(self) -> "CompiledEvaluator":
        """The evaluator in the precision of the surrounding program: one that is being traced can't change it."""
        if jax.config.read("jax_enable_x64") or not is_double(self.model):
            return self
        if self._single is None:
            model = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), self.model)
            points = isinstance(self.where, Points)
            self._single = CompiledEvaluator(
                model, self.coefficients, self.coordinates, points=points, symbols=self.symbols, memory=self.memory
            )
        return self._single

    def compute(self, inputs: Inputs, count: int, coefficients: Array | None = None) -> list[np.ndarray]:
        """For every symbol an array `[functions, *shape]`, computed in chunks; `coefficients` replace those of the
        model."""
        n = self.where.shape[0]
        check_size({"point": math.prod(self.where.shape)}, count * len(self.symbols))
        if count not in self._chunks:
            self._chunks[count] = self._choose_chunks(inputs, count)
        functions, rows = self._chunks[count]
        results: list[np.ndarray] = []
        for start in _starts(count, functions):
            chunk = slice(start, start + functions)
            batch = inputs if functions == count else {name: f[chunk] for name, f in inputs.items()}
            beta = self.coefficients(batch) if coefficients is None else coefficients[chunk]
            for row in _starts(n, rows):
                values = self._compiled(*self._slab(row, rows, beta, batch))
                if (functions, rows) == (count, n):
                    return [np.asarray(value) for value in values]
                results = results or [np.empty((count, *self.where.shape), value.dtype) for value in values]
                for whole, part in zip(results, values, strict=True):
                    whole[chunk, row : row + rows] = part
        return results

    def label(
        self, values: Sequence[np.ndarray], count: int | None, inputs: Mapping[str, Functions]
    ) -> xr.DataArray | xr.Dataset:
        """The values of every symbol with names and coordinates, those of a map included; without the functions' axis
        if `count` is None.

        Every answer comes this way, so here it is seen to be one: values that are not finite are a `ValueError`.
        """
        function = () if count is None else ("function",)
        kept = tuple(name for name, c in self.coordinates.items() if c.ndim)
        dims = (*function, *(("point",) if isinstance(self.where, Points) else kept))
        problem = self.model.problem
        coords = self._box_coordinates
        if problem.chart is not None:
            physical = physical_coordinates(problem, inputs, self.where, kept, many=count is not None)
            coords = coords.assign(physical)
        arrays: dict[str, xr.DataArray] = {}
        for symbol, value in zip(self.symbols, values, strict=True):
            check_finite(str(symbol), value)
            value = value if count is not None else value[0]
            arrays[str(symbol)] = xr.DataArray(value.reshape(self._kept(value)), coords, dims, name=str(symbol))
        return xr.Dataset(arrays) if len(arrays) > 1 else next(iter(arrays.values()))

    @functools.cached_property
    def _box_coordinates(self) -> xr.Coordinates:
        """Those along the axes, with their indices: making these takes as long as predicting ten functions."""
        along = "point" if isinstance(self.where, Points) else None
        return xr.Coordinates({name: (along or name, c) if c.ndim else c for name, c in self.coordinates.items()})

    def _kept(self, value: Array | np.ndarray) -> tuple[int, ...]:
        """The shape without the axes whose coordinate was given as one number."""
        if isinstance(self.where, Points):
            return value.shape
        lead = value.ndim - len(self.coordinates)
        kept = [n for n, c in zip(value.shape[lead:], self.coordinates.values(), strict=True) if c.ndim]
        return (*value.shape[:lead], *kept)

    def _basis_values(self, arrays: Any, where: Location | None) -> BasisValues:
        where = self.where if where is None else where
        request = {None: derivatives_along_box(self.model.problem, self.symbols)}
        return eqx.combine(arrays, self._static).basis_values(where, where, request)[None]

    def _values(
        self, arrays: Any, coefficients: Array, inputs: Inputs, table: BasisValues | None, where: Location | None
    ) -> list[Array]:
        model = self._static if arrays is None else eqx.combine(arrays, self._static)
        solution = FixedCoefficients(model, coefficients, table)
        fields = evaluate(solution, inputs, self.where if where is None else where, self.symbols)
        return [fields[symbol] for symbol in self.symbols]

    def _slab(self, start: int, rows: int, coefficients: Any, inputs: Any) -> tuple[Any, ...]:
        """The arguments of `_values` for some rows. A whole grid is a constant of the program, and so are its bases."""
        whole = rows == self.where.shape[0]
        if whole and isinstance(self.where, Grid) and self._table is not None:
            return None, coefficients, inputs, self._table, None
        where = self.where.rows(start, rows)
        if self._table is None:
            return self._arrays, coefficients, inputs, None, where
        moving, shared = self._table.split()
        return None, coefficients, inputs, shared.join(tuple(r[start : start + rows] for r in moving)), where

    def _choose_chunks(self, inputs: Inputs, count: int) -> tuple[int, int]:
        """How many functions, and how many rows, to compute at a time."""
        n = self.where.shape[0]
        item = jnp.zeros(()).dtype.itemsize
        if (self.model.size + 8 * count) * math.prod(self.where.shape) * item <= self.memory:
            return count, n
        shape = self.model.coefficient_shape()

        def needed(functions: int, rows: int) -> int:
            """Bytes for one chunk: three times the largest array of the traced program, for a value, its operand and
            the result."""
            coefficients = jax.ShapeDtypeStruct((functions, *shape), jnp.result_type(float))
            batch = {name: f[:functions] for name, f in inputs.items()}
            traced = jax.make_jaxpr(self._values)(*self._slab(0, rows, coefficients, batch))
            arrays = [v.aval for equation in traced.eqns for v in equation.outvars]
            return 3 * max(a.size * a.dtype.itemsize for a in arrays)

        functions, rows = 1, n
        while rows > 1 and needed(1, rows) > self.memory / 2:
            rows = -(-rows // 2)
        while functions < count and needed(min(2 * functions, count), rows) <= self.memory:
            functions = min(2 * functions, count)
        return functions, rows


def forget_programs() -> None:
    """Drop what JAX has compiled: it keeps the programs of grids that nobody uses any more, a dozen for each.

    A grid is a constant of its programs, so that classical bases are tabulated in float64, and bases are tabulated by
    programs of its shape: neither serves another grid. What is still used is compiled again when it is needed.
    """
    # In a program that is being traced, its own pieces are among what would be dropped.
    if not isinstance(jnp.zeros(()) + 0, Tracer):
        gc.collect()
        jax.clear_caches()
        return_free_memory()


def check_finite(name: str, values: np.ndarray) -> None:
    """Refuse an answer that is none."""
    wrong = ~np.isfinite(values)
    if np.any(wrong):
        functions = np.unique(np.argwhere(wrong)[:, 0])
        raise ValueError(
            f"the prediction of {name} is not finite for {len(functions)} of {len(values)} functions, function "
            f"{functions[0]} for instance: the input is far from those that were trained on, or the model is damaged"
        )


def _starts(total: int, size: int) -> list[int]:
    """Where chunks of one size start; the last one overlaps its neighbour, so that all have the same shape."""
    return [min(start, total - size) for start in range(0, total, size)]
