"""Projectors on the traces of one axis: the algebra of exact conditions (see `lift.py` for the data)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..derivatives import MultiIndex, Trace, multi_index, order_along
from ..domain import Interval
from ..equations.problem import Problem
from ..locations import Evaluable, Location


@dataclass(frozen=True)
class Projector:
    """The projector P on the traces of one axis.

    **Arguments:**

    - `name`, `axis`: which axis, and its interval.
    - `traces`: the functionals l_j; they must be independent.
    """

    name: str
    axis: Interval
    traces: tuple[Trace, ...]

    def __post_init__(self) -> None:
        if self.traces and np.any(np.abs(self.coefficients[:, 1:]) > 1e-14) and self.axis.periodic:
            raise ValueError(
                f"the conditions on the periodic axis {self.name} can't be imposed exactly, because their polynomials "
                f"aren't periodic; impose the axis {self.name} softly, or make it an interval"
            )

    @property
    def order(self) -> int:
        """The highest derivative that the traces take."""
        return max((trace.order for trace in self.traces), default=0)

    @cached_property
    def coefficients(self) -> Float[np.ndarray, "traces degree"]:
        """The polynomials h_j in powers of (y - lower) / length: of the lowest degree for which they exist, and
        of least norm among those."""
        count = len(self.traces)
        for degree in range(count, count + self.order + 2):
            matrix = np.stack([self._on_powers(trace, degree) for trace in self.traces])
            if np.linalg.matrix_rank(matrix) == count:
                return np.linalg.pinv(matrix).T
        faces = ", ".join(f"{self.name} = {trace.at:g}" for trace in self.traces)
        raise ValueError(
            f"the conditions on {faces} can't all be imposed exactly, because one of them repeats another; "
            f"impose the axis {self.name} softly, or drop one"
        )

    def _on_powers(self, trace: Trace, degree: int) -> Float[np.ndarray, " degree"]:
        xi = (trace.at - self.axis.lower) / self.axis.length
        derivatives = [_powers(np.asarray([xi]), degree, m)[0] / self.axis.length**m for m in range(trace.order + 1)]
        return np.asarray(trace.weights) @ np.stack(derivatives)

    def duals(self, points: Float[Array, " n"], m: int) -> list[Float[Array, " n"] | None]:
        """The m-th derivatives of the h_j at points; None where one vanishes identically."""
        coefficients = self.coefficients
        scale = self.axis.length**-m
        falling = _falling(coefficients.shape[1], m)
        xi = (points - self.axis.lower) / self.axis.length
        derivatives: list[Float[Array, " n"] | None] = []
        for row in coefficients:
            leading = [scale * float(c * f) for c, f in zip(row, falling, strict=True)][m:]
            if any(abs(c) > 1e-14 for c in leading):
                derivatives.append(jnp.polyval(jnp.asarray(leading[::-1], points.dtype), xi))
            else:
                derivatives.append(None)
        return derivatives

    def __call__(self, functions: Evaluable) -> Evaluable:
        """P f for any batch of functions f: sum_j h_j l_j(f)."""

        def trace_of(j: int) -> Evaluable:
            def on_face(where: Location, alpha: MultiIndex) -> Array:
                face = where.fix(self.name, self.traces[j].at)
                others = dict(alpha) | {self.name: 0}
                return sum(
                    w * functions(face, multi_index(**(others | {self.name: m})))
                    for m, w in enumerate(self.traces[j].weights)
                    if w
                )  # pyright: ignore[reportReturnType]

            return on_face

        return self.interpolate([trace_of(j) for j in range(len(self.traces))])

    def interpolate(self, data: Sequence[Evaluable | None]) -> Evaluable:
        """sum_j h_j d_j: the function with the traces d_j, each evaluated on the face of its trace; None is zero."""

        def evaluate(where: Location, alpha: MultiIndex) -> Array:
            total = jnp.zeros((1,) * (1 + len(where.shape)))
            duals = self.duals(where[self.name], order_along(alpha, self.name))
            tangential = multi_index(**(dict(alpha) | {self.name: 0}))
            for dual, trace, d in zip(duals, self.traces, data, strict=True):
                if dual is not None and d is not None:
                    column = where.spread(dual[None], (self.name,))
                    total = total + column * d(where.fix(self.name, trace.at), tangential)
            return total

        return evaluate


def make_projectors(problem: Problem, field: str, exact: Collection[str]) -> list[Projector]:
    """The projectors of one field, in the order in which its conditions are declared."""
    traces: dict[str, list[Trace]] = {}
    for condition in problem.linear_conditions:
        if condition.field == field and condition.axis in exact:
            traces.setdefault(condition.axis, []).append(condition.trace)
    return [Projector(name, problem.domain.axis(name), tuple(functionals)) for name, functionals in traces.items()]


def _powers(xi: np.ndarray, degree: int, m: int) -> np.ndarray:
    """The m-th derivatives of xi^0 .. xi^(degree-1)."""
    k = np.arange(degree)
    return _falling(degree, m) * xi[:, None] ** np.maximum(k - m, 0)


def _falling(degree: int, m: int) -> np.ndarray:
    """k (k-1) ... (k-m+1) for k = 0 .. degree-1."""
    return np.array([np.prod(np.arange(k, k - m, -1.0)) for k in range(degree)])
