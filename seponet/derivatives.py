"""Partial derivatives as multi-indices, and the linear functionals (traces) that conditions are made of."""

from dataclasses import dataclass

MultiIndex = tuple[tuple[str, int], ...]
"""A derivative: axes with their orders, sorted by axis, zero orders left out. `s_txx` is (("t", 1), ("x", 2))."""


def order_along(alpha: MultiIndex, axis: str) -> int:
    """The order of `alpha` along `axis`."""
    return dict(alpha).get(axis, 0)


def multi_index(**orders: int) -> MultiIndex:
    """A partial derivative: `multi_index(t=1, x=2)` is that of `s_txx`.

    **Arguments:**

    - `orders`: by axis, the order along it.
    """
    return tuple(sorted((name, n) for name, n in orders.items() if n))


def compose(alpha: MultiIndex, beta: MultiIndex) -> MultiIndex:
    """The composition of two derivatives."""
    names = dict(alpha) | dict(beta)
    return multi_index(**{name: order_along(alpha, name) + order_along(beta, name) for name in names})


@dataclass(frozen=True)
class Trace:
    """The linear functional f -> sum_m weights[m] f^(m)(at) at one place of an axis.

    A value is `Trace(0.0, (1.0,))`, a derivative `Trace(0.0, (0.0, 1.0))`, a Robin condition `Trace(0.0, (a, b))`.
    """

    at: float
    weights: tuple[float, ...]

    @property
    def order(self) -> int:
        """The highest derivative it takes."""
        return len(self.weights) - 1
