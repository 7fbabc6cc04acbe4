"""Models on disk, without pickle: a description in JSON and the arrays in an npz file, each with digests.

The description is the tree of modules itself: for every module and dataclass the name of its class and its fields. So a
model is rebuilt from what it is, not from how it was made: no configuration is repeated, no sample drawn again. A
problem is described by the class that defines it and its constants. Classes of the package have registered names, which
stay when the code moves; a user's own have an address.

Nothing that is read is believed: the description and every array have digests; the arrays are in a file of one of two
names beside the description, and their shapes are compared before they are read; and no code is run but the package's
(`trust.py`).

The format has a number. Each earlier format has a step that brings its description to the next one, so that an operator
that a release wrote can be read by every later one; `tests/data` has operators of every format. What a class has got
since is no new format as long as it has a default.
"""

import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .._files import current_umask, read_text, replacing, write_text
from ..equations.problem import Problem
from ..nn.model import OperatorNetwork
from .array_file import array_digest, read_arrays
from .class_address import ClassAddress, is_packaged
from .description import declared_arrays, own_classes
from .estimate import Calibration
from .format1 import from_format1
from .registry import registered_class, registered_name
from .trust import NOTHING, Trust

FORMAT = 3
UPGRADES: Mapping[int, Callable[[Any], Any]] = {1: from_format1, 2: lambda description: description}
"""For each earlier format the step from its description of a model to that of the next one. The third has digests."""
DESCRIPTION, ARRAYS = "operator.json", ("arrays.npz", "arrays-2.npz")
"""The arrays have two names, used in turn: those in use stay until the description, which names them, is replaced."""


