"""Ready for accelerators that are not here: programs lower for CUDA and TPU, and no product is left to a default."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend as jex
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from jax import export

from seponet import Operator
from seponet.problems import PROBLEMS
from seponet.training.config import SamplingConfig, TargetsConfig, TrainConfig
from seponet.training.recipe import Recipe
from seponet.training.step import TrainStep
from seponet.training.targets import make_solved_step

PLATFORMS = ("cuda", "tpu")

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Recorder:
    """Compiles nothing else than `jax.jit` does, and remembers what was called with which arguments."""

    def __init__(self) -> None:
        self.calls: dict[Any, Call] = {}

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        compiled = JIT(function, **options)
        recorder = self

        class Program:
            def __call__(self, *arguments: Any, **named: Any) -> Any:
                shapes = tuple(
                    (leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments) if hasattr(leaf, "dtype")
                )
                # What a surrounding program is made of is lowered with it.
                if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                    recorder.calls.setdefault((id(compiled), shapes), (compiled, arguments, named))
                return compiled(*arguments, **named)

            def __getattr__(self, name: str) -> Any:
                return getattr(compiled, name)

        return Program()


JIT = jax.jit


@pytest.fixture
def recorder(monkeypatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(jax, "jit", recorder.jit)
    return recorder


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
            assert precision is not None, f"{equation} leaves its precision to the platform: {equation.source_info}"
            assert set(precision) == {jax.lax.Precision.HIGHEST}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_training_step_lowers(name):
    model = zoo.small(PROBLEMS[name]())
    points = dict.fromkeys(model.problem.domain, 4)
    step = TrainStep(model, TrainConfig(functions=2, sampling=SamplingConfig(points=points)), 2, jax.random.key(0))
    check(step._compiled._run, *split(step.start(), jnp.asarray(1)))


def split(*arguments: Any) -> Any:
    from seponet._program import _split

    return _split(arguments)


@pytest.mark.parametrize("name", PROBLEMS)
def test_prediction_error_and_solution_lower(name, recorder):
    """Everything that is compiled on the way."""
    problem = PROBLEMS[name]()
    config: dict[str, Any] = {"decoder": "tucker", "trunk": "classical", "exact": "all"}
    operator = Operator(zoo.small(problem, rank=4, **config))
    inputs = problem.sample(jax.random.key(1), 2)
    grid = {axis: np.linspace(a.lower, a.upper, 3) for axis, a in problem.domain.axes}
    operator.predict(inputs, **grid)
    before = len(recorder.calls)
    assert before
    operator.error(inputs)
    operator.solve(inputs, rtol=0.9, **grid)
    assert len(recorder.calls) > before
    for program, arguments, named in recorder.calls.values():
        check(program, *arguments, **named)


def test_steps_on_targets_lower():
    """With a linear solver on the way: LU, Cholesky, GMRES and an eigenvalue problem of the optimizer."""
    train = TrainConfig(functions=2, sampling=SamplingConfig(points={"t": 6, "x": 8}), targets=TargetsConfig(pool=4))
    for problem in (PROBLEMS["burgers"](),):
        model = zoo.small(problem, rank={"t": 3, "x": 5}, decoder="tucker", trunk="classical", exact="all")
        key = jax.random.key(0)
        step = make_solved_step(model, Recipe(train=train), 2, key, key)
        check(step._compiled._run, *split(step.start(), jnp.asarray(1), step.corrector))
