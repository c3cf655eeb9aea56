"""``npudiag lint``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npudiag.__main__ import main

GOOD = """\
#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 --nnodes 1 --master_addr 10.0.0.5 --master_port 6000 pretrain_gpt.py \\
    --use-mcore-models \\
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path /data/t \\
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
    --micro-batch-size 1 --global-batch-size 64 \\
    --recompute-granularity full --recompute-method block --recompute-num-layers 2 \\
    --clip-grad 1.0 --bf16
"""


def lint(tmp_path: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Return exit code and document."""
    script = tmp_path / "in" / "run.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(text, encoding="utf-8")
    out = tmp_path / "out.json"
    code = main(["lint", str(script), "--json", str(out), "--no-config", "-q", *options])
    return code, json.loads(out.read_text(encoding="utf-8"))


def test_a_good_script_passes(tmp_path: Path) -> None:
    code, document = lint(tmp_path, GOOD)
    assert code == 0
    assert document["findings"] == []
    assert document["facts"]["stack"] == "MindSpeed-LLM"


def test_faults_fail_and_say_where(tmp_path: Path) -> None:
    code, document = lint(tmp_path, GOOD.replace("--clip-grad", "--clip_grad"))
    assert code == 1
    (finding,) = document["findings"]
    assert finding["name"] == "option-unknown"
    assert finding["evidence"][0]["line"] == 9
    assert "--clip_grad" in finding["evidence"][0]["text"]
    remedy = finding["remedies"][0]
    assert remedy["change"]["key"] == "--clip-grad"
    assert (remedy["at"]["path"], remedy["at"]["line"]) == ("run.sh", 9)


def test_a_release_can_be_stated(tmp_path: Path) -> None:
    text = GOOD.replace("--bf16", "--bf16 --enable-mhc")
    code, document = lint(tmp_path, text, "--stack", "MindSpeed-LLM==2.0.0", "--select", "LNT103")
    assert code == 1
    assert document["facts"]["stack_version"] == "2.0.0"
    assert [finding["captures"]["option"] for finding in document["findings"]] == ["--enable-mhc"]
    assert lint(tmp_path, GOOD, "--stack", "MindSpeed-LLM==2.0.0")[0] == 0


def test_warnings_pass_unless_asked(tmp_path: Path) -> None:
    text = GOOD.replace("export CUDA", "export ASCEND_LAUNCH_BLOCKING=1\nexport CUDA")
    assert lint(tmp_path, text)[0] == 0
    assert lint(tmp_path, text, "--fail-on", "warning")[0] == 1


def test_nothing_to_check(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of interest\n", encoding="utf-8")
    assert main(["lint", str(tmp_path / "notes.txt"), "--no-config", "-q"]) == 3


def test_wrong_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "run.sh"
    script.write_text(GOOD, encoding="utf-8")
    assert main(["lint", str(script), "--stack", "horovod"]) == 2
    assert "known:" in capsys.readouterr().err


def test_analyze_checks_scripts_among_the_logs(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "run.sh").write_text(GOOD.replace("--clip-grad", "--kernel_launch_threads"), encoding="utf-8")
    (tmp_path / "job" / "train.log").write_text("pretrain_gpt.py: error: unrecognized arguments\n", encoding="utf-8")
    out = tmp_path / "out.json"
    assert main(["analyze", str(tmp_path / "job"), "--json", str(out), "--no-config", "-q"]) == 0
    names = [finding["name"] for finding in json.loads(out.read_text(encoding="utf-8"))["findings"]]
    assert "option-invented" in names
