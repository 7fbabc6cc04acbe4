"""Problems by name: registered ones, and classes in a user's file."""

import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._text import did_you_mean
from ..equations.problem import Problem
from ..operator.class_address import ClassAddress, import_file, loaded_module
from ..operator.trust import Trust
from ..problems import find_problem, name_of


def make_problem(problem: str | type[Problem] | Problem, constants: Mapping[str, Any] | None = None) -> Problem:
    """A problem by its registered name, as `path/to/file.py:ClassName`, as a class or as it is; with constants."""
    if isinstance(problem, str):
        problem = find_class(problem)
    known = {f.name: f for f in dataclasses.fields(problem)}  # pyright: ignore[reportArgumentType]
    values = dict(constants or {})
    for key, value in values.items():
        if key not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"{_name(problem)} has no constant {key!r}{did_you_mean(key, known)}; it has {listed}")
        default = known[key].default
        numbers = isinstance(default, int | float) and not isinstance(default, bool)
        if numbers and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"constants.{key} must be a number; got {value!r}")
        if numbers and not abs(value) <= sys.float_info.max:
            raise ValueError(f"constants.{key} must be finite; got {value!r}")
        values[key] = type(default)(value) if isinstance(default, float) else value
    if isinstance(problem, Problem):
        return dataclasses.replace(problem, **values) if values else problem  # pyright: ignore[reportArgumentType]
    missing = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in values]
    if missing:
        raise ValueError(f"{_name(problem)} needs the constants {', '.join(missing)}: set constants.{missing[0]}, ...")
    return problem(**values)


def find_class(problem: str) -> type[Problem]:
    """The class of a registered name, or of `path/to/file.py:ClassName`, which runs that file."""
    file, name = _parts(problem)
    return find_problem(problem) if file is None else _from_file(file, name)


def _parts(problem: str) -> tuple[str | None, str]:
    """The file and the class that an address names; None for a registered name."""
    file, _, name = problem.rpartition(":")
    if problem.endswith(".py"):
        return problem, ""
    return (file, name) if file.endswith(".py") else (None, problem)


def find_named(problem: str, constants: Mapping[str, Any], trust: Trust) -> Problem:
    """The problem that a file names: none of a user's own files is run for it, unless that is trusted."""
    file, name = _parts(problem)
    if file is None:
        return make_problem(problem, constants)
    passed = trust.passed(name) if name else next(iter(trust.classes), None)
    if passed is not None and _is_problem(passed):
        return make_problem(passed, constants)
    if not Path(file).is_file():
        raise ValueError(f"the problem {name} is in {file}, which is not there; put it back, or name it: --problem")
    if loaded_module(file) is None:
        trust.check(name, str(Path(file).resolve()))
    return make_problem(problem, constants)


def address_of(problem: Problem) -> str:
    """A name or `path/to/file.py:ClassName` that `make_problem` finds the class by."""
    name = name_of(problem)
    if name is not None:
        return name
    origin = ClassAddress.of(type(problem))
    return f"{origin.file}:{origin.name}"


def remember_code(problem: Problem) -> None:
    """Note that this user has run the file of a problem of their own, so that the run may name it (`trust.py`)."""
    if name_of(problem) is None:
        with contextlib.suppress(ValueError):  # a class without a file
            ClassAddress.of(type(problem)).remember()


def _from_file(file: str, name: str) -> type[Problem]:
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {path}; a problem is given as path/to/file.py:ClassName")
    module = loaded_module(path) or import_file(path)
    here = {n: v for n, v in vars(module).items() if _is_problem(v) and v.__module__ == module.__name__}
    if not name and len(here) == 1:
        return next(iter(here.values()))
    problem: Any = module
    for part in name.split("."):
        problem = getattr(problem, part, None)
    if not _is_problem(problem):
        listed = ", ".join(here) or "none (a problem is a subclass of seponet.Problem)"
        what = f"no problem {name!r}" if name else "not exactly one problem"
        raise ValueError(f"{path} has {what}; its problems are {listed}")
    return problem


def _is_problem(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Problem) and value is not Problem


def _name(problem: type[Problem] | Problem) -> str:
    return (problem if isinstance(problem, type) else type(problem)).__name__
