"""``npudiag explain`` end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from npudiag.analyze import analyze_texts
from npudiag.engine.load import load_pack, shipped_pack
from npudiag.judging import judge_text

BLOCK = """\
[ERROR] RUNTIME(4711,python3):2026-01-02-03:04:05.100.200 [task.cc:1]4711 PrintErrorInfoForDavinciTask:[EXEC][DEFAULT]\
Aicore kernel execute failed, device_id=3, stream_id=2, report_stream_id=2, task_id=50, fault kernel_name=GatherV2_a
[ERROR] RUNTIME(4711,python3):2026-01-02-03:04:05.100.300 [error.cc:1000]4711 errcode:(0x800000, 0x0, 0x0)
[ERROR] RUNTIME(4711,python3):2026-01-02-03:04:05.100.400 [api_c.cc:1]4711 rtStreamSynchronize:ErrCode=507015
"""


def explain(
    *args: str, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npudiag", "explain", *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "LC_ALL": "C.UTF-8", "NPUDIAG_LANG": "en", **(env or {})},
        timeout=120,
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("507015",), ("ACL_ERROR_RT_AICORE_EXCEPTION", "Means", "Causes", "Look at", "Do", "AIC001")),
        (("EI0006",), ("HCCL", "HCC110")),
        (("0x80E01801",), ("HBM", "node type 0x70")),
        (("ERR02200",), ("torch_npu", "DIST HCCL call failed", "HCC143")),
        (("MIE05E01001A",), ("KV cache", "SRV209")),
        (("-9",), ("SIGKILL", "OOM")),
        (("EI0006", "507014"), ("EI0006", "507014")),
        (("(0x800000, 0, 0)",), ("register 1 bit 23",)),
        (("notify", "wait", "timeout"), ("HCC101", "EI0002")),
        (("HCC101",), ("collective-notify-timeout", "npudiag rules show HCC101")),
        (("EI0033",), ("not in the catalogue", "EI0020")),
        (("--", "-9"), ("SIGKILL",)),
    ],
)
def test_answers(args: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = explain(*args)
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_chinese() -> None:
    by_option = explain("507015", "--lang", "zh")
    assert "含义" in by_option.stdout
    assert explain("507015", env={"NPUDIAG_LANG": "zh"}).stdout == by_option.stdout
    assert explain("--lang=zh", "507015").stdout == by_option.stdout


def test_a_block_on_standard_input_runs_the_rules() -> None:
    done = explain("-", stdin=BLOCK)
    assert done.returncode == 0, done.stderr
    assert "In this text the rules find" in done.stdout
    assert "AIC0" in done.stdout
    assert "507015 ACL_ERROR_RT_AICORE_EXCEPTION" in done.stdout
    assert "register 1 bit 23" in done.stdout
    assert explain(stdin=BLOCK).stdout == done.stdout


def test_a_code_on_standard_input() -> None:
    assert "SIGKILL" in explain(stdin="137\n").stdout


def test_json() -> None:
    document = json.loads(explain("--json", "507015").stdout)
    (answer,) = document["answers"]
    assert answer["known"] is True
    (entry,) = answer["entries"]
    assert entry["symbol"] == "ACL_ERROR_RT_AICORE_EXCEPTION"
    assert set(entry["do"]) == {"en", "zh"}
    unknown = json.loads(explain("--json", "507058").stdout)["answers"][0]
    assert unknown["known"] is False
    assert unknown["nearest"]
    found = json.loads(explain("--json", stdin=BLOCK).stdout)
    assert found["findings"]
    assert found["findings"][0]["evidence"][0]["path"] == "-"


@pytest.mark.parametrize("args", [("banana",), ("--no-such-flag-anywhere",), ("-x",)])
def test_nothing_recognised(args: tuple[str, ...]) -> None:
    done = explain(*args)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "nothing is known about" in done.stderr
    assert json.loads(explain("--json", *args).stdout)["answers"] == []


def test_harmless_text_on_standard_input_is_not_recognised() -> None:
    assert explain("-", stdin="all is well\nnothing to see\n").returncode == 3


@pytest.mark.parametrize("args", [(), ("--lang", "fr", "507015"), ("--lang",), ("  ",)])
def test_wrong_usage(args: tuple[str, ...]) -> None:
    done = explain(*args)
    assert done.returncode == 2
    assert "npudiag: error:" in done.stderr


def test_help() -> None:
    done = explain("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: npudiag explain")


def test_hostile_text_is_shown_escaped() -> None:
    done = explain("\x1b[31mred\u202e")
    assert done.returncode == 3
    assert "\x1b" not in done.stderr


def test_binary_standard_input_is_survived() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "npudiag", "explain", "-"],
        input=bytes(range(256)) * 50,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode in (0, 3)


def test_nothing_heavy_is_loaded_for_a_code() -> None:
    program = (
        "import sys; from npudiag.__main__ import main; code = main(['explain', '507015']); "
        "print(code, sorted(set(sys.modules) & {'numpy', 'pandas', 'duckdb', 'typer', 'rich', 'click', 'hyperscan'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_the_command_line_itself_knows_the_verb() -> None:
    from typer.testing import CliRunner

    from npudiag.cli.app import app

    result = CliRunner().invoke(app, ["explain", "-9"])
    assert "SIGKILL" in result.stdout


TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/job/pretrain.py", line 40, in <module>
    main()
  File "/opt/job/pretrain.py", line 31, in main
    torch.distributed.all_reduce(grads)
RuntimeError: [1] HCCL error in: build/ProcessGroupHCCL.cpp:64, error code is 6
[ERROR] 2026-03-04-11:02:33 (PID:22011, Device:3, RankID:11) ERR02200 DIST call hccl api failed.
"""


@pytest.mark.parametrize("text", [BLOCK, TRACEBACK, BLOCK + TRACEBACK, "nothing of interest\n"])
def test_a_block_is_judged_as_a_file_would_be(text: str) -> None:
    pack = load_pack([shipped_pack()])
    assert judge_text(text, pack.rules) == analyze_texts({"-": text}, pack).findings


def test_every_sample_log_is_judged_as_a_file_would_be() -> None:
    samples = Path(__file__).resolve().parents[2] / "sample_logs"
    logs = sorted(path for path in samples.glob("*/logs/**/*.log") if path.stat().st_size < 50_000)[::12]
    assert len(logs) > 5
    pack = load_pack([shipped_pack()])
    for path in logs:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert judge_text(text, pack.rules) == analyze_texts({"-": text}, pack).findings, path


def test_what_a_traceback_does_not_need_is_not_loaded() -> None:
    program = (
        "import io, sys; sys.stdin = io.TextIOWrapper(io.BytesIO(sys.argv[1].encode()))\n"
        "from npudiag.__main__ import main; assert main(['explain', '-']) == 0\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[2].split())))"
    )
    heavy = "numpy pandas duckdb typer rich jinja2 psutil yaml multiprocessing concurrent email zipfile tarfile"
    done = subprocess.run(
        [sys.executable, "-c", program, TRACEBACK, heavy], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
