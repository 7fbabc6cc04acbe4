"""Random numbers, as functions that depend on no axis: parameters of an equation."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..derivatives import MultiIndex
from ..domain import Domain
from ..locations import Location
from .space import Space


@dataclass(frozen=True)
class Scalar(Space):
    """A number, uniform in (low, high), or log-uniform: `Scalar(0.001, 0.1, log=True)`."""

    low: float
    high: float
    log: bool = False
    domain: Domain = field(default=Domain(), init=False)

    def __post_init__(self) -> None:
        _check(self.low, self.high)
        if self.log and self.low <= 0:
            raise ValueError(f"a log-uniform Scalar needs 0 < low; got low={self.low}")

    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, " n"]:
        if self.log:
            return jnp.exp(jax.random.uniform(key, (n,), minval=math.log(self.low), maxval=math.log(self.high)))
        return jax.random.uniform(key, (n,), minval=self.low, maxval=self.high)

    def evaluate(self, parameters: Array, where: Location, alpha: MultiIndex) -> Float[Array, " n"]:
        return parameters


@dataclass(frozen=True, init=False)
class Vector(Space):
    """Numbers, each uniform between its bounds: `Vector([0, 0, 1], [1, 1, 2])`. They are the components."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    domain: Domain

    def __init__(self, low: Iterable[float], high: Iterable[float]) -> None:
        for name, value in {"low": tuple(map(float, low)), "high": tuple(map(float, high)), "domain": Domain()}.items():
            object.__setattr__(self, name, value)
        if len(self.low) != len(self.high) or not self.low:
            raise ValueError(f"low and high must have the same length; got {len(self.low)} and {len(self.high)}")
        for bounds in zip(self.low, self.high, strict=True):
            _check(*bounds)

    @property
    def components(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.low)

    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, "n m"]:
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return jax.random.uniform(key, (n, self.components), minval=low[None], maxval=high[None])

    def evaluate(self, parameters: Array, where: Location, alpha: MultiIndex) -> Float[Array, "m n"]:
        return parameters.T


def _check(low: float, high: float) -> None:
    if not -math.inf < low <= high < math.inf:
        raise ValueError(f"a distribution needs finite bounds low <= high; got ({low}, {high})")
