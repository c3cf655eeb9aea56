"""What training scripts and launchers print."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import datetime, timedelta

from _gen.shapes import Process

SITE = "/usr/local/lib/python3.10/site-packages"

ARGUMENTS = {
    "accumulate_allreduce_grads_in_fp32": "True",
    "adam_beta1": "0.9",
    "adam_beta2": "0.95",
    "add_bias_linear": "False",
    "attention_dropout": "0.0",
    "bf16": "True",
    "check_for_nan_in_loss_and_grad": "True",
    "clip_grad": "1.0",
    "context_parallel_size": "1",
    "data_path": "['/data/corpus/text_document']",
    "data_parallel_size": "4",
    "distributed_backend": "nccl",
    "distributed_timeout_minutes": "10",
    "eval_interval": "1000",
    "eval_iters": "0",
    "exit_on_missing_checkpoint": "True",
    "ffn_hidden_size": "11008",
    "global_batch_size": "64",
    "hidden_size": "4096",
    "init_method_std": "0.01",
    "log_interval": "1",
    "log_throughput": "True",
    "lr": "1.25e-06",
    "lr_decay_style": "cosine",
    "max_position_embeddings": "4096",
    "micro_batch_size": "2",
    "min_lr": "1.25e-07",
    "no_load_optim": "None",
    "num_attention_heads": "32",
    "num_layers": "32",
    "num_workers": "2",
    "pipeline_model_parallel_size": "1",
    "position_embedding_type": "rope",
    "save": "/data/ckpt",
    "save_interval": "1000",
    "seed": "1234",
    "seq_length": "4096",
    "sequence_parallel": "True",
    "swiglu": "True",
    "tensor_model_parallel_size": "2",
    "train_iters": "2000",
    "use_distributed_optimizer": "True",
    "use_flash_attn": "True",
    "weight_decay": "0.1",
    "world_size": "8",
}

WARNINGS = (
    f"{SITE}/torch_npu/contrib/transfer_to_npu.py:301: ImportWarning: ",
    "    *************************************************************************************************************",
    "    The torch.Tensor.cuda and torch.nn.Module.cuda are replaced with torch.Tensor.npu and torch.nn.Module.npu "
    "now..",
    "    The torch.cuda.DoubleTensor is replaced with torch.npu.FloatTensor cause the double type is not supported "
    "now..",
    "    The backend in torch.distributed.init_process_group set to hccl now..",
    "    *************************************************************************************************************",
    "    ",
    "  warnings.warn(msg, ImportWarning)",
)


def arguments(**changed: object) -> list[str]:
    """Return Megatron's argument dump; keyword arguments replace or add values."""
    values = {**ARGUMENTS, **{key: str(value) for key, value in changed.items()}}
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * (48 - len(name))} {values[name]}" for name in sorted(values, key=str.lower)]
    lines.append("-------------------- end of arguments ---------------------")
    return lines


def setup(moment: datetime, ranks: int) -> list[str]:
    """Return what Megatron prints between the arguments and the first iteration."""
    lines = [
        "> building LlamaTokenizer tokenizer ...",
        " > padded vocab (size: 32000) with 0 dummy tokens (new size: 32000)",
        "> initializing torch distributed ...",
        f"> initialized tensor model parallel with size {min(2, ranks)}",
        "> initialized pipeline model parallel with size 1",
        "> setting random seeds to 1234 ...",
        "time to initialize megatron (seconds): 21.482",
        f"[after megatron is initialized] datetime: {moment:%Y-%m-%d %H:%M:%S} ",
        "building GPT model ...",
        " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 3369213952",
        "> learning rate decay style: cosine",
        f"[after model, optimizer, and learning rate scheduler are built] datetime: "
        f"{moment + timedelta(seconds=9):%Y-%m-%d %H:%M:%S} ",
        "> building train, validation, and test datasets ...",
        " > datasets target sizes (minimum size):",
        "    train:      128000",
        "    validation: 0",
        "    test:       0",
        "> finished creating GPT datasets ...",
        f"[after dataloaders are built] datetime: {moment + timedelta(seconds=15):%Y-%m-%d %H:%M:%S} ",
        "done with setup ...",
        "(min, max) time across ranks (ms):",
        "    model-and-optimizer-setup ......................: (8941.12, 9012.77)",
        "    train/valid/test-data-iterators-setup ..........: (611.39, 5230.14)",
        "training ...",
        f"[before the start of training step] datetime: {moment + timedelta(seconds=15):%Y-%m-%d %H:%M:%S} ",
    ]
    return lines


