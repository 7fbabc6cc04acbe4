"""Which inputs a calibration has seen, and how far outside of them another one lies."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from ..nn.model import OperatorNetwork

COMPONENTS, SMALLEST = 32, 1e-3
"""Principal components that are looked at, at most; and the smallest of them, relative to the largest: what is below
it can't be told from the error of an interpolated input."""

VALUES = 4096
"""Sensor values of an input that are looked at, at most."""

SAMPLE = 512
"""Inputs that a range is measured on; and as many others tell how far a usual one lies outside of it."""

SHARE = 0.99
"""The part of the sampled inputs that count as inside."""

FAR = 1.3
"""The score from which on nothing is taken over from a calibration: neither its quadrature nor its averaged Jacobian.
Closer inputs have the same components as those of the calibration, none of them much larger."""


class InputRange(eqx.Module):
    """The range of features of one input over a sample.

    A function is described by its coordinates along the principal components of the sample (each is large for an
    input that is larger or differently shaped), by the length of all of them, and by what lies beyond the components
    (large for a rougher one). A number, or a vector of numbers, is described by itself, and by its logarithm if it is
    positive.

    **Arguments:**

    - `name`: of the input, or of the derivative of it, that the branch sees.
    - `mean`, `components`: of the sample; the rows of `components` are scaled to give coordinates of variance one.
    - `directions`: the same rows with length one. Both are empty for numbers.
    - `places`: which of the sensor values are looked at.
    - `middle`, `width`: of the range of every feature, half of it.
    - `positive`: whether logarithms are features too.
    - `limit`: the largest distance from the middle, in widths, that counts as inside.
    """

    name: str = eqx.field(static=True)
    mean: Float[Array, " values"]
    components: Float[Array, "k values"]
    directions: Float[Array, "k values"]
    places: Int[Array, " values"]
    middle: Float[Array, " features"]
    width: Float[Array, " features"]
    positive: bool = eqx.field(static=True)
    limit: float = eqx.field(static=True)

    def score(self, values: Float[Array, "functions *_"]) -> Float[Array, " functions"]:
        """How far outside each function lies: at most one is inside. A pure function, which may be traced."""
        return self.score_of(self.features(values))

    def score_of(self, features: Float[Array, "functions features"]) -> Float[Array, " functions"]:
        """The same, from the features of the functions."""
        return jnp.max(jnp.abs(features - self.middle[None]) / self.width[None], axis=1) / self.limit

    def explain(self, features: Float[np.ndarray, "functions features"]) -> list[str]:
        """For each function what is most unusual about it, in words."""
        middle, width = np.asarray(self.middle), np.asarray(self.width)
        distances = np.abs(features - middle) / width
        if not len(self.components):
            numbers = distances.reshape(len(distances), 1 + self.positive, self.mean.shape[0])
            return [self._explain_number(int(i)) for i in np.argmax(numbers.max(axis=1), axis=1)]
        total, beyond = (middle + width)[-2:]
        told: list[str] = []
        for row, of_row in zip(features, distances, strict=True):
            rough, large = row[-1] / max(beyond, 1e-300), row[-2] / total
            if np.argmax(of_row) == len(row) - 1 or rough > max(large, 1):
                told.append(f"{self.name} is rougher than the inputs of the calibration")
            elif large > 1:
                told.append(f"{self.name} is larger than the inputs of the calibration, or has more of their details")
            else:
                told.append(f"{self.name} has another shape than the inputs of the calibration")
        return told

    def _explain_number(self, which: int) -> str:
        low, high = (float(self.middle[which] + sign * self.width[which]) for sign in (-1, 1))
        name = f"{self.name}[{which}]" if self.mean.shape[0] > 1 else self.name
        return f"{name} is not between {low:.3g} and {high:.3g}"

    def features(self, values: Float[Array, "functions *_"]) -> Float[Array, "functions features"]:
        """What is compared with the ranges."""
        rows = values.reshape(values.shape[0], -1)
        if not len(self.components):
            if not self.positive:
                return rows
            return jnp.concatenate([rows, jnp.log(jnp.maximum(rows, jnp.finfo(rows.dtype).tiny))], axis=1)
        deviations = rows[:, self.places] - self.mean[None]
        # In this form a frozen program carries one matrix, and no transpose of it.
        inside = jnp.einsum("fv,kv->fk", deviations, self.directions, precision="highest")
        beyond = deviations - jnp.einsum("fk,kv->fv", inside, self.directions, precision="highest")
        coordinates = inside * jnp.linalg.norm(self.components, axis=1)[None]
        lengths = [jnp.linalg.norm(v, axis=1, keepdims=True) for v in (coordinates, beyond)]
        return jnp.concatenate([coordinates, *lengths], axis=1)


