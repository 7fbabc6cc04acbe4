"""What a training came to: whether it is a success, what limits it, and what to change."""

import math
from dataclasses import dataclass

from .._text import percent, show_duration
from ..training.config import TrainConfig
from ..training.result import TrainingResult

LARGEST_ERROR = 0.1
"""A run whose validation error is larger does not end as a success."""


FEW = 20
"""With fewer steps, nothing can be said of what a network might learn."""

NO_BETTER = 0.99
"""A training must lower the error of the lift alone by more than this factor, or it was none."""


class NotTrained(RuntimeError):
    """A training that is no better than none: it took no step, or its error is that of the lift alone.

    **Arguments:**

    - `reason`: one sentence.
    - `operator`: what there is all the same.
    """

    def __init__(self, reason: str, operator: object) -> None:
        super().__init__(reason)
        self.operator = operator


@dataclass(frozen=True)
class Verdict:
    """What a training came to.

    - `success`: whether its operator is good enough to be used: as good as its tolerance asks for, if it has one.
    - `reason`: what was reached, what limits it and what to change, in a sentence or two.
    - `trained`: False if the operator is no better than the lift alone.
    """

    success: bool
    reason: str
    trained: bool = True


def judge(
    result: TrainingResult, config: TrainConfig, *, lift: float | None = None, floor: float | None = None
) -> Verdict:
    """The verdict on a training.

    **Arguments:**

    - `result`, `config`: how it went, and how it was meant to go.
    - `lift`: the validation error of the lift alone.
    - `floor`: the error of the discretisation, if it was verified.
    """
    error, tolerance = result.error, config.tolerance
    if not result.steps:
        return Verdict(
            False,
            f"not a single step was taken: the {show_duration(result.seconds)} went into the discretisation and "
            "compilation; give a longer budget",
            trained=False,
        )
    if error is None:
        return _unknown(floor)
    reached = f"the validation error is {percent(error)}"
    if lift is not None and error >= NO_BETTER * lift:
        why = f"{reached}, no better than {percent(lift)} of the data of the conditions alone"
        return Verdict(False, f"{why}; {_limit(result, floor)}", trained=False)
    if tolerance and error <= tolerance:
        return Verdict(True, f"{reached}, as asked for ({percent(tolerance)})")
    if tolerance:
        return Verdict(False, f"{reached}, not {percent(tolerance)}; {_limit(result, floor)}")
    if error > LARGEST_ERROR:
        return Verdict(False, f"{reached}: do not use this operator as it is; {_limit(result, floor)}")
    return Verdict(True, f"{reached}; {_limit(result, floor)}")


def _unknown(floor: float | None) -> Verdict:
    if floor is None or floor <= LARGEST_ERROR:
        return Verdict(True, "its error is not known, because there is nothing to validate against")
    return Verdict(
        False,
        f"its error is not known, and its discretisation alone is off by {percent(floor)}: do not use this operator "
        "as it is; more functions along each axis (model.rank) would be needed, or smoother inputs",
    )


def _limit(result: TrainingResult, floor: float | None) -> str:
    """What the error is made of, and what would lower it."""
    error = result.error or math.inf
    if result.steps < FEW:
        return (
            f"time limits it: the {show_duration(result.seconds)} left room for {result.steps} steps after the "
            "discretisation and compilation; give a longer budget"
        )
    last = result.history[-1] if result.history else {}
    fresh = last.get("fresh")
    if fresh is not None and fresh < 0.5 * error:
        return (
            f"the basis limits it, in which solutions are learned to {percent(fresh)}: ask for a smaller tolerance, or "
            "set model.rank"
        )
    if floor is not None and floor > 0.5 * error:
        return (
            f"the basis limits it, whose own error is {percent(floor)}: ask for a smaller tolerance, or set model.rank"
        )
    if fresh is not None and (fitted := math.sqrt(max(last["loss"], 0.0))) < 0.5 * error:
        return (
            f"functions limit it (those that were fitted are right to {percent(fitted)}): a longer budget solves more "
            "of them"
        )
    return "the branch limits it: a longer budget, or a wider branch (model.branch_width), would lower it"
