"""The error of a reference solution itself, by refinement."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class OwnError:
    """How far a reference at one resolution is from the same reference at twice the resolution.

    **Arguments:**

    - `resolution`: the coarser of the two, whose error this is.
    - `per_function`: relative L2 difference over all times and points of each function.
    """

    resolution: int
    per_function: Float[np.ndarray, " functions"]

    @property
    def maximum(self) -> float:
        return float(self.per_function.max())

    @property
    def mean(self) -> float:
        return float(self.per_function.mean())


def relative_l2(
    approximate: Float[np.ndarray, "functions *grid"], exact: Float[np.ndarray, "functions *grid"]
) -> Float[np.ndarray, " functions"]:
    """||approximate - exact|| / ||exact|| of each function over its whole grid."""
    flat = exact.reshape(exact.shape[0], -1)
    return np.linalg.norm(approximate.reshape(flat.shape) - flat, axis=1) / np.linalg.norm(flat, axis=1)


def estimate_error(solve: Callable[[int], Float[np.ndarray, "functions *grid"]], resolution: int) -> OwnError:
    """The error of `solve(resolution)` itself, measured against `solve(2 * resolution)`.

    For a scheme of order p the estimate is within a factor 1 +- 2^-p of the true error; for a spectral one it is the
    error. `solve` must refine everything that it discretises, time steps included.
    """
    return OwnError(resolution, relative_l2(solve(resolution), solve(2 * resolution)))
