"""Lines that are read many at a time give the same rows, in the same order, as lines that are read one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from npudiag.parsers.base import Partial
from npudiag.parsers.metrics import megatron
from npudiag.parsers.metrics.prepared import striking
from npudiag.parsers.scan import Literals
from npudiag.reading import texts

COUNT = 6000


def line(step: int, rnd: random.Random, loss: str = "", worker: str = "", norm: str = "") -> str:
    time = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    return (
        f"{worker} [2026-03-02 {time}] iteration {step:8d}/   20000 | consumed samples: {step * 4:12d} | elapsed time"
        f" per iteration (ms): {500 + rnd.random() * 9:.1f} | learning rate: 1.000000E-05 | global batch size:     4 |"
        f" {loss or f'lm loss: {2 + rnd.random():.6E} |'} loss scale: 1.0 | grad norm:"
        f" {norm or f'{rnd.random():.3f}'} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def parsed(text: str, monkeypatch: pytest.MonkeyPatch, *, ahead: bool) -> Partial:
    with monkeypatch.context() as patch:
        if not ahead:
            patch.setattr(megatron.Iterations, "prepare", lambda self, lines: None)
        return texts({"a.log": text}, Literals()).partials[0]


def tables(partial: Partial) -> dict[str, dict[str, tuple[list[str], bytes]]]:
    """Return every column with its texts; NaN is equal to itself here."""
    out = {}
    for name, columns in partial.columns.items():
        data = columns.state()[2]
        out[name] = {column: (list(columns.texts(column)), values.tobytes()) for column, values in data.items()}
    return out


def logs() -> dict[str, str]:
    rnd = random.Random(4)
    plain = [line(step, rnd) for step in range(1, COUNT)]
    mixed: list[str] = []
    for step in range(1, COUNT):
        mixed.append(line(step, rnd, norm="nan" if step == 5200 else ""))
        if step % 7 == 0:
            mixed.append("(min, max) time across ranks (ms):")
            mixed.append("    forward-backward ...............................: (902.11, 950.02)")
        if step % 500 == 0:
            mixed.append(line(step, rnd, loss=" "))
            mixed.append(f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format")
        if step % 900 == 0:
            mixed.append(mixed[-1][:60])
    ranks = [line(step, rnd, worker=f"[default{worker}]:") for step in range(1, COUNT // 2) for worker in (6, 7)]
    again = [*plain[:5000], *plain[4500:]]
    twice = [text for text in plain for _ in range(2)]
    other = [line(step, rnd, loss="dpo loss: 6.93E-01 | load_balancing_loss: 1.0E+00 |") for step in range(1, COUNT)]
    wrong = [text.replace("[2026-03-02", "[2026-13-02") if at == 5000 else text for at, text in enumerate(plain)]
    return {
        "plain": "\n".join(plain),
        "mixed": "\n".join(mixed),
        "ranks": "\n".join(ranks),
        "appended": "\n".join(again),
        "twice": "\n".join(twice),
        "other-loss": "\n".join(other),
        "no-such-month": "\n".join(wrong),
    }


LOGS = logs()


@pytest.mark.parametrize("name", sorted(LOGS))
def test_both_ways_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, one_by_one = (parsed(LOGS[name], monkeypatch, ahead=way) for way in (True, False))
    assert tables(ahead) == tables(one_by_one)
    assert ahead.quotes == one_by_one.quotes
    assert ahead.counts == one_by_one.counts and ahead.last_us == one_by_one.last_us


def test_lines_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = 0

    def row(self: Any, *args: Any) -> None:
        nonlocal slow
        slow += 1
        original(self, *args)

    original = megatron.Iterations._row
    monkeypatch.setattr(megatron.Iterations, "_row", row)
    texts({"a.log": LOGS["plain"]}, Literals())
    assert slow < 4096 + 10


def test_what_stands_out() -> None:
    columns = {"loss": [2.0, 2.1, 3.0, 2.0], "grad_norm": [0.5, 0.4, 0.45, 0.6]}
    assert striking(columns, 4, {}, 0.0) == bytes([1, 0, 1, 1])
    assert striking(columns, 4, {"loss": 1.0}, 9.0) == bytes([1, 0, 1, 0])
    assert striking({"loss": [2.0, float("nan")]}, 2, {}, 0.0) is None
