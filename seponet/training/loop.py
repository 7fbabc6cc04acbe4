"""The training loop: blocks of steps, validation, checkpoints, budgets, and what to do when something goes wrong."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..distributed.group import ALONE, Group, ProcessLost
from ..equations.problem import Problem
from ..losses.supervised import Data
from ..nn.model import OperatorNetwork
from .abstract_step import AbstractStep
from .agreement import same_tree
from .checkpoints import Checkpoints
from .diagnosis import refuse_to_go_on
from .lbfgs import Polish
from .log import METRICS, append_entry, forget_after
from .measured import Measured
from .pace import GRACE, Pace
from .prepare import precision_of, prepare
from .progress import Reporter
from .recipe import Recipe
from .result import End, TrainingResult
from .state import OPEN, Record, TrainState
from .step import TrainStep

logger = logging.getLogger(__name__)

Validate = Callable[[OperatorNetwork], float]
"""A model -> its relative error on functions that are neither trained nor tested on."""

BLOCK_SECONDS = 0.5
"""About how long a block of steps takes: the host is asked rarely, and never long without a sign of life."""


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
) -> TrainingResult:
    """Train a model for a problem from the equation alone: `prepare`, then `Trainer.train`.

    **Arguments:**

    - `problem`, `recipe`: what to train and how.
    - `seed`: of parameters, functions and points; the same seed gives the same model.
    - `data`: supervised pairs to mix in.
    - `folder`, `resume`, `budget`, `validate`, `quiet`: see `Trainer`.
    """
    began = time.perf_counter()
    with precision_of(recipe):
        step = prepare(problem, recipe, seed, data)
        trainer = Trainer(step, folder=folder, budget=budget, validate=validate, quiet=quiet, began=began)
        return trainer.train(resume=resume)


class Trainer:
    """Repeats a training step until its last one, a tolerance, a budget or an interrupt.

    **Arguments:**

    - `step`: the training step.
    - `folder`: where checkpoints and `metrics.jsonl` go; None keeps nothing.
    - `budget`: seconds after which to stop; with `steps = "auto"` the schedule ends then. By default such a run has the
        configuration's `seconds`, from its first step on.
    - `validate`: measures the error now and then; the run ends where it is below the configuration's `tolerance`.
        Parameters that were better than the last ones by more than a tenth are what the run gives back; the best
        checkpoint is kept by it too.
    - `quiet`: show no progress.
    - `began`: the reading of `time.perf_counter` from which the seconds count; by default now.
    - `config`: the configuration of the run as text, which its checkpoints carry.
    - `group`: the processes that train together. What hangs on a clock or a file is the leader's decision; the others
        have no folder and validate nothing.
    - `limit`: seconds from now after which the machine is taken away: the run ends before, whatever its budget.
    """

    def __init__(
        self,
        step: AbstractStep,
        *,
        folder: Path | None = None,
        budget: float | None = None,
        validate: Validate | None = None,
        quiet: bool = False,
        began: float | None = None,
        config: str = "",
        group: Group = ALONE,
        limit: float | None = None,
    ) -> None:
        self.step, self.config, self.group = step, step.config, group
        self.folder, self.budget, self.validate, self.quiet = folder, budget, validate, quiet
        self.pace = Pace(self.config.optimizer.hold)
        self.checkpoints = None if folder is None else Checkpoints(folder / "checkpoints", self.config.keep, config)
        self.began = time.perf_counter() if began is None else began
        self.now = time.perf_counter()
        self.limit = None if limit is None else self.now + limit
        self.earlier = 0.0
        self._saving = threading.Lock()
        self.state: TrainState = step.start()
        self.polish: Polish | None = None
        self.history: list[dict[str, Any]] = []
        self.measured = Measured()
        self.returned: Any = None
        self._measures, self._keeps = validate is not None, folder is not None

    @property
    def seconds(self) -> float:
        """Seconds of training so far, those before a resume included."""
        return self.earlier + self.now - self.began

    @property
    def deadline(self) -> float | None:
        """The seconds after which the run shall have ended, if it is known."""
        deadline = self.budget
        if deadline is None and not isinstance(self.config.steps, int) and self.pace.first is not None:
            deadline = self.pace.first[1] + self.config.seconds
        return _earlier(deadline, self._latest)

    @property
    def _latest(self) -> float | None:
        """The seconds after which the machine is taken away, if it is."""
        return None if self.limit is None else self.earlier + self.limit - self.began

    @property
    def length(self) -> int | None:
        """How many steps there will be, if that is known."""
        length = int(self.state.length)
        return None if length == OPEN else length

    def train(self, *, resume: bool = False) -> TrainingResult:
        """Train to the end.

        **Arguments:**

        - `resume`: go on from the newest checkpoint in the folder. The trajectory is that of the uninterrupted run.
        """
        if resume:
            self._restore()
        self._agree()
        with Reporter(self.length, int(self.state.step), self.quiet) as reporter, self.group.together():
            self.group.rescue = self._save
            try:
                end = self._repeat(reporter)
                if end == "complete" and self.config.polish:
                    end = self._polish()
                self._measure()
                self.returned = self.measured.prefer_best()
                self._tick()
            except KeyboardInterrupt:
                # `self.state` is that of the last whole block: an interrupt never leaves half a step.
                end = "interrupt"
                logger.info("interrupted; ending with a checkpoint")
            except ProcessLost:
                # The state is that of the last whole block here too.
                self._save()
                raise
            finally:
                self.group.rescue = None
            self._log(None, reporter)
            self._save()
        return TrainingResult(
            self.model, int(self.state.step), self.seconds, self.measured.last, self.history, end, self.length
        )

    def _agree(self) -> None:
        """Start as the leader does: with its state, its clock, and what it measures and keeps."""
        if self.group.count == 1:
            return
        likes = [self.state, *self._polishing()]
        clock = [self.earlier, self.now, self.began, self.budget, self.limit]
        best = self.measured.best
        known = [self.state.polish is not None, self._measures, self._keeps, best and best[0]]
        clock, known = self.group.same(lambda: (clock, known))
        self.earlier, self.now, self.began, self.budget, self.limit = clock
        polishing, self._measures, self._keeps, smallest = known
        self.state = same_tree(self.group, self.state if self.group.leader else likes[int(polishing)], "the state")
        if smallest is not None:
            like = self.state.parameters if best is None else best[1]
            self.measured.best = (smallest, same_tree(self.group, like, "the parameters"))

    def _restore(self) -> None:
        if not self.group.leader:
            return
        if self.folder is None or self.checkpoints is None:
            raise ValueError("a run is resumed from its folder; give one")
        restored = self.checkpoints.restore(self.state, *self._polishing())
        if restored is not None:
            step, self.state, self.earlier = restored
            forget_after(self.folder / METRICS, step)
        best = self.checkpoints.best(self.state) if self.validate is not None else None
        if best is not None:
            self.measured.best = (best[0], best[1].parameters)

    def _polishing(self) -> list[TrainState]:
        """A state like those in the polish, if there is to be one."""
        if not self.config.polish:
            return []
        shapes = eqx.filter_eval_shape(lambda: self._polisher().start())
        polish = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return [eqx.tree_at(lambda s: s.polish, self.state, polish, is_leaf=_is_none)]

    def _repeat(self, reporter: Reporter) -> End:
        """Blocks of steps until the last one, the tolerance, or until the budget is spent."""
        size, rollbacks, lowest = 1, 0, float("inf")
        measured = saved = self._tick()
        while (done := int(self.state.step)) < int(self.state.length):
            if self._is_late():
                return "budget"
            began = self.now
            with self.group.computing():
                new, record = self.step.run(self.state, min(size, int(self.state.length) - done))
                loss = float(record.loss)
            now = self._tick()
            if not bool(record.finite) or not loss <= 1e6 * lowest:
                rollbacks += 1
                self._go_back(rollbacks, loss, int(new.step))
                continue
            self.state, lowest = new, min(lowest, loss)
            size = _next_size(size, now - began)
            self.pace.note(int(self.state.step), self.seconds)
            due = now - saved > self.config.checkpoint
            if now - measured > self.config.validate or (due and self._keeps):
                self._measure()
                measured = self._tick()
                if self.measured.reaches(self.config.tolerance):
                    return "tolerance"
            if due:
                self._save()
                saved = self._tick()
            self._choose_length(size, reporter)
            self._log(record, reporter)
        return "complete"

    def _tick(self) -> float:
        """Read the clock, which stands still between two readings: all processes go by the leader's."""
        self.now = self.group.tick()
        return self.now

    def _is_late(self) -> bool:
        """Whether the budget is spent. A schedule that was made for it may end a little later."""
        if self.deadline is None:
            return False
        if self.limit is not None and self.now > self.limit:
            return True
        planned = not isinstance(self.config.steps, int) and self.length is not None
        return self.seconds > self.deadline * (GRACE if planned else 1)

    def _choose_length(self, block: int, reporter: Reporter) -> None:
        """At the end of the time in which the rate is held, how many steps there will be."""
        if self.length is not None or self.deadline is None:
            return
        step, seconds = int(self.state.step), self.seconds
        length = self.pace.length(step, seconds, self.deadline, block)
        why = "end with the budget"
        if length is None and self.config.gain and self.measured.has_settled(self.config.gain):
            length, why = self.pace.shortest(step), "are enough: the error has settled"
        targets = self.state.targets
        if length is None and targets is not None and self.measured.is_that_of_the_basis(float(targets.error)):
            length, why = self.pace.shortest(step), "are enough: the error is that of the basis"
        reporter.steps = length or self.pace.estimate(step, seconds, self.deadline)
        if length is not None:
            logger.info("%d steps %s; train.steps = %d repeats this run", length, why, length)
            self.state = eqx.tree_at(lambda s: s.length, self.state, jnp.asarray(length, self.state.length.dtype))

    def _polisher(self) -> Polish:
        # A configuration has no polish with targets, which are of other functions in every step.
        assert isinstance(self.step, TrainStep)
        return Polish(self.step, self.state)

    def _polish(self) -> End:
        """Blocks of L-BFGS steps until the last one, or until the budget is spent."""
        self.polish = self._polisher()
        if self.state.polish is None:
            logger.info("polishing by %d steps of L-BFGS", self.config.polish)
            self.state = eqx.tree_at(lambda s: s.polish, self.state, self.polish.start(), is_leaf=_is_none)
        size, saved = 1, self._tick()
        while (polish := self.state.polish) is not None and int(polish.done) < self.config.polish:
            end = _earlier(self.budget, self._latest)
            if end is not None and self.seconds > end:
                return "budget"
            began = self.now
            new = jax.block_until_ready(self.polish.run(polish, min(size, self.config.polish - int(polish.done))))
            self.state = eqx.tree_at(lambda s: s.polish, self.state, new)
            now = self._tick()
            size = _next_size(size, now - began)
            if now - saved > self.config.checkpoint:
                self._save()
                saved = self._tick()
        return "complete"

    @property
    def model(self) -> OperatorNetwork:
        """The model as it is now; in the polish, with the best parameters so far; at the end, what is given back."""
        if self.returned is not None:
            return self.step.model(eqx.tree_at(lambda s: s.parameters, self.state, self.returned))
        if self.polish is None or self.state.polish is None:
            return self.step.model(self.state)
        best = self.polish.best(self.state.polish)
        return self.step.model(eqx.tree_at(lambda s: s.parameters, self.state, best))

    def _go_back(self, rollbacks: int, loss: float, step: int) -> None:
        """Stay at the state before the block that diverged, with half the step."""
        refuse_to_go_on(self.step, self.state, step, loss, rollbacks)
        self.state = eqx.tree_at(lambda s: s.rate, self.state, 0.5 * self.state.rate)
        done = int(self.state.step)
        logger.info("step %d: the loss became %.3g; going back there with half the step", done, loss)

    def _measure(self) -> None:
        step = self.state.total
        if self._measures and self.measured.is_new(step):
            error = self.group.same(self._validation_error)
            self.measured.note(step, error, self.state.parameters if self.state.polish is None else None)

    def _validation_error(self) -> float:
        assert self.validate is not None
        return float(self.validate(self.model))

    @property
    def _last_loss(self) -> float:
        return self.history[-1]["loss"] if self.history else 0.0

    def _log(self, record: Record | None, reporter: Reporter) -> None:
        """An entry of the log, and of the screen; the last one, at the end of the run, is of no block."""
        loss, terms = self._last_loss, {}
        if record is not None:
            loss = float(record.loss)
            names = [term.name for term in self.step.terms]
            terms = dict(zip(names, map(float, record.terms), strict=True))
        entry = {"step": int(self.state.step), "seconds": round(self.seconds, 3), "loss": loss, "terms": terms}
        error = self.measured.last
        if error is not None:
            entry["validation"] = error
        if self.state.targets is not None:
            entry["fresh"] = float(self.state.targets.error)
        self.history.append(entry)
        reporter.update(entry["step"], loss, terms, error, done=record is None)
        if self.folder is not None:
            append_entry(self.folder / METRICS, entry)

    def _save(self) -> None:
        """Write a checkpoint; also from another thread, if this one hangs where a process was lost."""
        if self.checkpoints is not None:
            with self._saving:
                error = self._last_loss if self.measured.last is None else self.measured.last
                self.checkpoints.save(self.state.total, self.state, error, self.seconds)


def _earlier(*seconds: float | None) -> float | None:
    return min((s for s in seconds if s is not None), default=None)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _next_size(size: int, seconds: float) -> int:
    """How many steps the next block has, after one of `size` steps took `seconds`."""
    if size == 1 and seconds >= BLOCK_SECONDS:
        return 2  # the first block compiles, and says nothing about the others
    return max(1, min(4 * size, int(size * BLOCK_SECONDS / max(seconds, 1e-3))))
