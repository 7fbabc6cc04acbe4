"""One step that lowers the residuals of the equations, and many of them in one dispatch."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._program import OwnProgram
from ..calculus.model import FixedCoefficients
from ..calculus.undefined import Undefined, find_undefined
from ..losses.pointwise import Losses, lift_losses, physics_loss
from ..losses.spectral import SpectralResidual
from ..losses.supervised import Data
from ..losses.tested import TestedResidual
from ..nn.model import OperatorNetwork
from ..operator.rollout import end_of_window
from .abstract_step import AbstractStep
from .config import TrainConfig
from .reweighting import balancing_factors, capped, term_weights
from .sampling import Sampler
from .sharding import share
from .state import Batch, Record, TrainState
from .state_pool import Pool, start_pool


class TrainStep(AbstractStep):
    """A step down the gradient of residuals, and of supervised pairs if there are any.

    **Arguments:**

    - `model`: the model to train.
    - `config`: how.
    - `slab`: points in one slab of the loss.
    - `key`: the seed of functions and points.
    - `data`: supervised pairs to mix in.
    """

    def __init__(
        self, model: OperatorNetwork, config: TrainConfig, slab: int, key: PRNGKeyArray, data: Data | None = None
    ) -> None:
        super().__init__(model, config, slab, key)
        self.data = data
        self.terms = model.problem.terms(model.exact)
        sampling = config.sampling
        self.sampler = Sampler.of(self.problem.domain, sampling.points, sampling.method, not model.separable)
        self.term_weights = term_weights(self.terms, config.loss)
        self.galerkin = _galerkin(config)
        if self.galerkin is not None:
            self.galerkin.check(model, self.sampler.methods)
        # Fixed points are constants, so that bases are tabulated while tracing.
        fixed = set(self.sampler.methods) == {"gauss"}
        self.nodes = self.sampler.draw(key, self.sampler.density()) if fixed else None
        if config.rollout.windows > 1:
            self.problem.time_axis()
        self._compiled = OwnProgram(self._run)

    def start(self) -> TrainState:
        rollout, pool = self.config.rollout, None
        if rollout.windows > 1:
            pool = start_pool(self.problem, jax.random.fold_in(self.key, 3), rollout.pool)
        return self.first_state(balance=jnp.ones(len(self.terms)), density=self.sampler.density(), pool=pool)

    def run(self, state: TrainState, steps: Int[Array, ""] | int) -> tuple[TrainState, Record]:
        return self._compiled(state, jnp.asarray(steps))

    def compile(self) -> Any:
        return self._compiled.compile(self.start(), jnp.asarray(1))

    def find_undefined(self, state: TrainState) -> Undefined | None:
        batch = self.batch(state)
        return find_undefined(self.model(state), batch.inputs, batch.collocation, batch.scale.shape[0])

    def batch(self, state: TrainState) -> Batch:
        """The functions and points that a step uses."""
        key = jax.random.fold_in(self.key, state.step // self.config.sampling.resample)
        for_inputs, for_points = jax.random.split(key)
        rows = None
        if state.pool is not None:
            rows = state.pool.draw(for_inputs, self.config.functions)
            inputs = self.problem.complete({name: states[rows] for name, states in state.pool.states.items()})
        else:
            inputs = self.problem.sample(for_inputs, self.config.functions) if self.problem.inputs else {}
        inputs = share(inputs)
        collocation = self.nodes or self.sampler.draw(for_points, state.density)
        functions = self.config.functions if inputs else 1
        model: Any = self.model(state)
        sensor_values = model.encode(inputs)
        if not self.config.loss.normalise:
            return Batch(inputs, sensor_values, collocation, jnp.ones(functions), rows)
        if self.galerkin is None:
            table = lift_losses(model, inputs, collocation, functions)
        else:
            table = self.galerkin.table(model, inputs, collocation, None, functions)
        losses = jnp.sum(self.term_weights[:, None] * table, axis=0)
        # A thousandth of the mean keeps functions whose lift already solves the equations from ruling the step; an
        # infinite residual would scale the loss to nothing.
        scale = jnp.where(jnp.isfinite(losses), 1 / (losses + 1e-3 * jnp.mean(losses) + 1e-30), jnp.nan)
        return Batch(inputs, sensor_values, collocation, scale, rows)

    def loss(self, parameters: PyTree, balance: Array, batch: Batch, step: Array) -> tuple[Array, tuple[Losses, Array]]:
        """The weighted sum over terms, averaged over functions, plus that of supervised pairs.

        **Arguments:**

        - `parameters`: the network's.
        - `balance`: factors of the terms' weights.
        - `batch`: functions and points.
        - `step`: the number of the step, which chooses supervised pairs.

        **Returns:**

        The loss, and beside it all losses by term and function, and the coefficients.
        """
        if self.nodes is not None:
            # In a batch they are arrays of the compiled program; as constants, bases can be tabulated at them.
            batch = eqx.tree_at(lambda b: b.collocation, batch, self.nodes)
        model = eqx.combine(parameters, self.frozen)
        weights = (self.term_weights * balance)[:, None] * batch.scale[None] / batch.scale.shape[0]
        coefficients = model.coefficients(batch.sensor_values)
        losses = self._physics(model, batch, coefficients, weights)
        if self.data is None:
            return losses.total, (losses, coefficients)
        key = jax.random.fold_in(jax.random.fold_in(self.key, 1), step)
        supervised = self.data.loss(model, key, self.config.functions)
        return losses.total + self.config.loss.data_weight * supervised, (losses, coefficients)

    def _physics(
        self, model: Any, batch: Batch, coefficients: Array, weights: Float[Array, "terms functions"]
    ) -> Losses:
        cap = self.config.loss.cap
        if self.galerkin is not None:
            losses = self.galerkin.loss(model, batch.inputs, batch.collocation, weights, coefficients)
            return Losses(jnp.sum(capped(weights, losses.table, cap) * losses.table), losses.table)
        solution = FixedCoefficients(model, coefficients)
        if cap:
            # The gradient is accumulated while the loss is, so what caps it must be known before: a sweep without one.
            still = FixedCoefficients(jax.lax.stop_gradient(model), jax.lax.stop_gradient(coefficients))
            table = physics_loss(still, batch.inputs, batch.collocation, weights, self.slab).table
            weights = capped(weights, table, cap)
        return physics_loss(solution, batch.inputs, batch.collocation, weights, self.slab)

    def _run(self, state: TrainState, steps: Int[Array, ""]) -> tuple[TrainState, Record]:
        nothing = Record(jnp.zeros(()), jnp.zeros(len(self.terms)), jnp.asarray(True))
        arrays, static = eqx.partition(self.batch(state), eqx.is_array)

        def body(_: Any, carry: Any) -> Any:
            state, arrays, record = carry
            fresh = state.step % self.config.sampling.resample == 0
            arrays = jax.lax.cond(fresh, lambda: eqx.partition(self.batch(state), eqx.is_array)[0], lambda: arrays)
            state, new = self._step(state, eqx.combine(arrays, static))
            return state, arrays, Record(new.loss, new.terms, record.finite & new.finite)

        state, _, record = jax.lax.fori_loop(0, steps, body, (state, arrays, nothing))
        return state, record

    def _step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Record]:
        state = self._adjust(state, batch)
        (loss, (losses, coefficients)), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.parameters, state.balance, batch, state.step
        )
        parameters, optimizer, finite = self.descend(state, loss, gradient)
        pool = None if state.pool is None else self._advance(state, batch, losses, coefficients)
        new = dataclasses.replace(state, parameters=parameters, optimizer=optimizer, pool=pool)
        terms = jnp.mean(losses.table * batch.scale[None], axis=1)
        return self.kept(new, state, finite), Record(loss, terms, finite)

    def _advance(self, state: TrainState, batch: Batch, losses: Losses, coefficients: Array) -> Pool | None:
        """The pool after a step: the model takes the states whose residual is small on to the next window."""
        if state.pool is None or batch.rows is None:
            return None
        model, rollout = self.model(state), self.config.rollout
        advanced = end_of_window(FixedCoefficients(model, coefficients), model.sensors, batch.inputs)
        key = jax.random.fold_in(jax.random.fold_in(self.key, 2), state.step)
        fresh = self.problem.sample(key, batch.rows.shape[0])
        relative = jnp.sum(self.term_weights[:, None] * losses.table, axis=0) * batch.scale
        progress = state.step / jnp.maximum(rollout.ramp * state.length, 1)
        limit = jnp.minimum(1 + rollout.windows * progress, rollout.windows)
        return state.pool.replace(batch.rows, advanced, fresh, relative < rollout.accept, limit)

    def _adjust(self, state: TrainState, batch: Batch) -> TrainState:
        """Slow changes: the balance of the terms, the density of adaptive points."""
        if self.config.loss.balance:
            due = state.step % self.config.loss.balance == 0
            balance = jax.lax.cond(due, lambda: self._balanced(state, batch), lambda: state.balance)
            state = eqx.tree_at(lambda s: s.balance, state, balance)
        if any(d is not None for d in state.density):
            few = {name: functions[:8] for name, functions in batch.inputs.items()}
            model = self.model(state)
            # With the last step of a batch: up to then, whoever goes on in the middle draws the same points.
            due = (state.step + 1) % self.config.sampling.resample == 0
            density = jax.lax.cond(
                due,
                lambda: self.sampler.adapt(state.density, model, few, batch.collocation),
                lambda: state.density,
            )
            state = eqx.tree_at(lambda s: s.density, state, density)
        return state

    def _balanced(self, state: TrainState, batch: Batch) -> Float[Array, " terms"]:
        """The balance of the terms: at the first step what `balancing_factors` says, later moved a tenth towards it,
        since the gradients of one batch are noisy."""
        target = balancing_factors(
            lambda parameters, factors: self.loss(parameters, factors, batch, state.step)[0],
            state.parameters,
            len(self.terms),
        )
        return jnp.where(state.step > 0, 0.9 * state.balance + 0.1 * target, target)


def _galerkin(config: TrainConfig) -> SpectralResidual | TestedResidual | None:
    """The projected residual that is minimised instead of that at points."""
    if config.loss.residual == "tested":
        return TestedResidual()
    return SpectralResidual(config.loss.smoothing) if config.loss.residual == "spectral" else None
