r"""Errors against reference solutions: the paper's metrics, over many functions.

For each function, over its whole grid and all fields: the relative error $\|s - \hat s\|_2 / \|\hat s\|_2$, the root
mean square of $s - \hat s$, and its maximum.
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._precision import in_precision_of
from ..calculus.evaluate import evaluate, volume_element
from ..calculus.model import Model
from ..equations.symbols import Symbol
from ..functions import Functions
from ..locations import Grid
from .testset import TestSet, grid_of

CHUNK_BYTES = 1 << 28
"""How many bytes of a prediction are held at once."""


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of each function over its grid and all fields; relative ones are fractions."""

    relative_l2: Float[np.ndarray, " functions"]
    rmse: Float[np.ndarray, " functions"]
    maximum: Float[np.ndarray, " functions"]

    def summary(self) -> dict[str, float]:
        """Mean and standard deviation over the functions, under the names that reports use."""
        return {
            "relative_l2_mean": float(np.mean(self.relative_l2)),
            "relative_l2_std": float(np.std(self.relative_l2)),
            "rmse_mean": float(np.mean(self.rmse)),
            "rmse_std": float(np.std(self.rmse)),
            "maximum_mean": float(np.mean(self.maximum)),
            "maximum_std": float(np.std(self.maximum)),
        }


def compare(
    predicted: dict[str, np.ndarray], exact: dict[str, np.ndarray], weights: np.ndarray | None = None
) -> Errors:
    """The errors of predictions, each field `[functions, *grid]`; all fields count together.

    **Arguments:**

    - `weights`: how much each point counts, `[functions or 1, *grid]` (the volume element of a mapped domain); by
        default all alike.
    """
    for field, values in exact.items():
        if predicted[field].shape != values.shape:
            raise ValueError(
                f"{field} is predicted with shape {predicted[field].shape}; the reference has {values.shape}"
            )
    difference = np.stack([_flat(predicted[field]) - _flat(values) for field, values in exact.items()], axis=1)
    size = np.stack([_flat(values) for values in exact.values()], axis=1)
    factors = np.ones((1, 1, 1)) if weights is None else _flat(weights)[:, None] / np.mean(weights)
    squares = factors * difference**2
    return Errors(
        np.sqrt(np.sum(squares, axis=(1, 2)) / np.sum(factors * size**2, axis=(1, 2))),
        np.sqrt(np.mean(squares, axis=(1, 2))),
        np.max(np.abs(difference), axis=(1, 2)),
    )


def measure(model: Model, testset: TestSet) -> Errors:
    """The errors of a model on a test set, a few functions at a time."""
    fields = model.problem.fields
    grid = grid_of(testset)
    function_bytes = 8 * len(fields) * int(np.prod(grid.shape))
    chunk = max(1, min(len(testset), CHUNK_BYTES // function_bytes))
    parts: list[Errors] = []
    for start in range(0, len(testset), chunk):
        inputs = {name: functions[start : start + chunk] for name, functions in testset.inputs.items()}
        with in_precision_of(model):
            predicted = predict_fields(model, inputs, grid)
            element = volume_element(model.problem, model.problem.complete(inputs), grid)
        exact = {field: testset.solution(field)[start : start + chunk] for field in fields}
        weights = None if element is None else np.asarray(jnp.broadcast_to(element, (len(element), *grid.shape)))
        parts.append(compare({f: np.asarray(v) for f, v in zip(fields, predicted, strict=True)}, exact, weights))
    return Errors(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("relative_l2", "rmse", "maximum")))


@eqx.filter_jit
def predict_fields(model: Model, inputs: dict[str, Functions], grid: Grid) -> list[Float[Array, "functions *grid"]]:
    """The values of all fields on a grid, in the order of the problem's fields."""
    symbols = [Symbol("field", field) for field in model.problem.fields]
    values = evaluate(model, inputs, grid, symbols)
    return [values[symbol] for symbol in symbols]


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(values.shape[0], -1).astype(np.float64)
