"""The training loop: blocks of steps, validation, checkpoints, budgets, and what to do when something goes wrong."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..equations.problem import Problem
from ..losses.supervised import Data
from ..nn.build import build
from ..nn.model import OperatorNetwork
from .checkpoints import Checkpoints
from .cost import choose_slab
from .lbfgs import polish
from .log import METRICS, append_entry, forget_after
from .progress import Reporter
from .recipe import Recipe, flat
from .state import TrainState
from .step import TrainStep
from .whitening import _whitened

Validate = Callable[[OperatorNetwork], float]
"""A model -> its relative error on functions that are neither trained nor tested on."""


class Diverged(RuntimeError):
    """Training did not stay finite, although it went back to a good state with smaller steps."""


@dataclass
class TrainingResult:
    """What a run gives back.

    - `model`: the trained model.
    - `steps`, `seconds`: how long it was trained; the seconds include compilation.
    - `error`: the last validation error, if there was a validation.
    - `history`: what was logged.
    - `interrupted`: whether it ended before its last step, by a budget or by Ctrl-C.
    """

    model: OperatorNetwork
    steps: int
    seconds: float
    error: float | None
    history: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False


def train_model(
    problem: Problem,
    recipe: Recipe,
    *,
    seed: int = 0,
    folder: Path | None = None,
    resume: bool = False,
    budget: float | None = None,
    validate: Validate | None = None,
    data: Data | None = None,
    quiet: bool = False,
    stepper: TrainStep | None = None,
    spent: float = 0.0,
) -> TrainingResult:
    """Train a model for a problem from the equation alone.

    **Arguments:**

    - `problem`, `recipe`: what to train and how.
    - `seed`: of weights, functions and points; the same seed gives the same model.
    - `folder`: where checkpoints and `metrics.jsonl` go; None keeps nothing.
    - `resume`: go on from the newest checkpoint in `folder`. The trajectory is that of the uninterrupted run.
    - `budget`: seconds after which to stop.
    - `validate`: measures the error now and then; the best checkpoint is kept by it.
    - `data`: supervised pairs to mix in.
    - `quiet`: show nothing.
    - `stepper`: what `prepare` made of the same problem, recipe, seed and data, in `spent` seconds; by default it is
        called here.
    """
    with in_precision_of(recipe):
        began = time.perf_counter() - spent
        stepper = prepare(problem, recipe, seed, data) if stepper is None else stepper
        described = describe(problem, recipe, seed)
        return _Run(stepper, described, folder, budget, validate, quiet, began).go(resume)


def in_precision_of(recipe: Recipe) -> AbstractContextManager[Any]:
    """A context in which JAX computes in the precision of a recipe."""
    return jax.enable_x64(True) if recipe.train.precision == "float64" else nullcontext()


def prepare(problem: Problem, recipe: Recipe, seed: int = 0, data: Data | None = None) -> TrainStep:
    """The model of a recipe, whitened if that is asked for, and its training step; nothing is written."""
    config = recipe.train
    for_model, for_whitening, for_steps = jax.random.split(jax.random.key(seed), 3)
    model = build(problem, recipe.model, key=for_model)
    slab = config.slab or choose_slab(model, config.functions)
    if config.whitening != "none":
        model = _whitened(model, config, for_whitening)
    return TrainStep(model, config, slab, for_steps, data)


def describe(problem: Problem, recipe: Recipe, seed: int) -> dict[str, Any]:
    """What determines a run; a checkpoint of anything else is refused."""
    dtype = str(jnp.zeros(()).dtype)
    return {**flat(recipe.to_dict()), "problem": repr(problem), "seed": seed, "computed in": dtype}


class _Run:
    def __init__(
        self,
        stepper: TrainStep,
        described: Mapping[str, Any],
        folder: Path | None,
        budget: float | None,
        validate: Validate | None,
        quiet: bool,
        began: float,
    ) -> None:
        self.stepper, self.config, self.began = stepper, stepper.config, began
        self.folder, self.budget, self.validate, self.quiet = folder, budget, validate, quiet
        self.names = [term.name for term in stepper.terms]
        self.checkpoints: Checkpoints | None = None
        if folder is not None:
            self.checkpoints = Checkpoints(folder / "checkpoints", described, self.config.keep)
        self.history: list[dict[str, Any]] = []
        self.earlier = 0.0
        self.error: float | None = None

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.began

    def go(self, resume: bool) -> TrainingResult:
        state = self.stepper.start()
        if resume and self.checkpoints is not None:
            found = self.checkpoints.restore(state)
            if found is not None:
                step, state, self.earlier = found
                if self.folder is not None:
                    forget_after(self.folder / METRICS, step)
        self.state, interrupted = state, False
        with Reporter(self.config.steps, int(state.step), self.quiet) as reporter:
            try:
                state, interrupted = self._loop(state, reporter)
                if not interrupted and self.config.finish:
                    state = polish(self.stepper, state, self.config.finish)
                self._measure(state)
            except KeyboardInterrupt:
                # The last whole block is what goes on: an interrupt never leaves half a step.
                state, interrupted = self.state, True
                reporter.say("interrupted; ending with a checkpoint")
            self._log(state, None, reporter, done=True)
            self._save(state)
        if self.checkpoints is not None:
            self.checkpoints.close()
        model = self.stepper.model(state)
        return TrainingResult(model, int(state.step), self.seconds, self.error, self.history, interrupted)

    def _loop(self, state: TrainState, reporter: Reporter) -> tuple[TrainState, bool]:
        size, rollbacks, lowest = 1, 0, float("inf")
        measured = saved = time.perf_counter()
        while (done := int(self.state.step)) < self.config.steps:
            if self.budget is not None and self.seconds > self.budget:
                return self.state, True
            began = time.perf_counter()
            new, record = self.stepper.run(self.state, jnp.asarray(min(size, self.config.steps - done)))
            loss, finite = float(record.loss), bool(record.finite)
            if not finite or not loss <= 1e6 * lowest:
                rollbacks += 1
                if rollbacks > self.config.rollbacks:
                    raise Diverged(
                        f"the loss became {loss:.3g} at step {int(new.step)} although the step was halved "
                        f"{self.config.rollbacks} times; lower train.rate (now {self.config.rate:g}) or set "
                        "train.clip = 1"
                    )
                self.state = eqx.tree_at(lambda s: s.rate, self.state, 0.5 * self.state.rate)
                reporter.say(f"step {done}: the loss became {loss:.3g}; going back there with half the step")
                continue
            self.state, lowest = new, min(lowest, loss)
            now = time.perf_counter()
            # Blocks of about half a second: rarely on the host, never long without a sign of life. The first compiles.
            if size > 1 or now - began < 0.5:
                size = max(1, min(4 * size, int(size * 0.5 / max(now - began, 1e-3))))
            else:
                size = 2
            if now - measured > self.config.validate:
                self._measure(self.state)
                measured = time.perf_counter()
            if now - saved > self.config.checkpoint:
                self._save(self.state)
                saved = time.perf_counter()
            self._log(self.state, record, reporter)
        return self.state, False

    def _measure(self, state: TrainState) -> None:
        if self.validate is not None:
            self.error = self.validate(self.stepper.model(state))

    def _log(self, state: TrainState, record: Any, reporter: Reporter, done: bool = False) -> None:
        if record is None:
            loss, terms = self.history[-1]["loss"] if self.history else 0.0, {}
        else:
            loss = float(record.loss)
            terms = dict(zip(self.names, map(float, record.terms), strict=True))
        entry = {"step": int(state.step), "seconds": round(self.seconds, 3), "loss": loss, "terms": terms}
        if self.error is not None:
            entry["validation"] = self.error
        self.history.append(entry)
        reporter.update(entry["step"], loss, terms, self.error, done)
        if self.folder is not None:
            append_entry(self.folder / METRICS, entry)

    def _save(self, state: TrainState) -> None:
        if self.checkpoints is not None:
            error = self.error if self.error is not None else self.history[-1]["loss"] if self.history else 0.0
            self.checkpoints.save(int(state.step), state, error, self.seconds)
