"""The address of a class: what another process needs in order to import it again."""

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class ClassAddress:
    """The name of a class, and the module or file that defines it.

    **Arguments:**

    - `name`: its qualified name.
    - `module`: an importable module, or None for a script.
    - `file`, `digest`: its file, and a hash of the source of the class; None for classes of this package.
    """

    name: str
    module: str | None = None
    file: str | None = None
    digest: str | None = None

    @classmethod
    def of(cls, made: type) -> "ClassAddress":
        name, module = made.__qualname__, made.__module__
        if "<locals>" in name:
            raise ValueError(
                f"{name} is defined inside a function, where no other process finds it; move it to a module"
            )
        if is_packaged(made):
            return cls(name, module)
        try:
            file = inspect.getsourcefile(made)
            digest = _digest(made)
        except (OSError, TypeError):
            file = digest = None
        if file is None:
            raise ValueError(
                f"{name} has no source file, so no other process would find it; write it in a .py file (in a notebook, "
                f"in a cell that begins with %%writefile my_pde.py) and import it from there"
            )
        importable = module != "__main__" and not module.startswith(_SCRIPT)
        return cls(name, module if importable else None, str(Path(file).resolve()), digest)

    def find(self) -> type:
        """The class, imported from its module or else from its file."""
        definition = self._from_main() or self._from_module() or self._from_file()
        if self.digest is not None and _digest(definition) != self.digest:
            warnings.warn(
                f"the source of {self.name} in {self.file} has changed since it was saved; what was trained may "
                "belong to another equation",
                stacklevel=2,
            )
        return definition

    def _from_main(self) -> type | None:
        main = sys.modules.get("__main__")
        path = getattr(main, "__file__", None)
        return _attribute(main, self.name) if path and self.file == str(Path(path).resolve()) else None

    def _from_module(self) -> type | None:
        if self.module is None:
            return None
        try:
            module = importlib.import_module(self.module)
        except ImportError:
            module = None
        file = getattr(module, "__file__", None)
        # A module of the same name elsewhere is another one, as long as the file still exists.
        if self.file is not None and (module is None or (file and str(Path(file).resolve()) != self.file)):
            return _attribute(module, self.name) if module and not Path(self.file).exists() else None
        definition = _attribute(module, self.name)
        if definition is None:
            raise ValueError(
                f"there is no {self.name} in the module {self.module}; it was saved by another version of it"
            )
        return definition

    def _from_file(self) -> type:
        if self.file is None or not Path(self.file).exists():
            raise ValueError(f"{self.name} was defined in {self.file}, which is not there any more; put the file back")
        definition = _attribute(import_file(self.file), self.name)
        if definition is None:
            raise ValueError(f"there is no class {self.name} in {self.file} any more; it was renamed or removed")
        return definition


_SCRIPT = f"{PACKAGE}.script:"


def import_file(path: str | Path) -> ModuleType:
    """The module that results from running a Python file; a file that was imported already is not run again.

    As for a script, modules beside it can be imported; the folder is searched last, so that it hides no package.
    """
    path = Path(path).resolve()
    name = f"{_SCRIPT}{path}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"importing {path} failed with {type(error).__name__}: {error}") from error
    return module


def _attribute(module: Any, name: str) -> type | None:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module if isinstance(module, type) else None


def is_packaged(made: type) -> bool:
    """Whether a class is defined in this package, and not in a user's script."""
    module = made.__module__
    return module.partition(".")[0] == PACKAGE and not module.startswith(_SCRIPT)


def file_digest(made: type) -> str:
    """A hash of the file that defines a class; without such a file a random one, so that no two are taken for equal."""
    try:
        content = Path(inspect.getfile(made)).read_bytes()
    except (OSError, TypeError):
        content = os.urandom(16)
    return hashlib.sha256(content).hexdigest()[:16]


def _digest(made: type) -> str:
    return hashlib.sha256(inspect.getsource(made).encode()).hexdigest()[:16]
