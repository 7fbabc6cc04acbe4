"""Strict settings for every test. This runs before any test imports seponet, which the import hook needs."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# An int may be given where a float is declared, as type checkers have it.
install_import_hook("seponet", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
