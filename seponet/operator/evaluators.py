"""The compiled evaluators of one operator: those of the last few grids are kept."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from .._numbers import real
from .._precision import is_double
from ..calculus.model import Model
from ..equations.symbols import Symbol
from .evaluator import Inputs, forget_programs
from .points import AnyEvaluator, make_evaluator
from .request import check_size

KEPT = 8
"""How many compiled evaluators an operator keeps; after as many that it has dropped, their programs are forgotten."""


class Evaluators:
    """Evaluators by what they were asked for.

    **Arguments:**

    - `model`: the operator's network, or a discretisation.
    - `coefficients`: the compiled map from inputs to its coefficients.
    """

    def __init__(self, model: Model, coefficients: Callable[[Inputs], Array]) -> None:
        self.model, self.coefficients = model, coefficients
        self._kept: OrderedDict[Any, AnyEvaluator] = OrderedDict()
        self._dropped = 0

    def get(
        self, symbols: Sequence[Symbol], coordinates: Mapping[str, Any], *, points: bool, memory: int
    ) -> AnyEvaluator:
        """The evaluator of some fields or derivatives at a location; see `CompiledEvaluator`."""
        memory, points = int(real("memory, in bytes,", memory, 1, 2**60)), bool(points)
        double = is_double(self.model) or jax.config.read("jax_enable_x64")
        arrays = {name: np.asarray(c) for name, c in sorted(coordinates.items())}
        if not points:
            check_size({name: c.size for name, c in arrays.items()})
        location = tuple((name, c.shape, c.dtype.str, c.tobytes()) for name, c in arrays.items())
        key = (location, tuple(symbols), points, memory, double)
        if key not in self._kept:
            self._kept[key] = make_evaluator(
                self.model, self.coefficients, coordinates, points=points, symbols=symbols, memory=memory
            )
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
                self._dropped += 1
            if self._dropped >= KEPT:
                self._dropped = 0
                forget_programs()
        self._kept.move_to_end(key)
        return self._kept[key]
