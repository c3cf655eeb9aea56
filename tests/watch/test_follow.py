"""Logs that grow, rotate and appear are followed without a line lost or counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudiag.host.resources import Resources
from npudiag.ingest import ingest
from npudiag.parsers.base import Partial
from npudiag.parsers.scan import Literals
from npudiag.watch.follow import Following

WANTED = Literals(("NEEDLE", "Traceback (most recent call last)", "RuntimeError: "), (False, False, False))
SLOG = "[INFO] HCCL(7,python):2026-01-02-03:04:{:02}.123.456 line {}\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nRuntimeError: NEEDLE\n'


def bounds() -> Resources:
    return Resources(1, 1 << 28)


def follow(*paths: Path, own: tuple[Path, ...] = ()) -> Following:
    following = Following([str(path) for path in paths], WANTED, own)
    following.start(bounds)
    return following


def quiet(following: Following) -> None:
    """Poll until nothing is held back."""
    for _ in range(3):
        following.poll()


def seen(following: Following) -> dict[str, tuple[int, list[tuple[int, str]]]]:
    following.finish()
    return {
        partial.source.path: (partial.lines, [(row.line, row.text) for row in partial.rows if row.hits])
        for partial in following.ingested().partials
    }


def whole(path: Path) -> dict[str, tuple[int, list[tuple[int, str]]]]:
    found = ingest([str(path)], WANTED, bounds)
    return {
        partial.source.path: (partial.lines, [(row.line, row.text) for row in partial.rows if row.hits])
        for partial in found.partials
    }


@pytest.mark.parametrize("chunk", [1, 7, 61, 1000])
def test_a_log_read_as_it_grows_is_what_it_is_as_a_whole(tmp_path: Path, chunk: int) -> None:
    slog, console = tmp_path / "plog-7_20260102030405123.log", tmp_path / "train.log"
    slog.touch()
    console.touch()
    texts = {
        slog: "".join(SLOG.format(i % 60, "NEEDLE" if i % 40 == 3 else i) for i in range(120)),
        console: "torch_npu starts\n" + "[rank3]: step\n" * 9 + TRACEBACK + "step\n" * 5 + TRACEBACK + "the end",
    }
    following = follow(tmp_path)
    for at in range(0, max(map(len, texts.values())), chunk if chunk > 1 else 311):
        for path, text in texts.items():
            with path.open("a") as file:
                file.write(text[at : at + (chunk if chunk > 1 else 311)])
        following.poll()
    quiet(following)
    assert seen(following) == whole(tmp_path)


def test_what_was_there_before_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\nNEEDLE one\n")
    following = follow(log)
    assert not following.poll()
    with log.open("a") as file:
        file.write("NEEDLE two\nplain\n")
    assert following.poll(), "a record that a rule may want is notable"
    quiet(following)
    assert seen(following) == {"train.log": (4, [(2, "NEEDLE one"), (3, "NEEDLE two")])}


def test_a_rotated_log_goes_on_under_its_new_name(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\nNEEDLE one\n")
    following = follow(tmp_path)
    following.poll()
    log.rename(tmp_path / "train.log.1")
    log.write_text("torch_npu again\nNEEDLE two\n")
    following.poll()
    following.look_for_new()
    with (tmp_path / "train.log.1").open("a") as file:
        file.write("NEEDLE late\n")
    quiet(following)
    name = tmp_path.name
    assert seen(following) == {
        f"{name}/train.log": (2, [(2, "NEEDLE two")]),
        f"{name}/train.log.1": (3, [(2, "NEEDLE one"), (3, "NEEDLE late")]),
    }


def test_a_log_that_was_cut_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\nNEEDLE one\n" + "much more\n" * 20)
    following = follow(log)
    log.write_text("torch_npu\nNEEDLE two\n")
    quiet(following)
    found = seen(following)
    assert found["train.log"] == (2, [(2, "NEEDLE two")])
    assert found["train.log (earlier, 1)"] == (22, [(2, "NEEDLE one")])


def test_logs_that_come_later_are_found(tmp_path: Path) -> None:
    following = follow(tmp_path / "not-there-yet")
    (tmp_path / "not-there-yet" / "worker-3").mkdir(parents=True)
    (tmp_path / "not-there-yet" / "worker-3" / "train.log").write_text("torch_npu NEEDLE\n")
    following.look_for_new()
    quiet(following)
    assert seen(following) == {"not-there-yet/worker-3/train.log": (1, [(1, "torch_npu NEEDLE")])}
    assert following.ingested().partials[0].identity.node == "worker-3"


def test_a_log_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\nNEEDLE one\n")
    following = follow(log)
    log.unlink()
    quiet(following)
    following.look_for_new()
    assert seen(following)["train.log"][0] == 2


def test_files_of_the_watch_itself_are_nobodys_logs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "command.log").write_text("torch_npu NEEDLE\n")
    (out / "report.html").write_text("NEEDLE\n")
    (tmp_path / "train.log").write_text("torch_npu NEEDLE\n")
    following = follow(tmp_path, own=(out / "command.log",))
    assert sorted(seen(following)) in (
        [f"{tmp_path.name}/out/command.log", f"{tmp_path.name}/train.log"],
        ["command.log", f"{tmp_path.name}/train.log"],
    )


def test_memory_is_bounded_however_long_a_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from npudiag.watch import follow as module

    monkeypatch.setattr(module, "_ROWS", 40)
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\n")
    following = follow(log)
    for turn in range(60):
        with log.open("a") as file:
            file.write("".join(f"NEEDLE {turn} {'x' * line}\n" for line in range(10)))
        following.poll()
        following.poll()
    (partial,) = following.ingested().partials
    assert len(partial.rows) <= 80 and partial.lines == 601
    assert partial.rows[-1].line == 601, "the latest stay"


def test_a_copy_is_used_up_and_not_what_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        " iteration 1/ 9 | consumed samples: 3 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0E+00 |\n" * 3
    )
    following = follow(log)
    first: Partial = following.ingested().partials[0]
    first.columns.clear()
    first.rows.clear()
    assert len(following.ingested().partials[0].columns["train_steps"]) == 3
