"""One function with its solution and prediction: what a picture is made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..drawing.style import percent
from ..equations.problem import Problem
from ..evaluation.errors import Errors
from ..functions import Functions
from .quantity import compute_quantity, quantities_of

Fields = Mapping[str, Float[np.ndarray, "*grid"]]
Which = int | str
"""The index of a function, or "best", "median" or "worst"."""


@dataclass(frozen=True, eq=False)
class Case:
    """One function.

    **Arguments:**

    - `problem`: with its constants.
    - `inputs`: for each input a batch of this one function.
    - `points`: the grid.
    - `reference`: each field on the grid, without a functions' axis.
    - `predicted`: likewise, or None.
    - `number`: the function's index in its test set.
    - `error`: its relative error.
    - `rank`: "median", "worst" or the like.
    """

    problem: Problem
    inputs: Mapping[str, Functions]
    points: Mapping[str, Float[np.ndarray, " _"]]
    reference: Fields
    predicted: Fields | None = None
    number: int = 0
    error: float | None = None
    rank: str = ""

    def __post_init__(self) -> None:
        shape = tuple(self.points[axis].shape[0] for axis in self.problem.domain)
        for axis in self.problem.domain:
            if np.any(np.diff(self.points[axis]) <= 0):
                raise ValueError(f"the points along {axis} must increase; sort them together with the values")
        self._check("reference", self.reference, shape)
        if self.predicted is not None:
            self._check("prediction", self.predicted, shape)

    def _check(self, role: str, fields: Fields, shape: tuple[int, ...]) -> None:
        for field in self.problem.fields:
            if field not in fields:
                raise ValueError(f"the {role} has no field {field!r}; it has {', '.join(fields) or 'none'}")
            if fields[field].shape != shape:
                raise ValueError(f"the {role} of {field} must have the grid's shape {shape}; got {fields[field].shape}")
            if not np.all(np.isfinite(fields[field])):
                raise ValueError(
                    f"the {role} of {field} for function {self.number} is not finite, so it can't be drawn; check the "
                    f"{'solver' if role == 'reference' else 'trained model'}"
                )

    def quantities(self) -> tuple[str, ...]:
        """What is worth a picture; the first is the default."""
        return quantities_of(self.problem, self.points)

    def show(self, quantity: str) -> tuple[np.ndarray, np.ndarray | None]:
        """A quantity of the reference and of the prediction on the grid."""
        exact = compute_quantity(self.problem, self.points, self.reference, quantity)
        if self.predicted is None:
            return exact, None
        return exact, compute_quantity(self.problem, self.points, self.predicted, quantity)

    def title(self) -> str:
        """Which function, and how far the prediction is off."""
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self.problem).__name__)
        name = f"{kind}, function {self.number}" + (f" ({self.rank})" if self.rank else "")
        return name if self.error is None else f"{name}: relative $L^2$ error {percent(self.error)}"


def find_function(errors: Errors, which: Which) -> tuple[int, str]:
    """The index of a function, and what it is called."""
    count = errors.relative_l2.shape[0]
    if isinstance(which, str):
        order = np.argsort(errors.relative_l2, kind="stable")
        ranks = {"best": 0, "median": (count - 1) // 2, "worst": count - 1}
        if which not in ranks:
            raise ValueError(f'which must be an index, "best", "median" or "worst"; got {which!r}')
        return int(order[ranks[which]]), which
    if not 0 <= which < count:
        raise ValueError(f"which must be at least 0 and below the number of functions, {count}; got {which}")
    return which, ""


def make_case(
    problem: Problem,
    inputs: Mapping[str, Functions],
    points: Mapping[str, np.ndarray],
    reference: Mapping[str, Any],
    predicted: Mapping[str, Any] | None,
    errors: Errors | None,
    which: Which,
) -> Case:
    """One function out of batches: `reference` and `predicted` have the functions first."""
    if errors is not None:
        number, rank = find_function(errors, which)
    elif isinstance(which, str):
        raise ValueError(f"which={which!r} needs the errors of all functions; give `errors`, or an index")
    else:
        number, rank = which, ""
    count = min(len(values) for fields in (reference, predicted or {}) for values in fields.values())
    if not 0 <= number < count:
        raise ValueError(f"function {number} was asked for, but solutions are given for {count} functions")
    return Case(
        problem,
        {name: functions[number] for name, functions in inputs.items()},
        {name: np.asarray(along) for name, along in points.items()},
        {field: np.asarray(values[number]) for field, values in reference.items()},
        None if predicted is None else {field: np.asarray(values[number]) for field, values in predicted.items()},
        number,
        None if errors is None else float(errors.relative_l2[number]),
        rank,
    )
