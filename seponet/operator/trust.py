"""Which code a file may name: a folder that somebody sent runs none but the package's, unless that is allowed.

A saved operator names the classes that it is made of. Those of the package are known by registered names. A user's own
are found, without running anything, among those that the caller passes and those that this process has defined. Only
then is a file imported, and for that somebody must have said so: the caller, by `trust=True`; or this user before, by
having trained or saved with that very file. What was trained with is remembered as path, module and digest, so neither
a changed file, nor a copy of it beside other modules, is taken for it.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from .._files import read_file, read_text, write_text

logger = logging.getLogger(__name__)

REMEMBERED = "trusted.json"
VERSIONS = 20
"""How many versions of a file are remembered."""


class UntrustedCode(ValueError):
    """A file names code that nobody has allowed to run."""


@dataclass(frozen=True)
class Trust:
    """What may be used and run for the sake of a file.

    **Arguments:**

    - `everything`: run whatever the file names.
    - `classes`: classes of the caller's, which are found by their names.
    """

    everything: bool = False
    classes: tuple[type, ...] = ()

    def passed(self, name: str) -> type | None:
        """The class of that name among those that the caller has passed, wherever it is defined."""
        return next((cls for cls in self.classes if cls.__name__ == name.rpartition(".")[2]), None)

    def check(self, name: str, file: str | None, module: str | None = None) -> None:
        """Refuse to run the code that defines `name`, unless it is allowed."""
        if self.everything:
            return
        if file is None:
            raise UntrustedCode(
                f"the class {name} is in the module {module}, which is not part of seponet: allow it to be imported by "
                f"trust=True (--trust), or import it yourself and pass the class (problem={name})"
            )
        digest = file_sha256(file)
        remembered = _remembered().get(file)
        # A module is imported by its name, which must be the one that was imported before.
        if remembered and digest in remembered["sha256"] and module in (None, remembered["module"]):
            return
        since = "has changed since you trained with it" if remembered else "you have not trained with here"
        raise UntrustedCode(
            f"the class {name} is code in {file} (sha256 {digest}), which is not part of seponet and which {since}: "
            f"read it, then allow it to run by trust=True (--trust), or name the problem yourself (problem={name}, "
            f"--problem {file}:{name})"
        )


NOTHING = Trust()
"""Only what runs no code of a file's."""


def file_sha256(file: str) -> str:
    """The digest of a regular file that holds code."""
    try:
        return hashlib.sha256(read_file(Path(file))).hexdigest()
    except OSError as error:
        raise ValueError(f"{file} can't be read ({error.strerror}); put the file back") from None


def remember(file: str | None, module: str | None) -> None:
    """Note that this user has run a file, as it is now; where that can't be noted, nothing is."""
    if file is None:
        return
    try:
        known, digest, path = _remembered(), file_sha256(file), _path()
        before = known.get(file, {"module": "", "sha256": []})
        digests = [*(d for d in before["sha256"] if d != digest), digest][-VERSIONS:]
        entry = {"module": module or before["module"], "sha256": digests}
        if entry != before:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_text(path, json.dumps({**known, file: entry}, indent=1, sort_keys=True) + "\n")
            path.chmod(0o600)
    except (OSError, ValueError) as error:
        logger.debug("that %s is trusted is not remembered: %s", file, error)


def _path() -> Path:
    """In the user's own folder, not in a cache, which colleagues may share."""
    return Path(os.environ.get("SEPONET_CONFIG") or platformdirs.user_config_dir("seponet")) / REMEMBERED


def _remembered() -> Mapping[str, Any]:
    """Path -> module and digests of the files that this user has run; nothing if others may have written the list."""
    path = _path()
    try:
        status = path.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            logger.warning("%s is writable by others, so it is not believed; remove it", path)
            return {}
        known = json.loads(read_text(path))
        return {file: entry for file, entry in known.items() if set(entry) == {"module", "sha256"}}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
