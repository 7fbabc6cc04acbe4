"""Compiled functions: those that are forgotten with their owner, and those that are compiled in a hurry."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

P = ParamSpec("P")
R = TypeVar("R")

HURRY = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Options of XLA for processors: a program is compiled in a fifth of the time, and runs 1.3 times as long. (Measured on
Newton's method for KdV and AllenCahn2D of the zoo; products of matrices are a library's, whatever the options.)"""


def compiled_briefly(function: Callable[P, R]) -> Callable[P, R]:
    """`equinox.filter_jit` for what runs a few times only, such as the search for a discretisation: there compiling
    takes longer than computing. Inside of another program, and on accelerators, it is the same as that."""
    options: dict[str, Any] = {"compiler_options": HURRY}
    thorough, brief = eqx.filter_jit(function), eqx.filter_jit(function, **options)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        inner = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs)))
        return (thorough if inner or not _on_processor() else brief)(*args, **kwargs)

    return run


def _on_processor() -> bool:
    return jax.default_backend() == "cpu"


class OwnProgram:
    """A function compiled for one object, whose programs go when the object goes.

    `equinox.filter_jit` keeps whatever a function holds, and its programs, in a table of the whole process: a bound
    method or a closure would keep its object with all arrays for good. Here the table is this object's own. Arguments
    may hold arrays, which are traced, and anything hashable, which is not; results hold arrays.

    **Arguments:**

    - `function`: what to compile.
    - `brief`: whether to compile it in a hurry, as `compiled_briefly` does.
    """

    def __init__(self, function: Callable[..., Any], *, brief: bool = False) -> None:
        def run(arrays: list[Any], rest: tuple[Any, tuple[Any, ...]]) -> Any:
            treedef, others = rest
            leaves = [other if array is None else array for array, other in zip(arrays, others, strict=True)]
            return function(*jax.tree.unflatten(treedef, leaves))

        self.function = function
        options = HURRY if brief and _on_processor() else None
        self._run = jax.jit(run, static_argnums=1, compiler_options=options)

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*_split(arguments))

    def compile(self, *arguments: Any) -> Any:
        """The program for such arguments; a call that follows need not compile again."""
        return self._run.lower(*_split(arguments)).compile()


def _split(arguments: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, tuple[Any, ...]]]:
    leaves, treedef = jax.tree.flatten(arguments)
    arrays = [leaf if eqx.is_array(leaf) else None for leaf in leaves]
    return arrays, (treedef, tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves))
