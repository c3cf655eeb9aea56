"""Which framework a job uses, and which release of it may be in use.

The options themselves tell most: each release accepts a certain set. Where several releases accept all of them, all
stay candidates; where logs only show a family of frameworks, so is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry
from npudiag.advice.registry import COMPLETE, FSDP2, MEGATRON, MINDSPEED, MINDSPEED_LLM
from npudiag.advice.settings import Job, Setting, jobs

if TYPE_CHECKING:
    from npudiag.tables.store import Store

LITERALS = ("set by environment to [", "API server version ", "LLM engine (v", "DeepSpeed info: version=")
"""What the scan has to look for: HCCL tells the variables it was given, some frameworks their release."""

_RELEASES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"vLLM API server version v?(\d[\w.+-]*)|LLM engine \(v(\d[\w.+-]*)\)"), "vllm"),
    (re.compile(r"DeepSpeed info: version=(\d[\w.+-]*)"), "DeepSpeed"),
)
"""What frameworks print of themselves, and which one does."""

_HCCL_ENV = re.compile(r"\[HCCL_ENV\]\s*(?:environmental variable )?(\w+)\s+(?:is )?set by environment to \[([^\]]*)\]")

LAYERS = ("torch_npu", "torchrun", "msrun", "slurm", "CANN", "HCCL", "torchtitan")
"""Not frameworks of their own: they lie below or around any of them."""

_BRINGS: dict[str, tuple[str, ...]] = {
    MINDSPEED_LLM: (MEGATRON, MINDSPEED),
    MINDSPEED: (MEGATRON,),
    "vllm": ("vllm-ascend",),
    "vllm-ascend": ("vllm",),
    "LLaMA-Factory": ("transformers", "DeepSpeed"),
    "verl": ("vllm", "vllm-ascend", MEGATRON, MINDSPEED),
    "MindFormers": ("MindSpore",),
    "transformers": ("DeepSpeed",),
}
"""What a framework is built on: advice for that holds as well."""

_ENTRIES: tuple[tuple[str, str], ...] = (
    (r"vllm serve\Z|vllm\.entrypoints", "vllm-ascend"),
    (r"llamafactory-cli\Z|llamafactory", "LLaMA-Factory"),
    (r"verl\.|main_ppo", "verl"),
    (
        r"posttrain_gpt\.py|pretrain_(?:mamba|deepseek4)\.py|rlhf_gpt\.py",
        MINDSPEED_LLM,
    ),
    (r"(?:train|inference)_fsdp2\.py", FSDP2),
    (r"run_mindformer\.py", "MindFormers"),
    (r"mindieservice_daemon", "MindIE"),
    (r"config\.pbtxt\Z", "Triton"),
)
_KEYS: tuple[tuple[str, str], ...] = (
    (r"(?:finetuning_type|dataset_dir|cutoff_len)\Z", "LLaMA-Factory"),
    (r"actor_rollout_ref\.", "verl"),
    (r"(?:--)?(?:parallel\.(?:ep_)?fsdp_size|training\.per_device_train_batch_size)\Z", FSDP2),
    (r"(?:ServerConfig|BackendConfig|ScheduleConfig)\.", "MindIE"),
    (r"(?:zero_optimization|train_micro_batch_size_per_gpu)\b", "DeepSpeed"),
    (r"runner_config\.|parallel_config\.(?:data|model)_parallel", "MindFormers"),
)
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"mindspeed_llm/|MindSpeed-LLM/|modellink/", MINDSPEED_LLM),
    (r"vllm_ascend|vllm-ascend", "vllm-ascend"),
    (r"\bvllm/|EngineCore|\(Worker_TP", "vllm"),
    (r"llamafactory/|LLaMA-Factory/", "LLaMA-Factory"),
    (r"\bverl/", "verl"),
    (r"mindformers/|mindformers\[", "MindFormers"),
    (r"mindspore/", "MindSpore"),
    (r"mindie_llm|mindieservice|MIE0", "MindIE"),
    (r"\bdeepspeed/", "DeepSpeed"),
    (r"\btransformers/trainer", "transformers"),
    (r"megatron/(?:core|training|arguments)", MEGATRON),
)
_FRAMEWORKS = {
    "megatron": (MEGATRON, MINDSPEED_LLM), "hf": ("transformers", "LLaMA-Factory"), "tqdm": ("transformers",),
    "deepspeed": ("DeepSpeed", "transformers", "LLaMA-Factory"), "mindformers": ("MindFormers",), "verl": ("verl",),
    "mindspeed-rl": ("verl", MINDSPEED_LLM), "torchtitan": ("torchtitan",), "vllm": ("vllm", "vllm-ascend"),
    "mindie": ("MindIE",),
}  # fmt: skip
_PATH_VERSION = re.compile(r"MindSpeed[-_]LLM[-_/@]?v?(1\.0\.RC\d|\d+\.\d+\.\d+)\b")
_RECORDS = 4000
_WHOLE_DUMP = 150
"""A dump of fewer options than this is an excerpt: that it lacks those of a framework says nothing."""
_NPU_MARKS = re.compile(r"NPU|ASCEND|HCCL")


@dataclass(slots=True)
class Stack:
    """What a job runs on.

    Attributes:
        name: The framework; None where it is not known or several are possible.
        candidates: All that are possible or in use.
        version: Its release; None where not known.
        versions: Releases that accept its options, oldest first; empty where not known.
        stated: Whether the user stated it.
        several: Whether all candidates are in use, each by a launch of its own.
    """

    name: str | None = None
    candidates: tuple[str, ...] = ()
    version: str | None = None
    versions: tuple[str, ...] = ()
    stated: bool = False
    several: bool = False
    _all: frozenset[str] = field(default=frozenset())

    @property
    def narrowed(self) -> bool:
        """Whether more is known of the release than that it may be any."""
        return 0 < len(self.versions) < len(registry.releases(self.name or ""))

    def concerns(self, names: Iterable[str]) -> bool:
        """Whether advice for any of these stacks is for this job; yes where the stack is not known."""
        wanted = {registry.canonical(name) or name for name in names}
        if not wanted or not self.candidates:
            return True
        if wanted & self._all:
            return True
        layers = wanted & set(LAYERS)
        # What MindSpore jobs run on has no torch_npu.
        if layers == {"torch_npu"}:
            return not set(self.candidates) <= {"MindFormers", "MindSpore"}
        return bool(layers)

    def facts(self) -> dict[str, Any]:
        """Return what the result document states."""
        name = self.name or (", ".join(self.candidates) if self.several else "unknown")
        out: dict[str, Any] = {"stack": name, "stack_version": self.version or "unknown"}
        if self.name is None and self.candidates and not self.several:
            out["stack_candidates"] = list(self.candidates)
        if self.version is None and self.narrowed:
            out["stack_versions"] = list(self.versions)
        return out


def parse(text: str) -> tuple[str, str | None]:
    """Read ``NAME`` or ``NAME==VERSION``.

    Raises:
        ValueError: There is no such stack, or its releases are known and this is none.
    """
    name, _, version = text.replace("@", "==").partition("==")
    found = registry.canonical(name.strip())
    if found is None:
        raise ValueError(f"no stack is called {name.strip()!r}; known: {', '.join(registry.STACKS)}")
    version = version.strip()
    known = registry.releases(found)
    if version and known and version not in known:
        raise ValueError(f"{found} has no release {version!r} here; known: {', '.join(known)}")
    return found, version or None


def of(store: Store) -> Stack:
    """Return the stack of a run, found once."""
    found = store.memo.get("stack")
    if found is None:
        found = store.memo["stack"] = _detect(store, store.memo.get("stack_stated"))
        told = _told_release(store)
        if found.version is None and told is not None and found.name is not None:
            if found.name == told[0]:
                found.version = told[1]
            elif told[0] in _BRINGS.get(found.name, ()):
                # vllm-ascend has releases of its own; that of vLLM narrows them down.
                found.version = f"{told[0]} {told[1]}"
    return found if isinstance(found, Stack) else Stack()


def take_variables(store: Store) -> None:
    """Put the variables that HCCL tells in its logs into table ``launch``."""
    seen: set[tuple[str, str]] = set()
    for record in store.log:
        if "[HCCL_ENV]" not in record.text:
            continue
        for match in _HCCL_ENV.finditer(record.text):
            # Every rank tells the same; where one differs, it stands there too.
            if match.groups() in seen or len(seen) > 400:
                continue
            seen.add((match[1], match[2]))
            row = {
                "file": record.file, "line": record.line, "key": match[1], "value": match[2], "kind": "env",
                "source": "log", "origin": record.line, "known": True, "sure": True, "stack": "HCCL",
            }  # fmt: skip
            store.extend("launch", [row])


def _detect(store: Store, stated: tuple[str, str | None] | None) -> Stack:
    found: dict[str, None] = {}
    versions: tuple[str, ...] = ()
    for job in jobs(store):
        _of_job(job, stated)
        if job.stack and job.stack not in found:
            found[job.stack] = None
        if job.stack in COMPLETE and job.versions:
            versions = tuple(v for v in job.versions if not versions or v in versions) or job.versions
    if stated is not None:
        name, version = stated
        known = (version,) if version else ()
        return _stack((name,), name, known or tuple(v for v in versions if v in registry.releases(name)), stated=True)
    if found:
        names = tuple(found)
        # A DeepSpeed configuration beside a framework's own is part of that.
        main = [name for name in names if name != "DeepSpeed"] or list(names)
        one = len(main) == 1
        return _stack(names, main[0] if one else None, versions, several=not one)
    if any(job.tool == "convert" and job.find("--load-model-type") for job in jobs(store)):
        return _stack((MINDSPEED_LLM,), MINDSPEED_LLM, ())
    seen = _of_logs(store)
    likely = _of_lines(store)
    told = _told_release(store)
    if told is not None and told[0] not in seen and not seen:
        seen = (told[0],)
    if seen:
        first = seen[0] if len(seen) == 1 or seen[0] in _brought(seen[0], seen) else None
        return _stack(tuple(dict.fromkeys([*seen, *(() if first in COMPLETE else likely)])), first, ())
    if not likely and _profiled_by_mindspore(store):
        return _stack(("MindFormers", "MindSpore"), None, ())
    return _stack(likely, likely[0] if len(likely) == 1 else None, ())


def _profiled_by_mindspore(store: Store) -> bool:
    """Whether all captures are of MindSpore's profiler: PyTorch's is used by too many frameworks to tell one."""
    found = {row["framework"] for row in store.rows("prof_captures") if row["framework"] != "cluster"}
    return found == {"mindspore"}


def _told_release(store: Store) -> tuple[str, str] | None:
    """Return the framework that prints its release, and the release; None where none does or they differ."""
    if "stack_release" in store.memo:
        known: tuple[str, str] | None = store.memo["stack_release"]
        return known
    found: set[tuple[str, str]] = set()
    for record in store.log:
        if "version" in record.text or "LLM engine (v" in record.text:
            for pattern, name in _RELEASES:
                match = pattern.search(record.text)
                if match is not None:
                    found.add((name, next(group for group in match.groups() if group)))
    told = store.memo["stack_release"] = found.pop() if len(found) == 1 else None
    return told


def _brought(name: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    """Return `name` in a tuple where all else that was seen comes with it."""
    return (name,) if set(seen) <= {name, *_BRINGS.get(name, ())} else ()


def _stack(
    candidates: tuple[str, ...],
    name: str | None,
    versions: tuple[str, ...],
    *,
    stated: bool = False,
    several: bool = False,
) -> Stack:
    everything = set(candidates)
    for candidate in candidates:
        everything.update(_BRINGS.get(candidate, ()))
    version = versions[0] if len(versions) == 1 and name is not None else None
    kept = versions if name in COMPLETE else ()
    return Stack(name, candidates, version, kept, stated, several, frozenset(everything))


def _of_job(job: Job, stated: tuple[str, str | None] | None) -> None:
    """Set the stack of one command, dump or file."""
    for pattern, name in _ENTRIES:
        if re.search(pattern, job.entry):
            job.stack = name
    if job.stack is None:
        for pattern, name in _KEYS:
            if any(re.match(pattern, key) for key in job.options):
                job.stack = name
                break
    if job.tool:
        return
    flags = [name for name in job.options if name.startswith("--")]
    if job.source == "yaml" or (job.stack is not None and job.stack not in COMPLETE) or not flags:
        return
    if stated is not None and stated[0] in COMPLETE:
        job.stack, job.versions = stated[0], (stated[1],) if stated[1] else _fitting(stated[0], flags)[0]
        return
    if job.stack is None and not (job.source == "dump" or _training(job, flags)):
        return
    llm, score = _fitting(MINDSPEED_LLM, flags)
    megatron, other = _fitting(MEGATRON, flags)
    if job.stack is None:
        if max(score, other) < min(5, len(flags) * 0.5):
            return
        ascend = any(_NPU_MARKS.search(name) for name in (*job.env, *job.variables))
        # A dump also holds what nobody typed; of typed options one that only MindSpeed-LLM has decides.
        margin = 3 if job.source == "dump" else 1
        if job.source == "dump" and score < other + margin and len(flags) < _WHOLE_DUMP:
            return
        job.stack = MINDSPEED_LLM if score >= other + margin or (score == other and ascend) else MEGATRON
    job.versions = llm if job.stack == MINDSPEED_LLM else megatron
    for setting in job.all():
        if (match := _PATH_VERSION.search(setting.value)) and match[1] in registry.releases(MINDSPEED_LLM):
            job.versions = (match[1],) if job.stack == MINDSPEED_LLM else job.versions
    if job.source == "dump":
        # The dump of a release holds more options than the history knows; it tells the stack, not the release.
        job.versions = ()


def _training(job: Job, flags: list[str]) -> bool:
    return bool(re.search(r"(?:pre|post)?train\w*\.py\Z|finetune|_gpt\.py", job.entry)) and len(flags) >= 3


def _fitting(stack: str, flags: list[str]) -> tuple[tuple[str, ...], int]:
    """Return the releases that accept most of `flags`, and how many that is."""
    counts = {
        release: sum(registry.accepts(stack, release, flag) != "no" for flag in flags)
        for release in registry.releases(stack)
    }
    most = max(counts.values(), default=0)
    return tuple(release for release, count in counts.items() if count == most), most


def _of_lines(store: Store) -> tuple[str, ...]:
    """Return the frameworks whose kind of line stands in the logs."""
    out: dict[str, None] = {}
    for table in ("train_steps", "serving"):
        columns = store.columns(table)
        for framework in columns.texts("framework"):
            out.update(dict.fromkeys(_FRAMEWORKS.get(framework, ())))
    return tuple(out)


def _of_logs(store: Store) -> tuple[str, ...]:
    """Return the frameworks whose source files stand in the logs, the one seen most first."""
    counts: dict[str, int] = {}
    patterns = [(re.compile(pattern), name) for pattern, name in _TEXTS]
    for record in store.log[:_RECORDS]:
        if record.kind in ("slog", "kernel-log", "host-log"):
            continue
        text = record.text[:4000]
        for pattern, name in patterns:
            if pattern.search(text):
                counts[name] = counts.get(name, 0) + 1
    ordered = sorted(counts, key=lambda name: -counts[name])
    # A framework names the ones it is built on; they do not name it.
    return tuple(sorted(ordered, key=lambda name: any(name in _BRINGS.get(other, ()) for other in counts)))


def setting_of(store: Store, kind: str, key: str) -> Setting | None:
    """Return where a change would have to be made: the last setting of `key`, scripts before dumps and logs."""
    best: tuple[int, Setting] | None = None
    order = ("script", "yaml", "launcher", "trace", "dump", "log")
    for job in jobs(store):
        found = job.env.get(key) if kind == "env" else job.find(key) or job.launcher.get(key)
        if found is None and kind == "env":
            found = job.variables.get(key)
        if found is None and kind == "config":
            spelled = (key, "--" + key)
            found = next((s for name, s in job.options.items() if name in spelled or name.endswith("." + key)), None)
        if found is not None:
            rank = order.index(found.source) if found.source in order else len(order)
            # An option of a conversion may have the name of one of the training.
            rank += len(order) * bool(job.tool)
            if best is None or rank < best[0]:
                best = (rank, found)
    return best[1] if best else None
