"""One training step, and many of them in one dispatch."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..calculus.model import FixedCoefficients
from ..equations.terms import Term
from ..losses.pointwise import Losses, lift_losses, physics_loss
from ..losses.spectral import SpectralResidual
from ..losses.supervised import Data
from ..nn.fixed import trainable
from ..nn.model import OperatorNetwork
from ..operator.rollout import end_of_window
from .config import TrainConfig
from .optimizers import average, make_optimizer, make_schedule
from .sampling import Sampler
from .sharding import share
from .state import Batch, Record, TrainState
from .state_pool import Pool, start_pool


class TrainStep:
    """The training step of a model under a configuration.

    Functions and points follow from the seed and the number of the step alone, so a run that goes on from a checkpoint
    sees what the uninterrupted one would have seen. A step whose gradient is not finite is not applied.

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
        self.config, self.slab, self.key, self.data = config, slab, key, data
        self.problem = model.problem
        self.terms = model.problem.terms(model.exact)
        self.sampler = Sampler.of(self.problem.domain, config.points, config.sampling, not model.separable)
        self.weights = _term_weights(self.terms, config)
        self.optimizer = _optimizer(config)
        self.trained, self.frozen = eqx.partition(model, trainable(model))
        self.galerkin = SpectralResidual(config.smoothing) if config.residual == "spectral" else None
        if self.galerkin is not None:
            self.galerkin.check(model, self.sampler.methods)
        # Fixed points are constants, so that bases are tabulated while tracing.
        fixed = set(self.sampler.methods) == {"gauss"}
        self.nodes = self.sampler.draw(key, self.sampler.density()) if fixed else None
        if config.windows > 1:
            self.problem.time_axis()
        if config.causality:
            _check_causal(model)
        # Compiled for this object, and forgotten with it.
        self._compiled = eqx.filter_jit(self._run)

    def start(self) -> TrainState:
        """The state before the first step."""
        several = self.config.windows > 1
        return TrainState(
            step=jnp.zeros((), int),
            weights=self.trained,
            mean=self.trained if self.config.average else None,
            optimizer=self.optimizer.init(self.trained),
            balance=jnp.ones(len(self.terms)),
            density=self.sampler.density(),
            rate=jnp.ones(()),
            pool=start_pool(self.problem, jax.random.fold_in(self.key, 3), self.config.pool) if several else None,
        )

    def run(self, state: TrainState, steps: Int[Array, ""] | int) -> tuple[TrainState, Record]:
        """The state after `steps` steps, and what they report, in one dispatch; their number is not compiled in."""
        return self._compiled(state, jnp.asarray(steps))

    def compile(self) -> Any:
        """The compiled program of `run`; a run that follows need not compile again."""
        return self._compiled.lower(self.start(), jnp.asarray(1)).compile()  # pyright: ignore[reportFunctionMemberAccess]

    def memory(self) -> int:
        """Bytes that a step needs besides its state, as the compiler says: asking compiles it, a matter of seconds."""
        return self.compile().compiled.memory_analysis().temp_size_in_bytes

    def model(self, state: TrainState) -> OperatorNetwork:
        """The model to evaluate: with averaged weights if an average is kept."""
        return eqx.combine(state.weights if state.mean is None else state.mean, self.frozen)

    def batch(self, state: TrainState) -> Batch:
        """The functions and points that a step uses."""
        key = jax.random.fold_in(self.key, state.step // self.config.resample)
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
        model = eqx.combine(state.weights, self.frozen)
        code = model.encode(inputs)
        if not self.config.normalise:
            return Batch(inputs, code, collocation, jnp.ones(functions), rows)
        if self.galerkin is None:
            table = lift_losses(model, inputs, collocation, functions)
        else:
            table = self.galerkin.table(model, inputs, collocation, None, functions)
        losses = jnp.sum(self.weights[:, None] * table, axis=0)
        return Batch(inputs, code, collocation, 1 / (losses + 1e-3 * jnp.mean(losses) + 1e-30), rows)

    def loss(self, weights: PyTree, balance: Array, batch: Batch, step: Array) -> tuple[Array, tuple[Losses, Array]]:
        """The weighted sum over terms, averaged over functions, plus that of supervised pairs; with all losses and
        the coefficients."""
        if self.nodes is not None:
            batch = eqx.tree_at(lambda b: b.collocation, batch, self.nodes)
        model = eqx.combine(weights, self.frozen)
        scaled = (self.weights * balance)[:, None] * batch.scale[None] / batch.scale.shape[0]
        coefficients = model.coefficients(batch.code)
        losses = self._physics(model, batch, coefficients, scaled)
        if self.data is None:
            return losses.total, (losses, coefficients)
        key = jax.random.fold_in(jax.random.fold_in(self.key, 1), step)
        supervised = self.data.loss(model, key, self.config.functions)
        return losses.total + self.config.data_weight * supervised, (losses, coefficients)

    def _physics(self, model: Any, batch: Batch, coefficients: Array, weights: Array) -> Losses:
        if self.galerkin is not None:
            losses = self.galerkin.loss(model, batch.inputs, batch.collocation, weights, coefficients)
            return Losses(jnp.sum(self._capped(weights, losses.table) * losses.table), losses.table)
        solution = FixedCoefficients(model, coefficients)
        if self.config.cap:
            # The gradient is accumulated while the loss is, so what caps it must be known before: a sweep without one.
            still = FixedCoefficients(jax.lax.stop_gradient(model), jax.lax.stop_gradient(coefficients))
            table = physics_loss(still, batch.inputs, batch.collocation, weights, self.slab).table
            weights = self._capped(weights, table)
        return physics_loss(solution, batch.inputs, batch.collocation, weights, self.slab)

    def _capped(self, weights: Array, table: Array) -> Float[Array, "terms functions"]:
        """Weights that hold the loss of each function at the cap: beyond it, the gradient is that of the logarithm."""
        if not self.config.cap:
            return weights
        losses = jax.lax.stop_gradient(table.shape[1] * jnp.sum(weights * table, axis=0))
        return weights * jnp.minimum(1.0, self.config.cap / jnp.maximum(losses, 1e-30))[None]

    def _run(self, state: TrainState, steps: Int[Array, ""]) -> tuple[TrainState, Record]:
        nothing = Record(jnp.zeros(()), jnp.zeros(len(self.terms)), jnp.asarray(True))
        arrays, static = eqx.partition(self.batch(state), eqx.is_array)

        def body(_: Any, carry: Any) -> Any:
            state, arrays, record = carry
            fresh = state.step % self.config.resample == 0
            arrays = jax.lax.cond(fresh, lambda: eqx.partition(self.batch(state), eqx.is_array)[0], lambda: arrays)
            state, new = self._step(state, eqx.combine(arrays, static))
            return state, arrays, Record(new.loss, new.terms, record.finite & new.finite)

        state, _, record = jax.lax.fori_loop(0, steps, body, (state, arrays, nothing))
        return state, record

    def _step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Record]:
        state = self._adjust(state, batch)
        (loss, (losses, coefficients)), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.weights, state.balance, batch, state.step
        )
        updates, optimizer = self.optimizer.update(gradient, state.optimizer, state.weights)
        updates = jax.tree.map(lambda u: state.rate * u, updates)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(updates))
        weights = optax.apply_updates(state.weights, updates)
        mean = None if state.mean is None else average(weights, state.mean, state.step, self.config.average)
        pool = None if state.pool is None else self._advance(state, batch, losses, coefficients)
        new = TrainState(state.step, weights, mean, optimizer, state.balance, state.density, state.rate, pool)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, state)
        kept = eqx.tree_at(lambda s: s.step, kept, state.step + 1)
        terms = jnp.mean(losses.table * batch.scale[None], axis=1)
        return kept, Record(loss, terms, finite)

    def _advance(self, state: TrainState, batch: Batch, losses: Losses, coefficients: Array) -> Pool | None:
        """The pool after a step: the model takes the states whose residual is small on to the next window."""
        if state.pool is None or batch.rows is None:
            return None
        model = eqx.combine(state.weights, self.frozen)
        advanced = end_of_window(FixedCoefficients(model, coefficients), model.sensors, batch.inputs)
        key = jax.random.fold_in(jax.random.fold_in(self.key, 2), state.step)
        fresh = self.problem.sample(key, batch.rows.shape[0])
        relative = jnp.sum(self.weights[:, None] * losses.table, axis=0) * batch.scale
        progress = state.step / max(self.config.ramp * self.config.steps, 1)
        limit = jnp.minimum(1 + self.config.windows * progress, self.config.windows)
        return state.pool.replace(batch.rows, advanced, fresh, relative < self.config.accept, limit)

    def _adjust(self, state: TrainState, batch: Batch) -> TrainState:
        """Slow changes: the balance of the terms, the density of adaptive points."""
        if self.config.balance:
            due = state.step % self.config.balance == 0
            balance = jax.lax.cond(due, lambda: self._balanced(state, batch), lambda: state.balance)
            state = eqx.tree_at(lambda s: s.balance, state, balance)
        if any(d is not None for d in state.density):
            few = {name: functions[:8] for name, functions in batch.inputs.items()}
            model = eqx.combine(state.weights, self.frozen)
            # With the last step of a batch: up to then, whoever goes on in the middle draws the same points.
            due = (state.step + 1) % self.config.resample == 0
            density = jax.lax.cond(
                due,
                lambda: self.sampler.adapt(state.density, model, few, batch.collocation),
                lambda: state.density,
            )
            state = eqx.tree_at(lambda s: s.density, state, density)
        return state

    def _balanced(self, state: TrainState, batch: Batch) -> Float[Array, " terms"]:
        """Factors that give every term a gradient of the same length as the first one's (Wang et al. 2021)."""

        def length(one: Array) -> Array:
            gradient = jax.grad(lambda w: self.loss(w, one, batch, state.step)[0])(state.weights)
            return optax.tree.norm(gradient)

        lengths = jax.lax.map(length, jnp.eye(len(self.terms)))
        target = lengths[0] / jnp.maximum(lengths, 1e-6 * jnp.max(lengths))
        started = state.step > 0
        return jnp.where(started, 0.9 * state.balance + 0.1 * target, target)


