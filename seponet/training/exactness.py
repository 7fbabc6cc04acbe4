"""Which conditions a recipe imposes exactly: all that do not contradict each other on sampled inputs."""

import json
import logging
from collections.abc import Sequence

import jax

from .._precision import double_precision
from ..calculus.compatibility import Disagreement, choose_exact, compatible_axes, meeting_conditions
from ..equations.problem import Problem
from .recipe import Recipe

logger = logging.getLogger(__name__)

FUNCTIONS = 8
"""How many inputs are looked at: what contradicts does so for almost every input of a space."""


def resolve_exact(problem: Problem, recipe: Recipe) -> Recipe:
    """A recipe with exact axes where it says "auto": all, if no conditions contradict each other, or else as many as
    `choose_exact` keeps; the user is told which conditions are soft and why.

    Axes that a recipe names itself, or "all", are refused if their conditions contradict each other: one of them would
    be wrong along its whole face.
    """
    named = recipe.model.exact
    if named == "none" or (named not in ("auto", "all") and (isinstance(named, str) or len(named) < 2)):
        return recipe
    axes, contradictions = _choose(problem)
    if named == "auto":
        if not contradictions:
            return recipe.changed({"model.exact": "all"})
        logger.info("%s", _explain(problem, axes, contradictions))
        return recipe.changed({"model.exact": list(axes)})
    among = [d for d in contradictions if named == "all" or set(d.axes) <= set(named)]
    if among:
        kept = compatible_axes(problem, axes if named == "all" else (*(a for a in axes if a in named), *named), among)
        raise ValueError(
            f"model.exact = {json.dumps(named)} imposes conditions exactly that contradict each other: "
            f"{_summary(among)}; set model.exact to {json.dumps(kept)}, which leaves {_soft(among, kept)} soft, or to "
            '"auto", or change the data so that they agree'
        )
    return recipe


def _choose(problem: Problem) -> tuple[tuple[str, ...], list[Disagreement]]:
    if not meeting_conditions(problem):
        return problem.domain.names, []
    with double_precision():
        inputs = problem.sample(jax.random.key(0), FUNCTIONS)
    return choose_exact(problem, inputs)


def _explain(problem: Problem, axes: Sequence[str], contradictions: Sequence[Disagreement]) -> str:
    soft = _soft(contradictions, axes)
    softened = {name for d in contradictions for name in d.axes if name not in axes}
    others = compatible_axes(problem, (*(name for name in problem.domain if name in softened), *axes), contradictions)
    return (
        f"the conditions on {soft} are imposed softly, because exact ones would be wrong along their whole faces: "
        f"{_summary(contradictions)}; to choose otherwise, set model.exact, for instance by --set "
        f"model.exact='{json.dumps(others)}', or change the data so that they agree"
    )


def _summary(contradictions: Sequence[Disagreement]) -> str:
    """The largest disagreement, and how many more there are."""
    more = len(contradictions) - 1
    return f"{contradictions[0]}" + (f" ({more} more like this)" if more else "")


def _soft(contradictions: Sequence[Disagreement], exact: Sequence[str]) -> str:
    """The axes that contradictions keep from being exact, in words."""
    return " and ".join(dict.fromkeys(name for d in contradictions for name in d.axes if name not in exact))
