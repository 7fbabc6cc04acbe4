r"""Decoders: how coefficients and one-dimensional factors make a field.

Factors come per axis as `[rank, points]`, so that the last and largest step is a plain product of matrices
`[functions, rank] @ [rank, points]`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .decoder import AbstractDecoder, DerivativeSum, Tables


def matmul(rows: Float[Array, "*many n k"], matrix: Float[Array, "*many k m"]) -> Float[Array, "*many n m"]:
    """A product in the full precision of its type, on hardware too that would round float32 to TF32: derivatives
    amplify that rounding."""
    return jnp.matmul(rows, matrix, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class CP(AbstractDecoder):
    r"""The paper's decoder (equations 7 and 8), $s = \sum_{k=1}^r \beta_k \prod_n \tau_{nk}(y_n)$.

    A weighted sum of derivatives is formed in the basis functions, before the contraction with the coefficients, so it
    costs one contraction whatever its length. A single derivative of few functions does not hold the basis functions on
    the grid: the coefficients are contracted with the first axes, and the last axis comes at the end.

    **Arguments:**

    - `rank`: the number r of products of factors, and so of factors along each axis.
    """

    rank: int

    @property
    def has_core(self) -> bool:
        return False

    @property
    def materialised_rank(self) -> int:
        return self.rank

    def ranks(self, axes: int) -> tuple[int, ...]:
        return (self.rank,) * axes

    def shape(self, axes: int) -> tuple[int, ...]:
        return (self.rank,)

    def contract(
        self, coefficients: Float[Array, "functions rank"], tables: Tables, terms: DerivativeSum, grid: bool
    ) -> Float[Array, "functions *shape"]:
        if grid and _has_few_functions(coefficients, tables, terms):
            ((weight, (*orders, last)),) = terms
            leading = reduce(_outer, _pick(tables[:-1], orders))
            core = _scale(weight, coefficients[:, None] * leading.reshape(self.rank, -1).T[None])
            return _last_axis(core, tables[-1][last]).reshape(-1, *leading.shape[1:], tables[-1].shape[-1])
        product = _outer if grid else _pointwise
        basis = reduce(add, [_scale(c, reduce(product, _pick(tables, orders))) for c, orders in terms])
        shape = basis.shape[1:]
        return matmul(coefficients, basis.reshape(self.rank, -1)).reshape(-1, *shape)

    def flops(self, shape: tuple[int, ...], terms: DerivativeSum) -> int:
        return 2 * self.rank * math.prod(shape)


@dataclass(frozen=True)
class Tucker(AbstractDecoder):
    r"""$s = \sum_{k_1..k_d} C_{k_1..k_d} \prod_n \tau_{n k_n}(y_n)$: every product of factors has a coefficient.

    On a grid the axes are contracted one after the other, so the last step costs $N^d r_d$ instead of $N^d r$; or from
    the last to the first, if the first has so few factors that this is cheaper.

    **Arguments:**

    - `sizes`: the number of factors along each axis.
    """

    sizes: tuple[int, ...]

    @property
    def has_core(self) -> bool:
        return True

    @property
    def materialised_rank(self) -> int:
        return 0

    def ranks(self, axes: int) -> tuple[int, ...]:
        return self.sizes

    def shape(self, axes: int) -> tuple[int, ...]:
        return self.sizes

    def contract(
        self, coefficients: Float[Array, "functions *sizes"], tables: Tables, terms: DerivativeSum, grid: bool
    ) -> Float[Array, "functions *shape"]:
        if not grid:
            basis = reduce(add, [_scale(c, reduce(_kronecker, _pick(tables, orders))) for c, orders in terms])
            return matmul(coefficients.reshape(-1, math.prod(self.sizes)), basis)
        shape = tuple(table.shape[-1] for table in tables)
        axes = list(range(len(tables)))
        if self._flops_from_last(shape, terms) < self._flops_from_first(shape, terms):
            axes.reverse()
        *first, last = axes
        # Functions stand before the last axis: there each axis is contracted in its place by few and large products,
        # one for the first axis and one for the last. Where functions come first, each of them has products of its own.
        core = jnp.moveaxis(coefficients, 0, -2)
        # Derivatives that share their order along the axis that comes last are summed before that most expensive step.
        inner: dict[int, Array] = {}
        for c, orders in terms:
            value = core
            for axis in first:
                value = contract_axis(value, tables[axis][orders[axis]], axis)
            value, order = _scale(c, value), orders[last]
            inner[order] = inner[order] + value if order in inner else value
        values = [contract_axis(value, tables[last][order], last) for order, value in inner.items()]
        return jnp.moveaxis(reduce(add, values), -2, 0)

    def flops(self, shape: tuple[int, ...], terms: DerivativeSum) -> int:
        return min(self._flops_from_first(shape, terms), self._flops_from_last(shape, terms))

    def _flops_from_first(self, shape: tuple[int, ...], terms: DerivativeSum) -> int:
        return _chain_flops(self.sizes, shape, [orders for _, orders in terms])

    def _flops_from_last(self, shape: tuple[int, ...], terms: DerivativeSum) -> int:
        return _chain_flops(self.sizes[::-1], shape[::-1], [orders[::-1] for _, orders in terms])


def _chain_flops(sizes: tuple[int, ...], shape: tuple[int, ...], derivatives: Sequence[tuple[int, ...]]) -> int:
    """Operations for one function, axis after axis; what shares all orders but the last is contracted once."""
    total = 0
    for orders in {orders[:-1] for orders in derivatives}:
        for axis in range(len(orders)):
            total += 2 * math.prod(shape[: axis + 1]) * math.prod(sizes[axis:])
    return total + 2 * math.prod(shape) * sizes[-1] * len({orders[-1] for orders in derivatives})


def _has_few_functions(coefficients: Array, tables: Tables, terms: DerivativeSum) -> bool:
    """Whether it is cheaper to contract the coefficients with the first axes than to hold the basis on the grid."""
    # All basis functions on a grid are r n_1 ... n_d numbers. Coefficients times the factors of the first axes are
    # m r n_1 ... n_{d-1}, and the matrix product with the last axis costs the same either way: for m <= n_d functions
    # this holds fewer numbers. A prediction for one function then writes its result and little else.
    return len(tables) > 1 and len(terms) == 1 and coefficients.shape[0] <= tables[-1].shape[-1]


def _pick(tables: Tables, orders: Sequence[int]) -> list[Float[Array, "rank _"]]:
    return [table[m] for table, m in zip(tables, orders, strict=True)]


def contract_axis(core: Array, factor: Float[Array, "rank n"], axis: int) -> Array:
    """One axis of `[.., functions, r_d]` contracted in its place; `axis` does not count that of the functions."""
    if axis == core.ndim - 2:
        return _last_axis(core, factor)
    lead, points = core.shape[:axis], core.shape[axis + 1 :]
    flat = core.reshape(math.prod(lead), factor.shape[0], math.prod(points))
    rows = jnp.broadcast_to(factor.T[None], (flat.shape[0], *factor.T.shape))
    return matmul(rows, flat).reshape(*lead, -1, *points)


def _last_axis(core: Array, factor: Array) -> Array:
    return matmul(core.reshape(-1, factor.shape[0]), factor).reshape(*core.shape[:-1], -1)


def _outer(product: Array, factor: Array) -> Array:
    """All products on a grid: `[rank, ..]`, `[rank, n]` -> `[rank, .., n]`."""
    # An einsum, because its transposes are products of matrices: sums over the last axis are not vectorised on CPUs.
    flat = jnp.einsum("kp,kn->kpn", product.reshape(product.shape[0], -1), factor, precision="highest")
    return flat.reshape(*product.shape, -1)


def _pointwise(product: Array, factor: Array) -> Array:
    return product * factor


def _kronecker(product: Array, factor: Array) -> Array:
    """All products over ranks at every point: `[r, points]`, `[r', points]` -> `[r r', points]`."""
    return (product[:, None] * factor[None]).reshape(-1, factor.shape[-1])


def _scale(c: float, value: Array) -> Array:
    return value if c == 1.0 else c * value
