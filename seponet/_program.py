"""Compiled functions that are forgotten with their owner."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


class OwnProgram:
    """A function compiled for one object, whose programs go when the object goes.

    `equinox.filter_jit` keeps whatever a function holds, and its programs, in a table of the whole process: a bound
    method or a closure would keep its object with all arrays for good. Here the table is this object's own. Arguments
    may hold arrays, which are traced, and anything hashable, which is not; results hold arrays.

    **Arguments:**

    - `function`: what to compile.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        def run(arrays: list[Any], rest: tuple[Any, tuple[Any, ...]]) -> Any:
            treedef, others = rest
            leaves = [other if array is None else array for array, other in zip(arrays, others, strict=True)]
            return function(*jax.tree.unflatten(treedef, leaves))

        self.function = function
        self._run = jax.jit(run, static_argnums=1)

    def __call__(self, *arguments: Any) -> Any:
        return self._run(*_split(arguments))

    def compile(self, *arguments: Any) -> Any:
        """The program for such arguments; a call that follows need not compile again."""
        return self._run.lower(*_split(arguments)).compile()


def _split(arguments: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, tuple[Any, ...]]]:
    leaves, treedef = jax.tree.flatten(arguments)
    arrays = [leaf if eqx.is_array(leaf) else None for leaf in leaves]
    return arrays, (treedef, tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves))