def _term_weights(terms: tuple[Term, ...], config: TrainConfig) -> Float[Array, " terms"]:
    axes = {term.face.axis for term in terms if term.face is not None}
    names = {term.name for term in terms}
    for key in config.weights:
        if key not in axes | names | {"equation"}:
            known = ", ".join(sorted(axes | names))
            raise ValueError(f"train.weights names {key!r}; the terms and axes with soft conditions are {known}")

    def weight(term: Term) -> float:
        group = "equation" if term.face is None else term.face.axis
        return float(config.weights.get(term.name, config.weights.get(group, 1.0)))

    return jnp.asarray([weight(term) for term in terms])


def _check_causal(model: OperatorNetwork) -> None:
    """Causal weights follow the rows of a grid: they need one, and time along its first axis."""
    name, axis = model.problem.domain.axes[0]
    own = [c.trace.at for c in model.problem.linear_conditions if c.axis == name]
    if not model.separable or not own or any(at != axis.lower for at in own):
        raise ValueError(
            "train.causality needs a separable model and time as the first axis of the domain, with conditions at its "
            f"beginning only; got {type(model).__name__} and the first axis {name}"
        )


def _optimizer(config: TrainConfig) -> optax.GradientTransformation:
    options = dict(config.schedule_options)
    if config.schedule in ("cosine", "warmup_stable_decay"):
        options.setdefault("steps", config.steps)
    schedule = make_schedule(config.schedule, rate=config.rate, **options)
    optimizer = make_optimizer(config.optimizer, schedule, **dict(config.optimizer_options))
    return optax.chain(optax.clip_by_global_norm(config.clip), optimizer) if config.clip else optimizer
