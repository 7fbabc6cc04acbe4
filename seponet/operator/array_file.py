"""The file of a model's arrays: an npz file that is compared with the description before any array is read.

A zip file may declare gigabytes in a few bytes, or hold other arrays than its description says. So the headers come
first: as many arrays, of the shapes and types that are described, stored without compression, and hence no larger than
the file itself. Each array that is read must have its digest.
"""

import ast
import hashlib
import io
import math
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .._files import read_file
from .description import Declared

LIMIT = 2**34
"""Bytes that the arrays of a model may have."""


def read_arrays(file: Path, declared: Declared, digests: Sequence[str] | None) -> list[np.ndarray]:
    """The arrays in a file, in their order.

    **Arguments:**

    - `file`: the file.
    - `declared`: what must be in it.
    - `digests`: of each array; None for formats that had none.
    """
    again = "save the operator again, or copy the whole folder"
    try:
        arrays = _read(file, declared)
    except FileNotFoundError:
        raise ValueError(f"{file} is missing; {again}") from None
    except _Mismatch as error:
        raise ValueError(f"the arrays in {file.name} do not belong to operator.json: {error}; {again}") from None
    except Exception as error:
        # A damaged zip file raises many kinds of errors.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{file} is damaged ({reason}); {again}") from None
    if digests is not None and [array_digest(array) for array in arrays] != digests:
        raise ValueError(f"{file} is damaged (a digest is that of another array); {again}")
    return arrays


def array_digest(array: np.ndarray) -> str:
    """Of the type, the shape and the numbers."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


class _Mismatch(ValueError):
    pass


def _read(file: Path, declared: Declared) -> list[np.ndarray]:
    needed = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in declared.values())
    if needed > LIMIT:
        raise _Mismatch(f"it describes {needed:,} bytes, and at most {LIMIT:,} are read")
    content = read_file(file, needed + 2**20 + 4096 * len(declared))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {member.filename: member for member in archive.infolist()}
        missing = [str(i) for i in sorted(declared) if f"{i}.npy" not in members]
        if missing or len(archive.infolist()) != len(members):
            raise _Mismatch(f"array {missing[0]} is missing" if missing else "it has two arrays of one name")
        arrays: list[np.ndarray] = []
        for i, (shape, dtype) in sorted(declared.items()):
            member = members[f"{i}.npy"]
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                raise _Mismatch(f"array {i} is compressed, which ours are not")
            data = archive.read(member)
            arrays.append(_array(i, data, shape, dtype))
    return arrays


def _array(i: int, data: bytes, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array in NumPy's own format, whose header is compared before its data are taken."""
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"array {i} is not in NumPy's format")
    short = data[6] == 1
    (length,) = struct.unpack_from("<H" if short else "<I", data, 8)
    start = (10 if short else 12) + length
    header = ast.literal_eval(data[start - length : start].decode("latin1"))
    kind, order = np.dtype(dtype), "F" if header["fortran_order"] else "C"
    if tuple(header["shape"]) != shape or np.dtype(header["descr"]) != kind or kind.hasobject:
        raise _Mismatch(f"array {i} of {dtype}{list(shape)} is {header['descr']}{list(header['shape'])}")
    if len(data) - start != math.prod(shape) * kind.itemsize:
        raise ValueError(f"array {i} has {len(data) - start} bytes instead of {math.prod(shape) * kind.itemsize}")
    return np.frombuffer(data, kind, offset=start).reshape(shape, order=order).copy(order="C")
