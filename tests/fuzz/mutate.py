"""Where the fuzzers' inputs come from: the project's own samples, damaged in many ways."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from functools import lru_cache
from pathlib import Path

from npudiag.discover.source import Identity, Source
from npudiag.parsers.base import Partial
from npudiag.parsers.scan import Literals
from npudiag.partials import MAGIC, npd

ROOT = Path(__file__).parents[2]
_LONGEST = 60_000
_TOKENS = (
    b"\0", b"\r", b"\x1b[31m", b"\xff\xfe", b"\xef\xbb\xbf", b"nan", b"-inf", b"1e999", b"99999999999999999999", b"\n",
    b"'", b'"', b"{", b"}", b"[", b"]", b"|", b"%|", b": ", b"</script>", b"Traceback (most recent call last):\n",
    b"EZ9999: ", b"[rank3]: ", b"(Worker_TP0 pid=1) ", b"0x", b"9999-99-99-99:99:99.999.999 ", b"1970-01-01 00:00:00 ",
)  # fmt: skip


@lru_cache(maxsize=8)
def seeds(name: str) -> list[bytes]:
    """Return the inputs a target starts from."""
    if name == "rules":
        return [path.read_bytes() for path in sorted((ROOT / "rules").rglob("*.yaml"))[::7]]
    logs = [
        path.read_bytes()[:_LONGEST]
        for path in sorted((ROOT / "sample_logs").glob("*/logs/**/*"))
        if path.is_file() and path.stat().st_size
    ]
    if name == "discovery":
        return [_tar(logs[:5]), _tar(logs[5:9], "w:gz"), _tar(logs[9:12], "w:xz"), _zip(logs[:6])]
    if name == "partials":
        return [_npd(number) for number in range(3)]
    return logs


def _tar(contents: list[bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for number, content in enumerate(contents):
            info = tarfile.TarInfo(f"worker-{number}/train.log")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _zip(contents: list[bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for number, content in enumerate(contents):
            packed.writestr(f"worker-{number}/train.log", content)
    return out.getvalue()


def _npd(number: int) -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "node.npd"
        partial = Partial(Source("a.log", None, None, None, Identity()), lines=number)
        npd.write(str(path), [partial] * number, Literals(("NEEDLE",), (False,)), (), "2026-01-01T00:00:00+00:00")
        return path.read_bytes()[len(MAGIC) :]


def mutated(chance: random.Random, inputs: list[bytes]) -> bytes:
    """Return one input, damaged once or several times."""
    data = bytearray(chance.choice(inputs))
    if len(data) > 4000 and chance.random() < 0.7:
        start = chance.randrange(len(data) - 2000)
        data = data[start : start + chance.randrange(100, 4000)]
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        _damage(chance, data, inputs)
    return bytes(data)


def _damage(chance: random.Random, data: bytearray, inputs: list[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    to = min(len(data), at + chance.choice((1, 2, 8, 40, 400)))
    kind = chance.randrange(8)
    if kind == 0 and to > at:
        data[chance.randrange(at, to)] = chance.randrange(256)
    elif kind == 1:
        del data[at:to]
    elif kind == 2:
        data[at:at] = data[at:to] * chance.choice((1, 2, 30))
    elif kind == 3:
        data[at:at] = chance.choice(_TOKENS)
    elif kind == 4:
        other = chance.choice(inputs)
        start = chance.randrange(len(other) + 1)
        data[at:at] = other[start : start + 400]
    elif kind == 5:
        del data[at:]
    elif kind == 6:
        # A number becomes another one.
        digits = [index for index in range(at, to) if 48 <= data[index] < 58]
        if digits:
            data[chance.choice(digits)] = chance.choice(b"0123456789-.e")
    else:
        lines = data.split(b"\n")
        chance.shuffle(lines)
        data[:] = b"\n".join(lines)
