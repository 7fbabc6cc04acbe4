"""Training for a fixed time or for as many steps as a recipe says, and the errors then."""

import time
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp

from seponet import nn
from seponet._machine import peak_memory_bytes
from seponet.evaluation.errors import measure
from seponet.evaluation.testset import load_testset
from seponet.nn.fixed import parameter_count
from seponet.problems import PROBLEMS
from seponet.training.cost import choose_slab
from seponet.training.diagnosis import Diverged
from seponet.training.loop import train_model
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep

Split = Literal["test", "validation"]

CALIBRATION = 2.0
"""Seconds of trial steps."""


def train_for(problem: str, recipe: Recipe, seconds: float, split: Split = "test", seed: int = 0) -> Mapping[str, Any]:
    """Errors on 100 unseen functions after `seconds` of processor time, compilation aside.

    Processor time, summed over cores, does not depend on what else the machine does. A few trial steps say how many
    steps that makes; the schedule of the learning rate is compressed to them.
    """
    per_step = step_seconds(PROBLEMS[problem](), recipe)
    found = train_whole(problem, compressed(recipe, max(10, int(seconds / per_step))), split, seed)
    return {**found, "step_core_seconds": per_step, "budget_seconds": seconds}


def train_whole(problem: str, recipe: Recipe, split: Split = "test", seed: int = 0) -> Mapping[str, Any]:
    """Errors on 100 unseen functions after all steps of a recipe, and what it took."""
    pde = PROBLEMS[problem]()
    began = time.process_time()
    try:
        trained = train_model(pde, recipe, seed=seed, quiet=True)
    except Diverged as error:
        return {"steps": recipe.train.steps, "diverged": str(error)}
    spent = time.process_time() - began
    errors = measure(trained.model, load_testset(pde, split, 100)).summary()
    sizes = {"steps": trained.steps, "core_seconds": spent, "parameters": parameter_count(trained.model)}
    return {**errors, **sizes, "seed": seed, "process_bytes": peak_memory_bytes()}


def step_seconds(problem: Any, recipe: Recipe) -> float:
    """Processor seconds of a training step."""
    model = nn.build(problem, recipe.model, key=jax.random.key(0))
    slab = recipe.train.slab or choose_slab(model, recipe.train.functions)
    stepper = TrainStep(model, recipe.train, slab, jax.random.key(0))
    state, count, total = stepper.start(), 0, 0.0
    state, _ = stepper.run(state, jnp.asarray(1))
    jax.block_until_ready(state.step)
    block = 1
    while total < CALIBRATION:
        began = time.process_time()
        state, record = stepper.run(state, jnp.asarray(block))
        jax.block_until_ready(record.loss)
        total, count = total + time.process_time() - began, count + block
        block = max(1, min(100, 2 * block))
    return total / count


def compressed(recipe: Recipe, steps: int) -> Recipe:
    """The recipe with another number of steps; a schedule that decays every so many steps keeps its end."""
    changes: dict[str, Any] = {"train.steps": steps}
    every = recipe.train.optimizer.schedule_options.get("every")
    if every:
        changes["train.optimizer.schedule_options.every"] = max(1, round(every * steps / recipe.train.steps))
    return recipe.changed(changes)
