"""What takes inputs from outside, valid examples of these, and what is to come of changed ones.

Each kind is a function of a generator of random numbers; it returns "refused" after an error of
ours and "accepted" after an answer that is right as far as can be told. Anything else raises.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import pickle
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.mutated import mutate
from tracer.command.scripts import parse_type
from tracer.compilation.stored.files import FileStore
from tracer.compilation.stored.folder import current_store
from tracer.compilation.stored.programs import _LENGTH
from tracer.errors import TracerError
from tracer.ir import parse_graph, print_graph
from tracer.units import format_bytes, parse_bytes, parse_flags, parse_share

REFUSED, ACCEPTED = "refused", "accepted"
_MOST_ELEMENTS = 100_000
_X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)


def _scan(x: Any) -> Any:
    return tracer.scan(lambda c, row: (tnp.tanh(c + row), c.sum()), tnp.zeros(4, "float32"), x)


def _while(x: Any) -> Any:
    return tracer.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]


def _images(x: Any) -> Any:
    image = tnp.tile(x, (1, 2, 2, 2))
    kernel = tnp.ones((2, 2, 3, 3), "float32")
    return tracer.lax.conv_general_dilated(image, kernel, (1, 1), "SAME").max()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: tnp.exp(x) * 2 - tnp.where(x > 0, x, -x).astype("float16"),
    "product": lambda x: (x @ x.T).sum(axis=0).argmax(),
    "gather": lambda x: x[tnp.array([2, 0, 1]), :2],
    "scatter": lambda x: x.at[tnp.array([2, 0])].add(1.5),
    "sort": lambda x: tnp.sort(x, axis=0)[::-1],
    "scan": _scan,
    "while": _while,
    "branch": lambda x: tracer.cond(x[0, 0] > 0, tnp.sin, tnp.cos, x),
    "linear algebra": lambda x: tnp.linalg.cholesky(x @ x.T + 9 * tnp.eye(3, dtype="float32")),
    "transform": lambda x: tnp.fft.rfft(x).imag,
    "random": lambda x: x + tracer.random.normal(tracer.random.key(1), x.shape),
    "windows": _images,
    "padding": lambda x: tnp.pad(x, ((1, 0), (0, 2))).reshape(-1)[3:9],
    "slices": lambda x: tracer.lax.dynamic_slice(x, (1, 1), (2, 2)),
    "integers": lambda x: (x * 9).astype("int32") // 2 ^ 5,
}


@functools.cache
def _modules() -> list[str]:
    return [tracer.compile(program).stablehlo(_X) for program in PROGRAMS.values()]


@functools.cache
def _bytecode() -> list[bytes]:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from tracer.lowering.shims import make_context

    found = []
    with make_context():
        for text in _modules():
            written = io.BytesIO()
            ir.Module.parse(text).operation.write_bytecode(written)
            found.append(written.getvalue())
            with contextlib.suppress(ValueError):  # Not all dialects have portable artifacts.
                version = stablehlo.get_minimum_version()
                found.append(stablehlo.serialize_portable_artifact_str(text, version))
    return found


@functools.cache
def _graphs() -> list[str]:
    return [print_graph(tracer.make_graph(program)(_X)) for program in PROGRAMS.values()]


def _arguments(types: Any) -> list[Any] | None:
    """Return zeros of the types; None where they would be many."""
    if sum(type.size for type in types) > _MOST_ELEMENTS:
        return None
    return [np.zeros(type.shape, type.dtype) for type in types]


def _imported(program: str | bytes) -> str:
    try:
        function = tracer.from_stablehlo(program)
        found = tracer.eval_shape(function, *function.input_types)
    except TracerError:
        return REFUSED
    types = tuple(found) if isinstance(found, tuple | list) else (found,)
    assert types == function.output_types
    return ACCEPTED


def stablehlo_text(rng: random.Random) -> str:
    """Modules as text."""
    return _imported(mutate.text(_modules(), rng))


def stablehlo_bytes(rng: random.Random) -> str:
    """Modules as bytecode and portable artifacts."""
    return _imported(mutate.data(_bytecode(), rng))


def graph_text(rng: random.Random) -> str:
    """Graphs as text; what is read prints as itself."""
    try:
        graph = parse_graph(mutate.text(_graphs(), rng))
    except TracerError:
        return REFUSED
    if sum(value.type.size for node in graph.nodes for value in node.results) < _MOST_ELEMENTS:
        assert parse_graph(print_graph(graph)).fingerprint == graph.fingerprint
    return ACCEPTED


@functools.cache
def _kept() -> tuple[tempfile.TemporaryDirectory[str], dict[Path, bytes]]:
    """Return a folder of kept programs, and what its files hold."""
    folder = tempfile.TemporaryDirectory()
    tracer.set_cache_dir(folder.name)
    for program in PROGRAMS.values():
        tracer.compile(program, memory_limit="1MB")(_X)
    files = {path: path.read_bytes() for path in Path(folder.name).glob("*.program")}
    return folder, files


@functools.cache
def _expected(name: str) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in tracer.tree.leaves(PROGRAMS[name](tnp.asarray(_X)))]


def cache_files(rng: random.Random) -> str:
    """Files of the cache: read, or seen to be damaged."""
    path, content = rng.choice(sorted(_kept()[1].items()))
    store = current_store()
    assert store is not None
    path.write_bytes(mutate.data([content], rng))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = store.read(path.name.removesuffix(".program"))
    path.write_bytes(content)
    assert found is None or not seen
    return REFUSED if found is None else ACCEPTED


def cache_records(rng: random.Random) -> str:
    """Records of the cache with a right checksum: a program is as it was, or made again."""
    name = rng.choice(sorted(PROGRAMS))
    _, files = _kept()
    tracer.lowering.clear_cache()
    compiled = tracer.compile(PROGRAMS[name], memory_limit="1MB")
    with ChangedRecords(rng) as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tracer.tree.leaves(compiled(_X))
        with contextlib.suppress(TracerError):  # The graph is read where it is asked for.
            str(compiled.plan(_X))
    assert files
    for one, other in zip(found, _expected(name), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    return REFUSED if store.was_rewritten else ACCEPTED


class ChangedRecords:
    """The store, whose records are changed where they are read."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.was_rewritten = rng, False

    def __enter__(self) -> ChangedRecords:
        self._read, self._write = FileStore.read, FileStore.write

        def read(store: FileStore, key: str) -> bytes | None:
            content = self._read(store, key)
            return None if content is None else _with_changed_head(content, self.rng)

        def write(store: FileStore, key: str, content: bytes) -> None:
            del store, key, content
            self.was_rewritten = True

        FileStore.read, FileStore.write = read, write  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        FileStore.read, FileStore.write = self._read, self._write  # type: ignore[method-assign]


