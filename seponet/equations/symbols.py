"""The names that an equation may use, and what they mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Array

from .._text import nearest
from ..derivatives import MultiIndex
from ..domain import Domain, tokens
from ..functions import Space
from ..locations import Evaluable, Location


@runtime_checkable
class Placement(Protocol):
    """How inputs that are functions of mapped coordinates are evaluated; `chart.Chart` is one."""

    def evaluate_input(
        self, functions: Mapping[str, Evaluable], name: str, alpha: MultiIndex, where: Location
    ) -> Array:
        """The derivative `alpha` of an input, where the map puts a location."""
        ...

    def input_rates(self, symbol: "Symbol", axis: str) -> Sequence[tuple["Symbol", Any]]:
        """The derivative of such an input along an axis of the box, as a sum of symbols times expressions."""
        ...


@dataclass(frozen=True)
class Symbol:
    """One argument: a field or an input with a derivative, or a coordinate.

    `chart` is the map of a mapped domain, for an input that is a function of its coordinates instead of the axes of
    the box: it is evaluated where the map puts a location.
    """

    kind: Literal["field", "input", "coordinate"]
    name: str
    alpha: MultiIndex = ()
    chart: Placement | None = None

    def __str__(self) -> str:
        suffix = "".join(axis * n for axis, n in self.alpha)
        return f"{self.name}_{suffix}" if suffix else self.name

    def evaluate(self, functions: Mapping[str, Evaluable], where: Location) -> Array:
        """The values of an input or of a coordinate, with the rank of the location."""
        if self.kind == "coordinate":
            return where.coordinate(self.name)
        if self.chart is not None:
            return self.chart.evaluate_input(functions, self.name, self.alpha, where)
        return functions[self.name](where, self.alpha)


@dataclass(frozen=True)
class Vocabulary:
    """The names that mean something: axes, fields and inputs.

    On a mapped domain derivatives are along its coordinates; values may be asked for of coordinates and axes.
    """

    domain: Domain
    fields: tuple[str, ...]
    inputs: Mapping[str, Space]

    def __post_init__(self) -> None:
        names = [*self.coordinates, *self.fields, *self.inputs]
        for name in (*self.fields, *self.inputs):
            if not name.isidentifier() or "_" in name:
                raise ValueError(
                    f"{name!r} can't name a field or an input: an identifier without underscores is needed, because "
                    "what follows an underscore is a derivative (`s_xx`)"
                )
            if names.count(name) > 1:
                raise ValueError(f"{name!r} names two things; axes, fields and inputs need names of their own")
        for name, space in self.inputs.items():
            for axis in space.domain:
                if axis not in self.coordinates:
                    raise ValueError(
                        f"input {name!r} is a function of {axis!r}, which is not an axis of the problem; "
                        f"the axes are {', '.join(self.coordinates)}"
                    )
            boxed = [axis for axis in space.domain if axis not in self.domain.physical_names]
            if boxed and self.is_physical(name):
                raise ValueError(
                    f"input {name!r} is a function of {', '.join(space.domain)}: of coordinates and of {boxed[0]!r}, "
                    "an axis of the box; make it a function of either"
                )

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The axes of the box, and the coordinates that a map has besides."""
        return tuple(dict.fromkeys((*self.domain.names, *self.domain.physical_names)))

    def is_physical(self, name: str) -> bool:
        """Whether an input is a function of coordinates of a map, rather than of axes of the box."""
        return any(axis not in self.domain for axis in self.inputs[name].domain)

    def parse(self, argument: str) -> Symbol:
        """The meaning of one argument name, or a ValueError that says what would have one."""
        head, underscore, suffix = argument.partition("_")
        if argument in self.coordinates:
            return Symbol("coordinate", argument)
        if head in self.coordinates:
            raise ValueError(f"`{argument}` differentiates the coordinate `{head}`; write its derivative as a number")
        if head not in self.fields and head not in self.inputs:
            near = nearest(head, [*self.fields, *self.inputs, *self.coordinates])
            hint = f"; did you mean `{near}{underscore}{suffix}`?" if near else ""
            hint += f"; a constant of the problem is written `self.{argument}`, and is no argument"
            raise ValueError(f"`{argument}` means nothing here: {self._known()}{hint}")
        kind = "field" if head in self.fields else "input"
        if not underscore:
            return Symbol(kind, head)
        alpha = self.domain.parse_derivative(suffix)
        if alpha is None:
            raise ValueError(self._strange(argument, head, suffix))
        if kind == "input":
            for axis, _ in alpha:
                if axis not in self._moved_along(head):
                    domain = self.inputs[head].domain
                    of = f"a function of {', '.join(domain)}" if len(domain) else "a constant"
                    raise ValueError(
                        f"`{argument}` is always zero: `{head}` is {of} and does not depend on `{axis}`; drop it"
                    )
        return Symbol(kind, head, alpha)

    def _moved_along(self, name: str) -> tuple[str, ...]:
        """The coordinates along which an input may vary."""
        axes = self.inputs[name].domain.names
        if not axes or all(axis in self.domain.physical_names for axis in axes):
            return axes
        # A function of an axis that coordinates replace varies along all of these, as far as one can tell here.
        return self.domain.physical_names

    def _strange(self, argument: str, head: str, suffix: str) -> str:
        names = self.domain.physical_names
        if tokens(suffix, self.coordinates) is not None:
            strange = next(name for name in self.domain if name not in names and name in suffix)
            return (
                f"`{argument}` differentiates along `{strange}`, an axis of the box that the map replaces; derivatives "
                f"are along the coordinates {', '.join(names)}: did you mean `{head}_{names[-1]}`?"
            )
        strange = next((letter for letter in suffix if letter not in "".join(names)), suffix)
        return (
            f"`{argument}` differentiates along `{strange}`; the axes are {', '.join(names)} "
            f"(write for instance `{head}_{names[-1]}`)"
        )

    def _known(self) -> str:
        parts = [f"the fields are {', '.join(self.fields)}"]
        if self.inputs:
            parts.append(f"the inputs {', '.join(self.inputs)}")
        parts.append(f"the axes {', '.join(self.coordinates)}")
        return ", ".join(parts)
