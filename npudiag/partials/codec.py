"""Partials to bytes and back.

The bytes are MessagePack, checked against the types of the fields when read: such files come from elsewhere and are
as little to be trusted as a log. Nothing in them can name a class or a function.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from array import array
from hashlib import blake2b
from typing import Any, get_args, get_origin

import msgspec
import numpy as np

from npudiag.parsers.base import Partial
from npudiag.parsers.profiler.raw import KEY, Raw
from npudiag.partials.size import MOST_VALUES, values
from npudiag.tables.columns import Columns
from npudiag.tables.schema import TABLES, Dtype

_ARRAY, _COLUMNS = 1, 2
_NUMBERS = frozenset("biuf")
_PACKED: dict[str, type] = {KEY: Raw}
_KINDS: dict[Dtype, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "time": (datetime.datetime,),
}


def encode(partial: Partial) -> bytes:
    """Return the bytes of a partial."""
    bare = dataclasses.replace(partial, packed={})
    return _encoder().encode((bare, {name: partial.packed[name] for name in _PACKED if name in partial.packed}))


def decode(data: bytes) -> Partial:
    """Return the partial that `encode` was given.

    Raises:
        ValueError: The bytes are not those of a partial of this layout.
    """
    if values(data, MOST_VALUES) > MOST_VALUES:
        raise ValueError("it holds more values than any log comes down to")
    try:
        partial, packed = _decoder().decode(data)
        partial.packed = {
            name: msgspec.convert(value, _PACKED[name], dec_hook=_to, str_keys=False)
            for name, value in packed.items()
            if name in _PACKED
        }
    except (msgspec.MsgspecError, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from None
    _check(partial)
    for raw in partial.packed.values():
        # MessagePack knows one kind of sequence.
        raw.facts = {name: _tuples(value) for name, value in raw.facts.items()}
    return partial


def _check(partial: Partial) -> None:
    """Check what the types of the fields leave open.

    Raises:
        ValueError: A table does not exist, or a value in one is not of its column.
    """
    for name, columns in partial.columns.items():
        if columns.table != name:
            raise ValueError(f"columns of {columns.table!r} in the place of {name!r}")
    for name, rows in partial.tables.items():
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}")
        kinds = {column.name: _KINDS[column.dtype] for column in TABLES[name].columns}
        for row in rows:
            for key, value in row.items():
                if value is not None and key in kinds and not isinstance(value, kinds[key]):
                    raise ValueError(f"{name}.{key} is no {type(value).__name__}")


def _tuples(value: Any) -> Any:
    """Return a list whose own lists are tuples, as the parsers make them."""
    return [tuple(item) if isinstance(item, list) else item for item in value] if isinstance(value, list) else value


@functools.lru_cache(maxsize=1)
def layout() -> str:
    """Return a name for the fields that partials have in this release; only equal ones can be read."""
    told: list[str] = []
    _describe(Partial, told)
    for kind in _PACKED.values():
        _describe(kind, told)
    return blake2b("\n".join(told).encode(), digest_size=6).hexdigest()


def _describe(kind: type, told: list[str]) -> None:
    name = kind.__qualname__
    if any(line.startswith(f"{name}(") for line in told):
        return
    inner = msgspec.inspect.type_info(kind)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)
    told.append(f"{name}({', '.join(f'{field.name}: {field.type}' for field in fields)})")
    for field in getattr(inner, "fields", ()):
        for nested in _classes(field.type):
            _describe(nested, told)


def _classes(info: Any) -> list[type]:
    """Return the classes with fields that a type speaks of."""
    if isinstance(info, msgspec.inspect.DataclassType | msgspec.inspect.StructType):
        return [info.cls]
    out: list[type] = []
    for name in ("types", "item_types"):
        for item in getattr(info, name, ()):
            out += _classes(item)
    for name in ("item_type", "key_type", "value_type"):
        item = getattr(info, name, None)
        if item is not None:
            out += _classes(item)
    return out


@functools.lru_cache(maxsize=1)
def _encoder() -> msgspec.msgpack.Encoder:
    return msgspec.msgpack.Encoder(enc_hook=_from)


@functools.lru_cache(maxsize=1)
def _decoder() -> msgspec.msgpack.Decoder[tuple[Partial, dict[str, Any]]]:
    return msgspec.msgpack.Decoder(tuple[Partial, dict[str, Any]], dec_hook=_to, ext_hook=_ext)


def _from(value: Any) -> Any:
    """Turn what MessagePack does not know into what it knows."""
    if isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value)
        return _packed(_ARRAY, (plain.dtype.str, list(plain.shape), plain.tobytes()))
    if isinstance(value, array):
        return _from(np.frombuffer(value, dtype=value.typecode) if value else np.empty(0, value.typecode))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Columns):
        return _packed(_COLUMNS, value.state())
    raise NotImplementedError(f"a partial cannot carry {type(value).__name__}")


def _packed(code: int, value: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encoder().encode(value))


def _ext(code: int, data: memoryview) -> Any:
    if code == _ARRAY:
        dtype, shape, raw = _ARRAYS.decode(data)
        kind = np.dtype(dtype) if len(dtype) <= 4 else None
        if kind is None or kind.kind not in _NUMBERS or math.prod(shape) * kind.itemsize != len(raw):
            raise msgspec.ValidationError("an array that is none")
        return np.frombuffer(raw, kind).reshape(shape).copy()
    if code == _COLUMNS:
        return Columns.restored(*_STATES.decode(data))
    raise msgspec.ValidationError(f"an unknown kind of value ({code})")


_ARRAYS: msgspec.msgpack.Decoder[tuple[str, list[int], bytes]] = msgspec.msgpack.Decoder(tuple[str, list[int], bytes])
_STATES: msgspec.msgpack.Decoder[tuple[str, int, dict[str, Any], dict[str, list[str]]]] = msgspec.msgpack.Decoder(
    tuple[str, int, dict[str, Any], dict[str, list[str]]], ext_hook=_ext
)


def _to(kind: Any, value: Any) -> Any:
    """Check a value of a type that MessagePack does not know."""
    origin = get_origin(kind) or kind
    if origin is np.ndarray and isinstance(value, np.ndarray):
        wanted = get_args(get_args(kind)[1])[0]
        if value.dtype == np.dtype(wanted):
            return value
    elif isinstance(value, origin):
        return value
    raise ValueError(f"{type(value).__name__} in the place of {origin.__name__}")
