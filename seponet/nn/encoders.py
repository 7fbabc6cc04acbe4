"""Encoders: what a branch sees of an input function, `[functions, *components, *sensors] -> [functions, features]`.

Statistics of the inputs are computed once in float64 and kept in `Fixed`, so that training leaves them alone.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .fixed import Fixed
from .linear import matmul


class AbstractEncoder(eqx.Module):
    """Sensor values of one input to features.

    `shape` is what one function gives, components first; `()` for a scalar. `size` is the number of features.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]

    @property
    @abc.abstractmethod
    def size(self) -> int: ...

    @abc.abstractmethod
    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]: ...


class Flatten(AbstractEncoder):
    """The sensor values as they are, in one row: the paper's encoder."""

    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]:
        return values.reshape(values.shape[0], self.size)


class Standardise(AbstractEncoder):
    """Sensor values with mean zero and variance one at every sensor, as measured on samples of the input.

    A sensor at which all samples agree (a fixed boundary value) has nothing to say and gives zero.

    **Arguments:**

    - `samples`: sensor values of many functions of the input's distribution, `[samples, *components, *sensors]`.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    mean: Fixed
    scale: Fixed

    def __init__(self, samples: ArrayLike) -> None:
        rows, self.shape = _rows(samples)
        mean, deviation = rows.mean(0), rows.std(0)
        varies = deviation > 1e-10 * (deviation.max() + np.abs(mean).max())
        self.mean = Fixed(jnp.asarray(mean))
        self.scale = Fixed(jnp.asarray(np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]:
        return (values.reshape(values.shape[0], self.size) - self.mean()[None]) * self.scale()[None]


class PCA(AbstractEncoder):
    r"""Coordinates along the principal directions of the input's distribution, uncorrelated and of unit variance:
    $(u - \bar u) V \Lambda^{-1/2}$ with the empirical covariance $V \Lambda V^T$ of the sensor values.

    **Arguments:**

    - `samples`: sensor values of many functions of the input's distribution, `[samples, *components, *sensors]`.
    - `count`: how many directions to keep, those of largest variance first; or
    - `energy`: keep the fewest directions that carry this part of the variance, for instance 0.9999.
    - `ridge`: divide by the root of the variance plus this part of the largest variance. Fine directions are then seen,
        but do not count as much as coarse ones: with 0 they fill the input with noise, and left out they are missed.
    - `factor`: whether the rows of `samples` are no samples but a factor F of a known covariance F^T F, with mean zero.
        Few samples in many directions estimate their variances badly: of the 940 of a field in a cube that 1000 samples
        show, half have more than three times the variance that they show, the finest ones forty times.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    mean: Fixed
    directions: Fixed

    def __init__(
        self,
        samples: ArrayLike,
        count: int | None = None,
        energy: float | None = None,
        ridge: float = 0.0,
        *,
        factor: bool = False,
    ) -> None:
        if (count is None) == (energy is None):
            raise ValueError(f"PCA expects either count or energy; got count={count} and energy={energy}")
        if energy is not None and not 0 < energy < 1:
            raise ValueError(f"energy is the part of the variance to keep, between 0 and 1; got {energy}")
        if ridge < 0:
            raise ValueError(f"ridge is a part of the largest variance, 0 or more; got {ridge}")
        rows, self.shape = _rows(samples)
        mean = np.zeros(rows.shape[1]) if factor else rows.mean(0)
        singular, directions = _principal(rows - mean)
        # Directions at the level of round-off would be scaled up to unit variance as pure noise. Samples are often
        # float32 whatever their type is now, so the level is that of float32. With a ridge they stay small.
        level = 1e-7 if ridge else 1e-6
        known = int(np.sum(singular > level * singular[0])) if singular[0] > 0 else 0
        if energy is not None:
            part = np.cumsum(singular**2) / max(np.sum(singular**2), np.finfo(float).tiny)
            count = min(int(np.searchsorted(part, energy)) + 1, known)
        if count is None or not 1 <= count <= known:
            raise ValueError(
                f"the {len(rows)} samples vary in {known} directions, so PCA can keep 1 to {known} of them; "
                f"got count={count}. Give more samples or a smaller count."
            )
        # The sign of a direction is arbitrary: fix it, so that the same samples give the same encoder everywhere.
        kept = directions[:count]
        largest = np.argmax(np.abs(kept), axis=1)
        kept = kept * np.sign(kept[np.arange(count), largest])[:, None]
        freedom = 1 if factor else len(rows) - 1
        deviation = np.sqrt((singular[:count] ** 2 + ridge * singular[0] ** 2) / freedom)
        self.mean = Fixed(jnp.asarray(mean))
        self.directions = Fixed(jnp.asarray((kept / deviation[:, None]).T))

    @property
    def size(self) -> int:
        return self.directions.value.shape[1]

    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]:
        return matmul(values.reshape(values.shape[0], -1) - self.mean()[None], self.directions())


TRANSFORMS: dict[str, Callable[[Any], Any]] = {"reciprocal": lambda u: 1 / u, "log": jnp.log}
"""Elementwise functions of sensor values, for inputs whose effect is closer to linear in them: 1/u of a speed is a
travel time."""


class Transformed(AbstractEncoder):
    """An encoder of the transformed values.

    **Arguments:**

    - `name`: one of `TRANSFORMS`.
    - `encoder`: made from samples that were transformed in the same way.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    encoder: AbstractEncoder

    def __init__(self, name: str, encoder: AbstractEncoder) -> None:
        self.shape, self.name, self.encoder = encoder.shape, name, encoder

    @property
    def size(self) -> int:
        return self.encoder.size

    def __call__(self, values: Float[Array, "functions *shape"]) -> Float[Array, "functions size"]:
        return self.encoder(TRANSFORMS[self.name](values))


def _principal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values, largest first, and right singular vectors `[directions, columns]` of a matrix."""
    if rows.shape[1] <= len(rows):
        return np.linalg.svd(rows, full_matrices=False)[1:]
    # Of a wide matrix the small Gram matrix tells the same in a third of the time. It squares the singular values, so
    # those below 1e-8 of the largest are lost; `PCA` keeps none below 1e-7.
    squares, left = np.linalg.eigh(rows @ rows.T)
    seen = squares[::-1] > 1e-15 * max(squares[-1], np.finfo(float).tiny)
    singular = np.sqrt(np.where(seen, squares[::-1], 0))
    return singular, np.where(seen, 1 / np.where(seen, singular, 1), 0)[:, None] * (left[:, ::-1].T @ rows)


def _rows(samples: ArrayLike) -> tuple[np.ndarray, tuple[int, ...]]:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"statistics need at least two samples along the first axis; got shape {values.shape}")
    if not np.all(np.isfinite(values)):
        raise ValueError("statistics need finite samples; got infinities or NaNs")
    return values.reshape(len(values), -1), values.shape[1:]
