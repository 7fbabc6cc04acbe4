r"""One step of fitting a network to what its own discretisation solves: no residual is differentiated.

$$\min_\theta\; E_u \frac{\|c_\theta(u) - c^*(u)\|^2}{\|s(u)\|^2},$$

the squared relative L2 error: the basis functions are orthonormal on a box, and on a mapped domain the principal
components that are fitted are (`discretise/metric.py`). Sampled inputs are solved in float32 by a few
Newton steps from the network's own answer (`discretise/correction.py`), which get cheaper as it learns. A function is
fitted several times before it is forgotten; what the network gets wrong on the newest, before it has seen them, is its
error on unseen inputs.
"""

import dataclasses
import logging
import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._program import OwnProgram
from ..discretise.correction import Corrector
from ..discretise.metric import mean_volume
from ..nn.model import OperatorNetwork
from .abstract_step import AbstractStep
from .config import TrainConfig
from .sharding import share
from .state import Record, TrainState
from .target_pool import Solved, TargetPool

logger = logging.getLogger(__name__)

NEVER = 2**31 - 1
"""Steps between two batches of solved functions where there shall be none."""

MOST_NUMBERS = 1 << 27
"""That a pool holds, half a gigabyte: of functions with many coefficients it holds fewer."""

INTERVALS = np.array([1, 2, 5, 10, 20, 50, 100, 200, 500])
"""What `renew = "auto"` chooses from: coarse, so that two machines choose alike."""


