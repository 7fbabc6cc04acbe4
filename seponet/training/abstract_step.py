"""What every kind of training step shares: parameters, an optimizer, and many steps in one dispatch."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._program import OwnProgram
from ..calculus.undefined import Undefined
from ..equations.terms import Term
from ..nn.fixed import trainable
from ..nn.model import OperatorNetwork
from .config import TrainConfig
from .optimizers import make_optimizer, make_schedule
from .sharding import MeshProgram
from .state import OPEN, Record, TrainState


class AbstractStep(abc.ABC):
    """The training step of a model under a configuration.

    Functions and points follow from the seed and the number of the step alone, so a run that goes on from a checkpoint
    sees what the uninterrupted one would have seen. A step whose gradient is not finite is not applied.
    """

    terms: tuple[Term, ...]
    """The residuals whose losses a step reports."""

    _compiled: OwnProgram | MeshProgram

    def __init__(self, model: OperatorNetwork, config: TrainConfig, slab: int, key: PRNGKeyArray) -> None:
        self.config, self.slab, self.key = config, slab, key
        self.problem = model.problem
        self.trained, self.frozen = eqx.partition(model, trainable(model))

    @abc.abstractmethod
    def start(self) -> TrainState:
        """The state before the first step."""

    @abc.abstractmethod
    def run(self, state: TrainState, steps: Int[Array, ""] | int) -> tuple[TrainState, Record]:
        """The state after `steps` steps, and what they report, in one dispatch; their number is not compiled in."""

    def spread_over(self, mesh: Mesh) -> None:
        """From here on, let the devices of a mesh do each step together."""
        self._compiled = MeshProgram(self._compiled.function, mesh)

    def numbers(self) -> PyTree:
        """All that was computed to make this step; `adopt` replaces it."""
        return self.trained, self.frozen

    def adopt(self, numbers: Any) -> None:
        """Take the numbers of another process, whose last digits may be different."""
        self.trained, self.frozen = numbers

    @abc.abstractmethod
    def compile(self) -> Any:
        """The compiled program of `run`; a run that follows need not compile again."""

    def memory(self) -> int:
        """Bytes that a step needs besides its state, as the compiler says: asking compiles it, a matter of seconds."""
        return self.compile().memory_analysis().temp_size_in_bytes

    def find_undefined(self, state: TrainState) -> Undefined | None:
        """Where an equation has no value in the step from a state, as far as this kind of step can tell."""
        del state
        return None

    def optimizer(self, length: int | Int[Array, ""]) -> optax.GradientTransformation:
        """The optimizer of a run of some length, which only its schedule depends on."""
        settings = self.config.optimizer
        options = dict(settings.schedule_options)
        if settings.schedule == "cosine":
            options.setdefault("steps", length)
        schedule = make_schedule(settings.schedule, rate=settings.rate, **options)
        optimizer = make_optimizer(settings.name, schedule, **settings.options)
        return optax.chain(optax.clip_by_global_norm(settings.clip), optimizer) if settings.clip else optimizer

    def first_state(self, **parts: Any) -> TrainState:
        """The state before the first step, with the parts that kinds of steps differ in."""
        length = self.config.steps if isinstance(self.config.steps, int) else OPEN
        return TrainState(
            step=jnp.zeros((), int),
            length=jnp.asarray(length, int),
            parameters=self.trained,
            optimizer=self.optimizer(length).init(self.trained),
            rate=jnp.ones(()),
            **parts,
        )

    def model(self, state: TrainState) -> OperatorNetwork:
        """The model with the parameters of a state."""
        return eqx.combine(state.parameters, self.frozen)

    def descend(
        self, state: TrainState, loss: Float[Array, ""], gradient: PyTree
    ) -> tuple[PyTree, PyTree, Bool[Array, ""]]:
        """Parameters and optimizer after an update, and whether it was finite."""
        # Products with matrices that are stored transposed are slow, and XLA would make the gradient of a weight one.
        gradient = jax.lax.optimization_barrier(gradient)
        updates, optimizer = self.optimizer(state.length).update(gradient, state.optimizer, state.parameters)
        updates = jax.tree.map(lambda u: state.rate * u, updates)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(updates))
        return optax.apply_updates(state.parameters, updates), optimizer, finite

    def kept(self, new: TrainState, old: TrainState, finite: Bool[Array, ""]) -> TrainState:
        """The new state, or the old one if the update was not finite; one step later in both cases."""
        # What a step hands on as it is, a pool of megabytes for instance, is not copied.
        kept = jax.tree.map(lambda a, b: a if a is b else jnp.where(finite, a, b), new, old)
        return eqx.tree_at(lambda s: s.step, kept, old.step + 1)
