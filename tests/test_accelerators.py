"""Ready for accelerators that are not here: programs lower for CUDA and TPU, and no product is left to a default."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from jax import export
from jax.core import Tracer

from seponet import Operator
from seponet._program import _split
from seponet.operator import solving
from seponet.problems import PROBLEMS
from seponet.training.abstract_step import AbstractStep
from seponet.training.config import LossConfig, SamplingConfig, TargetsConfig, TrainConfig
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep
from seponet.training.targets import make_solved_step

PLATFORMS = ("cuda", "tpu")

Call = tuple[Any, tuple[Any, ...], dict[str, Any], bool]


class Recorder:
    """Remembers what was compiled, and for which arguments, while all is computed as usual."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: dict[Any, Call] = {}
        jit, filtered = jax.jit, type(eqx.filter_jit(lambda: None))
        whole = filtered.__call__

        def recorded(function: Callable[..., Any], **options: Any) -> Any:
            compiled = jit(function, **options)

            def call(*arguments: Any, **named: Any) -> Any:
                self._note(compiled, arguments, named)
                return compiled(*arguments, **named)

            call.lower = compiled.lower  # pyright: ignore[reportFunctionMemberAccess]
            return call

        def call(wrapper: Any, *arguments: Any, **named: Any) -> Any:
            arrays, rest = eqx.partition((arguments, named), eqx.is_array)

            def function(arrays: Any) -> Any:
                arguments, named = eqx.combine(arrays, rest)
                return eqx.filter(wrapper.__wrapped__(*arguments, **named), eqx.is_array)

            self._note(jit(function), (arrays,), {}, wrapper)
            return whole(wrapper, *arguments, **named)

        patch.setattr(jax, "jit", recorded)
        patch.setattr(filtered, "__call__", call)

    def _note(self, program: Any, arguments: Any, named: Any, owner: Any = None) -> None:
        leaves = [leaf for leaf in jax.tree.leaves(arguments) if hasattr(leaf, "dtype")]
        # What a surrounding program is made of is lowered with it.
        if not any(isinstance(leaf, Tracer) for leaf in leaves):
            shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
            # It is lowered with the precision that it was called with.
            double = jnp.asarray(0.0).dtype == jnp.float64
            self.calls.setdefault((id(owner or program), shapes), (program, arguments, named, double))

    def check(self) -> None:
        assert self.calls
        for program, arguments, named, double in list(self.calls.values()):
            with jax.enable_x64(double):
                check(program, *arguments, **named)


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    return Recorder(monkeypatch)


def products(jaxpr: Any) -> Iterator[Any]:
    """The products of matrices in a program, those in its loops and branches included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if isinstance(inner, jex.core.ClosedJaxpr):
                    yield from products(inner.jaxpr)
                elif isinstance(inner, jex.core.Jaxpr):
                    yield from products(inner)


def check(program: Any, *arguments: Any, **named: Any) -> None:
    """Lower a program, compiling nothing; its products of floats ask for all digits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = export.export(program, platforms=PLATFORMS)(*arguments, **named)
    assert lowered.platforms == PLATFORMS
    traced = program.trace(*arguments, **named)
    for equation in products(traced.jaxpr.jaxpr):
        if jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.inexact):
            precision = equation.params["precision"]
            assert precision is not None, f"{equation} leaves its precision to the platform"
            assert set(precision) == {jax.lax.Precision.HIGHEST}


def check_step(step: AbstractStep, *arguments: Any) -> None:
    program: Any = step._compiled
    check(program._run, *_split(arguments))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_training_step_lowers(name):
    model = zoo.small(PROBLEMS[name]())
    points = dict.fromkeys(model.problem.domain, 4)
    step = TrainStep(model, TrainConfig(functions=2, sampling=SamplingConfig(points=points)), 2, jax.random.key(0))
    check_step(step, step.start(), jnp.asarray(1))


@pytest.mark.parametrize("name", PROBLEMS)
def test_prediction_lowers(name, recorder):
    problem = PROBLEMS[name]()
    operator = Operator(zoo.small(problem))
    grid: dict[str, Any] = {axis: np.linspace(a.lower, a.upper, 3) for axis, a in problem.domain.axes}
    operator.predict(problem.sample(jax.random.key(1), 2), **grid)
    recorder.check()


@pytest.fixture
def hasty() -> Iterator[None]:
    """Programs that run once are not worth the compiler's time."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.usefixtures("hasty")
def test_error_and_solution_lower(name, recorder, monkeypatch):
    """Everything that is compiled on the way: preconditioned residuals, Newton's method, norms."""
    problem = PROBLEMS[name]()
    # Larger bases are the same programs of other shapes.
    monkeypatch.setattr(solving, "LEVELS", 2 if len(problem.domain) == 2 else 1)
    config: dict[str, Any] = {"decoder": "tucker", "trunk": "classical", "exact": "all"}
    operator = Operator(zoo.small(problem, rank=3, **config))
    # Small ones, so that Newton's method does not end in overflows.
    inputs = jax.tree.map(lambda a: 0.1 * a, problem.sample(jax.random.key(1), 2))
    operator.error(inputs)
    grid: dict[str, Any] = {axis: np.linspace(a.lower, a.upper, 3) for axis, a in problem.domain.axes}
    operator.solve(inputs, rtol=0.9, **grid)
    recorder.check()


def test_steps_on_targets_lower():
    """With a linear solver on the way, and an eigenvalue problem of the optimizer."""
    train = TrainConfig(
        functions=2,
        sampling=SamplingConfig(points={"t": 6, "x": 8}),
        loss=LossConfig(residual="tested"),
        targets=TargetsConfig(pool=4),
    )
    config: dict[str, Any] = {"decoder": "tucker", "trunk": "classical", "exact": "all"}
    model = zoo.small(PROBLEMS["burgers"](), rank={"t": 3, "x": 5}, **config)
    key = jax.random.key(0)
    step = make_solved_step(model, Recipe(train=train), 2, key, key)
    check_step(step, step.start(), jnp.asarray(1), step.corrector)