class SolvedStep(AbstractStep):
    """A step down the gradient of the error against solutions of the model's own discretisation.

    **Arguments:**

    - `model`: the model to train, on classical trunks with a Tucker decoder.
    - `config`: how.
    - `slab`: points in one slab of a residual; kept for the cost that is told.
    - `key`: the seed of functions.
    - `corrector`: solves them.
    - `first`: functions that have been solved already, in whole batches.
    - `seconds`: how long a batch takes to be solved; None if it was not measured.
    """

    def __init__(
        self,
        model: OperatorNetwork,
        config: TrainConfig,
        slab: int,
        key: PRNGKeyArray,
        corrector: Corrector,
        first: tuple[Solved, ...] = (),
        seconds: float | None = None,
    ) -> None:
        super().__init__(model, config, slab, key)
        self.terms = ()
        self.corrector, self.first = corrector, first
        # The preconditioner is an argument of the program: as a constant of it, it would be compiled in.
        self._compiled = OwnProgram(self._run)
        self.renew = config.targets.renew if isinstance(config.targets.renew, int) else self._choose_interval(seconds)

    def start(self) -> TrainState:
        return self._start(self.renew)

    def _start(self, renew: int) -> TrainState:
        like = eqx.filter_eval_shape(self._solve, self.trained, jnp.asarray(0), self.corrector)[0]
        # Whole batches are written, so that none is cut at the end of the pool.
        numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(like)) // self._functions
        wanted = min(self.config.targets.pool, max(MOST_NUMBERS // numbers, self.config.targets.first))
        batches = -(-wanted // self._functions) if self.problem.inputs else 1
        pool = TargetPool.empty(batches * self._functions, like, renew)
        for batch in self.first:
            pool = pool.add(batch, pool.error)
        return self.first_state(balance=jnp.ones(0), density=(), targets=pool)

    def numbers(self) -> PyTree:
        return super().numbers(), self.corrector, self.first, np.asarray(self.renew)

    def adopt(self, numbers: Any) -> None:
        inherited, self.corrector, self.first, renew = numbers
        self.renew = int(renew)
        super().adopt(inherited)

    def run(self, state: TrainState, steps: Int[Array, ""] | int) -> tuple[TrainState, Record]:
        return self._compiled(state, jnp.asarray(steps), self.corrector)

    def compile(self) -> Any:
        return self._compiled.compile(self.start(), jnp.asarray(1), self.corrector)

    @property
    def _functions(self) -> int:
        return self.config.functions if self.problem.inputs else 1

    def _choose_interval(self, seconds: float | None) -> int:
        """As many steps as take as long as solving a batch: half of the time goes into new functions, and less once the
        network's answers are good guesses."""
        if seconds is None or not self.first:
            return 10
        # Of the type that a state has, or the program would be compiled once for this and once for training.
        state = eqx.tree_at(lambda s: s.step, self._start(NEVER), jnp.ones((), int))
        jax.block_until_ready(self.run(state, 1))
        began = time.perf_counter()
        jax.block_until_ready(self.run(state, 20))
        one = (time.perf_counter() - began) / 20
        renew = int(INTERVALS[np.argmin(np.abs(np.log(INTERVALS / max(seconds / one, 1e-9))))])
        logger.info(
            "a step takes %.2g ms and %d solved functions %.2g ms: new ones every %d steps (train.targets.renew = %d "
            "repeats this)",
            1e3 * one,
            self._functions,
            1e3 * seconds,
            renew,
            renew,
        )
        return renew

    def _solve(self, parameters: PyTree, step: Int[Array, ""], corrector: Corrector) -> tuple[Solved, Float[Array, ""]]:
        """A batch of fresh functions, and the network's mean error on them."""
        key = jax.random.fold_in(self.key, step)
        inputs = share(self.problem.sample(key, self._functions) if self.problem.inputs else {})
        model: Any = eqx.combine(parameters, self.frozen)
        sensor_values = model.encode(inputs)
        guess = model.coefficients(sensor_values)
        solved, good = solve_batch(model, corrector, inputs, sensor_values, guess)
        errors = jnp.sqrt(solved.weights * _squares(model.compact(solved.prepared) - solved.targets))
        error = jnp.sum(errors) / jnp.maximum(jnp.sum(good), 1)
        return solved, jnp.where(jnp.any(good), error, 1.0)

    def _run(self, state: TrainState, steps: Int[Array, ""], corrector: Corrector) -> tuple[TrainState, Record]:
        end = state.step + steps

        def fit(_: Any, carry: Any) -> Any:
            state, record = carry
            state, new = self._step(state)
            return state, Record(new.loss, new.terms, record.finite & new.finite)

        def stretch(carry: Any) -> Any:
            """New functions, if they are due, and steps until the next ones are. (A branch in every step would copy the
            pool in every step.)"""
            state, record = carry
            late = state.step % state.targets.renew
            targets = jax.lax.cond(late == 0, lambda: self._renew(state, corrector), lambda: state.targets)
            state = eqx.tree_at(lambda s: s.targets, state, targets)
            count = jnp.minimum(state.targets.renew - late, end - state.step)
            return jax.lax.fori_loop(0, count, fit, (state, record))

        nothing = Record(jnp.zeros(()), jnp.zeros(0), jnp.asarray(True))
        return jax.lax.while_loop(lambda carry: carry[0].step < end, stretch, (state, nothing))

    def _renew(self, state: TrainState, corrector: Corrector) -> TargetPool:
        assert state.targets is not None
        return state.targets.add(*self._solve(state.parameters, state.step, corrector))

    def _step(self, state: TrainState) -> tuple[TrainState, Record]:
        assert state.targets is not None
        key = jax.random.fold_in(jax.random.fold_in(self.key, 2), state.step)
        batch = share(state.targets.rows(key, self._functions))

        def loss(parameters: PyTree) -> Float[Array, ""]:
            model = eqx.combine(parameters, self.frozen)
            return jnp.mean(batch.weights * _squares(model.compact(batch.prepared) - batch.targets))

        value, gradient = jax.value_and_grad(loss)(state.parameters)
        parameters, optimizer, finite = self.descend(state, value, gradient)
        new = dataclasses.replace(state, parameters=parameters, optimizer=optimizer)
        return self.kept(new, state, finite), Record(value, jnp.zeros(0), finite)


def solve_batch(
    model: OperatorNetwork, corrector: Corrector, inputs: Any, sensor_values: Any, guess: Array
) -> tuple[Solved, Array]:
    """Functions as a model is fitted to them, and which of them are solved."""
    corrected = corrector(inputs, guess)
    good = corrected.solved
    coefficients = jnp.where(good.reshape(-1, *(1,) * (guess.ndim - 1)), corrected.coefficients, 0.0)
    # The norm of differences is that of shapes on average, the norm of the solution its own: the scale must be one.
    volume = mean_volume(corrector.discretisation, inputs, corrector.nodes)
    weights = jnp.where(good, volume / jnp.maximum(corrected.norms, 1e-30) ** 2, 0.0)
    prepared, angle = model.prepare(sensor_values)
    return Solved(prepared, model.compress(coefficients, angle), weights), good


def _squares(c: Float[Array, "functions n"]) -> Float[Array, " functions"]:
    return jnp.sum(c**2, axis=1)
