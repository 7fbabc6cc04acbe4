"""A network that corrects an affine map which is known."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .fixed import Fixed
from .linear import matmul


class AffinePlus(eqx.Module):
    """x -> x M + b + body(x), with M and b that are not trained: many an operator is nearly linear, and the best linear
    one follows from a few hundred solved functions.

    **Arguments:**

    - `matrix`, `offset`: M and b.
    - `body`: a network of the same sizes.
    """

    matrix: Fixed
    offset: Fixed
    body: Callable[[Any], Array]

    @property
    def in_size(self) -> int:
        return self.matrix.value.shape[0]

    @property
    def out_size(self) -> int:
        return self.matrix.value.shape[1]

    def __call__(self, x: Float[Array, "n in"]) -> Float[Array, "n out"]:
        return matmul(x, self.matrix()) + self.offset()[None] + self.body(x)
