"""All devices of all processes in a row."""

import jax
from jax.sharding import AxisType, Mesh

FUNCTIONS = "functions"
"""The axis of a mesh over which functions are split."""


def device_mesh() -> Mesh | None:
    """All devices of all processes in a row; None if there is one."""
    if jax.device_count() == 1:
        return None
    return jax.make_mesh((jax.device_count(),), (FUNCTIONS,), axis_types=(AxisType.Auto,))