def save_model(
    path: str | Path, model: OperatorNetwork, *, overwrite: bool = False, calibration: Calibration | None = None
) -> None:
    """Write a model, and the calibration of its errors, to a folder. The folder appears whole or not at all."""
    from .. import __version__

    path = Path(path).absolute()
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists already; choose another folder, or pass overwrite=True")
    if path.exists() and not _may_replace(path):
        raise ValueError(f"{path} holds other things than a saved operator; choose another folder")
    arrays: list[np.ndarray] = []
    content = {
        "format": FORMAT,
        "seponet": __version__,
        "problem": type(model.problem).__name__,
        "model": describe(model, arrays, "model"),
        "calibration": describe(calibration, arrays, "calibration"),
    }
    # Whoever saves a class has run its code.
    for address in own_classes(content["model"]):
        address.remember()
    if path.exists():
        _write(path, content, arrays)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        _write(fresh, content, arrays)
        fresh.chmod(0o777 & ~current_umask())
        fresh.rename(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def load_model(path: str | Path, trust: Trust = NOTHING) -> OperatorNetwork:
    """The model in a folder that `save_model` wrote, or in its subfolder `operator`; arguments as of `load_parts`."""
    return load_parts(path, trust)[0]


def load_parts(path: str | Path, trust: Trust = NOTHING) -> tuple[OperatorNetwork, Calibration | None]:
    """The model, and the calibration of its errors if it has one: earlier versions wrote none.

    **Arguments:**

    - `path`: the folder.
    - `trust`: which code besides the package's may be used.
    """
    saved = read_description(path)
    model, calibration = _restored(saved, (saved.model, saved.calibration), trust)
    source = saved.file.parent / DESCRIPTION
    if not isinstance(model, OperatorNetwork):
        raise ValueError(f"{source} describes a {type(model).__name__} instead of an operator network")
    return model, _calibration(calibration, source)


def load_calibration(path: str | Path) -> Calibration | None:
    """The calibration alone, made of the package's classes: nothing that the model names is imported."""
    saved = read_description(path)
    (calibration,) = _restored(saved, (saved.calibration,), NOTHING)
    return _calibration(calibration, saved.file.parent / DESCRIPTION)


def _calibration(value: Any, source: Path) -> Calibration | None:
    if not isinstance(value, Calibration | None):
        raise ValueError(f"{source} has a {type(value).__name__} instead of a calibration")
    return value


class Description(NamedTuple):
    """What a folder says of a saved operator.

    - `model`, `calibration`: their descriptions, in today's format.
    - `file`, `digests`: the file of their arrays, and the digest of each.
    """

    model: Any
    calibration: Any
    file: Path
    digests: list[str] | None


def _restored(saved: Description, parts: Sequence[Any], trust: Trust) -> list[Any]:
    """The things that some of the descriptions are of."""
    try:
        # All arrays that the file has, whichever of them are asked for.
        declared = declared_arrays({"list": [saved.model, saved.calibration]})
        arrays = read_arrays(saved.file, declared, saved.digests)
        return [restore(part, arrays, trust) for part in parts]
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        source = saved.file.parent / DESCRIPTION
        raise ValueError(f"{source} is damaged ({type(error).__name__}: {error}); save the operator again") from None


def read_description(path: str | Path) -> Description:
    """The description of what is in a folder, in today's format.

    Nothing is imported and no array is read. Only formats that had none yet may be without digests.
    """
    folder = Path(path)
    if not (folder / DESCRIPTION).exists() and (folder / "operator" / DESCRIPTION).exists():
        folder = folder / "operator"
    source = folder / DESCRIPTION
    if not source.exists():
        raise ValueError(f"there is no saved operator in {folder}: {DESCRIPTION} is missing")
    try:
        content = json.loads(read_text(source))
        version, writer, description = content["format"], content["seponet"], content["model"]
        # Before there were two names, there was one.
        arrays, digests = content.get("arrays", ARRAYS[0]), content.get("digests")
        if arrays not in ARRAYS:
            raise ValueError(f"its arrays are called {arrays!r} instead of {' or '.join(ARRAYS)}")
        if not isinstance(version, int) or isinstance(version, bool):
            raise ValueError(f"its format is {version!r}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{source} is damaged ({error}); save the operator again") from None
    if version not in (*UPGRADES, FORMAT):
        raise ValueError(
            f"{folder} has format {version}, written by seponet {writer}, and this version reads the formats "
            f"{', '.join(map(str, (*UPGRADES, FORMAT)))}; install a version that reads it"
        )
    # A format that came before digests has none: one that has some is a later one whose number is damaged.
    if (version >= 3 or "digest" in content) and content.get("digest") != _content_digest(content):
        raise ValueError(f"{source} is damaged (its digest is that of another description); save the operator again")
    try:
        for earlier in range(version, FORMAT):
            description = UPGRADES[earlier](description)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{source} is damaged ({error}); save the operator again") from None
    return Description(description, content.get("calibration"), folder / arrays, digests)


def _content_digest(content: Mapping[str, Any]) -> str:
    """Of all that a description says, whatever its layout."""
    said = {key: value for key, value in content.items() if key != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def describe(value: Any, arrays: list[np.ndarray], path: str) -> Any:
    """A value as JSON; its arrays are appended to `arrays`. `path` says in errors where it stands."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, jax.Array | np.ndarray):
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1, "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [describe(v, arrays, f"{path}[{i}]") for i, v in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[k, describe(v, arrays, f"{path}[{k!r}]")] for k, v in value.items()]}
    if isinstance(value, type):
        return {"class": _name(value)}
    if dataclasses.is_dataclass(value):
        kind = "problem" if isinstance(value, Problem) else "object"
        fields = {
            f.name: describe(getattr(value, f.name), arrays, f"{path}.{f.name}") for f in dataclasses.fields(value)
        }
        return {kind: _name(type(value)), "fields": fields}
    raise ValueError(
        f"{path} is a {type(value).__name__}, which can't be saved; models are saved if they are made of Equinox "
        "modules, dataclasses, arrays, numbers and names"
    )


def restore(description: Any, arrays: Sequence[np.ndarray], trust: Trust = NOTHING) -> Any:
    """The way back."""
    if not isinstance(description, dict):
        return description
    (kind, content), *_ = description.items()
    if kind == "array":
        return _array(description, arrays)
    if kind in ("list", "tuple"):
        values = [restore(v, arrays, trust) for v in content]
        return values if kind == "list" else tuple(values)
    if kind == "dict":
        return {k: restore(v, arrays, trust) for k, v in content}
    if kind not in ("class", "object", "problem"):
        raise ValueError(f"{DESCRIPTION} is damaged: it has an entry {kind!r}; save the operator again")
    cls = registered_class(content) if isinstance(content, str) else ClassAddress.read(content).find(trust)
    if kind == "class":
        return cls
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{DESCRIPTION} is damaged: {cls.__name__} is not a module or a dataclass")
    saved = {name: restore(v, arrays, trust) for name, v in description["fields"].items()}
    defaults = {f.name: _default(f) for f in dataclasses.fields(cls)}
    fields = {name: saved.get(name, default) for name, default in defaults.items()}
    if not set(saved) <= set(defaults) or any(value is dataclasses.MISSING for value in fields.values()):
        raise ValueError(
            f"{cls.__name__} has {', '.join(sorted(defaults)) or 'no constants'}, and was saved with "
            f"{', '.join(sorted(saved)) or 'none'}; it has changed since, so load it with the code that trained it"
        )
    if kind == "problem":
        if not issubclass(cls, Problem):
            raise ValueError(f"{DESCRIPTION} is damaged: {cls.__name__} is not a problem")
        return cls(**fields)
    # Constructors do work (initialise weights, take statistics) whose result is what was saved.
    instance = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def _default(field: dataclasses.Field) -> Any:
    """What a field holds that was added after a file was written; MISSING if nothing is known about it."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _name(cls: type) -> str | dict[str, str]:
    if is_packaged(cls):
        return registered_name(cls)
    return {name: value for name, value in dataclasses.asdict(ClassAddress.of(cls)).items() if value is not None}


def _array(description: dict[str, Any], arrays: Sequence[np.ndarray]) -> jax.Array:
    # What was saved in float64 stays so in a program that computes in float32.
    with jax.enable_x64(True):
        return jax.device_put(arrays[description["array"]])


def _may_replace(path: Path) -> bool:
    """Whether a folder is a saved operator, whole or not; files that start with a dot belong to nobody."""
    return path.is_dir() and all(p.name in (DESCRIPTION, *ARRAYS) or p.name.startswith(".") for p in path.iterdir())


def _write(folder: Path, content: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """One step, the replacement of the description, makes the new model the saved one."""
    try:
        used = json.loads(read_text(folder / DESCRIPTION)).get("arrays", ARRAYS[0])
    except (OSError, ValueError, AttributeError):
        used = ""
    free = ARRAYS[0] if used != ARRAYS[0] else ARRAYS[1]
    with replacing(folder / free) as fresh:
        np.savez(fresh, allow_pickle=False, **{str(i): array for i, array in enumerate(arrays)})
    whole = {**content, "arrays": free, "digests": [array_digest(array) for array in arrays]}
    write_text(folder / DESCRIPTION, json.dumps({**whole, "digest": _content_digest(whole)}, indent=1))
    for name in ARRAYS:
        if name != free:
            (folder / name).unlink(missing_ok=True)
