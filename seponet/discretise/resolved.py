"""What a search for trial functions and nodes has chosen, with the error that was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from .._text import percent
from ..calculus.kinks import Kink
from .bandwidth import Bandwidth
from .level import Level

FINER = 1.5
"""How much finer, along every axis, the discretisation is that another one is compared with."""


@dataclass(frozen=True)
class Resolution:
    """Trial functions and nodes for a tolerance, with the error that was measured.

    - `coarse`: the discretisation that was chosen.
    - `fine`: the one it was compared with, half again as fine along every axis.
    - `errors`: relative L2 distance of the two, for each sampled function: the error of `coarse`.
    - `fine_errors`: an upper estimate of the error of `fine`, which is smaller if differences fall from round to round.
    - `shares`: for each axis, how much of the solution lies beyond the chosen rank, mean over functions.
    - `quadrature`: the error of the nodes of `fine`, for each function.
    - `tolerance`, `reached`: what was asked for, and whether it was reached on average.
    - `reason`: what limits the error.
    - `seconds`: what it took.
    """

    coarse: Level
    fine: Level
    errors: Float64[np.ndarray, " functions"]
    fine_errors: Float64[np.ndarray, " functions"]
    shares: Mapping[str, float]
    quadrature: Float64[np.ndarray, " functions"]
    tolerance: float
    reached: bool
    reason: str
    seconds: float
    factor: float = 1.0
    """The error of `fine` relative to `errors`, from the rate at which differences fall."""
    bandwidths: Sequence[Bandwidth] = field(default=())
    kinks: Sequence[Kink] = field(default=())
    shared: bool = False
    """Whether all functions have one Jacobian."""

    @property
    def ranks(self) -> dict[str, int]:
        """The chosen number of functions along each axis."""
        return dict(self.coarse.discretisation.ranks)

    @property
    def nodes(self) -> dict[str, int]:
        """The chosen number of quadrature nodes along each axis."""
        return dict(self.coarse.nodes)

    @property
    def mean(self) -> float:
        """The mean error of the chosen discretisation over the sampled functions."""
        return float(np.mean(self.errors))

    @property
    def largest(self) -> float:
        return float(np.max(self.errors))

    def describe(self) -> str:
        """What was chosen and why, in one line."""
        axes = ", ".join(f"{name} {rank} (beyond it {percent(self.shares[name])})" for name, rank in self.ranks.items())
        verdict = "" if self.reached else f"; {percent(self.tolerance)} was not reached: {self.reason}"
        return (
            f"functions along each axis: {axes}; error of this discretisation {percent(self.mean)} on average, "
            f"{percent(self.largest)} at most, measured against one with {FINER:g} times as many{verdict}"
        )
