"""How long a run is that was given seconds instead of steps."""

import math

GRACE = 1.25
"""How much longer than planned a run may take whose machine has become slower since its length was chosen."""


class Pace:
    """Chooses the length of a run so that its schedule ends when its time does.

    The rate is held for the first part of a run, which therefore does not depend on the length: it is chosen at the
    end of that part, by the clock, and then stands. Whoever knows it can repeat the run.

    **Arguments:**

    - `hold`: the part of a run whose rate is held.
    """

    def __init__(self, hold: float) -> None:
        self.hold = hold
        self.first: tuple[int, float] | None = None

    def note(self, step: int, seconds: float) -> None:
        """A block has ended. The first one compiles, so that the clock starts after it."""
        if self.first is None:
            self.first = (step, seconds)

    def estimate(self, step: int, seconds: float, deadline: float) -> int:
        """How many steps will have been taken at the deadline."""
        began, since = self.first or (0, 0.0)
        speed = (step - began) / max(seconds - since, 1e-9)
        return step + int(max(deadline - seconds, 0.0) * speed)

    def length(self, step: int, seconds: float, deadline: float, block: int) -> int | None:
        """The length, if it has to be chosen before the next `block` of steps; None if there is time."""
        estimate = self.estimate(step, seconds, deadline)
        if self.first is None or self.first[0] == step or step + block < self.hold * estimate:
            return None
        return max(estimate, self.shortest(step))

    def shortest(self, step: int) -> int:
        """The smallest length that the steps so far agree with."""
        return math.ceil(step / self.hold)
