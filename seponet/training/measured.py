"""Validation errors in the course of a run, and the parameters that were the best."""

import logging
from typing import Any

logger = logging.getLogger(__name__)

WORSE = 1.1
"""How much larger than the smallest validation error the last one may be."""

SMALL = 0.1
"""The part of an error that no longer counts: errors add up in squares."""


class Measured:
    """The validation errors of a run.

    - `last`: the latest error; None before the first.
    - `errors`: all of them since the run was started or resumed, each with its step.
    - `best`: the smallest, and the parameters that had it.
    """

    def __init__(self) -> None:
        self.last: float | None = None
        self.errors: list[tuple[int, float]] = []
        self.best: tuple[float, Any] | None = None

    def is_new(self, step: int) -> bool:
        """Whether nothing was measured at this step yet."""
        return not self.errors or self.errors[-1][0] != step

    def note(self, step: int, error: float, parameters: Any | None) -> None:
        """An error was measured, of parameters that may be given back if they are not None."""
        self.last = error
        self.errors.append((step, error))
        if parameters is not None and (self.best is None or error < self.best[0]):
            self.best = (error, parameters)

    def reaches(self, tolerance: float) -> bool:
        """Whether the latest error is as small as was asked for."""
        return self.last is not None and self.last <= tolerance

    def has_settled(self, gain: float) -> bool:
        """Whether the errors have fallen by less than the part `gain` in the second half of the steps."""
        if len(self.errors) < 6:
            return False
        half = self.errors[-1][0] / 2
        early, late = [e for s, e in self.errors if s <= half], [e for s, e in self.errors if s > half]
        return bool(early) and min(late) > (1 - gain) * min(early)

    def is_that_of_the_basis(self, within: float) -> bool:
        """Whether an error within the basis is nothing next to the latest one."""
        return bool(self.errors) and within < SMALL * self.errors[-1][1]

    def prefer_best(self) -> Any | None:
        """The best parameters, if the last ones are clearly worse. Nearly always a schedule ends with the best; where
        it does not, something went wrong on the way."""
        if self.best is None or self.last is None or self.last <= WORSE * self.best[0]:
            return None
        logger.warning(
            "the validation error was %.3g%% before and is %.3g%% now: the operator is the earlier one",
            100 * self.best[0],
            100 * self.last,
        )
        self.last = self.best[0]
        return self.best[1]
