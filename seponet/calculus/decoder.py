"""Decoders, as the calculus sees them: how coefficients and one-dimensional factors make a field.

The calculus contracts through this class and knows no other; `decoders.py` has the CP and the Tucker decoder.
"""

import abc
from collections.abc import Sequence

from jaxtyping import Array, Float

Tables = Sequence[Float[Array, "_ _ _"]]
"""For each axis the derivatives of its factors from order 0 on, `[orders, rank, points]`."""

DerivativeSum = Sequence[tuple[float, tuple[int, ...]]]
"""A weighted sum of derivatives: for each its weight and its order along every axis."""


class AbstractDecoder(abc.ABC):
    """A map that is linear in the coefficients and linear in the factors of each axis.

    Decoders are static in models and under `jit`, so a subclass is frozen and hashable: a frozen dataclass.
    """

    @property
    @abc.abstractmethod
    def has_core(self) -> bool:
        """Whether the coefficients are a core tensor: one axis for each axis of the domain, as long as its factors."""

    @property
    @abc.abstractmethod
    def materialised_rank(self) -> int:
        """How many products of factors, shared by all functions, are held at every point of a grid: what a contraction
        needs in memory besides its result."""

    @abc.abstractmethod
    def ranks(self, axes: int) -> tuple[int, ...]:
        """The number of factors along each axis of a domain that has `axes` of them."""

    @abc.abstractmethod
    def shape(self, axes: int) -> tuple[int, ...]:
        """The shape of one function's coefficients for one field, in a domain with `axes` axes."""

    @abc.abstractmethod
    def contract(
        self, coefficients: Float[Array, "functions *_"], tables: Tables, terms: DerivativeSum, grid: bool
    ) -> Float[Array, "functions *shape"]:
        """A weighted sum of derivatives of the field, from coefficients `[functions, *shape(axes)]`.

        **Arguments:**

        - `tables`: for each axis `[orders, rank, points]`.
        - `terms`: the weights, and the orders along each axis.
        - `grid`: whether the points of the axes are combined as a tensor product, or one by one.

        **Returns:** `[functions, n_1, ..., n_d]` on a grid and `[functions, n]` at points.
        """

    @abc.abstractmethod
    def flops(self, shape: tuple[int, ...], terms: DerivativeSum) -> int:
        """Multiplications and additions of a contraction for one function on a grid of `shape`, without what all
        functions share."""
