"""Rows of one table kept column by column: eight bytes a number, four bytes a text, nothing a missing column.

A training log of a million steps as dictionaries would take gigabytes. Here a column exists from its first
value on; what is missing is marked by a value that no log can hold, so that NaN stays what it is: a loss.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.tables.schema import TABLES, Dtype

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

NO_FLOAT = -1.7976931348623157e308
NO_INT = -(2**63)
NO_TEXT = -1
NO_BOOL = -1

_CODE: dict[Dtype, str] = {"float": "d", "int": "q", "time": "q", "str": "i", "bool": "b"}
_MISSING: dict[Dtype, float | int] = {
    "float": NO_FLOAT,
    "int": NO_INT,
    "time": NO_INT,
    "str": NO_TEXT,
    "bool": NO_BOOL,
}
_LARGEST = 2**63


class Columns:
    """The rows of one table.

    Times are kept as microseconds since 1970. A text column holds indexes into its list of distinct texts.

    Attributes:
        table: Name of the table.
        size: Number of rows.
    """

    __slots__ = ("_coded", "_codes", "_data", "_dtypes", "_names", "_plain", "_seen", "size", "table")

    def __init__(self, table: str) -> None:
        self.table = table
        self.size = 0
        self._dtypes: dict[str, Dtype] = {column.name: column.dtype for column in TABLES[table].columns}
        self._data: dict[str, array[Any]] = {}
        self._names: dict[str, list[str]] = {}
        self._codes: dict[str, dict[str | None, int]] = {}
        self._bind()

    def _bind(self) -> None:
        """Look up once what every row needs."""
        self._seen = set(self._data)
        self._plain = [
            (name, data.append, _MISSING[self._dtypes[name]])
            for name, data in self._data.items()
            if name not in self._codes
        ]
        self._coded = [
            (name, data.append, self._codes[name]) for name, data in self._data.items() if name in self._codes
        ]

    def __len__(self) -> int:
        return self.size

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; columns the table does not have are dropped, values of the wrong kind are missing."""
        if not row.keys() <= self._seen:
            for name, value in row.items():
                if name not in self._seen and name in self._dtypes and value is not None:
                    self._new(name, self.size)
        get = row.get
        try:
            for name, add, missing in self._plain:
                add(get(name, missing))
            for name, add, known in self._coded:
                add(known[get(name)])
        except (TypeError, ValueError, OverflowError, KeyError):
            self._append_slowly(row)
        self.size += 1

    def _append_slowly(self, row: Mapping[str, Any]) -> None:
        """Add a row that holds something a column does not take as it is: a new text, None, a float for an int."""
        for name, data in self._data.items():
            del data[self.size :]
            data.append(self._cell(name, row.get(name)))

    def extend(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows."""
        for row in rows:
            self.append(row)

    def extend_columns(
        self,
        size: int,
        numbers: Mapping[str, array[int] | array[float]],
        texts: Mapping[str, Sequence[str | None]],
    ) -> None:
        """Add rows that are columns already; what is not named is missing.

        Args:
            size: Number of rows.
            numbers: Values of columns that are no text, of the column's own type.
            texts: Values of text columns.
        """
        for name in (*numbers, *texts):
            if name not in self._data:
                self._new(name, self.size)
        for name, data in self._data.items():
            if name in numbers:
                data.extend(numbers[name])
            elif name in texts:
                data.extend(array(data.typecode, [self._code(name, text) for text in texts[name]]))
            else:
                data.extend(_filled(self._dtypes[name], size))
        self.size += size

    def merge(self, other: Columns, shift: int = 0) -> None:
        """Add the rows of `other` behind the own ones.

        Args:
            other: Columns of the same table.
            shift: Added to the line numbers of `other`.
        """
        for name in other._data:
            if name not in self._data:
                self._new(name, self.size)
        for name, data in self._data.items():
            incoming = other._data.get(name)
            if incoming is None:
                data.extend(_filled(self._dtypes[name], other.size))
            elif name in self._codes:
                codes = [self._code(name, text) for text in other._names[name]]
                data.extend(array(data.typecode, (codes[code] if code >= 0 else NO_TEXT for code in incoming)))
            elif name == "line" and shift:
                data.extend(array("q", (line + shift if line != NO_INT else NO_INT for line in incoming)))
            else:
                data.extend(incoming)
        self.size += other.size

    def fill(self, name: str, value: Any) -> None:
        """Set one value for all rows of a column that has none yet, as `file` when a partial is taken over."""
        self._data.pop(name, None)
        self._new(name, 0)
        data = self._data[name]
        data.extend(array(data.typecode, [self._cell(name, value)]) * self.size)

    def put(self, name: str, values: Sequence[int] | Sequence[float]) -> None:
        """Replace a column of numbers.

        Args:
            name: A column that is neither text nor time.
            values: One per row, none missing.
        """
        self._data[name] = array(_CODE[self._dtypes[name]], values)
        self._bind()

    def change(self, name: str, index: int, value: int | float) -> None:
        """Replace one value of a column of numbers."""
        self._data[name][index] = value

    def has(self, name: str) -> bool:
        """Whether any row has a value in this column."""
        return name in self._data

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column as floats; missing values and NaN are NaN, `present` tells them apart. Times are in us.

        Not to be written to: where nothing is missing it is the column itself, to which no rows can be added while
        the array lives.
        """
        import numpy as np

        data = self._data.get(name)
        if data is None or not self.size:
            return np.full(self.size, np.nan)
        raw = np.frombuffer(data, dtype=data.typecode)
        absent = raw == _MISSING[self._dtypes[name]]
        if not absent.any():
            return raw.astype(np.float64, copy=False)
        values = raw.astype(np.float64)
        values[absent] = np.nan
        return values

    def codes(self, name: str) -> npt.NDArray[np.int64]:
        """Return the indexes of a text column into `texts`, -1 where missing."""
        import numpy as np

        data = self._data.get(name)
        if data is None or not self.size:
            return np.full(self.size, NO_TEXT, dtype=np.int64)
        return np.frombuffer(data, dtype=data.typecode).astype(np.int64)

    def texts(self, name: str) -> Sequence[str]:
        """Return the distinct texts of a text column in order of appearance."""
        return self._names.get(name, ())

    def present(self, name: str) -> npt.NDArray[np.bool_]:
        """Return in which rows a column has a value, NaN being one."""
        import numpy as np

        data = self._data.get(name)
        if data is None or not self.size:
            return np.zeros(self.size, dtype=bool)
        found: npt.NDArray[np.bool_] = np.frombuffer(data, dtype=data.typecode) != _MISSING[self._dtypes[name]]
        return found

    def value(self, name: str, index: int) -> Any:
        """Return one value as rows have it: a number, a text, None where missing; times in microseconds."""
        data = self._data.get(name)
        if data is None:
            return None
        cell = data[index]
        dtype = self._dtypes[name]
        if cell == _MISSING[dtype]:
            return None
        if dtype == "str":
            return self._names[name][cell]
        return bool(cell) if dtype == "bool" else cell

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every row as a dictionary. For small tables and for tests."""
        for index in range(self.size):
            yield {name: self.value(name, index) for name in self._dtypes}

    def series(self, name: str) -> Any:
        """Return a column as a pandas array of the declared dtype, made without a Python object per cell."""
        import numpy as np
        import pandas as pd

        dtype = self._dtypes[name]
        data = self._data.get(name)
        if data is None or not self.size:
            missing: list[None] = [None] * self.size
            kind = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean", "time": "datetime64[us]"}
            return pd.array(missing, dtype=kind[dtype])  # type: ignore[call-overload]
        raw = np.frombuffer(data, dtype=data.typecode)
        absent = raw == _MISSING[dtype]
        if dtype == "str":
            names = np.array([*(text.encode("utf-8", "replace").decode() for text in self._names[name]), None], object)
            return pd.array(names[raw], dtype="string")
        if dtype == "time":
            return np.where(absent, np.datetime64("NaT", "us"), raw.astype("datetime64[us]"))
        if dtype == "float":
            return pd.arrays.FloatingArray(raw.copy(), absent)
        if dtype == "int":
            return pd.arrays.IntegerArray(raw.astype(np.int64), absent)
        return pd.arrays.BooleanArray(raw == 1, absent)

    def state(self) -> tuple[str, int, dict[str, array[Any]], dict[str, list[str]]]:
        """Return everything `restored` needs: table, rows, columns, and the texts of coded columns."""
        return self.table, self.size, self._data, self._names

    @classmethod
    def restored(cls, table: str, size: int, data: Mapping[str, Any], names: Mapping[str, list[str]]) -> Columns:
        """Return the columns whose `state` this was.

        Args:
            table: Name of the table.
            size: Number of rows.
            data: Columns of numbers, arrays of any kind.
            names: Texts of the text columns.

        Raises:
            ValueError: It is the state of no table of this release.
        """
        if table not in TABLES:
            raise ValueError(f"there is no table {table!r}")
        out = cls(table)
        for name, values in data.items():
            plain = array(_CODE[out._dtypes[name]]) if name in out._dtypes else None
            if plain is None or values.shape != (size,) or values.dtype.itemsize != plain.itemsize:
                raise ValueError(f"{table}.{name} is not a column of {size} rows")
            if (values.dtype.kind == "f") is not (plain.typecode == "d"):
                raise ValueError(f"{table}.{name} is not a column of that kind")
            plain.frombytes(values.tobytes())
            most = len(names.get(name, ()))
            if out._dtypes[name] == "str" and plain and not NO_TEXT <= min(plain) <= max(plain) < most:
                raise ValueError(f"{table}.{name} speaks of texts that are not there")
            out._data[name] = plain
        out.size = size
        out._names = {name: list(texts) for name, texts in names.items() if name in out._data}
        out._recode()
        return out

    def __getstate__(self) -> tuple[Any, ...]:
        return self.state()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.table, self.size, self._data, self._names = state
        self._dtypes = {column.name: column.dtype for column in TABLES[self.table].columns}
        self._recode()

    def _recode(self) -> None:
        self._codes = {
            name: {None: NO_TEXT, **{text: code for code, text in enumerate(texts)}}
            for name, texts in self._names.items()
        }
        self._bind()

    def _new(self, name: str, rows: int) -> None:
        dtype = self._dtypes[name]
        self._data[name] = _filled(dtype, rows)
        if dtype == "str":
            self._names[name] = []
            self._codes[name] = {None: NO_TEXT}
        self._bind()

    def _code(self, name: str, text: Any) -> int:
        if text is None:
            return NO_TEXT
        known = self._codes[name]
        code = known.get(text)
        if code is None:
            code = known[text] = len(known) - 1
            self._names[name].append(text)
        return code

    def _cell(self, name: str, value: Any) -> Any:
        """Return a value as its column keeps it."""
        dtype = self._dtypes[name]
        if value is None:
            return _MISSING[dtype]
        if dtype == "str":
            return self._code(name, str(value))
        if dtype == "time":
            return _microseconds(value)
        if dtype == "bool":
            return int(bool(value))
        try:
            if dtype == "float":
                return float(value)
            whole = int(value)
        except (TypeError, ValueError, OverflowError):
            return _MISSING[dtype]
        return whole if -_LARGEST < whole < _LARGEST else NO_INT


def _filled(dtype: Dtype, rows: int) -> array[Any]:
    code = _CODE[dtype]
    return array(code, [_MISSING[dtype]]) * rows


def _microseconds(value: Any) -> int:
    """Return a time as microseconds since 1970: it is one already, a datetime, or written in ISO 8601."""
    import datetime

    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return NO_INT
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    return int(value) if isinstance(value, (int, float)) and -_LARGEST < value < _LARGEST else NO_INT
