"""From a problem and a recipe to a training step."""

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

from ..discretise.correction import NotSolved
from ..equations.problem import Problem
from ..losses.supervised import Data
from ..nn.build import build
from .abstract_step import AbstractStep
from .cost import choose_slab
from .recipe import Recipe
from .step import TrainStep
from .targets import make_solved_step
from .whitening import whitened

logger = logging.getLogger(__name__)


def precision_of(recipe: Recipe) -> AbstractContextManager[Any]:
    """A context in which JAX computes in the precision of a recipe."""
    return jax.enable_x64(True) if recipe.train.precision == "float64" else nullcontext()


def prepare(problem: Problem, recipe: Recipe, seed: int = 0, data: Data | None = None) -> AbstractStep:
    """The model of a recipe, whitened if that is asked for, and its training step; nothing is written."""
    config = recipe.train
    for_model, for_whitening, for_steps = jax.random.split(jax.random.key(seed), 3)
    model = build(problem, recipe.model, key=for_model)
    slab = config.slab or choose_slab(model, config.functions)
    scaled = model if config.whitening == "none" else None
    if config.targets.pool and data is not None:
        logger.info("supervised pairs are mixed with residuals, so no functions are solved to train on")
    elif config.targets.pool:
        # Principal components have scales of their own; coefficients that are fitted as they are need some.
        if scaled is None and not (config.targets.first and problem.inputs):
            scaled = whitened(model, config, for_whitening)
        try:
            return make_solved_step(model if scaled is None else scaled, recipe, slab, for_model, for_steps)
        except NotSolved as reason:
            logger.warning("%s: training on residuals instead", reason)
    return TrainStep(
        whitened(model, config, for_whitening) if scaled is None else scaled, config, slab, for_steps, data
    )
