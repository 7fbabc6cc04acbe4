"""The names that an equation may use, and what they mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Array

from .._text import nearest
from ..derivatives import MultiIndex
from ..domain import Domain
from ..functions import Space
from ..locations import Evaluable, Location


@dataclass(frozen=True)
class Symbol:
    """One argument: a field or an input with a derivative, or a coordinate."""

    kind: Literal["field", "input", "coordinate"]
    name: str
    alpha: MultiIndex = ()

    def __str__(self) -> str:
        suffix = "".join(axis * n for axis, n in self.alpha)
        return f"{self.name}_{suffix}" if suffix else self.name

    def evaluate(self, functions: Mapping[str, Evaluable], where: Location) -> Array:
        """The values of an input or of a coordinate, with the rank of the location."""
        if self.kind == "coordinate":
            return where.coordinate(self.name)
        return functions[self.name](where, self.alpha)


@dataclass(frozen=True)
class Vocabulary:
    """The names that mean something: axes, fields and inputs."""

    domain: Domain
    fields: tuple[str, ...]
    inputs: Mapping[str, Space]

    def __post_init__(self) -> None:
        names = [*self.domain.names, *self.fields, *self.inputs]
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
                if axis not in self.domain:
                    raise ValueError(
                        f"input {name!r} is a function of {axis!r}, which is not an axis of the problem; "
                        f"the axes are {', '.join(self.domain)}"
                    )

    def parse(self, argument: str) -> Symbol:
        """The meaning of one argument name, or a ValueError that says what would have one."""
        head, underscore, suffix = argument.partition("_")
        if argument in self.domain:
            return Symbol("coordinate", argument)
        if head in self.domain:
            raise ValueError(f"`{argument}` differentiates the coordinate `{head}`; write its derivative as a number")
        if head not in self.fields and head not in self.inputs:
            near = nearest(head, [*self.fields, *self.inputs, *self.domain])
            hint = f"; did you mean `{near}{underscore}{suffix}`?" if near else "; write a constant as `self.name`"
            raise ValueError(f"`{argument}` means nothing here: {self._known()}{hint}")
        kind = "field" if head in self.fields else "input"
        if not underscore:
            return Symbol(kind, head)
        alpha = self.domain.parse_derivative(suffix)
        if alpha is None:
            strange = next((letter for letter in suffix if letter not in "".join(self.domain)), suffix)
            raise ValueError(
                f"`{argument}` differentiates along `{strange}`; the axes are {', '.join(self.domain)} "
                f"(write for instance `{head}_{self.domain.names[-1]}`)"
            )
        if kind == "input":
            domain = self.inputs[head].domain
            for axis, _ in alpha:
                if axis not in domain:
                    of = f"a function of {', '.join(domain)}" if len(domain) else "a constant"
                    raise ValueError(
                        f"`{argument}` is always zero: `{head}` is {of} and does not depend on `{axis}`; drop it"
                    )
        return Symbol(kind, head, alpha)

    def _known(self) -> str:
        parts = [f"the fields are {', '.join(self.fields)}"]
        if self.inputs:
            parts.append(f"the inputs {', '.join(self.inputs)}")
        parts.append(f"the axes {', '.join(self.domain)}")
        return ", ".join(parts)
