"""What a training gives back."""

from dataclasses import dataclass, field
from typing import Any, Literal

from ..nn.model import OperatorNetwork

End = Literal["complete", "tolerance", "budget", "interrupt"]
"""Why a training ended: after its last step, at its tolerance, by a budget before its last step, or by Ctrl-C."""


@dataclass
class TrainingResult:
    """What a run gives back.

    - `model`: the trained model.
    - `steps`, `seconds`: how long it was trained; the seconds include compilation.
    - `error`: the validation error of the model, if there was a validation.
    - `history`: what was logged.
    - `end`: why it ended.
    - `length`: the steps that its schedule was made for; None if it ended before a budget had said so.
    """

    model: OperatorNetwork
    steps: int
    seconds: float
    error: float | None
    history: list[dict[str, Any]] = field(default_factory=list)
    end: End = "complete"
    length: int | None = None

    @property
    def interrupted(self) -> bool:
        """Whether it ended before its last step, by a budget or by Ctrl-C: it can go on."""
        return self.end in ("budget", "interrupt")
