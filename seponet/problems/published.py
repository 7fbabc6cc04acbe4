"""What the paper reports for SepONet, to be shown beside our results, and solvers like those that it compares with.

The figures are the authors', from an A100.

Separable Operator Networks, TMLR 12/2024 (arXiv 2407.11253): 100 input functions, 128 points along each axis, errors
over 100 unseen functions against the authors' reference solvers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ..equations.problem import Problem
from ..functions import Functions
from ..problems import NavierStokes, name_of


@runtime_checkable
class PublishedReference(Protocol):
    """A problem with the coarser solver that the paper quotes its error against."""

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, Float[np.ndarray, "functions *grid"]]: ...


def paper_reference(
    problem: Problem, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
) -> dict[str, Float[np.ndarray, "functions *grid"]]:
    """Each field on the tensor grid of `points`, by a solver like the paper's."""
    if not isinstance(problem, PublishedReference):
        raise ValueError(f"{type(problem).__name__} has no solver like the paper's; compare with reference='converged'")
    return problem.paper_reference(inputs, points)


@dataclass(frozen=True)
class Figure:
    """Errors as fractions, mean and standard deviation over functions; the memory and time of a training run."""

    relative_l2_mean: float
    relative_l2_std: float | None = None
    rmse_mean: float | None = None
    rmse_std: float | None = None
    peak_memory_bytes: float | None = None
    training_seconds: float | None = None


FIGURES = {
    "diffusion_reaction": Figure(0.0062, 0.0026, 0.0029, 0.0021, 0.719e9, 0.0326 * 3600),
    "advection": Figure(0.0499, 0.0140, 0.0317, 0.0095, 0.719e9, 0.0730 * 3600),
    "burgers": Figure(0.0751, 0.0404, 0.0123, 0.0144, 0.716e9, 0.0605 * 3600),
    "nonlinear_diffusion": Figure(0.0644, 0.0169, 0.0068, 0.0015, 13.139e9, 0.5575 * 3600),
    "navier_stokes": Figure(0.025),
}
"""The linear heat equation is missing: the paper shows its errors in a plot only."""

NAVIER_STOKES_LONG = Figure(0.40)
"""The paper's figure for the window T = 1 instead of 0.1."""


def paper_figure(problem: Problem) -> Figure | None:
    """The paper's figure for a problem, if it has one for these constants."""
    name = name_of(problem)
    if isinstance(problem, NavierStokes) and problem == NavierStokes(duration=1.0):
        return NAVIER_STOKES_LONG
    return FIGURES.get(name) if name is not None and problem == type(problem)() else None