def iterations(
    start: datetime,
    rnd: random.Random,
    count: int,
    *,
    total: int = 2000,
    first: int = 1,
    ms: float = 1950.0,
    loss: float = 10.6,
    batch: int = 64,
    prefix: str = "",
) -> tuple[list[str], datetime]:
    """Return Megatron iteration lines of a healthy run and the time of the last one.

    Args:
        start: When training begins.
        rnd: Source of jitter.
        count: Number of lines.
        total: ``--train-iters``.
        first: First iteration number.
        ms: Typical time per iteration in milliseconds; the first iteration compiles and takes longer.
        loss: Loss at iteration 1; it falls towards 2.2.
        batch: Global batch size.
        prefix: Launcher prefix of each line.
    """
    lines: list[str] = []
    now = start
    for number in range(first, first + count):
        took = ms * (9.4 if number == 1 else 1.0) * (1 + 0.02 * (rnd.random() - 0.5))
        now += timedelta(milliseconds=took)
        value = 2.2 + (loss - 2.2) * math.exp(-number / 60) + 0.05 * (rnd.random() - 0.5)
        norm = 0.9 + 24 * math.exp(-number / 25) * (0.9 + 0.2 * rnd.random()) + 0.2 * rnd.random()
        rate = 1.25e-6 * min(1.0, number / 40)
        lines.append(
            f"{prefix} [{now:%Y-%m-%d %H:%M:%S}] iteration {number:8d}/{total:8d} | consumed samples: "
            f"{number * batch:12d} | elapsed time per iteration (ms): {took:.1f} | throughput per GPU (TFLOP/s/GPU): "
            f"{181.0 * ms / took:.1f} | learning rate: {rate:.6E} | global batch size: {batch:5d} | lm loss: "
            f"{value:.6E} "
            f"| loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan "
            "iterations:   0 |"
        )
        if number == 1:
            lines += [
                f"{prefix}[Rank {rank}] (after 1 iterations) memory (MB) | allocated: 21482.84619140625 | max "
                f"allocated: "
                "40911.1640625 | reserved: 44318.0 | max reserved: 44318.0"
                for rank in (0, 1)
            ]
    return lines, now


def traceback(frames: Iterable[tuple[str, int, str, str]], error: str) -> list[str]:
    """Return a Python traceback; a frame is (file, line, function, code)."""
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {code}"]
    return [*lines, *error.split("\n")]


def train_frames(*tail: tuple[str, int, str, str]) -> list[tuple[str, int, str, str]]:
    """Return the frames of a Megatron training step, ending in `tail`."""
    return [
        ("/workspace/MindSpeed-LLM/pretrain_gpt.py", 291, "<module>", "main()"),
        ("/workspace/MindSpeed-LLM/pretrain_gpt.py", 284, "main", "pretrain(train_valid_test_datasets_provider,"),
        (
            "/workspace/MindSpeed-LLM/mindspeed_llm/training/training.py",
            558,
            "pretrain",
            "iteration, num_floating_point_operations_so_far = train(*train_args)",
        ),
        (
            "/workspace/MindSpeed-LLM/mindspeed_llm/training/training.py",
            757,
            "train",
            "loss_dict, skipped_iter, grad_norm, num_zeros_in_grad = train_step(forward_step_func,",
        ),
        *tail,
    ]


