"""Families of functions of one variable, with exact derivatives: the bricks of function spaces and classical trunks.

A basis maps points `[n]` to values and derivatives `[order + 1, n, size]`. Called, it computes in JAX, in the dtype of
the points; `table` computes the same in NumPy float64, for constants. Both run the same lines, written against an
array module `xp`.

In float32 the 64th function is right to 5e-7 (trigonometric, on [0, 1]) or 2e-4 (polynomial: near the ends of the axis
the rounding of the point itself matters as much). Tables have no such error, so prefer fixed points for high orders.
"""

from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Float64

from ..domain import Interval


def as_constant(array: np.ndarray) -> Array:
    """An array of JAX, also in a program that is being traced. It is only moved: `jnp.asarray` compiles a program for
    every shape."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(array)


@dataclass(frozen=True)
class Basis:
    """`size` functions on an axis. Subclasses are frozen and hashable, so that they may be static in a `jit`.

    **Arguments:**

    - `axis`: the interval or periodic axis on which the functions live.
    - `size`: how many functions.
    """

    axis: Interval
    size: int

    nodal: ClassVar[bool] = False
    """Whether the coefficients of a function are its values at the uniform nodes of a periodic axis."""

    @property
    def harmonic(self) -> bool:
        """Whether the functions are 1, cos x, sin x, cos 2x, sin 2x, ... of a periodic axis, but for constant factors:
        a translation then turns each cosine and its sine into each other."""
        return False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"a basis needs at least one function; got size={self.size}")

    @abstractmethod
    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        """Values and derivatives `[order + 1, n, size]` at `points` `[n]`, computed by the array module `xp`."""

    def __call__(self, points: Float[Array, " n"], order: int = 0) -> Float[Array, "orders n size"]:
        """d^m f_k / dx^m for m = 0..order. Points that are constants of a traced program are tabulated in float64, and
        cost the program nothing."""
        if isinstance(points, Tracer):
            return self.evaluate(points, order, jnp)
        return as_constant(self.constant(points, order))

    def derivative(self, points: Float[Array, " n"], order: int) -> Float[Array, "n size"]:
        """The last of what a call returns: d^order f_k / dx^order."""
        if isinstance(points, Tracer):
            return self.evaluate(points, order, jnp)[order]
        return as_constant(self.constant(points, order)[order])

    def constant(self, points: Float[Array, " n"] | np.ndarray, order: int = 0) -> Float[np.ndarray, "orders n size"]:
        """What a call returns for points that are no tracers, as a NumPy array in their precision: JAX would compile a
        program for whatever is done with it next."""
        dtype = jax.dtypes.canonicalize_dtype(points.dtype)
        return self.table(np.asarray(points, np.float64), order).astype(dtype)

    def table(self, points: Float64[np.ndarray, " n"], order: int = 0) -> Float64[np.ndarray, "orders n size"]:
        """What a call returns, `[order + 1, n, size]`, in NumPy float64."""
        return self.evaluate(points, order, np)


class Combined(Basis):
    """Fixed linear combinations of the functions of another basis: f_k = sum_j raw_j matrix[j, k]."""

    @property
    @abstractmethod
    def raw(self) -> Basis: ...

    @property
    @abstractmethod
    def matrix(self) -> Float64[np.ndarray, "raw size"]: ...

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        values, matrix = self.raw.evaluate(points, order, xp), xp.asarray(self.matrix, points.dtype)
        return jnp.matmul(values, matrix, precision="highest") if xp is jnp else values @ matrix
