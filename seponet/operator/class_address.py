"""The address of a class: what another process needs in order to import it again."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx

from .trust import NOTHING, Trust, remember

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

    @classmethod
    def read(cls, content: Any) -> "ClassAddress":
        """From what a file says."""
        known = ("name", "module", "file", "digest")
        if not isinstance(content, dict) or not all(k in known and isinstance(v, str) for k, v in content.items()):
            raise ValueError(f"a class is described by {', '.join(known)}; got {content!r:.80}")
        if not content.get("name"):
            raise ValueError("a class is described without its name")
        return cls(**content)

    def remember(self) -> None:
        """Note that this user has run the code at this address."""
        remember(self.file, self.module)

    def find(self, trust: Trust = NOTHING) -> type:
        """The class: passed by the caller, defined in this process already, or, if that is trusted, imported from its
        module or else from its file."""
        definition = trust.passed(self.name) or self._defined_here()
        if definition is None:
            if self.file is not None and not Path(self.file).exists() and not (trust.everything and self.module):
                raise self._gone()
            trust.check(self.name, self.file, self.module)
            definition = self._from_module() or self._from_file()
        if self.digest is not None and _digest(definition) != self.digest:
            warnings.warn(
                f"the source of {self.name} in {self.file} has changed since it was saved; what was trained may "
                "belong to another equation",
                stacklevel=2,
            )
        return definition

    def _defined_here(self) -> type | None:
        """The class, if it is part of models and this process has it: looking for it runs nothing."""
        modules = [loaded_module(self.file)] if self.file is not None else []
        # Where its file is not, on another machine for instance, a module of that name stands for it.
        if self.module is not None and (self.file is None or not Path(self.file).exists()):
            modules.append(sys.modules.get(self.module))
        found = (_defined(module, self.name) for module in modules if module is not None)
        return next((cls for cls in found if cls is not None and _is_part(cls)), None)

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
            return _defined(module, self.name) if module and not Path(self.file).exists() else None
        definition = None if module is None else _defined(module, self.name)
        if definition is None:
            raise ValueError(
                f"there is no {self.name} in the module {self.module}; it was saved by another version of it"
            )
        return definition

    def _from_file(self) -> type:
        if self.file is None or not Path(self.file).exists():
            raise self._gone()
        definition = _defined(import_file(self.file), self.name)
        if definition is None:
            raise ValueError(f"there is no class {self.name} in {self.file} any more; it was renamed or removed")
        return definition

    def _gone(self) -> ValueError:
        return ValueError(
            f"{self.name} was defined in {self.file}, which is not there any more; put the file back, or pass the "
            f"class (problem={self.name}, --problem FILE:{self.name})"
        )


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


def loaded_module(path: str | Path) -> ModuleType | None:
    """The module of a file that this process has already, its main script for instance: it must not run twice."""
    path = Path(path).resolve()
    files = {module: getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # Thousands of modules are compared: only those of that name are looked up on the disk.
    alike = (module for module, file in files.items() if isinstance(file, str) and Path(file).name == path.name)
    return next((module for module in alike if Path(str(module.__file__)).resolve() == path), None)


def _defined(module: Any, name: str) -> type | None:
    """A class by its qualified name, as it stands in the module: no `__getattr__` is asked, which might import."""
    for part in name.split("."):
        module = vars(module).get(part) if isinstance(module, ModuleType | type) else None
    return module if isinstance(module, type) else None


def _is_part(cls: type) -> bool:
    """Whether models are made of such classes: any other dataclass of a library is none of a file's business."""
    return issubclass(cls, eqx.Module) or any(is_packaged(base) for base in cls.__mro__)


def is_packaged(made: type) -> bool:
    """Whether a class is defined in this package, and not in a user's script."""
    module = made.__module__
    return module.partition(".")[0] == PACKAGE and not module.startswith(_SCRIPT)


def source_digest(made: type) -> str | None:
    """A hash of the code of a class, and of all in its file that it uses; None without one, or for the package's.

    Comments and layout don't count, nor does what the class doesn't use: the call that trains it may change.
    """
    digest = hashlib.sha256()
    for cls in made.__mro__:
        if cls is object or is_packaged(cls):
            continue
        try:
            tree = ast.parse(Path(inspect.getfile(cls)).read_bytes())
        except (OSError, TypeError, SyntaxError):
            return None
        for statement in _used(tree, cls.__qualname__.partition(".")[0]):
            digest.update(ast.dump(statement).encode())
    return None if is_packaged(made) else digest.hexdigest()[:16]


def _used(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a module that define a name, and whatever names these use, in their order."""
    bound = [(statement, _bound(statement)) for statement in tree.body]
    wanted, done = {name}, set[int]()
    while True:
        more = [i for i, (_, names) in enumerate(bound) if i not in done and names & wanted]
        if not more:
            return [tree.body[i] for i in sorted(done)]
        done.update(more)
        nodes = (node for i in more for node in ast.walk(tree.body[i]))
        wanted |= {node.id for node in nodes if isinstance(node, ast.Name)}


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module gives a meaning to."""
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    # What a function or a class binds inside stays there.
    return {statement.name} if isinstance(statement, ast.FunctionDef | ast.ClassDef) else names


def _digest(made: type) -> str:
    return hashlib.sha256(inspect.getsource(made).encode()).hexdigest()[:16]
