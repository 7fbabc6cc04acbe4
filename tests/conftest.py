"""Strict settings for every test. This runs before any test imports seponet, which the import hook needs."""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if not {"PYTEST_XDIST_WORKER", "SEPONET_TESTS_THOROUGH"} & set(os.environ):
    # A folder of this session's: suites that run at the same time, and the user's own test sets, are left alone.
    session = tempfile.TemporaryDirectory(prefix="seponet-tests-")
    os.environ["SEPONET_CACHE"] = str(Path(session.name) / "cache")
    os.environ["SEPONET_CONFIG"] = str(Path(session.name) / "config")
    # What a test compiles, later ones of this session, other workers and their child processes need not compile again.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(session.name) / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    # One thread in each process: those of two workers on two cores wait for each other more than they compute.
    os.environ.setdefault("NPROC", "1")
    # Tests compile more than they compute.
    brief = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {brief}"

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# An int may be given where a float is declared, as type checkers have it.
install_import_hook("seponet", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

DONE = pytest.StashKey[int]()
"""How many tests a process has run."""

SLOW = {line for line in (Path(__file__).parent / "slow.txt").read_text().splitlines() if not line.startswith("#")}


@pytest.fixture(scope="session", autouse=True)
def calibrated() -> Iterator[Any]:
    """Trainings of tests end without a calibration, which takes longer than they do; given is what would do it."""
    from seponet.runs import train

    real = train.calibrated
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "calibrated", lambda operator, _functions: (operator, {}))
        yield real


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what was measured to be slow."""
    for item in items:
        if f"{item.path.name}::{item.name.partition('[')[0]}" in SLOW:
            item.add_marker("slow")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests of equal bits run in a process of their own: without fusion emitters, the same step in a program of one
    step and in one of many differs in its last digit."""
    if pyfuncitem.get_closest_marker("thorough") is None or "SEPONET_TESTS_THOROUGH" in os.environ:
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    flags = f"{os.environ['XLA_FLAGS']} --xla_cpu_use_fusion_emitters=true"
    environment |= {"SEPONET_TESTS_THOROUGH": "1", "XLA_FLAGS": flags}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyfuncitem.nodeid]
    ended = subprocess.run(command, env=environment, cwd=pyfuncitem.config.rootpath, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return True


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Forget compiled programs now and then: each holds mappings of memory, of which a process may have 65,530."""
    done = item.config.stash.get(DONE, 0) + 1
    item.config.stash[DONE] = done
    if done % 100 == 0 and nextitem is not None:
        jax.clear_caches()
        gc.collect()
