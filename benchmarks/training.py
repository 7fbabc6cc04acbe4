"""Training for a fixed time, the same for every recipe that is compared."""

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from seponet import nn
from seponet._machine import peak_memory_bytes
from seponet.evaluation.errors import measure
from seponet.evaluation.testset import load_testset
from seponet.problems import PROBLEMS
from seponet.training.cost import choose_slab
from seponet.training.diagnosis import Diverged
from seponet.training.loop import train_model
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep

CALIBRATION = 2.0
"""Seconds of trial steps."""


def train_for(problem: str, recipe: Recipe, seconds: float, split: str = "test", seed: int = 0) -> Mapping[str, Any]:
    """Errors on 100 unseen functions after `seconds` of processor time, compilation aside.

    Processor time, summed over cores, does not depend on what else the machine does. A few trial steps say how many
    steps that makes; the schedule of the learning rate is compressed to them.
    """
    pde = PROBLEMS[problem]()
    per_step = step_seconds(pde, recipe)
    steps = max(10, int(seconds / per_step))
    began = time.process_time()
    try:
        trained = train_model(pde, compressed(recipe, steps), seed=seed, quiet=True)
    except Diverged as error:
        return {"steps": steps, "step_core_seconds": per_step, "diverged": str(error)}
    spent = time.process_time() - began
    errors = measure(trained.model, load_testset(pde, split, 100)).summary()
    sizes = {"steps": steps, "step_core_seconds": per_step, "core_seconds": spent, "budget_seconds": seconds}
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
