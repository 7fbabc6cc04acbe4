"""Compiled functions: those that are forgotten with their owner, and those that are compiled in a hurry."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
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
        inner = _is_traced((args, kwargs))
        return (thorough if inner or not _on_processor() else brief)(*args, **kwargs)

    return run


def _is_traced(arguments: Any) -> bool:
    """Whether a program is being traced, also if it has none of the arguments."""
    some = jax.lax.neg(np.float32(0))
    return any(isinstance(leaf, Tracer) for leaf in (some, *jax.tree.leaves(arguments)))


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
        self.brief = brief and _on_processor()
        self._run = jax.jit(run, static_argnums=1, compiler_options=HURRY if self.brief else None)

    def __call__(self, *arguments: Any) -> Any:
        if not self.brief:
            return self._run(*_split(arguments))
        # Options of the compiler are for whole programs: in one that is being traced it is a part of that.
        return self.function(*arguments) if _is_traced(arguments) else self._run(*_split(arguments))

    def compile(self, *arguments: Any) -> Any:
        """The program for such arguments; a call that follows need not compile again."""
        return self._run.lower(*_split(arguments)).compile()


def _split(arguments: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, tuple[Any, ...]]]:
    leaves, treedef = jax.tree.flatten(arguments)
    arrays = [leaf if eqx.is_array(leaf) else None for leaf in leaves]
    return arrays, (treedef, tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves))
