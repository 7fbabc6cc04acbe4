"""Quadrature for an operator and the inputs it is given: nodes that resolve both."""

import logging
import math
from collections.abc import Mapping

from .._numbers import whole
from .._precision import double_precision, to_double
from ..calculus.collocation import Nodes, quadrature_nodes
from ..discretise.bandwidth import Bandwidth, bandwidths, resolving_nodes
from ..functions import Functions
from ..nn.model import OperatorNetwork

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""The part of an input's L2 norm that nodes may not see. Lifts are differentiated, so it is well below errors that
matter: with 1e-4, heat and telegraph equation were still wrong by twice the floor of their basis."""

RUNGS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Bandwidths are rounded up to these, so that a program that was compiled for one input serves most others."""

MOST = 1 << 20
"""Nodes in all: what residuals on them take stays below a second for a function."""


def given_nodes(model: OperatorNetwork, counts: Mapping[str, int]) -> Nodes:
    """The number of quadrature nodes along each axis that a user asks for."""
    domain = model.problem.domain
    if not isinstance(counts, Mapping) or set(counts) != set(domain):
        raise ValueError(
            f"nodes must give a positive number for each of the axes {', '.join(domain)}; got {counts!r:.60}"
        )
    nodes = tuple((name, whole(f"nodes[{name!r}]", counts[name], 1, MOST)) for name in domain)
    if math.prod(n for _, n in nodes) > MOST:
        raise ValueError(f"nodes must be at most {MOST:,} in all; got {' x '.join(str(n) for _, n in nodes)}")
    return nodes


def choose_nodes(model: OperatorNetwork, inputs: Mapping[str, Functions], ranks: Nodes | None = None) -> Nodes:
    """The number of quadrature nodes along each axis that resolves the basis functions and the inputs.

    **Arguments:**

    - `model`: whose residuals are integrated.
    - `inputs`: the functions that are given, derived ones included.
    - `ranks`: the number of basis functions along each axis; None takes half the nodes that the model needs by itself.
    """
    with double_precision():
        needs = bandwidths(to_double(dict(inputs)), TOLERANCE)
    least = dict(quadrature_nodes(model))
    # The least are twice as many as basis functions.
    ranks = ranks or tuple((name, n // 2) for name, n in least.items())
    needs = [rounded(need) for need in needs]
    nodes = _at_least(resolving_nodes(ranks, needs), least)
    wanted = nodes
    while math.prod(n for _, n in nodes) > MOST and any(need.functions > 1 for need in needs):
        needs = [Bandwidth(n.input, n.axis, n.functions // 2, n.remainder) for n in needs]
        nodes = _at_least(resolving_nodes(ranks, needs), least)
    if nodes != wanted:
        logger.warning(
            "the inputs ask for %s nodes; %s are taken, so that a grid has at most %d",
            *(" x ".join(str(n) for _, n in counts) for counts in (wanted, nodes)),
            MOST,
        )
    return nodes


def rounded(need: Bandwidth) -> Bandwidth:
    """With its number of functions rounded up to one of `RUNGS`."""
    functions = next(rung for rung in RUNGS if rung >= need.functions)
    return Bandwidth(need.input, need.axis, functions, need.remainder)


def _at_least(nodes: Nodes, least: Mapping[str, int]) -> Nodes:
    return tuple((name, max(n, least[name])) for name, n in nodes)
