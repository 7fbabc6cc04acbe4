"""Operations that only move numbers, and sums of moved ones: their indices are constants, found by moving indices."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .program import Builder, Node, Value

MOVEMENTS = {"gather": 1, "rev": 1, "dynamic_slice": 1, "dynamic_update_slice": 2, "scatter": (0, 2)}
"""Primitives that only move numbers, and which of their operands are the numbers: the first ones, or those listed."""

LARGEST_MATRIX = 2**22
"""Numbers in a matrix that a sum over moved numbers may become."""


def move(builder: Builder, name: str, params: Mapping[str, Any], arguments: Sequence[Value]) -> Node:
    """Numbers moved to where the primitive moves their indices."""
    which = MOVEMENTS.get(name, 2)
    places = range(which) if isinstance(which, int) else which
    if any(isinstance(a, Node) for i, a in enumerate(arguments) if i not in places):
        raise ValueError(f"indices that depend on the input can't be frozen (JAX's `{name}`)")
    sizes = [math.prod(arguments[i].shape) for i in places]
    starts = np.cumsum([0, *sizes])
    indexed = [np.asarray(a, np.int64) if isinstance(a, np.ndarray) else a for a in arguments]
    for i, start, size in zip(places, starts, sizes, strict=False):
        indexed[i] = (start + np.arange(size)).reshape(arguments[i].shape)
    with jax.enable_x64(True):
        primitive = getattr(jax.lax, f"{name}_p") if name != "pad" else jax.lax.pad_p
        settings = {**params, "fill_value": -1} if name == "gather" else params
        indices = np.asarray(primitive.bind(*map(jax.numpy.asarray, indexed), **settings))
    if indices.size and indices.min() < 0:
        raise ValueError(f"JAX's `{name}` reads beyond the end of an array, which can't be frozen")
    flat = [builder.reshape(arguments[i], (size,)) for i, size in zip(places, sizes, strict=True)]
    return builder.take(flat[0] if len(flat) == 1 else builder.concatenate(flat, 0), indices)


def convolve(builder: Builder, params: Mapping[str, Any], x: Node, kernel: Value) -> Node:
    """A convolution: windows of the input, times the kernel."""
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1 or not isinstance(kernel, np.ndarray):
        raise ValueError("a convolution in groups, or with a kernel that depends on the input, can't be frozen")
    numbers = params["dimension_numbers"]
    out_axis, in_axis, *spatial = numbers.rhs_spec
    weights = np.transpose(kernel, (*spatial, in_axis, out_axis))
    *window, features = weights.shape
    count = math.prod(window)
    # The kernel that copies: its j-th feature is the j-th number of the window. Index zero is the padding.
    copying = np.eye(count).reshape(*window, count)
    copying = np.transpose(copying, np.argsort((*spatial, in_axis, out_axis)))
    numbered = 1.0 + np.arange(math.prod(x.shape)).reshape(x.shape)
    with jax.enable_x64(True):
        settings = {**params, "preferred_element_type": None}
        patches = np.asarray(
            jax.lax.conv_general_dilated_p.bind(*map(jax.numpy.asarray, (numbered, copying)), **settings)
        )
    padded = builder.pad(builder.reshape(x, (math.prod(x.shape),)), [1], [0], 0.0)
    windows = builder.take(padded, np.rint(patches).astype(np.int64))
    place = numbers.out_spec[1]
    letters = "".join(map(chr, range(ord("a"), ord("a") + len(x.shape))))
    out = letters[:place] + "z" + letters[place + 1 :]
    return builder.einsum(windows, weights.reshape(count, features), letters, letters[place] + "z", out)


def scatter_add(builder: Builder, params: Mapping[str, Any], x: Value, indices: Value, updates: Value) -> Node:
    """Numbers added at constant places: a product with a matrix of zeros and ones."""
    sizes = math.prod(updates.shape), math.prod(x.shape)
    if not isinstance(indices, np.ndarray) or math.prod(sizes) > LARGEST_MATRIX:
        raise ValueError("a sum at places that depend on the input, or at very many, can't be frozen")
    with jax.enable_x64(True):
        zeros = jax.numpy.zeros(x.shape)
        where = jax.numpy.asarray(indices, int)

        def added(row: Any) -> Any:
            return jax.lax.scatter_add_p.bind(zeros, where, row.reshape(updates.shape), **params).reshape(-1)

        matrix = np.asarray(jax.vmap(added)(jax.numpy.eye(sizes[0])))
    moved = builder.einsum(builder.reshape(updates, sizes[:1]), matrix, "a", "az", "z")
    return builder.combine("add", builder.reshape(moved, x.shape), x)
