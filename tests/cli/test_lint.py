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


def lint_files(tmp_path: Path, files: dict[str, str], *options: str) -> tuple[int, list[str]]:
    """Return exit code and the names of what was found."""
    for name, text in files.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    out = tmp_path / "out.json"
    code = main(["lint", str(tmp_path / "in"), "--json", str(out), "--no-config", "-q", *options])
    return code, [finding["name"] for finding in json.loads(out.read_text(encoding="utf-8"))["findings"]]


def test_serving_configurations_are_linted(tmp_path: Path) -> None:
    triton = 'name: "demo"\nbackend: "onnxruntime"\nmax_batch_size: 4\ninstance_group [ { kind: KIND_NPU } ]\n'
    mindie = '{"ServerConfig": {"port": 80}, "BackendConfig": {"ScheduleConfig": {"maxBatchSize": 8}}}\n'
    vllm = "#!/bin/bash\nvllm serve /m --gpu_memory_utilization 90\n"
    code, found = lint_files(tmp_path, {"a/config.pbtxt": triton, "b/config.json": mindie, "serve.sh": vllm})
    assert code == 1
    assert sorted(found) == ["memory-share-invalid", "mindie-value-out-of-range", "triton-value-refused"]


def test_options_of_a_stack_that_is_not_complete_are_never_unknown(tmp_path: Path) -> None:
    files = {
        "serve.sh": "#!/bin/bash\nvllm serve /m --brand-new-option 3 --max_model_len 8192\n",
        "verl.sh": "#!/bin/bash\npython3 -m verl.trainer.main_ppo data.brand_new=1 trainer.n_gpus_per_node=8\n",
        "sft.yaml": "model_name_or_path: /m\nfinetuning_type: lora\nbrand_new: 3\n",
    }
    assert lint_files(tmp_path, files) == (0, [])


def test_weights_of_another_layout_are_found_across_files(tmp_path: Path) -> None:
    convert = (
        "#!/bin/bash\npython convert_ckpt_v2.py --load-model-type hf --save-model-type mg --model-type-hf qwen3 \\\n"
        "    --target-tensor-parallel-size 4 --load-dir /hf/demo --save-dir ./weights/demo/\n"
    )
    train = GOOD.replace("--bf16", "--bf16 --load weights/demo --tensor-model-parallel-size 8")
    code, found = lint_files(tmp_path, {"convert.sh": convert, "run.sh": train})
    assert (code, found) == (1, ["weights-converted-for-other-layout"])
    same = train.replace("--tensor-model-parallel-size 8", "--tensor-model-parallel-size 4")
    assert lint_files(tmp_path, {"convert.sh": convert, "run.sh": same}) == (0, [])
