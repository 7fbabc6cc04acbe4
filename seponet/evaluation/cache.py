"""The cache of test sets: files that are written whole, read back under a digest, and never in the way.

The digest is of all that a file says: names, dimensions, types and numbers of every variable and coordinate, and every
attribute. A file that does not fit its digest is made anew. A cache that can't be written costs nothing but the next
solution: what was just solved is used.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import logging
import os
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import xarray as xr

from .._files import replacing
from ..operator.class_address import is_packaged

logger = logging.getLogger(__name__)

CHECKSUM = "checksum"

OLD = 86_400
"""Seconds after which a file that was never finished is nobody's any more."""

UNKNOWN = "unknown"
"""The fingerprint of a class that holds things which nobody can compare: its solutions are not kept."""


def cache_folder() -> Path:
    """Where test sets are kept: `$SEPONET_CACHE`, or the user's cache folder."""
    return Path(os.environ.get("SEPONET_CACHE") or platformdirs.user_cache_dir("seponet")) / "testsets"


def write_cached(data: xr.Dataset, path: Path) -> None:
    """Keep a test set; that it can't be kept is told, and no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(".*-*.nc"):
            if time.time() - left.stat().st_mtime > OLD:
                left.unlink(missing_ok=True)
        with replacing(path) as fresh:
            data.assign_attrs({CHECKSUM: checksum(data)}).to_netcdf(fresh, engine="netcdf4")
    except (OSError, RuntimeError) as error:
        # NetCDF's library reports a full disk as a RuntimeError.
        logger.warning("the test set can't be kept in %s, and is solved again next time: %s", path.parent, error)


def read_cached(path: Path, content: str) -> xr.Dataset | None:
    """A test set that was kept for that `content`; None, which is told, if it is damaged."""
    try:
        with xr.open_dataset(path, engine="netcdf4") as file:
            data = file.load()
        whole = data.attrs.get(CHECKSUM) == checksum(data) and data.attrs.get("content") == content
    except Exception as error:
        # A damaged file raises many kinds of errors, in several libraries.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        logger.warning("the cached test set %s can't be read (%s); it is made anew", path, reason)
        return None
    if not whole:
        logger.warning("the cached test set %s is damaged; it is made anew", path)
        return None
    return data


def checksum(data: xr.Dataset) -> str:
    """The digest of everything that a test set says."""
    digest = hashlib.sha256(_attributes({k: v for k, v in data.attrs.items() if k != CHECKSUM}))
    for name in sorted(map(str, data.variables)):
        variable = data.variables[name]
        values = np.ascontiguousarray(variable.values)
        digest.update(f"{name}{variable.dims}{values.dtype.str}{values.shape}".encode())
        digest.update(_attributes(variable.attrs))
        digest.update(values.tobytes())
    return digest.hexdigest()


def _attributes(attributes: Mapping[Any, Any]) -> bytes:
    """As they are whether they come from Python or from a file."""
    return json.dumps({str(k): _plain(v) for k, v in attributes.items()}, sort_keys=True).encode()


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def class_fingerprint(cls: type) -> str:
    """A hash of all that a class of a user's is made of: its file, and what its methods and attributes hold.

    Two classes that one function made of different arguments have the same source; what tells them apart is what their
    methods have closed over. `UNKNOWN` if that can't be compared.
    """
    digest = hashlib.sha256()
    try:
        for base in cls.__mro__:
            if base is object or is_packaged(base):
                continue
            digest.update(Path(inspect.getfile(base)).read_bytes())
            # What stands in a module follows from its file; what a function made, from what it was given too.
            if "<locals>" in base.__qualname__:
                held = {name: value for name, value in sorted(vars(base).items()) if not name.startswith("__")}
                digest.update(_held(held).encode())
    except (OSError, TypeError, ValueError, RecursionError):
        return UNKNOWN
    return digest.hexdigest()[:16]


def _held(value: Any, depth: int = 0) -> str:
    """A value in words that are the same in every process; a TypeError if there are none."""
    if depth > 20:
        raise RecursionError
    inner = functools.partial(_held, depth=depth + 1)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, staticmethod | classmethod):
        return inner(value.__func__)
    if isinstance(value, property):
        return inner((value.fget,))
    if isinstance(value, functools.partial):
        return f"partial{inner((value.func, value.args, value.keywords))}"
    if not isinstance(value, types.FunctionType) and isinstance(
        getattr(value, "__wrapped__", None), types.FunctionType
    ):
        return inner(value.__wrapped__)  # as `jax.jit` leaves it
    if isinstance(value, types.FunctionType):
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        code = value.__code__
        return f"{code.co_code.hex()}{code.co_names}{inner((_constants(code), cells, value.__defaults__))}"
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{inner(k)}: {inner(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(inner, value)))}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return f"{type(value).__qualname__}{inner(fields)}"
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"{array.dtype.str}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    raise TypeError(f"{type(value).__name__} can't be compared")


def _constants(code: types.CodeType) -> tuple[Any, ...]:
    """The constants of a function, with those of the functions inside of it."""
    return tuple(
        (c.co_code.hex(), c.co_names, _constants(c)) if isinstance(c, types.CodeType) else c for c in code.co_consts
    )
