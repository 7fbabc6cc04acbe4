"""The box on which an equation holds: named axes, each an interval or periodic."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .derivatives import MultiIndex


@dataclass(frozen=True)
class Interval:
    """An axis with two ends.

    **Arguments:**

    - `lower`, `upper`: its ends.
    """

    lower: float
    upper: float

    periodic = False

    def __post_init__(self) -> None:
        if not (abs(self.lower) < float("inf") and abs(self.upper) < float("inf") and self.lower < self.upper):
            raise ValueError(
                f"an axis needs finite bounds with lower < upper; got ({self.lower}, {self.upper}). "
                "Write for instance x=(0, 1)."
            )

    @property
    def length(self) -> float:
        return self.upper - self.lower


@dataclass(frozen=True)
class Periodic(Interval):
    """An axis whose two ends are the same point; it takes no conditions.

    **Arguments:**

    - `lower`, `upper`: the ends of one period.
    """

    periodic = True


@dataclass(frozen=True, init=False)
class Domain:
    """A product of named axes, in the order in which they are written.

    ```python
    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    domain["x"]  # the sub-domain of one axis, for instance for an input function
    ```

    Time is an axis like any other.

    **Arguments:**

    - `axes`: by name, `(lower, upper)`, an `Interval` or a `Periodic`. A name has no underscore: `s_x` is a derivative.
    """

    axes: tuple[tuple[str, Interval], ...]

    def __init__(self, **axes: Interval | tuple[float, float]) -> None:
        intervals: list[tuple[str, Interval]] = []
        for name, axis in axes.items():
            if "_" in name:
                raise ValueError(f"an axis name must have no underscore (`s_x` is a derivative); got {name!r}")
            if not isinstance(axis, Interval):
                try:
                    lower, upper = axis
                except (TypeError, ValueError):
                    raise ValueError(
                        f"axis {name!r} must be (lower, upper), Interval(lower, upper) or Periodic(lower, upper); "
                        f"got {axis!r}"
                    ) from None
                axis = Interval(float(lower), float(upper))
            intervals.append((name, axis))
        object.__setattr__(self, "axes", tuple(intervals))
        for name in self.names:
            if tokens(name, tuple(n for n in self.names if n != name)) is not None:
                raise ValueError(
                    f"axis {name!r} reads as a product of the other axes, so `s_{name}` would have two meanings; "
                    "rename it"
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def physical_names(self) -> tuple[str, ...]:
        """The coordinates that equations differentiate along: the axes, unless they are mapped (`Mapped`)."""
        return self.names

    def axis(self, name: str) -> Interval:
        for candidate, axis in self.axes:
            if candidate == name:
                return axis
        raise ValueError(f"there is no axis {name!r}; the axes are {', '.join(self.names) or 'none'}")

    def __getitem__(self, names: str | tuple[str, ...]) -> "Domain":
        chosen = (names,) if isinstance(names, str) else names
        return Domain(**{name: self.axis(name) for name in chosen})

    def __or__(self, other: "Domain") -> "Domain":
        return Domain(**{**dict(self.axes), **dict(other.axes)})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.axes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def parse_derivative(self, suffix: str) -> MultiIndex | None:
        """`"txx"` -> (("t", 1), ("x", 2)), along the coordinates; None if it isn't a product of their names."""
        factors = tokens(suffix, self.physical_names)
        if factors is None:
            return None
        return tuple(sorted((name, factors.count(name)) for name in set(factors)))


def tokens(word: str, names: tuple[str, ...]) -> list[str] | None:
    """A word as a product of names, `"txx"` -> t, x, x; None if it is none."""
    if not names:
        return None
    alternatives = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    if not re.fullmatch(f"(?:{alternatives})+", word):
        return None
    # Full match first: a greedy scan may otherwise stop short where backtracking succeeds.
    factors: list[str] = []
    rest = word
    while rest:
        for name in sorted(names, key=len, reverse=True):
            tail = rest[len(name) :]
            if rest.startswith(name) and (not tail or re.fullmatch(f"(?:{alternatives})+", tail)):
                factors.append(name)
                rest = tail
                break
    return factors
