"""Jobs that were started by a script: one with faults in it, one without."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import console
from _gen.shapes import Folder, Job, case_text

HEAD = (
    "#!/bin/bash",
    "",
    "export CUDA_DEVICE_MAX_CONNECTIONS=1",
    "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
)
PATHS = (
    "",
    "CKPT_SAVE_DIR=/data/ckpt/demo-7b",
    "DATA_PATH=/data/corpus/demo_text_document",
    "TOKENIZER_PATH=/data/models/demo-7b",
)
MODEL = (
    ("use-mcore-models", ""), ("sequence-parallel", ""), ("num-layers", "32"), ("hidden-size", "4096"),
    ("ffn-hidden-size", "11008"), ("num-attention-heads", "32"), ("tokenizer-type", "PretrainedFromHF"),
    ("tokenizer-name-or-path", "${TOKENIZER_PATH}"), ("seq-length", "4096"), ("max-position-embeddings", "4096"),
    ("micro-batch-size", "1"), ("global-batch-size", "64"), ("make-vocab-size-divisible-by", "1"), ("lr", "1.25e-6"),
    ("train-iters", "200"), ("lr-decay-style", "cosine"), ("untie-embeddings-and-output-weights", ""),
    ("disable-bias-linear", ""), ("position-embedding-type", "rope"), ("normalization", "RMSNorm"),
    ("use-fused-rmsnorm", ""), ("swiglu", ""), ("use-flash-attn", ""), ("min-lr", "1.25e-7"),
    ("lr-warmup-fraction", "0.01"), ("clip-grad", "1.0"), ("use-distributed-optimizer", ""),
    ("overlap-grad-reduce", ""), ("bf16", ""),
)  # fmt: skip


def script(
    *,
    exports: tuple[str, ...] = (),
    nodes: int = 1,
    master: str = "localhost",
    tp: int = 2,
    pp: int = 1,
    changed: dict[str, tuple[str, str] | None] | None = None,
    added: tuple[tuple[str, str], ...] = (),
) -> list[str]:
    """Return a launch script of MindSpeed-LLM; `changed` replaces options (name and value), None leaves one out."""
    changes = changed or {}
    options = [changes.get(name, (name, value)) for name, value in MODEL]
    pairs = [pair for pair in options if pair is not None] + list(added)
    lines = [*HEAD, *(f"export {item}" for item in exports), ""]
    lines += ["NPUS_PER_NODE=8", f"MASTER_ADDR={master}", "MASTER_PORT=6000", f"NNODES={nodes}", "NODE_RANK=0"]
    lines += ["WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))", *PATHS, "", f"TP={tp}", f"PP={pp}", ""]
    lines += [
        'DISTRIBUTED_ARGS="',
        "    --nproc_per_node $NPUS_PER_NODE \\",
        "    --nnodes $NNODES \\",
        "    --node_rank $NODE_RANK \\",
        "    --master_addr $MASTER_ADDR \\",
        "    --master_port $MASTER_PORT",
        '"',
        "",
        'GPT_ARGS="',
        "    --tensor-model-parallel-size ${TP} \\",
        "    --pipeline-model-parallel-size ${PP} \\",
    ]
    lines += [f"    --{name}{' ' + value if value else ''} \\" for name, value in pairs[:-1]]
    lines += [f"    --{pairs[-1][0]} {pairs[-1][1]}".rstrip(), '"', ""]
    lines += [
        'OUTPUT_ARGS="',
        "    --log-interval 1 \\",
        "    --save-interval 200 \\",
        "    --eval-interval 200 \\",
        "    --eval-iters 0",
        '"',
        "",
        "torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \\",
        "    $GPT_ARGS \\",
        "    $OUTPUT_ARGS \\",
        "    --data-path $DATA_PATH \\",
        "    --split 949,50,1 \\",
        "    --distributed-backend nccl \\",
        "    --save $CKPT_SAVE_DIR \\",
        "    | tee logs/train_demo_7b.log",
    ]
    return lines


def launch_script_faults() -> Job:
    """A script with options that nobody has, sizes that do not fit, and a leftover."""
    folder = Folder()
    folder.text(
        "job/pretrain_demo_7b.sh",
        script(
            exports=("ASCEND_LAUNCH_BLOCKING=1",),
            nodes=2,
            pp=3,
            changed={
                "clip-grad": ("clip_grad", "1.0"),
                "lr-decay-style": ("lr-decay-style", "cosin"),
                "overlap-grad-reduce": ("overlap-param-gather", ""),
            },
            added=(("kernel_launch_threads", "8"),),
        ),
    )
    return Job(
        "launch-script-faults",
        case_text(
            title="A launch script that cannot start",
            en=(
                "A launch script and no log yet. It names an option with an underscore and one that articles made up, "
                "a learning-rate schedule that does not exist and a parameter overlap without its companion; its "
                "pipeline size divides neither the ranks nor the layers, and two nodes are told to meet at localhost."
            ),
            zh=(
                "只有启动脚本，尚无日志。脚本中有误用下划线的参数、文章虚构的参数、不存在的学习率策略、缺少依赖的参数"
                "预取；流水线并行度既不能整除 rank 总数也不能整除层数；两个节点的主节点地址为 localhost。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [option-unknown, option-invented, value-not-among-choices, companion-missing, world-size-indivisible,
    layers-indivisible, master-address-local]
  category: [config]
  min_severity: error
""",
        ),
        folder,
    )


def launch_script_clean() -> Job:
    """The same script as it should be, with the log of its run."""
    rnd = random.Random("launch-script-clean")
    folder = Folder()
    folder.text("job/pretrain_demo_7b.sh", script())
    started = datetime(2026, 5, 6, 9, 12, 40, 118_000)
    lines = [*console.WARNINGS, *console.arguments(), *console.setup(started, 8)]
    steps, _ = console.iterations(started + timedelta(seconds=20), rnd, 60)
    folder.text("job/train.log", [*lines, *steps])
    return Job(
        "launch-script-clean",
        case_text(
            title="A launch script without faults, and its run",
            en=(
                "A launch script of MindSpeed-LLM with nested variables and the beginning of the training log. "
                "Nothing is wrong; nothing above info may be reported."
            ),
            zh="MindSpeed-LLM 启动脚本（含嵌套变量）及训练日志开头。作业正常，不应报告高于 info 级别的问题。",
            expect="""\
exit: 0
verdict: healthy
max_severity: info
""",
        ),
        folder,
    )
