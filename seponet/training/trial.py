"""A short trial of two ways to train: on what the discretisation solves, and on residuals.

Which one learns faster is not known beforehand: solved functions are dear where Newton's method takes many iterations,
and residuals are a bad measure of errors where the operator changes with the input. Each way gets a twentieth of the
time, with a learning rate that falls to zero in it, and is judged by its error on functions that neither has seen.
"""

import logging
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._program import OwnProgram
from .._text import percent, show_duration
from ..discretise.correction import Corrector
from ..discretise.norms import increment_norms
from ..equations.problem import Problem
from .abstract_step import AbstractStep
from .prepare import prepare
from .recipe import Recipe
from .solved_step import SolvedStep

logger = logging.getLogger(__name__)

SHARE, LEAST = 0.05, 20.0
"""The part of the time that each way gets, and the seconds below which a trial says nothing."""

UNSEEN = 100
"""Functions that the two ways are judged by."""

BLOCK = 1.0
"""Seconds of one dispatch, about: a signal is heard between two."""


def choose_way(problem: Problem, recipe: Recipe, seed: int, seconds: float) -> Recipe:
    """The recipe that trains on solved functions, or on residuals: whatever is ahead after a trial, if it asks for one
    and there is time for it. No trial is left in it, so that a run that goes on does not choose again.

    **Arguments:**

    - `seconds`: of the training as a whole.
    """
    targets = recipe.train.targets
    if not targets.trial:
        return recipe
    recipe = recipe.changed({"train.targets.trial": False})
    marching = recipe.model.branch in ("marching", "spectral")
    if SHARE * seconds < LEAST or not targets.pool or not problem.inputs or marching:
        return recipe
    solved = prepare(problem, recipe, seed)
    if not isinstance(solved, SolvedStep):
        return recipe
    on_residuals = recipe.changed({"train.targets.pool": 0})
    judge = _Judge(solved, jax.random.fold_in(jax.random.key(seed), 7))
    first = judge(solved, SHARE * seconds)
    second = judge(prepare(problem, on_residuals, seed), SHARE * seconds)
    # Where both are equally good, fitting has the validation error that it sees on the way.
    chosen = recipe if not second < first else on_residuals
    logger.info(
        "after %s each, training on solved functions has an error of %s on others, and training on residuals %s: "
        "taking %s (train.targets.pool = %d, train.targets.trial = false repeat this)",
        show_duration(SHARE * seconds),
        percent(first),
        percent(second),
        "the former" if chosen is recipe else "the latter",
        chosen.train.targets.pool,
    )
    return chosen


class _Judge:
    """The error of a step's model after some time, on functions that were solved for this."""

    def __init__(self, step: SolvedStep, key: Any) -> None:
        self.corrector = step.corrector
        self.inputs = jax.jit(lambda key: step.problem.sample(key, UNSEEN))(key)
        lift = jnp.zeros((UNSEEN, *step.corrector.discretisation.coefficient_shape()))
        self.solved = OwnProgram(_solve)(self.corrector, self.inputs, lift)

    def __call__(self, step: AbstractStep, seconds: float) -> float:
        model: Any = step.model(_trained(step, seconds))
        c = jax.jit(lambda inputs: model.coefficients(model.encode(inputs)))(self.inputs)
        discretisation, nodes = self.corrector.discretisation, self.corrector.nodes
        apart = increment_norms(discretisation, self.inputs, nodes, c - self.solved.coefficients)
        errors = np.asarray(apart / self.solved.norms)[np.asarray(self.solved.solved)]
        return float(np.mean(errors)) if len(errors) and np.all(np.isfinite(errors)) else float("inf")


def _solve(corrector: Corrector, inputs: Any, lift: Array) -> Any:
    return corrector(inputs, lift)


def _trained(step: AbstractStep, seconds: float) -> Any:
    """The state after as many steps as fit into some seconds, which are the whole length of its schedule."""
    # The length decides about the rate and is not compiled in, so that one program measures and trains.
    few = _of_length(step, 20)
    jax.block_until_ready(step.run(few, 1))
    began = time.perf_counter()
    jax.block_until_ready(step.run(few, 20))
    one = (time.perf_counter() - began) / 20
    length = max(int(seconds / one), 20)
    state, block = _of_length(step, length), max(1, int(BLOCK / one))
    for start in range(0, length, block):
        state, _ = jax.block_until_ready(step.run(state, min(block, length - start)))
    return state


def _of_length(step: AbstractStep, length: int) -> Any:
    return eqx.tree_at(lambda s: s.length, step.start(), jnp.asarray(length, int))
