"""Exact solutions by separation of variables, where a problem has them: what learned factors are compared with."""

from collections.abc import Callable, Mapping

import numpy as np

from ..equations.problem import Problem
from .heat import Heat

Analytic = Mapping[str, Callable[[np.ndarray, int], np.ndarray]]
"""For each axis (points, count) -> the first functions `[count, n]`."""


def analytic_basis(problem: Problem, exact: tuple[str, ...] = ()) -> Analytic | None:
    r"""The factors of the exact solution, where separation of variables solves the problem; None elsewhere.

    For the heat equation $\sin k \pi x$ and $e^{-\kappa (k \pi)^2 t}$. A model that is exact at $t = 0$ has the initial
    state as its lift and leaves $e^{-\kappa (k \pi)^2 t} - 1$ to the factors.

    **Arguments:**

    - `exact`: the axes whose conditions hold by construction in the model that is compared.
    """
    if not isinstance(problem, Heat):
        return None
    shift = 1.0 if "t" in exact else 0.0

    def sines(points: np.ndarray, count: int) -> np.ndarray:
        return np.sin(np.pi * np.arange(1, count + 1)[:, None] * points)

    def decays(points: np.ndarray, count: int) -> np.ndarray:
        k = np.arange(1, count + 1)[:, None]
        return np.exp(-problem.diffusivity * (k * np.pi) ** 2 * points) - shift

    return {"t": decays, "x": sines}
