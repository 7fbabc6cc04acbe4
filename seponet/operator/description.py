"""What a description of a model says, without the model: its arrays, its parameters, and classes of a user's own.

A description is a tree of entries `{kind: content, ...}`: an array with its shape and type, a list, a tuple, a dict, or
a class with its fields. Nothing is imported to look at it.
"""

import math
from collections.abc import Iterator
from typing import Any

from .class_address import ClassAddress

Declared = dict[int, tuple[tuple[int, ...], str]]
"""For the number of each array its shape and type."""

FIXED = "layer/fixed"
"""The registered name of arrays that are not trained."""


def entries(description: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """All entries of a description, and whether what each holds is trained."""
    stack: list[tuple[Any, bool]] = [(description, True)]
    while stack:
        entry, trained = stack.pop()
        if not isinstance(entry, dict) or not entry:
            continue
        yield entry, trained
        kind, content = next(iter(entry.items()))
        if kind in ("list", "tuple"):
            stack += [(value, trained) for value in content]
        elif kind == "dict":
            stack += [(value, trained) for _, value in content]
        elif kind in ("object", "problem"):
            stack += [(value, trained and content != FIXED) for value in entry["fields"].values()]
        elif kind not in ("array", "class"):
            raise ValueError(f"the description is damaged: it has an entry {kind!r}; save the operator again")


def declared_arrays(description: Any) -> Declared:
    """The arrays that a model has."""
    declared: Declared = {}
    for entry, _ in entries(description):
        if next(iter(entry)) != "array":
            continue
        index, shape, dtype = entry["array"], entry["shape"], entry["dtype"]
        if not all(type(n) is int and n >= 0 for n in (index, *shape)) or not isinstance(dtype, str):
            raise ValueError(f"an array is described by its number, shape and type; got {entry!r:.80}")
        if declared.setdefault(index, (tuple(shape), dtype)) != (tuple(shape), dtype):
            raise ValueError(f"the array {index} is described twice")
    return declared


def count_parameters(description: Any) -> int:
    """How many numbers are trained: all in floating point but those that are fixed."""
    arrays = [entry for entry, trained in entries(description) if trained and next(iter(entry)) == "array"]
    return sum(math.prod(entry["shape"]) for entry in arrays if str(entry["dtype"]).startswith("float"))


def own_classes(description: Any) -> list[ClassAddress]:
    """The addresses of classes that are not the package's."""
    heads = [next(iter(entry.items())) for entry, _ in entries(description)]
    return [
        ClassAddress.read(content)
        for kind, content in heads
        if kind in ("class", "object", "problem") and isinstance(content, dict)
    ]
