"""A picture of one answer: the input, the solution, and where it is wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._precision import in_precision_of

if TYPE_CHECKING:
    from .operator import Operator

logger = logging.getLogger(__name__)


def draw_operator(operator: Operator, u: Any, points: Mapping[str, Any], error: bool) -> Any:
    """A Matplotlib figure of the first function; see `Operator.plot`."""
    try:
        from ..drawing.prediction import draw_answer
    except ModuleNotFoundError as missing:
        raise ImportError("pictures need Matplotlib: pip install 'seponet[plots]'") from missing
    problem = operator.problem
    with in_precision_of(operator.model):
        inputs, _ = operator.read_inputs(u)
        one = {name: functions[:1] for name, functions in inputs.items() if name in problem.inputs}
        predicted = operator.predict(one or None, **points)
        wrong, title = None, type(problem).__name__
        if error:
            try:
                wrong = operator.error(one or None, where=True, **points)
            except ValueError as reason:
                logger.warning("where the prediction is wrong is not drawn: %s", reason)
    if wrong is not None and "function" in wrong.dims:
        wrong = wrong.isel(function=0)
    return draw_answer(one, predicted.isel(function=0) if "function" in predicted.dims else predicted, wrong, title)
