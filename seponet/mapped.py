"""Domains that are no boxes: the image of a box under a map, which may depend on inputs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jaxtyping import Array

from ._text import did_you_mean
from .domain import Domain, tokens


class Mapped(Domain):
    r"""The image of a box under a map.

    ```python
    box = Domain(x=Periodic(0, 1), q=(0, 1))
    domain = Mapped(box, y=lambda q, h: q * h)  # 0 < y < h(x), where h is an input of the problem
    ```

    Each coordinate is an elementwise function of axes of the box and of inputs (functions of these axes, numbers), by
    name. Coordinates replace as many axes as there are of them; the other axes are coordinates themselves (x here, or
    time). In equations `s_x`, `s_xy` are derivatives along the coordinates, never along the axes of the box, and the
    body of an equation is what it is on a box. Conditions name faces of the box: `Value({"q": 1})` holds on the wall.

    To everything that works with axes (trial functions, grids, faces) a mapped domain is its box.

    **Arguments:**

    - `box`: the axes.
    - `pole`: faces of the box that are mapped to a point (or to an axis of rotation), `{"rho": 0}`: no boundary is
        there, and no condition is needed.
    - `keep`: axes that no coordinate replaces. By default those that no coordinate's function names; if it names more
        axes than there are coordinates, the axes that come first in the box are kept.
    - `coordinates`: the functions, by the names of the coordinates; up to three.
    """

    coordinates: tuple[tuple[str, Callable[..., Array]], ...]
    replaced: tuple[str, ...]
    """The axes of the box that coordinates take the place of."""
    poles: tuple[tuple[str, float], ...]

    def __init__(
        self,
        box: Domain,
        *,
        pole: Mapping[str, float] | None = None,
        keep: Sequence[str] | None = None,
        **coordinates: Any,
    ) -> None:
        if not isinstance(box, Domain) or isinstance(box, Mapped):
            raise ValueError(f"Mapped needs a box, Domain(p=(0, 1), q=(0, 1)) for instance; got {box!r}")
        object.__setattr__(self, "axes", box.axes)
        _check_coordinates(box, coordinates)
        object.__setattr__(self, "coordinates", tuple(coordinates.items()))
        object.__setattr__(self, "replaced", _replaced(box, coordinates, keep))
        object.__setattr__(self, "poles", _poles(box, self.replaced, pole or {}))
        for name in self.physical_names:
            if tokens(name, tuple(n for n in self.physical_names if n != name)) is not None:
                raise ValueError(f"the coordinate {name!r} reads as a product of others; rename it")

    @property
    def box(self) -> Domain:
        """The axes without the map."""
        return Domain(**dict(self.axes))

    @property
    def physical_names(self) -> tuple[str, ...]:
        """The coordinates in the order of the axes: those of the map in the places of the axes that they replace."""
        functions = iter(name for name, _ in self.coordinates)
        return tuple(next(functions) if name in self.replaced else name for name in self.names)

    def __or__(self, other: Domain) -> Domain:
        raise ValueError("a mapped domain can't be joined with another one; join the boxes, and map what comes out")

    def __eq__(self, other: object) -> bool:
        parts = ("axes", "coordinates", "replaced", "poles")
        return isinstance(other, Mapped) and all(getattr(self, name) == getattr(other, name) for name in parts)

    def __hash__(self) -> int:
        return hash((self.axes, self.coordinates, self.replaced, self.poles))

    def __repr__(self) -> str:
        functions = ", ".join(f"{name}({', '.join(arguments(f))})" for name, f in self.coordinates)
        return f"Mapped({self.box!r}, {functions})"


def arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments of a function: what it asks for."""
    return tuple(inspect.signature(function).parameters)


def _check_coordinates(box: Domain, coordinates: Mapping[str, Any]) -> None:
    if not 1 <= len(coordinates) <= 3:
        raise ValueError(
            "a map has one to three coordinates, y=lambda q, h: q * h for instance; got "
            f"{', '.join(coordinates) or 'none'}"
        )
    for name, function in coordinates.items():
        if "_" in name:
            raise ValueError(f"a coordinate's name must have no underscore (`s_x` is a derivative); got {name!r}")
        if name in box:
            raise ValueError(
                f"{name!r} is an axis of the box and a coordinate; give the axis another name, p or q for instance, or "
                "leave the coordinate out if it is the axis itself"
            )
        if not callable(function):
            raise ValueError(
                f"the coordinate {name!r} must be a function of axes and inputs, {name}=lambda "
                f"{box.names[-1]}: ... for instance; got {function!r}"
            )


def _replaced(box: Domain, coordinates: Mapping[str, Any], keep: Sequence[str] | None) -> tuple[str, ...]:
    count = len(coordinates)
    named = [axis for axis in box if any(axis in arguments(f) for f in coordinates.values())]
    if keep is not None:
        kept = (keep,) if isinstance(keep, str) else tuple(keep)
        for axis in kept:
            if axis not in box:
                raise ValueError(f"keep names {axis!r}{did_you_mean(axis, box)}; the axes are {', '.join(box)}")
        replaced = tuple(axis for axis in box if axis not in kept)
        if len(replaced) != count:
            raise ValueError(
                f"{', '.join(coordinates)} replace {count} of the axes {', '.join(box)}, so {len(box) - count} are "
                f"kept; keep names {', '.join(kept) or 'none'}"
            )
    else:
        replaced = tuple(named[-count:])
    missing = [axis for axis in replaced if axis not in named]
    if missing or len(replaced) < count:
        what = f"no coordinate depends on {', '.join(missing)}" if missing else "they depend on too few axes"
        raise ValueError(
            f"the coordinates {', '.join(coordinates)} must depend on as many axes of the box as there are of them "
            f"({', '.join(box)}): {what}"
        )
    return replaced


def _poles(box: Domain, replaced: tuple[str, ...], pole: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    if not isinstance(pole, Mapping):
        raise ValueError(f'pole names an axis and where on it, {{"rho": 0}} for instance; got {pole!r}')
    for name, at in pole.items():
        axis = box.axis(name)
        if name not in replaced:
            raise ValueError(
                f"the pole {name} = {at} is on an axis that no coordinate replaces ({', '.join(replaced)})"
            )
        if axis.periodic or at not in (axis.lower, axis.upper):
            raise ValueError(
                f"a pole is an end of an interval: {name} = {axis.lower:g} or {axis.upper:g}; got {name} = {at}"
            )
    return tuple((name, float(cast("float", at))) for name, at in pole.items())
