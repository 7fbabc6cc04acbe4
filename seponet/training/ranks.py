"""What a recipe leaves to the problem: exact axes, ranks and points, chosen by its discretisation before training."""

import logging
import math
from collections.abc import Callable, Mapping

import jax
import numpy as np

from .._precision import double_precision
from ..calculus.undefined import NO_VALUE
from ..discretise.resolution import Resolution, resolve
from ..equations.evolution import is_linear
from ..equations.invariance import invariant_axis
from ..equations.problem import Problem
from ..nn.build_marching import find_marched
from ..nn.config import ModelConfig
from .exactness import resolve_exact
from .recipe import Recipe
from .shapes import check_shapes

logger = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""The mean relative error that a discretisation may have: a tenth of what networks reach in minutes."""

UNSEEN = 0.1
"""The part of a tolerance that may be unseen of an input, relative to its size."""

DENSE = 40
"""Up to so many numbers of a state, a dense branch learns from some thousand solved functions."""

WIDTH, BLOCKS = 32, 2
"""Channels, and blocks in a window, of a branch that marches through time."""

POINTS = 3072
"""About as many points in space are in a batch of its functions."""

VALUES = 1 << 23
"""Of a residual, the most that a batch of solved functions has: some dozen arrays of this size are held at a time."""

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


def _with_branch(problem: Problem, recipe: Recipe) -> Recipe:
    """A recipe that says which branch: one that marches through time where states have more numbers than a dense
    network learns from some thousand functions, and where equation and model allow it."""
    model = recipe.model
    space = _marched_axes(problem, model)
    ranks = {axis: int(model.rank[axis] if isinstance(model.rank, Mapping) else model.rank) for axis in space}
    numbers = len(problem.fields) * math.prod(ranks.values())
    # What is linear in the input is found by regression, however many numbers it has.
    if not space or numbers <= DENSE or is_linear(problem):
        return recipe.changed({"model.branch": "gated"})
    logger.info(
        'a state has %d numbers, so the branch is one network for short windows of time (model.branch = "marching")',
        numbers,
    )
    points = math.prod((1 if problem.domain.axis(axis).periodic else 2) * rank for axis, rank in ranks.items())
    functions = max(8, min(recipe.train.functions, POINTS // points))
    settings = {"branch": "marching", "branch_width": WIDTH, "branch_depth": BLOCKS, "invariant": ""}
    return recipe.changed({f"model.{k}": v for k, v in settings.items()} | {"train.functions": functions})


def _marched_axes(problem: Problem, model: ModelConfig) -> tuple[str, ...]:
    """The axes of space of what a branch can march through time; none if it can't."""
    if (model.kind, model.decoder, model.trunk, model.output) != ("seponet", "tucker", "classical", "fields"):
        return ()
    held = {name for name, axis in problem.domain.axes if axis.periodic} | {c.axis for c in problem.linear_conditions}
    exact = tuple(name for name in problem.domain if name in held and (model.exact == "all" or name in model.exact))
    try:
        return () if model.smooth else find_marched(problem, exact).space
    except ValueError:
        return ()


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
    if recipe.model.branch == "auto":
        recipe = _with_branch(problem, recipe)
    if 0 < recipe.train.tolerance < TOLERANCE and model.encoder == "pca" and model.components is None:
        # The finest of what is seen then serves the linear part: a ridge keeps it from filling the network with noise.
        seen = {"model.unseen": min(model.unseen, (UNSEEN * recipe.train.tolerance) ** 2)}
        recipe = recipe.changed(seen | {"model.ridge": max(model.ridge, model.unseen)})
    if recipe.train.sampling.points == "auto":
        rank = recipe.model.rank
        ranks = rank if isinstance(rank, Mapping) else dict.fromkeys(problem.domain, rank)
        points = {name: -(-3 * int(r) // 2) for name, r in ranks.items()}
        recipe = recipe.changed({"train.sampling.points": resolution.nodes if resolution else points})
    if recipe.train.targets.pool and isinstance(recipe.train.sampling.points, Mapping):
        most = max(8, VALUES // math.prod(recipe.train.sampling.points.values()))
        recipe = recipe.changed({"train.functions": min(recipe.train.functions, most)})
    return recipe, resolution
