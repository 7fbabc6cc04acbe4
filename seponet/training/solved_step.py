r"""One step of fitting a network to what its own discretisation solves: no residual is differentiated.

$$\min_\theta\; E_u \frac{\|c_\theta(u) - c^*(u)\|^2}{\|s(u)\|^2},$$

the squared relative L2 error, since the basis functions are orthonormal. Sampled inputs are solved in float32 by a few
Newton steps from the network's own answer (`discretise/correction.py`), which get cheaper as it learns. A function is
fitted several times before it is forgotten; what the network gets wrong on the newest, before it has seen them, is its
error on unseen inputs.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._program import OwnProgram
from ..discretise.correction import Corrector, make_corrector
from ..losses.tested import discretisation_of, nodes_of
from ..nn.model import OperatorNetwork
from .abstract_step import AbstractStep
from .config import TrainConfig
from .sampling import Sampler
from .sharding import share
from .state import Record, TrainState
from .target_pool import TargetPool


class SolvedStep(AbstractStep):
    """A step down the gradient of the error against solutions of the model's own discretisation.

    **Arguments:**

    - `model`: the model to train, on classical trunks with a Tucker decoder.
    - `config`: how.
    - `slab`: points in one slab of a residual; kept for the cost that is told.
    - `key`: the seed of functions.
    """

    def __init__(self, model: OperatorNetwork, config: TrainConfig, slab: int, key: PRNGKeyArray) -> None:
        super().__init__(model, config, slab, key)
        self.terms = ()
        sampling, targets = config.sampling, config.targets
        sampler = Sampler.of(self.problem.domain, sampling.points, sampling.method)
        nodes = nodes_of(model, sampler.draw(key, sampler.density()))
        self.corrector = make_corrector(
            self.problem,
            discretisation_of(model),
            nodes,
            jax.random.fold_in(key, 1),
            steps=targets.newton,
            iterations=targets.iterations,
            tolerance=targets.tolerance,
        )
        # The preconditioner is an argument of the program: as a constant of it, it would be compiled in.
        self._compiled = OwnProgram(self._run)

    def start(self) -> TrainState:
        shapes = eqx.filter_eval_shape(self._solve, self.trained, jnp.asarray(0), self.corrector)
        # Whole batches are written, so that none is cut at the end of the pool.
        batches = -(-self.config.targets.pool // self.config.functions)
        return TrainState(
            step=jnp.zeros((), int),
            parameters=self.trained,
            optimizer=self.optimizer.init(self.trained),
            balance=jnp.ones(0),
            density=(),
            rate=jnp.ones(()),
            targets=TargetPool.empty(batches * self._functions, shapes[0], shapes[1]),
        )

    def run(self, state: TrainState, steps: Int[Array, ""] | int) -> tuple[TrainState, Record]:
        return self._compiled(state, jnp.asarray(steps), self.corrector)

    def compile(self) -> Any:
        return self._compiled.compile(self.start(), jnp.asarray(1), self.corrector)

    @property
    def _functions(self) -> int:
        return self.config.functions if self.problem.inputs else 1

    def _solve(
        self, parameters: PyTree, step: Int[Array, ""], corrector: Corrector
    ) -> tuple[dict[str, Array], Array, Array, Array]:
        """A batch of fresh functions: what the sensors see, their solutions, weights, and the network's error."""
        key = jax.random.fold_in(self.key, step)
        inputs = share(self.problem.sample(key, self._functions) if self.problem.inputs else {})
        model: Any = eqx.combine(parameters, self.frozen)
        sensor_values = model.encode(inputs)
        guess = model.coefficients(sensor_values)
        solved = corrector(inputs, guess)
        good = solved.solved
        coefficients = jnp.where(good.reshape(-1, *(1,) * (guess.ndim - 1)), solved.coefficients, 0.0)
        weights = jnp.where(good, 1 / jnp.maximum(solved.norms, 1e-30) ** 2, 0.0)
        errors = jnp.sqrt(weights * _squares(guess - coefficients))
        error = jnp.sum(jnp.where(good, errors, 0.0)) / jnp.maximum(jnp.sum(good), 1)
        return sensor_values, coefficients, weights, jnp.where(jnp.any(good), error, 1.0)

    def _run(self, state: TrainState, steps: Int[Array, ""], corrector: Corrector) -> tuple[TrainState, Record]:
        def body(_: Any, carry: Any) -> Any:
            state, record = carry
            due = state.step % self.config.targets.renew == 0
            targets = jax.lax.cond(due, lambda: self._renew(state, corrector), lambda: state.targets)
            state, new = self._step(eqx.tree_at(lambda s: s.targets, state, targets))
            return state, Record(new.loss, new.terms, record.finite & new.finite)

        nothing = Record(jnp.zeros(()), jnp.zeros(0), jnp.asarray(True))
        return jax.lax.fori_loop(0, steps, body, (state, nothing))

    def _renew(self, state: TrainState, corrector: Corrector) -> TargetPool:
        assert state.targets is not None
        return state.targets.add(*self._solve(state.parameters, state.step, corrector))

    def _step(self, state: TrainState) -> tuple[TrainState, Record]:
        pool = state.targets
        assert pool is not None
        rows = pool.rows(jax.random.fold_in(jax.random.fold_in(self.key, 2), state.step), self._functions)
        sensor_values = {name: values[rows] for name, values in pool.sensor_values.items()}
        targets, weights = pool.coefficients[rows], pool.weights[rows]

        def loss(parameters: PyTree) -> Float[Array, ""]:
            model = eqx.combine(parameters, self.frozen)
            return jnp.mean(weights * _squares(model.coefficients(sensor_values) - targets))

        value, gradient = jax.value_and_grad(loss)(state.parameters)
        parameters, optimizer, finite = self.descend(state, value, gradient)
        new = TrainState(
            state.step, parameters, optimizer, state.balance, state.density, state.rate, None, state.targets
        )
        return self.kept(new, state, finite), Record(value, jnp.zeros(0), finite)


def _squares(c: Float[Array, "functions fields *_"]) -> Float[Array, " functions"]:
    return jnp.sum(c**2, axis=tuple(range(1, c.ndim)))
