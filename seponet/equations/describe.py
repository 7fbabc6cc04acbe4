"""What a problem is, in words: its equation as text, and a table of its parts."""

import ast
import html
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..domain import Domain
from ..functions import Space
from ..mapped import Mapped, arguments

if TYPE_CHECKING:
    from .problem import Problem

SYMBOLS = {
    r"\nabla": "∇",
    r"\cdot": "·",
    r"\times": "×",
    r"\Delta": "Δ",
    r"\omega": "ω",
    r"\alpha": "α",
    r"\kappa": "κ",
    r"\nu": "ν",
    r"\pi": "π",
    r"\sin": "sin",
    r"\tfrac{π}{2}": "π/2",
    "_{xx}": "_xx",
    "^2": "²",
    "$": "",
}


def equation_of(kind: type["Problem"]) -> str:
    """The first line of the docstring of the module that defines a problem, with symbols instead of LaTeX commands."""
    module = inspect.getmodule(kind)
    lines = (inspect.getdoc(module) or inspect.getdoc(kind) or "").splitlines()
    text = lines[0] if lines else ""
    for command, symbol in SYMBOLS.items():
        text = text.replace(command, symbol)
    return text.rstrip(".")


def describe_equations(problem: "Problem") -> list[str]:
    """The equations of a problem, one line each: as its docstring has them, or as they are written in Python."""
    if type(problem).__module__.startswith("seponet.problems."):
        return [equation_of(type(problem))]
    return [f"{_expression(getattr(problem, term.name))} = 0" for term in problem.equations]


def _expression(equation: Callable[..., Any]) -> str:
    """What a method returns, as it is written; its name if the source is not there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(equation)))
    except (OSError, TypeError, SyntaxError):
        return equation.__name__
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    if not returned:
        return equation.__name__
    return re.sub(r"\bself\.|\bjnp\.", "", ast.unparse(returned[-1])).replace("**", "^").replace(" * ", " ")


def describe_domain(domain: Domain) -> str:
    """The axes: `t in [0, 1], x in [0, 1), periodic`; and the coordinates of a map, `y(q, h)`."""
    functions = domain.coordinates if isinstance(domain, Mapped) else ()
    mapped = "".join(f", {name}({', '.join(arguments(function))})" for name, function in functions)
    return (
        ", ".join(
            f"{name} in [{axis.lower:g}, {axis.upper:g}{') periodic' if axis.periodic else ']'}"
            for name, axis in domain.axes
        )
        + mapped
    )


def describe_input(name: str, space: Space) -> str:
    """An input with its axes and the space that it is drawn from: `u(x): SpectralField`."""
    axes = f"({', '.join(space.domain.names)})" if len(space.domain) else ""
    parts = "" if space.components is None else f", {space.components} components"
    return f"{name}{axes}: {type(space).__name__}{parts}"


def describe_problem(problem: "Problem") -> dict[str, str]:
    """The parts of a problem by name, each in one line."""
    constants = ", ".join(f"{f.name} = {getattr(problem, f.name)!r}" for f in fields(problem))  # pyright: ignore[reportArgumentType]
    described = {
        "equation": "; ".join(describe_equations(problem)),
        "domain": describe_domain(problem.domain),
        "fields": ", ".join(problem.fields),
        "inputs": "; ".join(describe_input(name, space) for name, space in problem.inputs.items()) or "none",
        "soft": ", ".join(term.name for term in problem.free_conditions),
        "constants": constants,
    }
    return {name: text for name, text in described.items() if text}


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A title and a table of names and texts, as a notebook shows it."""
    cells = "".join(
        f"<tr><th align='left'>{html.escape(name)}</th><td align='left'>{html.escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<div><b>{html.escape(title)}</b><table>{cells}</table></div>"
