"""Training on several devices: each takes a share of the functions, as the mesh says that a user has set.

```python
with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("functions",), axis_types=(AxisType.Auto,))):
    operator = seponet.train("burgers")
```
"""

from typing import TypeVar

import jax
from jax.sharding import PartitionSpec

FUNCTIONS = "functions"
T = TypeVar("T")


def share(functions: T) -> T:
    """Arrays with the functions first, split over the axis "functions" of the mesh in use; as they are without one.

    All that follows in a compiled step is then split likewise by the compiler, and gradients are summed over devices.
    """
    if FUNCTIONS not in jax.sharding.get_abstract_mesh().axis_names:
        return functions
    return jax.lax.with_sharding_constraint(functions, PartitionSpec(FUNCTIONS))