def _with_changed_head(content: bytes, rng: random.Random) -> bytes:
    """Change the record and the graph's text; machine code stays, which would be run."""
    stop = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    try:
        record = json.loads(content[_LENGTH:stop])
        text = content[stop : stop + record["graph_bytes"]]
    except (ValueError, KeyError, TypeError):
        return content  # An operation's own program, which is machine code alone.
    rest = content[stop + len(text) :]
    head = content[_LENGTH:stop].decode()
    if rng.random() < 0.7:
        head = mutate.text([head], rng)
    else:
        text = mutate.text([text.decode()], rng).encode(errors="surrogatepass")
    written = head.encode(errors="surrogatepass")
    return len(written).to_bytes(_LENGTH, "little") + written + text + rest


_SIZES = ["512MB", "4 GB", "1.5GiB", "1e3kB", "12.5%", ".5 TiB", "80 %", "1000", "0.25 KiB"]
_FLAGS = ["--tensor_size_threshold=1GB --tensor_split_size=500MB", "--program_cache_size=1MB"]


def sizes(rng: random.Random) -> str:
    """Sizes, shares and flags."""
    read = rng.choice((parse_bytes, parse_share, parse_flags))
    given = mutate.text(_FLAGS if read is parse_flags else _SIZES, rng)
    try:
        found: Any = read(given)
    except TracerError as error:
        str(error)
        return REFUSED
    if read is parse_bytes:
        assert 1 <= found < 2**63
        format_bytes(found)
    return ACCEPTED


_TYPES = ["f32[20000,3]", "float64[]", "int64", "bf16[2,3,4]", "bool[7]", "complex64[1]"]


def types(rng: random.Random) -> str:
    """Types of arrays, as the command takes them."""
    try:
        found = parse_type(mutate.text(_TYPES, rng))
    except TracerError as error:
        str(error)
        return REFUSED
    assert all(0 <= size < 2**63 for size in found.shape)
    return ACCEPTED