SYNC_FRAMES = (
    (f"{SITE}/megatron/core/optimizer/optimizer.py", 424, "step", "found_inf_flag = self.prepare_grads()"),
    (f"{SITE}/torch_npu/npu/utils.py", 72, "synchronize", "return torch_npu._C._npu_synchronize()"),
)


def prefixed(prefix: str, lines: Iterable[str]) -> list[str]:
    """Return `lines` with a launcher prefix."""
    return [f"{prefix}{line}" for line in lines]


def pta_error(process: Process, moment: datetime, code: str = "ERR00100 PTA call acl api failed") -> str:
    """Return torch_npu's own error line."""
    return (
        f"[ERROR] {moment:%Y-%m-%d-%H:%M:%S} (PID:{process.pid}, Device:{process.device}, RankID:{process.rank}) {code}"
    )


def elastic(
    script: str,
    failures: list[tuple[Process, int, datetime]],
    launcher: int,
    *,
    terminated: Iterable[Process] = (),
    binary: str = "/usr/bin/python3",
) -> list[str]:
    """Return torchrun's summary.

    Args:
        script: Name of the failed script.
        failures: (process, exit code, time), the first observed one first.
        launcher: Process id of torchrun.
        terminated: Processes that torchrun had to stop.
        binary: Interpreter of the workers.
    """
    first, code, moment = failures[0]
    day = f"{moment:%m%d %H:%M:%S}"
    lines = [
        f"W{day}.{moment.microsecond:06d} {launcher} torch/distributed/elastic/multiprocessing/api.py:897] Sending "
        f"process "
        f"{process.pid} closing signal SIGTERM"
        for process in terminated
    ]
    lines += [
        f"E{day}.{moment.microsecond:06d} {launcher} torch/distributed/elastic/multiprocessing/api.py:869] failed "
        f"(exitcode: {code}) local_rank: {first.device} (pid: {first.pid}) of binary: {binary}"
    ]
    lines += traceback(
        (
            ("/usr/local/bin/torchrun", 8, "<module>", "sys.exit(main())"),
            (
                f"{SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py",
                355,
                "wrapper",
                "return f(*args, **kwargs)",
            ),
            (f"{SITE}/torch/distributed/run.py", 918, "main", "run(args)"),
            (f"{SITE}/torch/distributed/run.py", 909, "run", "elastic_launch("),
            (
                f"{SITE}/torch/distributed/launcher/api.py",
                138,
                "__call__",
                "return launch_agent(self._config, self._entrypoint, list(args))",
            ),
            (f"{SITE}/torch/distributed/launcher/api.py", 269, "launch_agent", "raise ChildFailedError("),
        ),
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    )
    rule = "=" * 60

    def box(number: int, process: Process, code: int, when: datetime) -> list[str]:
        signal = {-9: "SIGKILL", -15: "SIGTERM", -6: "SIGABRT", -11: "SIGSEGV"}.get(code)
        note = (
            f"Signal {-code} ({signal}) received by PID {process.pid}"
            if signal
            else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        )
        return [
            f"[{number}]:",
            f"  time      : {when:%Y-%m-%d_%H:%M:%S}",
            f"  host      : {process.node}",
            f"  rank      : {process.rank} (local_rank: {process.device})",
            f"  exitcode  : {code} (pid: {process.pid})",
            "  error_file: <N/A>",
            f"  traceback : {note}",
        ]

    lines += [rule, f"{script} FAILED", "-" * 60, "Failures:"]
    if len(failures) == 1:
        lines.append("  <NO_OTHER_FAILURES>")
    for number, (process, exit_code, when) in enumerate(failures[1:], start=1):
        lines += box(number, process, exit_code, when)
    lines += ["-" * 60, "Root Cause (first observed failure):", *box(0, first, code, moment), rule]
    return lines
