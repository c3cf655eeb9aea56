"""Remedies become changes for the framework and the values at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npudiag.advice import resolve, stack, values
from npudiag.advice.registry import MEGATRON, MINDSPEED_LLM
from npudiag.advice.settings import Setting
from npudiag.analyze import Options, analyze_texts, run
from npudiag.engine.load import load_pack
from npudiag.result import Change, Finding, Remedy, Result

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
SCRIPT = """\
#!/bin/bash
export HCCL_BUFFSIZE=512
LR=1.25e-4
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --use-mcore-models \\
    --tokenizer-type PretrainedFromHF --tokenizer-name-or-path /data/t \\
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
    --micro-batch-size 1 \\
    --global-batch-size 64 \\
    --lr $LR \\
    --clip-grad 1.0 --lr-warmup-fraction 0.01 --num-workers 16 --bf16
"""
YAML = """\
model_name_or_path: /data/models/demo
finetuning_type: lora
learning_rate: 1.0e-4
gradient_accumulation_steps: 8
"""
DEEPSPEED = '{"train_batch_size": 64, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}\n'
VERL = """\
#!/bin/bash
python3 -m verl.trainer.main_ppo data.train_batch_size=256 actor_rollout_ref.actor.optim.lr=5e-6
"""
SERVE = "#!/bin/bash\nvllm serve /data/m --gpu-memory-utilization 0.8 --max-num-seqs 256\n"


def remedy(kind: Any, key: str, to: str, *stacks: str) -> Remedy:
    return Remedy(kind=kind, text="Do it.", change=Change(key=key, to=to), stack=list(stacks))


def resolved(files: dict[str, str], *remedies: Remedy, code: str = "NUM999") -> list[Remedy]:
    """Return what becomes of remedies for a job that these files start."""
    from npudiag.filling import fill
    from npudiag.parsers.scan import Literals
    from npudiag.reading import texts

    store = fill(texts(files, Literals()))
    told = [{"text": "改。", "expect": "", "verify": ""} for _ in remedies]
    finding = Finding(
        id="f1", code=code, name="x", category="numerics", severity="warning", confidence="high", title="t",
        role="root", remedies=list(remedies), i18n={"zh": {"remedies": told}},
    )  # fmt: skip
    resolve.apply([finding], store, stack.of(store))
    assert len(finding.i18n["zh"]["remedies"]) == len(finding.remedies) >= 1
    return [one for one in finding.remedies if one.kind != "collect"]


def told(found: list[Remedy]) -> list[tuple[str, str | None, str, int | None]]:
    return [
        (one.change.key, one.change.old, one.change.to, one.at.line if one.at else None) for one in found if one.change
    ]


def test_half_of_a_value_is_worked_out_where_it_stands() -> None:
    found = resolved({"run.sh": SCRIPT}, remedy("flag", "--lr", "*0.5", MINDSPEED_LLM, MEGATRON))
    assert told(found) == [("--lr", "1.25e-4", "6.25e-05", 3)]


@pytest.mark.parametrize(
    ("files", "given", "expected"),
    [
        ({"sft.yaml": YAML}, ("config", "learning_rate", "*0.5", "LLaMA-Factory"),
         ("learning_rate", "1.0e-4", "5e-05", 3)),
        ({"sft.yaml": YAML}, ("config", "gradient_accumulation_steps", "*2", "LLaMA-Factory"),
         ("gradient_accumulation_steps", "8", "16", 4)),
        ({"ds.json": DEEPSPEED}, ("config", "gradient_clipping", "0.5", "DeepSpeed"),
         ("gradient_clipping", "1.0", "0.5", 1)),
        ({"run.sh": VERL}, ("config", "actor_rollout_ref.actor.optim.lr", "*0.5", "verl"),
         ("actor_rollout_ref.actor.optim.lr", "5e-6", "2.5e-06", 2)),
        ({"serve.sh": SERVE}, ("flag", "--gpu-memory-utilization", "0.95", "vllm-ascend"),
         ("--gpu-memory-utilization", "0.8", "0.95", 2)),
        ({"run.sh": SCRIPT}, ("env", "HCCL_BUFFSIZE", "*2", "torch_npu"), ("HCCL_BUFFSIZE", "512", "1024", 2)),
    ],
)  # fmt: skip
def test_each_framework_gets_its_own_change(
    files: dict[str, str], given: tuple[str, str, str, str], expected: tuple[str, str, str, int]
) -> None:
    kind, key, to, owner = given
    assert told(resolved(files, remedy(kind, key, to, owner))) == [expected]


def test_advice_of_a_framework_below_is_not_put_on_a_command_that_refuses_it() -> None:
    # verl may train with Megatron-LM, but takes no options of it; LLaMA-Factory may do without DeepSpeed.
    assert resolved({"run.sh": VERL}, remedy("flag", "--clip-grad", "0.5", MINDSPEED_LLM, MEGATRON)) == []
    assert resolved({"sft.yaml": YAML}, remedy("config", "gradient_clipping", "0.5", "DeepSpeed")) == []
    both = {"sft.yaml": YAML, "ds.json": DEEPSPEED}
    assert told(resolved(both, remedy("config", "gradient_clipping", "0.5", "DeepSpeed")))


def test_what_goes_further_already_is_left() -> None:
    workers = remedy("flag", "--num-workers", "8", MINDSPEED_LLM)
    assert resolved({"run.sh": SCRIPT}, workers) == []
    share = remedy("flag", "--gpu-memory-utilization", "0.85", "vllm-ascend")
    assert resolved({"serve.sh": SERVE}, share) == []


def test_what_does_not_divide_or_would_be_refused_is_not_advised() -> None:
    # 8 ranks take 8 samples at once, and 64 divide by 16; 48 would not.
    double = remedy("flag", "--micro-batch-size", "*2", MINDSPEED_LLM)
    assert told(resolved({"run.sh": SCRIPT}, double)) == [("--micro-batch-size", "1", "2", 7)]
    odd = SCRIPT.replace("--global-batch-size 64", "--global-batch-size 24")
    assert resolved({"run.sh": odd}, remedy("flag", "--micro-batch-size", "*2", MINDSPEED_LLM)) == []
    warm = remedy("flag", "--lr-warmup-iters", "2000", MINDSPEED_LLM)
    assert resolved({"run.sh": SCRIPT}, warm) == []
    virtual = remedy("flag", "--num-layers-per-virtual-pipeline-stage", "fit", MINDSPEED_LLM)
    assert resolved({"run.sh": SCRIPT}, virtual) == []
    staged = SCRIPT.replace("--bf16", "--pipeline-model-parallel-size 4 --bf16")
    assert told(resolved({"run.sh": staged}, virtual)) == [("--num-layers-per-virtual-pipeline-stage", None, "4", None)]


def test_an_option_goes_with_what_it_needs_or_not_at_all() -> None:
    full = remedy("flag", "--recompute-granularity", "full", MINDSPEED_LLM)
    assert resolved({"run.sh": SCRIPT}, full) == []
    method = remedy("flag", "--recompute-method", "uniform", MINDSPEED_LLM)
    layers = remedy("flag", "--recompute-num-layers", "1", MINDSPEED_LLM)
    found = resolved({"run.sh": SCRIPT}, full, method, layers)
    assert [one[0] for one in told(found)] == [
        "--recompute-granularity", "--recompute-method", "--recompute-num-layers",
    ]  # fmt: skip


def test_a_model_without_experts_gets_no_advice_on_them() -> None:
    overlap = remedy("flag", "--moe-alltoall-overlap-comm", "", MINDSPEED_LLM)
    assert resolved({"run.sh": SCRIPT}, overlap) == []
    experts = SCRIPT.replace("--bf16", "--bf16 --num-experts 8 --moe-token-dispatcher-type alltoall_seq")
    assert "--moe-grouped-gemm" in [one[0] for one in told(resolved({"run.sh": experts}, overlap))]


def test_a_batch_that_divides_is_worked_out() -> None:
    odd = SCRIPT.replace("--global-batch-size 64", "--global-batch-size 67")
    batch = remedy("flag", "--global-batch-size", "fit", MINDSPEED_LLM)
    assert told(resolved({"run.sh": odd}, batch)) == [("--global-batch-size", "67", "64", 8)]
    assert resolved({"run.sh": SCRIPT}, remedy("flag", "--global-batch-size", "fit", MINDSPEED_LLM)) == []


def test_a_default_that_the_script_leaves_alone_is_not_advised() -> None:
    blocking = ("env", "ASCEND_LAUNCH_BLOCKING", "0", "torch_npu")
    assert resolved({"run.sh": SCRIPT}, remedy(*blocking)) == []
    assert len(resolved({"a.log": "hello\n"}, remedy(*blocking))) == 1


def test_where_the_framework_is_not_known_each_change_says_whose_it_is() -> None:
    found = resolved(
        {"a.log": "hello\n"},
        remedy("flag", "--lr", "*0.5", MINDSPEED_LLM),
        remedy("config", "learning_rate", "*0.5", "LLaMA-Factory"),
        remedy("env", "TASK_QUEUE_ENABLE", "2"),
    )
    assert [one.text for one in found] == ["MindSpeed-LLM: Do it.", "LLaMA-Factory: Do it.", "Do it."]
    assert [one.change.to for one in found if one.change] == ["<... x 0.5>", "<... x 0.5>", "2"]
    (known,) = resolved({"run.sh": SCRIPT}, remedy("flag", "--lr", "*0.5", MINDSPEED_LLM))
    assert known.text == "Do it."


def test_where_the_release_is_not_known_the_first_that_takes_an_option_is_named() -> None:
    (found,) = resolved({"run.sh": SCRIPT}, remedy("flag", "--swap-attention", "", MINDSPEED_LLM))
    assert "(MindSpeed-LLM 1.0.RC3 and later.)" in found.text


def test_a_finding_about_the_launch_knows_its_value() -> None:
    script = SCRIPT.replace("--bf16", "--tensor-model-parallel-size 8 --bf16")
    wanted = remedy("flag", "--tensor-model-parallel-size", "4", MINDSPEED_LLM)
    found = resolved({"run.sh": script}, wanted, code="LNT150")
    assert told(found) == [("--tensor-model-parallel-size", "8", "4", 10)]


@pytest.mark.parametrize(
    ("to", "present", "expected"),
    [
        ("*0.5", "1.0", "0.5"), ("*0.5", "1", None), ("*0.5", "0", None), ("*2", "64", "128"),
        ("*0.5", "3e-4", "0.00015"), ("*2", None, "<... x 2>"), ("*2", "auto", "<... x 2>"), ("8", "4", "8"),
    ],
)  # fmt: skip
def test_factors(to: str, present: str | None, expected: str | None) -> None:
    assert values.scaled(to, present) == expected


def test_numbers_that_are_names_do_not_go_further() -> None:
    port = Setting("run.sh", 1, "HCCL_IF_BASE_PORT", "45000", 1, True, True, "script")
    assert not values.goes_further(port, "50000", "60000")


# -- the four headline rules, from logs


def sample(name: str) -> Result:
    return run([str(SAMPLES / name / "logs")], load_pack(), Options(workers=1))


@pytest.mark.parametrize(
    ("name", "rule", "article", "keys"),
    [
        ("communication-bound", "communication-bound-steps", "--gradient_accumulation_fusion",
         {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"}),
        ("memory-pressure", "device-memory-pressure", "--selective_checkpointing",
         {"PYTORCH_NPU_ALLOC_CONF", "--use-distributed-optimizer", "--recompute-activation-function"}),
        ("loss-oscillation", "loss-oscillation", "--gradient_clipping_mode", {"--lr", "--clip-grad"}),
        ("low-utilisation", "npu-utilisation-low", "--kernel_launch_threads",
         {"TASK_QUEUE_ENABLE", "CPU_AFFINITY_CONF"}),
    ],
)  # fmt: skip
def test_headlines_suggest_what_is_real_and_name_what_is_not(
    name: str, rule: str, article: str, keys: set[str]
) -> None:
    result = sample(name)
    finding = next(finding for finding in result.findings if finding.name == rule)
    assert finding.role == "root"
    changes = {one.change.key for one in finding.remedies if one.change}
    assert keys <= changes
    assert article not in changes
    (warned,) = [one for one in finding.remedies if article in one.text]
    assert "no framework accepts it" in warned.text
    chinese = [words["text"] for words in finding.i18n["zh"]["remedies"]]
    assert len(chinese) == len(finding.remedies)
    assert any(article in text for text in chinese)


def test_changes_of_the_sample_stand_in_its_script() -> None:
    finding = next(one for one in sample("memory-pressure").findings if one.name == "device-memory-pressure")
    placed = {one.change.key: one.at.line for one in finding.remedies if one.change and one.at}
    lines = (SAMPLES / "memory-pressure/logs/job/pretrain_demo_7b.sh").read_text(encoding="utf-8").splitlines()
    assert "--micro-batch-size" in placed
    for key, line in placed.items():
        assert key in lines[line - 1]


def test_layouts_are_suggested_beside_and_marked_as_such() -> None:
    finding = next(one for one in sample("memory-pressure").findings if one.name == "parallel-layout-to-try")
    assert (finding.severity, finding.status, finding.confidence) == ("info", "info", "low")
    assert finding.remedies
    assert all(one.disposition == "risky" for one in finding.remedies)
    assert finding.remedies[0].text.startswith("To try: TP 4 PP 1 DP 2. Expected: ")


def test_several_launches_are_several_frameworks() -> None:
    facts = analyze_texts({"run.sh": SCRIPT, "serve.sh": SERVE}, load_pack()).facts
    assert facts["stack"] == "MindSpeed-LLM, vllm-ascend"
    assert facts["stack_version"] == "unknown"


def test_a_framework_that_prints_its_release_is_believed() -> None:
    log = "INFO 06-12 09:10:11 [api_server.py:1289] vLLM API server version 0.9.1\n"
    facts = analyze_texts({"serve.log": log}, load_pack()).facts
    assert (facts["stack"], facts["stack_version"]) == ("vllm", "0.9.1")
    facts = analyze_texts({"serve.log": log, "serve.sh": SERVE}, load_pack()).facts
    assert (facts["stack"], facts["stack_version"]) == ("vllm-ascend", "vllm 0.9.1")