def input_ranges(
    model: OperatorNetwork, seen: Mapping[str, Array], others: Mapping[str, Array]
) -> tuple[InputRange, ...]:
    """The ranges of everything that the branch of a model sees.

    **Arguments:**

    - `seen`: sensor values of a few hundred sampled inputs, which give the ranges.
    - `others`: those of as many other ones, of which `SHARE` shall lie inside.
    """
    return tuple(_range(name, np.asarray(seen[name]), np.asarray(others[name])) for name, _ in model.sensors)


Compared = tuple[tuple[Float[Array | np.ndarray, " functions"], Float[Array | np.ndarray, "functions _"]], ...]
"""For each input how far outside the functions lie, and the features that say so."""


def compare(ranges: tuple[InputRange, ...], sensor_values: Mapping[str, Array]) -> Compared:
    """What is compared with the ranges, and how it compares. A pure function, which may be traced."""
    compared = []
    for of_input in ranges:
        features = of_input.features(sensor_values[of_input.name])
        compared.append((of_input.score_of(features), features))
    return tuple(compared)


def score_of(compared: Compared, functions: int) -> Float64[np.ndarray, " functions"]:
    """How far outside each function lies, over all inputs; see `score`."""
    return np.max([np.zeros(functions), *(np.asarray(of_input, np.float64) for of_input, _ in compared)], axis=0)


def score(ranges: tuple[InputRange, ...], sensor_values: Mapping[str, Array], functions: int) -> Array:
    """How far outside each function lies, over all inputs: at most one is inside. A problem without inputs has only
    one function, which is inside."""
    if not ranges:
        return jnp.zeros(functions)
    return jnp.max(jnp.stack([of_input.score(sensor_values[of_input.name]) for of_input in ranges]), axis=0)


def _range(name: str, seen: np.ndarray, others: np.ndarray) -> InputRange:
    dtype = seen.dtype
    rows = seen.reshape(len(seen), -1).astype(np.float64)
    numbers = seen.ndim == 1 or rows.shape[1] <= 8
    step = -(-rows.shape[1] // VALUES)
    places = np.arange(0, rows.shape[1], step)
    rows = rows[:, places]
    mean = rows.mean(axis=0)
    directions = components = np.zeros((0, len(places)))
    typical = 0.0
    if not numbers:
        _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
        sizes = sizes / np.sqrt(len(rows))
        kept = min(COMPONENTS, len(rows) // 4, int(np.sum(sizes > SMALLEST * sizes[0])))
        directions, typical = directions[:kept], np.linalg.norm(sizes)
        components = directions / sizes[:kept, None]
    empty = InputRange(
        name,
        jnp.asarray(mean, dtype),
        jnp.asarray(components, dtype),
        jnp.asarray(directions, dtype),
        jnp.asarray(places),
        jnp.zeros(1, dtype),
        jnp.ones(1, dtype),
        bool(numbers and np.all(rows > 0)),
        1.0,
    )
    features = np.asarray(empty.features(jnp.asarray(seen)))
    low, high = features.min(axis=0), features.max(axis=0)
    if not numbers:
        high[-1] = max(high[-1], 2 * SMALLEST * typical)
    middle, width = (high + low) / 2, np.maximum((high - low) / 2, 1e-6 * np.maximum(np.abs(high), 1e-30))
    bounded = eqx.tree_at(lambda r: (r.middle, r.width), empty, (jnp.asarray(middle, dtype), jnp.asarray(width, dtype)))
    again = np.asarray(bounded.score(jnp.asarray(others)))
    # A sample of numbers comes close to its bounds, but does not reach them.
    limit = max(1.01, float(np.quantile(again, SHARE)))
    return dataclasses.replace(bounded, limit=limit)
