"""Jobs that run, but could run better, and launches that do not fit what was made for them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from _gen import console, launches
from _gen.shapes import Folder, Job, case_text


def _dots(name: str, low: float, high: float) -> str:
    return f"    {name + ' ':.<48}: ({low:.2f}, {high:.2f})"


def communication_bound() -> Job:
    """Gradients are reduced after the backward pass, and the timers say how long that takes."""
    rnd = random.Random("communication-bound")
    folder = Folder()
    folder.text(
        "job/pretrain_demo_7b.sh",
        launches.script(
            exports=("HCCL_CONNECT_TIMEOUT=1200",),
            nodes=2,
            master="192.0.2.21",
            changed={"overlap-grad-reduce": None, "use-distributed-optimizer": None},
            added=(("timing-log-level", "2"), ("timing-log-option", "minmax")),
        ),
    )
    start = datetime(2026, 6, 3, 8, 20, 14)
    lines = [
        *console.arguments(world_size=16, data_parallel_size=8, use_distributed_optimizer="False", timing_log_level=2,
                           micro_batch_size=1, overlap_grad_reduce="False", train_iters=200, clip_grad="1.0"),
        *console.setup(start, 16),
    ]  # fmt: skip
    now = start + timedelta(seconds=20)
    for number in range(1, 81):
        steps, now = console.iterations(now, rnd, 1, total=200, first=number, ms=2380.0)
        lines += steps
        if number > 1 and number % 5 == 0:
            grads = 690.0 + 30 * rnd.random()
            lines += [
                "(min, max) time across ranks (ms):",
                _dots("forward-backward", 1605.2 + 9 * rnd.random(), 1640.7 + 9 * rnd.random()),
                _dots("forward-compute", 488.1 + 5 * rnd.random(), 499.6 + 5 * rnd.random()),
                _dots("backward-compute", 1079.4 + 8 * rnd.random(), 1101.3 + 8 * rnd.random()),
                _dots("batch-generator", 6.1, 9.4 + rnd.random()),
                _dots("all-grads-sync", grads - 21.0, grads),
                _dots("optimizer-inner-step", 18.2, 19.0 + rnd.random()),
                _dots("optimizer", 41.7, 44.9 + rnd.random()),
            ]
    folder.text("job/train.log", lines)
    return Job(
        "communication-bound",
        case_text(
            title="A third of each step goes into the reduction of gradients",
            en=(
                "Sixteen ranks on two nodes, a launch script without overlap, and a log with timers: all-grads-sync "
                "takes 0.7 s of 2.4 s. The changes name the options that MindSpeed-LLM has for it, and the one of the "
                "articles as not accepted."
            ),
            zh=(
                "两个节点共 16 个 rank，启动脚本未开启通信重叠；"
                "日志中的计时显示 all-grads-sync 占 2.4 s 步时中的 0.7 s。"
                "建议给出 MindSpeed-LLM 真实存在的参数，并指出网络文章中的参数不被接受。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [communication-bound-steps]
  category: [performance]
  min_severity: warning
  evidence:
    - {file: "**/train.log", contains: "all-grads-sync"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def memory_pressure() -> Job:
    """Hardly any device memory is left; the allocator has to search."""
    rnd = random.Random("memory-pressure")
    folder = Folder()
    folder.text(
        "job/pretrain_demo_7b.sh",
        [
            line
            for line in launches.script(
                tp=2,
                changed={"micro-batch-size": ("micro-batch-size", "2"), "use-distributed-optimizer": None,
                         "overlap-grad-reduce": None},
            )
            if "PYTORCH_NPU_ALLOC_CONF" not in line
        ],
    )  # fmt: skip
    start = datetime(2026, 6, 9, 21, 4, 50)
    lines = [
        *console.arguments(use_distributed_optimizer="False", train_iters=200, clip_grad="1.0"),
        *console.setup(start, 8),
    ]
    steps, _ = console.iterations(start + timedelta(seconds=20), rnd, 60, total=200, ms=2710.0)
    held = {rank: 58_900.0 + 60 * rank for rank in (0, 1)}
    for line in steps:
        if "memory (MB)" not in line:
            lines.append(line)
            continue
        rank = int(line.partition("[Rank ")[2].partition("]")[0])
        used = held[rank] - 2_240.0 - 30 * rnd.random()
        lines.append(
            f"[Rank {rank}] (after 1 iterations) memory (MB) | allocated: 38211.421875 | max allocated: {used:.4f} | "
            f"reserved: {held[rank]} | max reserved: {held[rank]}"
        )
    folder.text("job/train.log", lines)
    return Job(
        "memory-pressure",
        case_text(
            title="Device memory is nearly full",
            en=(
                "Eight ranks train with a micro-batch that just fits: PyTorch holds 57.6 GiB of a 64 GB card. The job "
                "runs; a longer batch would end it. The changes say where in the script each setting stands."
            ),
            zh=(
                "8 个 rank 训练，微批刚好放得下：PyTorch 占用 64 GB 卡中的 57.6 GiB。"
                "作业可以运行，但更长的 batch 会导致显存不足。"
                "建议标明各设置在脚本中的位置。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [device-memory-pressure]
  category: [performance]
  min_severity: warning
  evidence:
    - {file: "**/train.log", contains: "max reserved"}
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )


def weights_and_data_mismatch() -> Job:
    """Weights and data were made for another launch."""
    folder = Folder()
    rnd = random.Random("weights-and-data-mismatch")
    folder.text(
        "tools/convert.log",
        [
            "Arguments: Namespace(load_model_type='hf', save_model_type='mg', load_dir='/data/models/demo-7b', "
            "save_dir='/data/mcore/demo-7b', model_type_hf='qwen3', target_tensor_parallel_size=4, "
            "target_pipeline_parallel_size=2, target_expert_parallel_size=1, expert_tensor_parallel_size=None, "
            "num_layers_per_virtual_pipeline_stage=None, moe_grouped_gemm=False, noop_layers=None, mtp_num_layers=0, "
            "num_layer_list=None, schedules_method=None, lora_target_modules=[])",
            *(f"Converting the weights of layer {layer}." for layer in range(16)),
            *(f"Saving to /data/mcore/demo-7b/iter_0000001/mp_rank_{tp:02}_000/model_optim_rng.pt" for tp in range(4)),
            *(f"Converting the weights of layer {layer}." for layer in range(16, 32)),
            *(f"Saving to /data/mcore/demo-7b/iter_0000001/mp_rank_{tp:02}_001/model_optim_rng.pt" for tp in range(4)),
            "Done!",
            "time-consuming\uff1a 214.37s",
        ],
    )
    handler = "INFO:mindspeed_llm.tasks.preprocess.data_handler:"
    folder.text(
        "tools/preprocess.log",
        [
            "INFO:__main__:building dataset: /data/raw/train-00000-of-00001.parquet",
            f"{handler}Vocab size: 151643",
            f"{handler}Output prefix: /data/corpus/demo_packed",
            f"{handler}Time to startup:3.4127",
            *(
                f"WARNING:mindspeed_llm.tasks.preprocess.data_handler:Dropped lengthy example with length "
                f"{8192 + rnd.randint(10, 900)} >= 8192."
                for _ in range(3)
            ),
            f"{handler}valid_num = 51999, total_num = 52002, percentage : 99.99423099111574%",
            f"{handler}new samples num : 1874",
            f"{handler}Processed 0 documents (301.4 docs/s).",
            f"{handler}Processed 1000 documents (288.9 docs/s).",
        ],
    )
    folder.text(
        "job/tune_demo_7b.sh",
        [
            line.replace("--data-path $DATA_PATH", "--data-path /data/corpus/demo").replace(
                "pretrain_gpt.py", "posttrain_gpt.py"
            )
            for line in launches.script(
                tp=8,
                added=(("load", "/data/mcore/demo-7b"), ("stage", "sft"), ("is-instruction-dataset", ""),
                       ("padded-vocab-size", "125696")),
            )
        ],
    )  # fmt: skip
    return Job(
        "weights-and-data-mismatch",
        case_text(
            title="Weights and data that do not fit the launch",
            en=(
                "A launch script, and the logs of the two tools before it. The weights were converted for tensor "
                "parallel size 4 and two stages, the data packed to 8192 tokens by a tokenizer of 151643; the launch "
                "wants size 8, one stage, 4096 tokens and a vocabulary of 125696."
            ),
            zh=(
                "启动脚本以及两个前置工具的日志。权重按张量并行 4、流水线 2 转换，"
                "数据由词表 151643 的 tokenizer 打包到 8192；"
                "而启动参数为张量并行 8、单 stage、序列长度 4096、词表 125696。"
            ),
            expect="""\
