"""A PDE, written once: its domain, its inputs, its unknown fields, and the residuals that vanish."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, dataclass_transform

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..derivatives import order_along
from ..domain import Domain
from ..functions import Functions, Space
from ..locations import Evaluable
from .chart import Chart
from .checks import check_constants
from .conditions import Condition, Value
from .describe import describe_problem, html_table
from .folding import unfolded
from .normal import Normal
from .statement import make_statement
from .symbols import Symbol, Vocabulary
from .terms import LinearCondition, Term, periodic_jumps

SPARE = 16
"""Shapes that are drawn in addition, in the place of those that fold."""


@dataclass(frozen=True)
class Derived:
    """A function that follows from the inputs: the slope of a solution at t = 0, a vorticity, a travel time.

    Conditions, equations and branches may name it like an input. It is computed once for every batch.

    **Arguments:**

    - `space`: its axes and components; the functions themselves may come from any space that has the same.
    - `compute`: the map from the inputs, by name, to the functions; in JAX.
    """

    space: Space
    compute: Callable[[Mapping[str, Functions]], Functions]


@dataclass_transform(frozen_default=True)
class Problem:
    r"""A parametric PDE; what is learned is the map from its inputs to its solution.

    ```python
    class Burgers(Problem):
        nu: float = 0.01
        domain = Domain(t=(0, 1), x=Periodic(0, 1))
        inputs = {"u": SpectralField(domain["x"], sigma=625, tau=5, gamma=4)}
        conditions = [Value({"t": 0}, equals="u")]

        def equation(self, s, s_t, s_x, s_xx):
            return s_t + s * s_x - self.nu * s_xx
    ```

    - Annotated attributes are constants and become constructor arguments: `Burgers(nu=0.02)`.
    - `domain`, `fields`, `inputs`, `conditions` are class attributes, or properties if they depend on a constant.
    - Each method called `equation` or `equation_<name>` is one residual. Its argument names are the request: fields and
      inputs with derivatives (`s`, `s_txx`, `u_x`) and coordinates. Its body is elementwise.
    - No `inputs` makes a single PDE: the models become a separable PINN or a PINN.

    A class whose constants all have defaults is checked when it is defined, any other one when it is constructed.
    """

    domain: ClassVar[Domain]
    fields: ClassVar[tuple[str, ...]] = ("s",)
    inputs: ClassVar[Mapping[str, Space]] = {}
    derived: ClassVar[Mapping[str, Derived]] = {}
    """Functions that follow from the inputs, and that conditions, equations and branches may name like inputs."""
    conditions: ClassVar[Sequence[Condition | Normal]] = ()
    open_axes: ClassVar[tuple[str, ...]] = ()
    """Axes that are meant to have no condition although the equation differentiates along them."""
    tested_by: ClassVar[Mapping[str, str]] = {}
    """For equations of a system, by name, the field whose functions test them; found from their derivatives if left
    out (`discretise/test_functions.py`)."""

    vocabulary: ClassVar[Vocabulary]
    chart: ClassVar[Chart | None]
    """The map of a mapped domain; None on a box. Equations and conditions are written along the box."""
    equations: ClassVar[tuple[Term, ...]]
    linear_conditions: ClassVar[tuple[LinearCondition, ...]]
    free_conditions: ClassVar[tuple[Term, ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "known_part" in vars(cls):
            raise ValueError(f"{cls.__name__}: `known_part` is called `singular_part` now; rename the method")
        dataclass(frozen=True)(cls)
        if hasattr(cls, "domain") and all(f.default is not MISSING for f in fields(cls)):  # pyright: ignore[reportArgumentType]
            cls()

    def __post_init__(self) -> None:
        name = type(self).__name__
        try:
            if not isinstance(self.fields, tuple) or not self.fields:
                raise ValueError(f'fields must be a tuple of names, for instance ("s",); got {self.fields!r}')
            check_constants({f.name: getattr(self, f.name) for f in fields(self)})  # pyright: ignore[reportArgumentType]
            bodies = {n: getattr(self, n) for n in dir(type(self)) if n == "equation" or n.startswith("equation_")}
            if not bodies:
                raise ValueError("there is no equation; write a method `equation(self, s, s_t, ...)`")
            ordered = sorted(bodies.items(), key=lambda item: _line(item[1]))
            statement = make_statement(self.domain, self.fields, self.spaces, ordered, self.conditions, self.open_axes)
            if self.reference_resolution and self.has_reference and not _takes_resolution(self.reference):
                raise ValueError(
                    f"`reference` must take a `resolution`, since reference_resolution is {self.reference_resolution}: "
                    "its error is estimated by refinement; add the argument, or leave reference_resolution out"
                )
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error.__cause__
        for attribute, value in (
            ("vocabulary", statement.vocabulary),
            ("chart", statement.chart),
            ("equations", statement.equations),
            ("linear_conditions", statement.linear),
            ("free_conditions", statement.free),
        ):
            object.__setattr__(self, attribute, value)

    def __str__(self) -> str:
        return "\n".join(
            [type(self).__name__, *(f"  {name:<9} {text}" for name, text in describe_problem(self).items())]
        )

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, describe_problem(self))

    def grid(self) -> dict[str, Float[np.ndarray, " _"]]:
        """The points along each axis on which predictions are compared with references."""
        return {name: np.linspace(axis.lower, axis.upper, self.grid_points) for name, axis in self.domain.axes}

    grid_points: ClassVar[int] = 101
    """How many points the default `grid` has along each axis."""

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: Any
    ) -> dict[str, Float[np.ndarray, "functions *grid"]]:
        """A classical solution: each field on the tensor grid of `points`, in the order of the domain's axes.

        Optional. A problem that overrides it is validated while it is trained and evaluated afterwards. As everywhere,
        the signature is the request: a method that takes `resolution` gets `reference_resolution`, and twice that where
        the error of the reference itself is estimated; one that needs none (an exact solution, a solver with a
        tolerance) leaves it out.
        """
        raise ValueError(
            f"{type(self).__name__} has no reference solver; give it a method `reference` to measure errors"
        )

    reference_resolution: ClassVar[int | None] = None
    """The resolution at which `reference` is converged; None if its error is not to be estimated by refinement."""

    @property
    def has_reference(self) -> bool:
        """Whether there is a classical solution to compare with: the class overrides `reference`."""
        return type(self).reference is not Problem.reference

    def reference_solution(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int | None = None
    ) -> dict[str, Float[np.ndarray, "functions *grid"]]:
        """The solution by `reference`, at a `resolution` if it takes one: by default `reference_resolution`."""
        solve: Callable[..., dict[str, np.ndarray]] = self.reference
        if not _takes_resolution(solve):
            return solve(inputs, points)
        return solve(inputs, points, resolution=self.reference_resolution if resolution is None else resolution)

    def time_axis(self) -> str:
        """The axis along which solutions can be continued: all fields have initial values on it, and no equation or
        condition depends on it through a coordinate or an input."""
        for name, axis in self.domain.axes:
            on_axis = [c for c in self.linear_conditions if c.axis == name]
            initial = {c.field for c in on_axis if c.trace.weights == (1.0,)}
            if initial == set(self.fields) and all(c.trace.at == axis.lower for c in on_axis):
                symbols = [s for term in self.terms() for s in term.expression.symbols if s.kind != "field"]
                moving = [s.name for s in symbols if s.name == name or name in self._axes_of(s)]
                if moving:
                    raise ValueError(
                        f"{type(self).__name__} can't be continued beyond its window: `{moving[0]}` depends on {name}, "
                        "so later windows are other problems"
                    )
                return name
        raise ValueError(
            f"{type(self).__name__} has no axis with initial values of all fields, so there is nothing to continue"
        )

    def _axes_of(self, symbol: Symbol) -> tuple[str, ...]:
        if symbol.kind != "input":
            return ()
        moving = [] if self.chart is None or symbol.chart is None else filter(self.chart.moves_with, self.domain)
        return (*self.spaces[symbol.name].domain.names, *moving)

    def restart(self, inputs: Mapping[str, Functions], end: Mapping[str, Array]) -> dict[str, Functions]:
        """The inputs of the next window of time, whose initial values are the fields at the end of this one.

        By default each field whose initial value is declared as an input (`equals="u"`) becomes that input, and the
        others stay. Override it where they are related in another way.

        **Arguments:**

        - `inputs`: the inputs of this window.
        - `end`: each field at its end, `[functions, *grid]` on a uniform grid of the other axes.
        """
        time = self.time_axis()
        initial = [c for c in self.conditions if isinstance(c, Value) and time in c.at]
        data = {c.field or self.fields[0]: c.equals for c in initial}
        names = {field: data.get(field) for field in self.fields}
        if not all(isinstance(name, str) and name in self.inputs for name in names.values()):
            raise ValueError(
                f"{type(self).__name__} does not say how a state becomes an input: declare initial values as inputs "
                '(Value({"t": 0}, equals="u")), or write a method `restart`'
            )
        restarted = {str(name): self.inputs[str(name)].fit(end[field]) for field, name in names.items()}
        return {**{name: inputs[name] for name in self.inputs}, **restarted}

    def singular_part(self, inputs: Mapping[str, Any]) -> Mapping[str, Evaluable]:
        """The singular part of some fields, by name: a function with derivatives. The network learns the rest.

        Optional, for what no smooth basis can hold: a kink, a layer, a corner singularity. It need not satisfy any
        condition. It is evaluated for the derivatives that the equations take.
        """
        return {}

    def terms(self, exact: Collection[str] = ()) -> tuple[Term, ...]:
        """All residuals for a model that satisfies the conditions on the axes `exact` by construction."""
        soft = [c.term() for c in self.linear_conditions if c.axis not in exact and not c.implied]
        jumps = [
            term
            for name, axis in self.domain.axes
            if axis.periodic and name not in exact
            for field in self.fields
            for term in periodic_jumps(name, field, self.highest_order(name, field), self.domain, len(self.fields) == 1)
        ]
        return (*self.equations, *soft, *self.free_conditions, *jumps)

    def highest_order(self, axis: str, field: str | None = None) -> int:
        """The highest derivative along `axis` in the equations, of one field or of all."""
        symbols = [s for term in self.equations for s in term.expression.fields if field in (None, s.name)]
        return max((order_along(symbol.alpha, axis) for symbol in symbols), default=0)

    def sample(self, key: PRNGKeyArray, count: int) -> dict[str, Functions]:
        """`count` functions of each input, drawn from its space, and what is derived from them. Shapes that a map
        can't bear, because they fold, are left out."""
        if self.chart is None or not self.chart.shapes:
            return self.draw(key, count)
        # A shape that folds has no solution, and is never trained on.
        return unfolded(self.chart, self.draw(key, count + SPARE), count)

    def draw(self, key: PRNGKeyArray, count: int) -> dict[str, Functions]:
        """`sample` without a look at the shapes: some may fold."""
        keys: Array = jax.random.split(key, max(len(self.inputs), 1))
        # Sorted by name: the order in which inputs are declared does not change the samples.
        drawn = {name: space.sample(keys[i], count) for i, (name, space) in enumerate(sorted(self.inputs.items()))}
        return self.complete(drawn)

    @property
    def spaces(self) -> dict[str, Space]:
        """The spaces of the inputs and of what is derived from them, by name."""
        return {**self.inputs, **{name: derived.space for name, derived in self.derived.items()}}

    def complete(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with what is derived from them, unless it is there already."""
        completed = dict(inputs)
        for name, derived in self.derived.items():
            if name not in completed:
                completed[name] = derived.compute(completed)
        return completed


def _line(method: Any) -> int:
    """Where a method stands in its file: equations are kept in the order in which they are written."""
    return inspect.unwrap(method.__func__).__code__.co_firstlineno


def _takes_resolution(reference: Callable[..., Any]) -> bool:
    return "resolution" in inspect.signature(reference).parameters
