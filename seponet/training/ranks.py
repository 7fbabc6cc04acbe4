"""What a recipe leaves to the problem: exact axes, ranks and points, chosen by its discretisation before training."""

import logging
from collections.abc import Callable, Mapping

import jax
import numpy as np

from .._precision import double_precision
from ..calculus.undefined import NO_VALUE
from ..discretise.resolution import Resolution, resolve
from ..equations.invariance import invariant_axis
from ..equations.problem import Problem
from .exactness import resolve_exact
from .recipe import Recipe
from .shapes import check_shapes

logger = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""The mean relative error that a discretisation may have: a tenth of what networks reach in minutes."""

FUNCTIONS = 8
"""How many sampled inputs a discretisation is verified on."""


def choose_ranks(
    problem: Problem,
    exact: str | tuple[str, ...] = "all",
    tolerance: float = TOLERANCE,
    progress: Callable[[str], None] | None = None,
) -> Resolution:
    """Ranks and nodes for a problem on sampled inputs, with their error, the conditions on some axes being exact."""
    with double_precision():
        inputs = problem.sample(jax.random.key(1), FUNCTIONS)
    axes = problem.domain.names if exact == "all" else exact
    resolution = resolve(problem, inputs, tolerance, exact=axes, progress=progress)
    if not np.isfinite(resolution.errors).any():
        advice = "give numbers: model.rank, and train.sampling.points of about one and a half times as many"
        if NO_VALUE in resolution.reason:
            advice = "keep the formula away from there, with jnp.maximum(s, 1e-6) for instance"
        raise ValueError(
            f"no ranks could be chosen for {type(problem).__name__}, because its discretisation was not solved for any "
            f"sampled input: {resolution.reason}; {advice}"
        )
    return resolution


def resolve_auto(
    problem: Problem, recipe: Recipe, progress: Callable[[str], None] | None = None
) -> tuple[Recipe, Resolution | None]:
    """A recipe with numbers where it says "auto", and the resolution that its ranks were chosen by, if they were.

    Points are those of the resolution, which see the inputs; for ranks that a recipe gives, one and a half times as
    many: enough for the products of two basis functions.
    """
    check_shapes(problem)
    recipe = resolve_exact(problem, recipe)
    model, resolution = recipe.model, None
    if model.invariant == "auto":
        recipe = recipe.changed({"model.invariant": invariant_axis(problem)})
    if model.rank == "auto":
        if model.kind != "seponet" or model.decoder != "tucker" or model.exact == "none" or model.trunk != "classical":
            raise ValueError(
                'model.rank = "auto" is for what a discretisation has: kind = "seponet", decoder = "tucker", '
                'exact = "auto" and trunk = "classical"'
            )
        tolerance = recipe.train.tolerance / 4 if recipe.train.tolerance else TOLERANCE
        resolution = choose_ranks(problem, model.exact, tolerance, progress)
        recipe = recipe.changed({"model.rank": resolution.ranks})
        if resolution.kinks:
            axes = sorted({kink.axis for kink in resolution.kinks})
            recipe = recipe.changed({"model.smooth": axes})
            logger.warning(
                "%s: derivatives of them miss it, so they are replaced along %s by what the basis can hold; the error "
                "near it stays larger than the mean (`Problem.singular_part` can carry it)",
                "; ".join(map(str, resolution.kinks)),
                ", ".join(axes),
            )
    if recipe.train.sampling.points == "auto":
        rank = recipe.model.rank
        ranks = rank if isinstance(rank, Mapping) else dict.fromkeys(problem.domain, rank)
        points = {name: -(-3 * int(r) // 2) for name, r in ranks.items()}
        recipe = recipe.changed({"train.sampling.points": resolution.nodes if resolution else points})
    return recipe, resolution