exit: 0
verdict: findings
root:
  names: [weights-converted-for-other-layout, vocabulary-too-small]
  category: [checkpoint, data-pipeline]
  min_severity: error
must_not: [insufficient-evidence, option-unknown]
""",
        ),
        folder,
    )


def serving_config_faults() -> Job:
    """Three ways to serve, each with settings that the server refuses."""
    folder = Folder()
    folder.text(
        "vllm/serve.sh",
        [
            "#!/bin/bash",
            "export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3",
            "vllm serve /data/models/demo-32b \\",
            "    --tensor-parallel-size 8 \\",
            "    --max-model-len 32768 \\",
            "    --gpu-memory-utilization 90 \\",
            "    --quantization_mode fp8 \\",
            "    --additional-config '{\"enable_cpu_binding\": True}'",
        ],
    )
    folder.text(
        "mindie/config.json",
        [
            "{",
            '    "Version" : "1.0.0",',
            '    "ServerConfig" : {"ipAddress" : "127.0.0.1", "port" : 1025, "managementPort" : 1026},',
            '    "BackendConfig" : {',
            '        "npuDeviceIds" : [[0,1,2,3]],',
            '        "ModelDeployConfig" : {',
            '            "maxSeqLen" : 2560,',
            '            "maxInputTokenLen" : 4096,',
            '            "ModelConfig" : [{"modelName" : "demo", "worldSize" : 8, "npuMemSize" : -1}]',
            "        },",
            '        "ScheduleConfig" : {',
            '            "cacheBlockSize" : 128,',
            '            "maxBatchSize" : 200,',
            '            "maxQueueDelayMicroseconds" : 100',
            "        }",
            "    }",
            "}",
        ],
    )
    folder.text(
        "triton/demo/config.pbtxt",
        [
            'name: "demo"',
            'backend: "onnxruntime"',
            "max_batch_size: 16",
            "instance_group [ { count: 1 kind: KIND_NPU } ]",
            "optimization { execution_accelerators {",
            '  gpu_execution_accelerator : [ { name : "ascend" } ]',
            "}}",
            "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }",
            'parameters { key: "enable_npu_optimization" value: { string_value: "true" } }',
        ],
    )
    return Job(
        "serving-config-faults",
        case_text(
            title="Serving configurations that cannot start",
            en=(
                "A vLLM command, a configuration of MindIE and a model configuration of Triton, with sizes that "
                "contradict each other and with settings that only articles know."
            ),
            zh="vLLM 启动命令、MindIE 配置与 Triton 模型配置各一份，其中有相互矛盾的尺寸以及仅见于网络文章的设置。",
            expect="""\
exit: 0
verdict: findings
root:
  names: [option-invented, memory-share-invalid, serve-more-ranks-than-cards, serve-json-invalid,
    mindie-token-limits-contradict, mindie-value-out-of-range, mindie-settings-contradict, triton-value-refused,
    triton-accelerator-unknown]
  category: [config]
  min_severity: error
must_not: [insufficient-evidence]
""",
        ),
        folder,
    )
