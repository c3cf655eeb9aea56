"""``npudiag watch`` end to end, with a trainer that slows down and then prints NaN."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAINER = Path(__file__).with_name("fake_trainer.py")


def watch(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "npudiag", "watch", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def trainer(*arguments: str) -> list[str]:
    return [sys.executable, str(TRAINER), *arguments]


def test_a_command_is_watched(tmp_path: Path) -> None:
    alerts = tmp_path / "alerts.jsonl"
    hook = f"{sys.executable} -c \"import os; open('hook.txt', 'a').write(os.environ['NPUDIAG_CODE'] + chr(10))\""
    options = ["-o", "out", "--interval", "0.2", "--alert-file", str(alerts), "--alert-command", hook]
    code, out, err = end(watch(*options, "--", *trainer("--exit", "3", "--pace", "0.03"), cwd=tmp_path))
    assert code == 3, err
    assert len(out.splitlines()) == 120, "the command's output is passed on"
    assert "NUM101" in err and "the trainer gives up" in err
    told = [json.loads(line) for line in alerts.read_text().splitlines()]
    assert {"NUM101", "PRF101"} & {finding["code"] for finding in told}
    assert len({finding["fingerprint"] for finding in told}) == len(told), "each is told once"
    assert sorted((tmp_path / "hook.txt").read_text().split()) == sorted(finding["code"] for finding in told)
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    assert document["findings"][0]["code"] == "NUM101"
    assert document["findings"][0]["evidence"][0]["path"] == "command.log"
    assert {"host-snapshot", "console"} <= {told["kind"] for told in document["inputs"]}
    assert "<html" in (tmp_path / "out" / "report.html").read_text()[:400]


def test_a_log_of_somebody_else_is_watched(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    process = watch("train.log", "-o", "out", "--interval", "0.2", "--for", "8", cwd=tmp_path)
    subprocess.run(trainer("--log", str(log), "--pace", "0.01"), check=True)
    code, out, err = end(process)
    assert code == 1, err
    assert out == "" and "NUM101" in err
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("torch_npu: all is well\n", [], 0),
        (None, [], 3),
        ("RuntimeError: something of torch_npu is wrong\n", ["--fail-on", "never"], 0),
    ],
)
def test_the_exit_code_without_a_command(tmp_path: Path, text: str | None, options: list[str], expected: int) -> None:
    if text is not None:
        (tmp_path / "train.log").write_text(text)
    code, _, err = end(watch("train.log", "-o", "out", "--for", "0.5", *options, cwd=tmp_path))
    assert code == expected, err


def test_codes_of_commands(tmp_path: Path) -> None:
    shell = ["sh", "-c"]
    assert end(watch("-o", "a", "--", *shell, "exit 0", cwd=tmp_path))[0] == 0
    assert end(watch("-o", "b", "--", *shell, "kill -9 $$", cwd=tmp_path))[0] == 137
    code, _, err = end(watch("-o", "c", "--", "no-such-program", "--help", cwd=tmp_path))
    assert code == 127 and "no-such-program" in err
    assert end(watch("-o", "d", cwd=tmp_path))[0] == 2
    assert end(watch("-o", "a", "--", *shell, "exit 0", cwd=tmp_path))[0] == 2, "a folder holds one watch"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_the_watch(tmp_path: Path, number: int) -> None:
    process = watch("-o", "out", "--interval", "0.2", "--", *trainer("--pace", "0.5"), cwd=tmp_path)
    assert process.stdout is not None
    assert "iteration" in process.stdout.readline()
    time.sleep(0.5)
    os.kill(process.pid, number)
    code, _, err = end(process)
    assert code in (128 + number, 1), err  # Python ends a Ctrl-C with 130 or a traceback
    assert "Traceback" not in err.partition("KeyboardInterrupt")[2]
    assert (tmp_path / "out" / "result.json").exists()


def test_ctrl_c_without_a_command_is_the_end_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("torch_npu: all is well\n")
    process = watch("train.log", "-o", "out", "--interval", "0.2", cwd=tmp_path)
    for _ in range(100):
        if (tmp_path / "out" / "samples.txt").exists():
            break
        time.sleep(0.1)
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    code, _, err = end(process)
    assert code == 0, err
    assert (tmp_path / "out" / "report.html").exists()


def test_the_view_is_drawn_where_it_is_asked_for(tmp_path: Path) -> None:
    code, out, err = end(
        watch(
            "-o", "out", "--view", "--lang", "zh", "--interval", "0.3", "--", *trainer("--pace", "0.02"), cwd=tmp_path
        )
    )
    assert code == 0
    assert "已监视" in err and "损失" in err
    assert len(out.splitlines()) == 120


CHATTY = ["sh", "-c", "for i in $(seq 4000); do echo a line of some length that comes $i times over; done; exit 7"]


def test_a_full_disk_costs_the_command_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "command.log").symlink_to("/dev/full")
    code, out, err = end(watch("-o", "out", "--alert-file", "/dev/full", "--", *CHATTY, cwd=tmp_path))
    assert code == 7, err
    assert len(out.splitlines()) == 4000
    assert "No space left on device" in err and "Traceback" not in err


def test_a_command_whose_output_nobody_reads_learns_it(tmp_path: Path) -> None:
    process = watch("-o", "out", "--", "sh", "-c", "while echo again; do :; done; exit 9", cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "again\n"
    process.stdout.close()
    with process.stderr:
        assert "again" not in process.stderr.read()
    assert process.wait(60) in (9, 141)


def test_what_is_left_behind_holds_nothing_up(tmp_path: Path) -> None:
    begin = time.monotonic()
    code, out, err = end(watch("-o", "out", "--", "sh", "-c", "sleep 50 & echo begun; exit 5", cwd=tmp_path))
    assert (code, out) == (5, "begun\n"), err
    assert time.monotonic() - begin < 45


def test_a_log_that_was_cut_or_deleted_still_counts(tmp_path: Path) -> None:
    wrong = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)\n"
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "cut.log").write_text("torch_npu: rank 0\n" + wrong)
    (logs / "gone.log").write_text("torch_npu: rank 1\n" + wrong)
    (logs / "kept.log").write_text("torch_npu: rank 2\n" + wrong)
    process = watch("logs", "-o", "out", "--interval", "0.2", "--alert-file", "logs/told", "--for", "4", cwd=tmp_path)
    told = logs / "told"
    for _ in range(300):
        if told.exists() and told.stat().st_size:
            break
        time.sleep(0.1)
    (logs / "kept.log.1").write_bytes((logs / "kept.log").read_bytes())
    for name in ("cut.log", "kept.log"):
        (logs / name).write_text("torch_npu: go on\n")
    (logs / "gone.log").unlink()
    code, _, err = end(process)
    assert code == 1, err
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    (finding,) = [found for found in document["findings"] if found["code"] == "OOM002"]
    assert {proof["path"] for proof in finding["evidence"]} == {
        "logs/cut.log (earlier, 1)",
        "logs/gone.log",
        "logs/kept.log.1",
    }


def test_nothing_is_left_of_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    assert end(watch("-o", "out", "--", "./no-such-program", cwd=tmp_path))[0] == 127
    assert list(tmp_path.iterdir()) == []
    code, _, err = end(watch("-", "-o", "out", cwd=tmp_path))
    assert code == 2 and "standard input" in err
