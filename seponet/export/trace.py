"""From a traceable function to a frozen program: what the inputs do not change is computed now, the rest lowered.

`jax.make_jaxpr` lists every primitive operation. Those that depend on no input (the bases on the grid, most of a lift)
are compiled together and run once, in float64. The others are few, and `lowering.py` has an equivalent for each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from .lowering import Pair, lower
from .program import Builder, Node, Program, assemble

MOST_STEPS = 1000
"""The longest loop over input-dependent values that is unrolled."""


@dataclass(eq=False)
class Atom:
    """A value of the traced function: dynamic if it depends on the inputs; known from the start if it is a constant."""

    dynamic: bool
    value: Any = None


@dataclass(frozen=True, eq=False)
class Step:
    """One primitive operation, after calls have been inlined."""

    primitive: Any
    params: Mapping[str, Any]
    arguments: tuple[Atom, ...]
    results: tuple[Atom, ...]


def trace(function: Callable[[dict[str, Any]], Mapping[str, Any]], shapes: Mapping[str, Sequence[int]]) -> Program:
    """The frozen program of a function from arrays by name to arrays by name.

    **Arguments:**

    - `function`: traceable by JAX; for one function, without a functions' axis.
    - `shapes`: those of its arguments, by name.
    """
    with jax.enable_x64(True):
        examples = {name: jax.ShapeDtypeStruct(tuple(shape), jnp.float64) for name, shape in shapes.items()}
        closed, result = jax.make_jaxpr(function, return_shape=True)(examples)
        arguments = [Atom(dynamic=True) for _ in shapes]
        steps: list[Step] = []
        outputs = _inline(closed.jaxpr, [Atom(False, c) for c in closed.consts], arguments, steps)
        _compute_known(steps, outputs)
    builder = Builder()
    # JAX flattens dictionaries in the order of their keys.
    inputs = {name: builder.input(name, shapes[name]) for name in sorted(shapes)}
    values: dict[int, Any] = {id(a): node for a, node in zip(arguments, inputs.values(), strict=True)}

    def find(atom: Atom) -> Any:
        return values[id(atom)] if atom.dynamic else np.asarray(atom.value)

    for step in steps:
        if any(a.dynamic for a in step.arguments):
            lowered = lower(builder, step.primitive.name, step.params, [find(a) for a in step.arguments])
            values |= {id(atom): value for atom, value in zip(step.results, lowered, strict=True)}
    named = {name: _real(builder, find(atom)) for name, atom in zip(sorted(result), outputs, strict=True)}
    return assemble([inputs[name] for name in shapes], {name: named[name] for name in result})


def _real(builder: Builder, value: Any) -> Node:
    if isinstance(value, Pair):
        raise ValueError("a complex result can't be frozen; return its real and its imaginary part")
    if isinstance(value, Node):
        return value
    # What does not depend on the inputs is a result like any other.
    return builder.add("constant", (np.asarray(value, np.float64),), value.shape)


def _inline(jaxpr: Jaxpr, consts: Sequence[Atom], arguments: Sequence[Atom], steps: list[Step]) -> list[Atom]:
    """Append the steps of a traced function; calls become the steps of what they call."""
    scope: dict[Any, Atom] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Atom:
        return Atom(False, atom.val) if isinstance(atom, Literal) else scope[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        results = _step(equation.primitive, equation.params, operands, len(equation.outvars), steps)
        scope |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _step(primitive: Any, params: Mapping[str, Any], operands: list[Atom], count: int, steps: list[Step]) -> list[Atom]:
    dynamic = any(operand.dynamic for operand in operands)
    inner = _callee(params)
    if dynamic and primitive.name == "scan":
        return _unroll(params, operands, steps)
    if dynamic and primitive.name == "cond" and not operands[0].dynamic:
        _compute_known(steps, operands[:1])
        branch = params["branches"][int(np.clip(np.asarray(operands[0].value), 0, len(params["branches"]) - 1))]
        return _inline(branch.jaxpr, [Atom(False, c) for c in branch.consts], operands[1:], steps)
    if inner is not None and primitive.name not in ("scan", "while", "cond"):
        return _inline(inner.jaxpr, [Atom(False, c) for c in inner.consts], operands, steps)
    results = [Atom(dynamic) for _ in range(count)]
    steps.append(Step(primitive, params, tuple(operands), tuple(results)))
    return results


def _callee(params: Mapping[str, Any]) -> ClosedJaxpr | None:
    """The function that a call calls, whatever the call is for (compilation, a rule for derivatives, memory)."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = params.get(name)
        if isinstance(inner, ClosedJaxpr):
            return inner
        if isinstance(inner, Jaxpr):
            return ClosedJaxpr(inner, ())
    return None


def _unroll(params: Mapping[str, Any], operands: list[Atom], steps: list[Step]) -> list[Atom]:
    """A loop of known length, step after step."""
    length, body = params["length"], params["jaxpr"]
    if length > MOST_STEPS:
        raise ValueError(f"a loop of {length} steps over what the input changes is too long to be frozen")
    fixed, carried = params["num_consts"], params["num_carry"]
    constants, carry, moving = operands[:fixed], operands[fixed : fixed + carried], operands[fixed + carried :]
    order = range(length)[::-1] if params["reverse"] else range(length)
    collected: list[list[Atom]] = []
    for i in order:
        rows = [_row(atom, i, steps) for atom in moving]
        results = _inline(body.jaxpr, [Atom(False, c) for c in body.consts], [*constants, *carry, *rows], steps)
        carry, outputs = results[:carried], results[carried:]
        collected.append(outputs)
    if params["reverse"]:
        collected.reverse()
    return [*carry, *(_stack(list(column), steps) for column in zip(*collected, strict=True))]


class _Helper:
    """A step of our own, where no primitive has a fitting name: known values are computed by `bind`."""

    multiple_results = False

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.bind = name, function


ROW = _Helper("row", lambda values, *, index: values[index])
STACK = _Helper("stack", lambda *values, axis: jnp.stack(values, axis))


def _row(atom: Atom, index: int, steps: list[Step]) -> Atom:
    result = Atom(atom.dynamic)
    steps.append(Step(ROW, {"index": index}, (atom,), (result,)))
    return result


def _stack(atoms: list[Atom], steps: list[Step]) -> Atom:
    result = Atom(any(atom.dynamic for atom in atoms))
    steps.append(Step(STACK, {"axis": 0}, tuple(atoms), (result,)))
    return result


def _compute_known(steps: Sequence[Step], outputs: Sequence[Atom]) -> None:
    """Fill in the values that depend on no input and that others need, by one compiled program."""
    known = [step for step in steps if not any(a.dynamic for a in step.arguments) and step.results]
    made = {id(atom) for step in known for atom in step.results if atom.value is None}
    wanted = [a for step in steps if any(b.dynamic for b in step.arguments) for a in step.arguments]
    needed = {id(a): a for a in [*wanted, *outputs] if id(a) in made and a.value is None}
    if not needed:
        return
    given = {id(a): a.value for step in known for a in step.arguments if a.value is not None}

    @jax.jit
    def compute(given: dict[int, Any]) -> list[Any]:
        values = dict(given)
        for step in known:
            if all(atom.value is not None for atom in step.results):
                continue
            result = step.primitive.bind(*(values[id(a)] for a in step.arguments), **step.params)
            results = result if step.primitive.multiple_results else [result]
            values |= {id(atom): value for atom, value in zip(step.results, results, strict=True)}
        return [values[atom] for atom in needed]

    for atom, value in zip(needed.values(), compute(given), strict=True):
        atom.value = np.asarray(value)
