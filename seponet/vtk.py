"""Predictions as VTK files, for ParaView, pyvista or meshio: XML with raw numbers in base64.

- `.vts`: a structured grid, a mapped one in its true shape.
- `.vtu`: an unstructured one: lines, quadrilaterals or hexahedra of such a grid, or scattered points.
- `.pvd`: a collection of `.vts` files beside it, one for each time and function.
"""

import base64
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import xarray as xr

from ._files import replacing
from .placed import positions

TIME = "t"
SUFFIXES = (".vts", ".vtu", ".pvd")
CELLS = {0: 1, 1: 3, 2: 9, 3: 12}
"""VTK's numbers of cells with as many axes: a point, a line, a quadrilateral, a hexahedron."""

CORNERS = {0: ((),), 1: ((0,), (1,)), 2: ((0, 0), (1, 0), (1, 1), (0, 1))}
"""The corners of a cell in VTK's order; those of a hexahedron are a quadrilateral's, twice."""


def write_vtk(prediction: xr.DataArray | xr.Dataset, path: str | Path) -> list[Path]:
    """Write what `predict` or `solve` returned; the suffix says how.

    **Arguments:**

    - `prediction`: over one to three axes of space. A `.vts` or `.vtu` file holds one function at one time (select with
        `isel`); a `.pvd` file all functions (as parts) and all times.
    - `path`: the file; its folder exists.

    **Returns:** the files that were written, the one that is asked for first.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a VTK file must end in {', '.join(SUFFIXES)}; got {path.name!r}")
    fields = prediction if isinstance(prediction, xr.Dataset) else prediction.to_dataset(name=prediction.name or "s")
    if path.suffix == ".pvd":
        return _write_collection(fields, path)
    for axis in ("function", TIME):
        if fields.sizes.get(axis, 1) > 1:
            raise ValueError(
                f"a {path.suffix} file holds one function at one time, and there are {fields.sizes[axis]} along "
                f"{axis!r}: select one, .isel({axis}=0), or write a .pvd file"
            )
    fields = fields.squeeze([axis for axis in ("function", TIME) if axis in fields.dims])
    _write(path, _structured(fields) if path.suffix == ".vts" else _unstructured(fields))
    return [path]


def _write_collection(fields: xr.Dataset, path: Path) -> list[Path]:
    functions, times = fields.sizes.get("function"), fields.sizes.get(TIME)
    entries: list[str] = []
    files: list[Path] = []
    for i, j in product(range(functions or 1), range(times or 1)):
        one = fields.isel({k: n for k, n, size in (("function", i, functions), (TIME, j, times)) if size is not None})
        suffix = ".vtu" if "point" in one.dims else ".vts"
        tail = (f"-{i:03d}" if functions else "") + (f"-{j:04d}" if times else "")
        file = path.with_name(f"{path.stem}{tail or '-0'}{suffix}")
        _write(file, _structured(one) if suffix == ".vts" else _unstructured(one))
        files.append(file)
        time = float(one[TIME]) if TIME in one.coords else float(j)
        entries.append(f'<DataSet timestep="{time!r}" part="{i}" file={quoteattr(file.name)}/>')
    _write(path, _document("Collection", "\n".join(entries)))
    return [path, *files]


def _structured(fields: xr.Dataset) -> str:
    axes, points = _points(fields)
    if not 1 <= len(axes) <= 3 or "point" in axes:
        raise ValueError(f"a structured grid has one to three axes of space; got {', '.join(axes) or 'none'}")
    sizes = [fields.sizes[axis] for axis in axes] + [1] * (3 - len(axes))
    extent = quoteattr(" ".join(f"0 {n - 1}" for n in sizes))
    data = _array("points", points, 3)
    content = f"<Piece Extent={extent}>{_point_data(fields, axes)}<Points>{data}</Points></Piece>"
    return _document("StructuredGrid", content, f" WholeExtent={extent}")


def _unstructured(fields: xr.Dataset) -> str:
    axes, points = _points(fields)
    scattered = "point" in axes
    shape = [] if scattered else [fields.sizes[axis] for axis in axes]
    if len(shape) > 3:
        raise ValueError(f"VTK has up to three axes of space; got {', '.join(axes)}")
    cells = np.arange(len(points))[:, None] if scattered else _cells(shape)
    kind = CELLS[len(shape)]
    parts = (
        _array("connectivity", cells.reshape(-1).astype(np.int64)),
        _array("offsets", cells.shape[1] * np.arange(1, len(cells) + 1, dtype=np.int64)),
        _array("types", np.full(len(cells), kind, np.uint8)),
    )
    content = (
        f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{len(cells)}">{_point_data(fields, axes)}'
        f"<Points>{_array('points', points, 3)}</Points><Cells>{''.join(parts)}</Cells></Piece>"
    )
    return _document("UnstructuredGrid", content)


def _points(fields: xr.Dataset) -> tuple[tuple[str, ...], np.ndarray]:
    """The axes of space, and the points `[n, 3]`, the first axis running fastest."""
    first = next(iter(fields.data_vars.values()))
    axes = tuple(str(dim) for dim in first.dims)
    if axes == ("point",):
        names = [str(n) for n, c in first.coords.items() if c.dims == ("point",) and n != TIME]
        arrays = [first[name].to_numpy() for name in names]
    else:
        arrays = [array.ravel(order="F") for name, array in positions(first, axes).items() if name != TIME]
    points = np.zeros((arrays[0].size, 3))
    for column, array in enumerate(arrays[:3]):
        points[:, column] = array
    return axes, points


def _point_data(fields: xr.Dataset, axes: Sequence[str]) -> str:
    arrays: Mapping[str, np.ndarray] = {
        str(name): values.transpose(*axes).to_numpy().astype(np.float64).ravel(order="F")
        for name, values in fields.data_vars.items()
    }
    return f"<PointData>{''.join(_array(name, values) for name, values in arrays.items())}</PointData>"


def _cells(shape: Sequence[int]) -> np.ndarray:
    """The points of each cell of a grid, in VTK's order."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape, order="F")
    corners = CORNERS.get(len(shape)) or tuple((*corner, k) for k in (0, 1) for corner in CORNERS[2])
    parts = [tuple(slice(c, n - 1 + c) for c, n in zip(corner, shape, strict=True)) for corner in corners]
    return np.stack([numbers[part].ravel() for part in parts], axis=1)


def _array(name: str, values: np.ndarray, components: int = 1) -> str:
    kinds = {"f": "Float64", "i": "Int64", "u": "UInt8"}
    raw = np.ascontiguousarray(values).tobytes()
    text = base64.b64encode(np.uint64(len(raw)).tobytes() + raw).decode()
    kind = kinds[values.dtype.kind]
    vector = f' NumberOfComponents="{components}"' if components > 1 else ""
    return f'<DataArray type="{kind}" Name={quoteattr(name)}{vector} format="binary">{text}</DataArray>'


def _document(kind: str, content: str, attributes: str = "") -> str:
    return (
        f'<?xml version="1.0"?>\n<VTKFile type="{kind}" version="1.0" byte_order="LittleEndian" '
        f'header_type="UInt64">\n<{kind}{attributes}>\n{content}\n</{kind}>\n</VTKFile>\n'
    )


def _write(path: Path, text: str) -> None:
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")
