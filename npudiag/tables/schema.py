"""Every table, declared once.

The declaration is what documents the table, what rules may ask for, and what makes the
columns of the DataFrame: a column that is not declared here does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["str", "int", "float", "bool", "time"]

PANDAS_DTYPE: dict[Dtype, str] = {
    "str": "string",
    "int": "Int64",
    "float": "Float64",
    "bool": "boolean",
    "time": "datetime64[us]",
}
"""Dtype in the public DataFrame; all but ``datetime64`` are nullable extension types."""

SQL_TYPE: dict[Dtype, str] = {
    "str": "VARCHAR",
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Column name.
        dtype: Kind of value.
        doc: What it means.
        unit: Unit of the value, empty where it has none.
    """

    name: str
    dtype: Dtype
    doc: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    doc: str
    filled_by: str
    columns: tuple[Column, ...]
    columnar: bool = False
    """Kept column by column (`npudiag.tables.columns.Columns`): tables that may have millions of rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)


_FILE = Column("file", "str", "Input the row comes from, relative to the argument's parent folder")
_LINE = Column("line", "int", "Physical line in that file, from 1")

_ALL = (
    Table(
        "files",
        "Every input that was looked at.",
        "ingest",
        (
            _FILE,
            Column("kind", "str", "Parser that read it; unknown or skipped otherwise"),
            Column("node", "str", "Collector folder of the node, e.g. worker-1, else host name"),
            Column("rank", "int", "Global rank of the process it belongs to"),
            Column("device", "int", "NPU it belongs to: physical id where known, else logical"),
            Column("pid", "int", "Process it belongs to"),
            Column("role", "str", "debug, run, security, device-os, event, ..."),
            Column("lines", "int", "Physical lines", "lines"),
            Column("bytes", "int", "Size after decompression", "bytes"),
            Column("unparsed", "int", "Lines that belong to no record", "lines"),
            Column("truncated", "bool", "Whether it could not be read to its end"),
            Column("encoding", "str", "Text encoding"),
            Column("note", "str", "Why it was not (fully) read or recognised"),
            Column("first_time", "time", "Earliest time stamp, clock of the log"),
            Column("last_time", "time", "Latest time stamp, clock of the log"),
        ),
    ),
    Table(
        "log_counts",
        "How many records there are per file, level, module and minute: every record is counted.",
        "slog, console",
        (
            _FILE,
            Column("level", "str", "DEBUG, INFO, EVENT, WARNING, ERROR, ...; null where the record has none"),
            Column("module", "str", "HCCL, RUNTIME, ...; null where the record has none"),
            Column("minute", "time", "Start of the minute, clock of the log; null where there is no time"),
            Column("count", "int", "Records", "records"),
        ),
    ),
    Table(
        "log",
        "The records worth keeping: warnings and worse, and what any rule asks for. Messages that differ in their "
        "numbers only are kept a few times; `count` says how many there were.",
        "slog, console",
        (
            _FILE,
            _LINE,
            Column("time", "time", "Time stamp, clock of the log"),
            Column("level", "str", "DEBUG, INFO, EVENT, WARNING, ERROR, CRITICAL, ..."),
            Column("module", "str", "Module that wrote it: HCCL, RUNTIME, GE, ..."),
            Column("pid", "int", "Process"),
            Column("tid", "int", "Thread"),
            Column("process", "str", "Process name"),
            Column("worker", "str", "Launcher's name for the process, e.g. Worker_TP0"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU: physical id where known, else logical"),
            Column("node", "str", "Node"),
            Column("source", "str", "Source file and line that wrote it"),
            Column("code", "str", "First error code in it"),
            Column("text", "str", "The record, launcher prefixes removed"),
            Column("group", "int", "Number of the message in `log_groups`"),
            Column("count", "int", "Records of this message in this file", "records"),
        ),
    ),
    Table(
        "log_groups",
        "The distinct messages of each file, numbers masked.",
        "slog, console",
        (
            _FILE,
            Column("group", "int", "Number of the message within its file"),
            Column("level", "str", "Level"),
            Column("module", "str", "Module"),
            Column("text", "str", "The message with every number replaced by #"),
            Column("count", "int", "Records", "records"),
            Column("kept", "int", "How many of them stand in `log`", "records"),
            Column("first_line", "int", "Line of the first one kept"),
            Column("last_line", "int", "Line of the last one"),
        ),
    ),
    Table(
        "processes",
        "Who is who: the ranks and devices of the processes that logged, as the logs tell.",
        "analyses.topology",
        (
            Column("node", "str", "Node"),
            Column("pid", "int", "Process"),
            Column("rank", "int", "Rank in the communicator that names it (the world group where there are several)"),
            Column("ranks", "int", "Size of that communicator", "ranks"),
            Column("logic_device", "int", "Device id inside the process"),
            Column("device", "int", "Physical device id"),
            Column("device_ip", "str", "Address of the device's own network port"),
            Column("server", "str", "Address of the host"),
            Column("communicator", "str", "Identifier of the communicator"),
            _FILE,
            _LINE,
        ),
    ),
    Table(
        "train_steps",
        "One row per training step that a log prints, whatever the framework.",
        "parsers.metrics",
        (
            _FILE,
            _LINE,
            Column("run", "int", "Number of the start within the file, from 0: restarts are appended to the same log"),
            Column("worker", "str", "Launcher's name or rank of the process that printed it"),
            Column("framework", "str", "Kind of line: megatron, hf, tqdm, deepspeed, mindformers, verl, ..."),
            Column("step", "int", "Training step (iteration)"),
            Column("total_steps", "int", "Steps planned"),
            Column("epoch", "float", "Epoch"),
            Column("time", "time", "Time stamp, clock of the log"),
            Column("loss", "float", "Training loss; null where the line has none, NaN where it says so"),
            Column("grad_norm", "float", "Global gradient norm"),
            Column("lr", "float", "Learning rate"),
            Column("loss_scale", "float", "Loss scale of mixed precision; 1 or null in bf16"),
            Column("step_time_ms", "float", "Time of one step", "ms"),
            Column("samples_per_s", "float", "Throughput in samples", "samples/s"),
            Column("tokens_per_s", "float", "Throughput in tokens", "tokens/s"),
            Column("tflops", "float", "Model throughput per device", "TFLOP/s"),
            Column("mfu", "float", "Model FLOPs utilisation", "%"),
            Column("consumed_samples", "int", "Samples seen so far", "samples"),
            Column("consumed_tokens", "int", "Tokens seen so far", "tokens"),
            Column("global_batch_size", "int", "Samples per step", "samples"),
            Column("skipped", "int", "Steps skipped by the optimizer in this row's interval"),
            Column("nan_iterations", "int", "Steps counted as NaN in this row's interval"),
            Column("memory_mb", "float", "Peak device memory that the line tells", "MiB"),
            Column("generate_ms", "float", "Time of the rollout in reinforcement learning", "ms"),
            Column("update_ms", "float", "Time of the policy update in reinforcement learning", "ms"),
        ),
        columnar=True,
    ),
    Table(
        "train_events",
        "What a training log tells beside its steps: validation, checkpoints, timers, memory, starts and ends.",
        "parsers.metrics",
        (
            _FILE,
            _LINE,
            Column("time", "time", "Time stamp, clock of the log"),
            Column("step", "int", "Step it belongs to: its own, else that of the row above"),
            Column(
                "kind",
                "str",
                "validation, save, saved, load, timer, memory, argument, start, end, overflow, failure, silence",
            ),
            Column("name", "str", "Name of the timer, of the loss, of the argument, ..."),
            Column("value", "float", "Its value: ms of a timer, loss of a validation, MiB of memory, s of silence"),
            Column("low", "float", "Smallest value over the ranks, where a range is printed"),
            Column("rank", "int", "Rank it is about"),
        ),
        columnar=True,
    ),
    Table(
        "serving",
        "Statistics lines of serving engines.",
        "parsers.metrics",
        (
            _FILE,
            _LINE,
            Column("time", "time", "Time stamp, clock of the log"),
            Column("framework", "str", "vllm or mindie"),
            Column("engine", "str", "Engine or data-parallel rank"),
            Column("running", "int", "Requests being computed", "requests"),
            Column("waiting", "int", "Requests that wait", "requests"),
            Column("swapped", "int", "Requests swapped out", "requests"),
            Column("kv_usage_pct", "float", "Use of the KV cache", "%"),
            Column("prefix_hit_pct", "float", "Hit rate of the prefix cache, a moving average", "%"),
            Column("prompt_tps", "float", "Prompt tokens per second", "tokens/s"),
            Column("generation_tps", "float", "Generated tokens per second", "tokens/s"),
            Column("preemptions", "int", "Preemptions since the last line or in all, as printed"),
            Column("acceptance_pct", "float", "Draft tokens accepted in speculative decoding", "%"),
            Column("ttft_ms", "float", "Time to first token, where printed", "ms"),
            Column("tpot_ms", "float", "Time per output token, where printed", "ms"),
        ),
        columnar=True,
    ),
    Table(
        "npu_samples",
        "Readings of npu-smi, one row per device and reading.",
        "parsers.metrics",
        (
            _FILE,
            _LINE,
            Column("time", "time", "Time stamp where the output has one"),
            Column("sample", "int", "Number of the reading within the file, from 0"),
            Column("node", "str", "Node"),
            Column("device", "int", "NPU id, or physical chip id where printed"),
            Column("util_pct", "float", "AI Core utilisation", "%"),
            Column("hbm_used_mb", "float", "Device memory in use", "MB"),
            Column("hbm_total_mb", "float", "Device memory", "MB"),
            Column("hbm_pct", "float", "Device memory in use", "%"),
            Column("temp_c", "float", "Temperature", "degC"),
            Column("power_w", "float", "Power", "W"),
            Column("clock_mhz", "float", "AI Core clock", "MHz"),
            Column("health", "str", "OK, Warning, Alarm, Critical or UNKNOWN"),
        ),
        columnar=True,
    ),
    Table(
        "launch",
        "How the job was started: options, environment variables and configuration keys, with where each was set. "
        "Scripts are read, never run.",
        "parsers.launch, parsers.metrics, advice.stack",
        (
            _FILE,
            _LINE,
            Column("key", "str", "Option as typed, variable, or dotted configuration key"),
            Column("value", "str", "Value with variables filled in; empty for an option without one"),
            Column("kind", "str", "flag, env, config; variable (of the script), word (belongs to no option), break"),
            Column("source", "str", "script, launcher (options of torchrun and the like), dump, yaml, trace, log"),
            Column("entry", "str", "Program or module that is started"),
            Column("command", "int", "Number of the command within the file, from 0"),
            Column("origin", "int", "Line the value itself stands in, where a variable carries it"),
            Column("known", "bool", "Whether the value is known: false where only the shell could tell"),
            Column("sure", "bool", "Whether nothing outside of the file and no branch in it decides"),
            Column("stack", "str", "Framework that reads it, as far as known"),
        ),
        columnar=True,
    ),
    Table(
        "prof_captures",
        "Profiler captures: one row per folder that a profiler wrote, with how it was taken.",
        "parsers.profiler, analyses.profile",
        (
            _FILE,
            Column("capture", "str", "Folder of the capture"),
            Column("job", "str", "Captures of one run share it: ranks are unique within a job"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU"),
            Column("node", "str", "Node or host"),
            Column("framework", "str", "torch_npu, mindspore, msprof or cluster"),
            Column("chip", "str", "Chip, where a database names it"),
            Column("level", "str", "Profiler level: Level_none, Level0, Level1, Level2"),
            Column("aic_metrics", "str", "Group of AI Core metrics"),
            Column("profile_memory", "bool", "Whether memory was recorded"),
            Column("with_stack", "bool", "Whether call stacks were recorded"),
            Column("torch_npu", "str", "Version of torch_npu"),
            Column("cann", "str", "Version of CANN"),
            Column("world_size", "int", "Ranks of the job as the capture tells", "ranks"),
            Column("tp", "int", "Tensor parallel size"),
            Column("pp", "int", "Pipeline parallel size"),
            Column("steps", "int", "Steps with a breakdown", "steps"),
            Column("kinds", "str", "Kinds of files it holds, separated by blanks"),
            Column("used", "bool", "False where a newer capture of the same rank replaced it"),
            Column("form", "str", "text or db: which export the numbers come from"),
        ),
    ),
    Table(
        "prof_env",
        "Environment variables and settings that captures recorded.",
        "parsers.profiler",
        (
            _FILE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("name", "str", "Variable"),
            Column("value", "str", "Value; empty where unset"),
        ),
    ),
    Table(
        "prof_steps",
        "Where the time of each rank and step goes, on the device's clock.",
        "parsers.profiler, analyses.profile",
        (
            _FILE,
            _LINE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU"),
            Column("step", "int", "Step; null where the capture has no steps"),
            Column("pp_stage", "int", "Pipeline stage of the rank, where known"),
            Column("computing_us", "float", "Union of the compute kernels", "us"),
            Column("comm_not_overlapped_us", "float", "Communication that no kernel covers", "us"),
            Column("overlapped_us", "float", "Communication under compute", "us"),
            Column("comm_us", "float", "Communication in all", "us"),
            Column("free_us", "float", "Neither computing nor communicating", "us"),
            Column("stage_us", "float", "Step without bubble", "us"),
            Column("bubble_us", "float", "Waiting to receive from another pipeline stage", "us"),
            Column("comm_excl_receive_us", "float", "Uncovered communication without receiving", "us"),
            Column("preparing_us", "float", "From the step's start on the host to its first device task", "us"),
            Column("e2e_us", "float", "Whole step: computing, uncovered communication and free", "us"),
            Column("last", "bool", "Last step captured: its free time ends with the profiler"),
            Column("source", "str", "text, db, trace, cluster or mindspore-legacy"),
        ),
    ),
    Table(
        "prof_kernels",
        "Device kernels, one row per rank, operator type and kind of core.",
        "parsers.profiler",
        (
            _FILE,
            Column("line", "int", "Line of the first one"),
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU"),
            Column("type", "str", "Operator type"),
            Column("core", "str", "AI_CORE, AI_VECTOR_CORE, MIX_AIC, MIX_AIV, AI_CPU, COMMUNICATION, ..."),
            Column("name", "str", "Name of the longest one"),
            Column("count", "int", "Kernels", "kernels"),
            Column("total_us", "float", "Duration", "us"),
            Column("avg_us", "float", "Mean duration", "us"),
            Column("min_us", "float", "Shortest", "us"),
            Column("max_us", "float", "Longest", "us"),
            Column("wait_us", "float", "Gap ahead of the kernels on their stream", "us"),
            Column("small", "int", "Kernels below 10 us", "kernels"),
            Column("dynamic", "int", "Kernels whose operator state is dynamic", "kernels"),
            Column("stated", "int", "Kernels that have an operator state", "kernels"),
            Column("mac_ratio", "float", "Cube busy, weighted by duration"),
            Column("vec_ratio", "float", "Vector unit busy, weighted by duration"),
            Column("mte2_ratio", "float", "Loads busy, weighted by duration"),
            Column("mte3_ratio", "float", "Stores busy, weighted by duration"),
            Column("cube_pct", "float", "Cube utilisation, weighted by duration", "%"),
            Column("unaligned_us", "float", "Matrix products with an inner dimension that is no multiple of 16", "us"),
            Column("unaligned_shape", "str", "Input shapes of the longest of them"),
            Column("blocks", "int", "Cores that the longest kernel used"),
            Column("share_pct", "float", "Share of the rank's step time, else of all kernels", "%"),
            Column("step_ms", "float", "The rank's time per step, where known", "ms"),
            Column("source", "str", "kernel_details, op_summary, op_statistic, data_preprocess or db"),
        ),
    ),
    Table(
        "prof_api",
        "Host calls, one row per rank and call.",
        "parsers.profiler",
        (
            _FILE,
            _LINE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("level", "str", "acl, model, node, communication (hccl), runtime, ..."),
            Column("api", "str", "Name"),
            Column("count", "int", "Calls", "calls"),
            Column("total_us", "float", "Duration", "us"),
            Column("avg_us", "float", "Mean duration", "us"),
            Column("max_us", "float", "Longest", "us"),
            Column("share_pct", "float", "Share of the rank's step time, where known", "%"),
        ),
    ),
    Table(
        "prof_comm",
        "Communication, one row per rank, communicator and kind of operation.",
        "parsers.profiler, analyses.profile",
        (
            _FILE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("group", "str", "Communicator as the profiler writes it"),
            Column("parallel", "str", "What it is for: dp, tp, pp, ep, cp, ..., where known"),
            Column("op", "str", "Kind: allReduce, allGather, batchSendRecv, ..."),
            Column("p2p", "bool", "Point to point"),
            Column("count", "int", "Operations", "operations"),
            Column("steps", "int", "Steps they are of", "steps"),
            Column("ranks", "int", "Ranks in the input that share them", "ranks"),
            Column("elapse_ms", "float", "Duration", "ms"),
            Column("transit_ms", "float", "Of it transfer; 0 where the data moves on other planes", "ms"),
            Column("wait_ms", "float", "Of it waiting for notifications, as the profiler counts it", "ms"),
            Column("sync_ms", "float", "Waiting ahead of the first transfer", "ms"),
            Column("idle_ms", "float", "Rest", "ms"),
            Column("late_ms", "float", "Longer than on the rank that took least: waiting for others", "ms"),
            Column("caused_ms", "float", "Waiting of the other ranks for this one", "ms"),
            Column("culprit_of", "int", "Operations that this rank entered last", "operations"),
            Column("matched", "int", "Operations seen on more than one rank", "operations"),
            Column("size_mb", "float", "Data moved", "MB"),
            Column("bandwidth_gbps", "float", "Data by transfer time", "GB/s"),
            Column("small_share", "float", "Share of transfers below 16 MB (RDMA: 1 MB)"),
            Column("rdma_transit_ms", "float", "Longest RDMA transfer of one operation", "ms"),
            Column("share_pct", "float", "Share of the rank's step time, where known", "%"),
            Column("late_pct", "float", "Waiting for others as a share of the step time", "%"),
            Column("caused_pct", "float", "Waiting caused to others as a share of the step time", "%"),
        ),
    ),
    Table(
        "prof_links",
        "Transfers between two ranks.",
        "parsers.profiler, analyses.profile",
        (
            _FILE,
            Column("job", "str", "Job"),
            Column("src", "int", "Sending rank"),
            Column("dst", "int", "Receiving rank"),
            Column("transport", "str", "HCCS, RDMA, PCIE, SIO, LOCAL"),
            Column("group", "str", "Communicator, where the ranks are numbered within it; null for global ranks"),
            Column("size_mb", "float", "Data", "MB"),
            Column("time_ms", "float", "Time", "ms"),
            Column("bandwidth_gbps", "float", "Data by time", "GB/s"),
            Column("median_gbps", "float", "Median of the job over this transport", "GB/s"),
            Column("links", "int", "Links of this transport in the job", "links"),
        ),
    ),
    Table(
        "prof_memory",
        "Device memory over the capture, one row per rank and component.",
        "parsers.profiler",
        (
            _FILE,
            _LINE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU"),
            Column("component", "str", "PTA (framework), GE, APP (process), WORKSPACE, HCCL, ..."),
            Column("samples", "int", "Records"),
            Column("span_ms", "float", "From the first to the last record", "ms"),
            Column("peak_allocated_mb", "float", "Most in use", "MB"),
            Column("peak_reserved_mb", "float", "Most taken from the device", "MB"),
            Column("first_allocated_mb", "float", "In use at the start", "MB"),
            Column("last_allocated_mb", "float", "In use at the end", "MB"),
            Column("floor_rise_mb", "float", "Rise of the lowest use from the first to the last eighth", "MB"),
            Column("floor_rises", "int", "Eighths whose lowest use is above that of the eighth before, of 7"),
            Column("reserved_rise_mb", "float", "Rise of what is reserved from start to end", "MB"),
        ),
    ),
    Table(
        "prof_allocations",
        "Allocations, one row per rank and operator.",
        "parsers.profiler",
        (
            _FILE,
            _LINE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("name", "str", "Operator"),
            Column("count", "int", "Allocations"),
            Column("size_mb", "float", "Size of all", "MB"),
            Column("max_mb", "float", "Largest", "MB"),
            Column("kept", "int", "Not released within the capture"),
            Column("kept_mb", "float", "Size of those", "MB"),
        ),
    ),
    Table(
        "prof_counters",
        "Readings of hardware counters, one row per rank and counter.",
        "parsers.profiler",
        (
            _FILE,
            _LINE,
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("device", "int", "NPU"),
            Column("name", "str", "aicore-freq, l2-hit-rate, hccs-tx, roce-rx-error, ..."),
            Column("unit", "str", "Unit of the values"),
            Column("samples", "int", "Readings"),
            Column("low", "float", "Lowest"),
            Column("high", "float", "Highest"),
            Column("mean", "float", "Mean (weighted by time for a frequency)"),
        ),
    ),
    Table(
        "prof_events",
        "Happenings in a trace, one row per rank and kind.",
        "parsers.profiler",
        (
            _FILE,
            Column("line", "int", "Line of the longest one"),
            Column("job", "str", "Job"),
            Column("rank", "int", "Global rank"),
            Column("kind", "str", "gc, dataloader, synchronize, compile, malloc, sync-batch-norm, gap"),
            Column("name", "str", "Name of the longest one"),
            Column("count", "int", "How many"),
            Column("total_us", "float", "Duration", "us"),
            Column("max_us", "float", "Longest", "us"),
            Column("share_pct", "float", "Share of the rank's step time, where known", "%"),
        ),
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in _ALL}
"""All tables by name."""