_INDICES = (
    None, Ellipsis, True, False, 0, -1, 2, 3, -4, 2**31, 2**63, -(2**64), 1.0, "a", b"", np.True_,
    np.int8(-1), np.uint64(2**64 - 1), np.array(1), np.array([0, -1]), np.array([[2], [0]]),
    np.array([5]), np.array([True, False, True]), np.zeros((3, 4), bool), np.ones((3, 4), bool),
    np.zeros((0,), int), np.zeros((0,)), np.array([1.5]), np.array([], bool), [0, 1], [[0], [1]],
    [True, False], [], (), {}, object, np.datetime64(0, "s"), np.array(["x"]), range(2), 1j,
)  # fmt: skip
_BOUNDS = (None, 0, 1, -1, 2, 5, -7, 2**31, 2**63, -(2**65), 1.0, "a", np.int16(2), True)


def _index(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.3:
        return slice(*(rng.choice(_BOUNDS) for _ in range(3)))
    if kind < 0.4:
        size = rng.randint(0, 3)
        return np.array([rng.randint(-5, 4) for _ in range(size)])
    if kind < 0.45:
        return [_index(rng) for _ in range(rng.randint(0, 2))]
    return rng.choice(_INDICES)


def indices(rng: random.Random) -> str:
    """Indices of arrays, read and written, beside NumPy."""
    index: Any = tuple(_index(rng) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.3:
        index = index[0]
    writes = rng.random() < 0.4
    x, theirs = tnp.asarray(_X), _X.copy()
    try:
        if writes:
            x[index] = 7
        found = np.asarray(x if writes else x[index])
    except TracerError as error:
        str(error)
        return REFUSED
    if writes:
        theirs[index] = 7
    expected = theirs if writes else theirs[index]
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape
    return ACCEPTED


_EINSUMS = ["ij,jk->ik", "ij,ij", "i...,i...->...", "ij->ji", "ii->i", "ij,j,jk", "...->...", "ijk"]
_OPERANDS = ((2, 3), (3, 2), (3, 3), (3,), (), (2, 2, 2), (1, 3), (0, 3))


def einsums(rng: random.Random) -> str:
    """Subscripts, beside NumPy."""
    given = mutate.text(_EINSUMS, rng)
    arrays = [
        np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        for shape in rng.choices(_OPERANDS, k=rng.randint(1, 3))
    ]
    try:
        found = tnp.einsum(given, *arrays)
    except TracerError as error:
        str(error)
        return REFUSED
    try:
        expected = np.einsum(given, *arrays)
    except ValueError:
        return ACCEPTED  # More is taken here: labels of any letters, for one.
    np.testing.assert_allclose(found, expected)
    return ACCEPTED


@functools.cache
def _pickles() -> list[bytes]:
    compiled = tracer.compile(PROGRAMS["product"], memory_limit="1MB")
    error = tracer.ShapeError("what", mend="mend")
    values = (compiled.plan(_X), tnp.asarray(_X), tnp.dtype("bfloat16"), error, [tnp.ones(2)] * 2)
    return [pickle.dumps(value, protocol) for value in values for protocol in (0, 2, 5)]


def pickles(rng: random.Random) -> str:
    """Pickles: errors are pickle's own where the pickle is none; what is there can be looked at."""
    given = mutate.data(_pickles(), rng)
    try:
        found = pickle.loads(given)
    except Exception:  # pickle documents no bound of what it raises
        return REFUSED
    if isinstance(found, tracer.Array):
        np.asarray(found)
    return ACCEPTED


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@functools.cache
def _stored() -> dict[str, list[bytes]]:
    import h5py

    folder = Path(_folder().name)
    np.save(folder / "seed.npy", _X)
    np.save(folder / "other.npy", np.asfortranarray(_X.astype(">f8")))
    with h5py.File(folder / "seed.h5", "w") as file:
        file["data"] = _X
    return {
        ".npy": [(folder / name).read_bytes() for name in ("seed.npy", "other.npy")],
        ".h5": [(folder / "seed.h5").read_bytes()],
    }


def stored(rng: random.Random) -> str:
    """Files of arrays."""
    ending = rng.choice(sorted(_stored()))
    path = Path(_folder().name) / f"changed{ending}"
    path.write_bytes(mutate.data(_stored()[ending], rng))
    try:
        opened = tracer.open(path)
        if opened.size < _MOST_ELEMENTS:
            assert np.asarray(opened).shape == opened.shape
    except TracerError as error:
        str(error)
        return REFUSED
    return ACCEPTED


KINDS: dict[str, Callable[[random.Random], str]] = {
    "StableHLO text": stablehlo_text,
    "StableHLO bytes": stablehlo_bytes,
    "graph text": graph_text,
    "cache files": cache_files,
    "cache records": cache_records,
    "sizes": sizes,
    "types": types,
    "indices": indices,
    "einsum": einsums,
    "pickles": pickles,
    "stored arrays": stored,
}
