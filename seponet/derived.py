"""Functions computed from the inputs of a problem, and used like inputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .functions import Functions, Space


@dataclass(frozen=True)
class Derived:
    """A function that follows from the inputs: the slope of a solution at t = 0, a vorticity, a travel time.

    Conditions, equations and branches may name it like an input. It is computed once for every batch.

    **Arguments:**

    - `space`: its axes and components; the functions themselves may come from any space that has the same.
    - `compute`: the inputs -> the functions, in JAX.
    """

    space: Space
    compute: Callable[[Mapping[str, Functions]], Functions]
