"""Checks of launch scripts, argument dumps and configurations: what the framework would refuse or silently change.

Every check yields one finding per fault, with the line it stands in. Scripts of stacks whose option lists are not
complete are judged by what is known only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry, stack
from npudiag.advice.settings import Job, Setting, jobs
from npudiag.engine.hits import Hit
from npudiag.result import Evidence, Place

if TYPE_CHECKING:
    from npudiag.tables.store import Store

Params = Mapping[str, Any]

_PLACEHOLDER = re.compile(
    r"(?i)\byour[ _-](?:[\w.]+[ _-]){0,4}(?:path|dir|directory|file|name|model|data|tokenizer|ckpt|checkpoint|ip"
    r"|addr\w*|key|token|prefix|output)\b|\bplease[ _](?:fill|set|input|modify)"
    r"|<(?:your|path|ip|model|data|tokenizer)\b[^>]*>"
    r"|\b(?:path|model|ckpt|data)/to/(?:your/)?\w+|\bxxx+\b|\bx\.x\.x\.x\b|\bTODO\b|\bCHANGE[_ ]?ME\b"
)
_TRAINING = re.compile(r"(?:pre|post)train_\w+\.py\Z")
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_LAYOUT = re.compile(r"(?i)(?<![a-z])(tp|pp|ep|cp)[-_]?(\d{1,3})(?![0-9])")
_ROUTE = {
    "tp": "--tensor-model-parallel-size", "pp": "--pipeline-model-parallel-size",
    "ep": "--expert-model-parallel-size",
}  # fmt: skip


def _text(store: Store, setting: Setting, line: int) -> str:
    kept = store.quotes.get(setting.file, {}).get(line)
    return kept if kept is not None else f"{setting.key} {setting.value}".strip()


def _hit(
    store: Store, settings: Sequence[Setting], at: Setting | None = None, *, renamed: bool = False, **captures: Any
) -> Hit:
    """Return a hit that shows where `settings` stand.

    Args:
        store: The tables.
        settings: What the finding is about.
        at: The one to change, by default the first.
        renamed: Whether its name has to change, not its value.
        captures: Values for the texts; ``x_en`` and ``x_zh`` become the words ``x``, ``en`` and ``zh`` become ``fact``.
    """
    evidence: list[Evidence] = []
    seen: set[tuple[str, int]] = set()
    for setting in settings:
        for line in (setting.line, setting.origin):
            if (setting.file, line) in seen or not setting.file:
                continue
            seen.add((setting.file, line))
            text = _text(store, setting, line)
            marks = [mark for mark in (setting.key, setting.value) if mark and mark in text and len(mark) < 120]
            evidence.append(Evidence(kind="log", path=setting.file, line=line, text=text, highlights=marks))
    words = {
        name[:-3] or "fact": (captures.pop(name), captures.pop(name[:-3] + "_zh"))
        for name in [name for name in captures if name.endswith("_en")]
    }
    if "en" in captures:
        words["fact"] = (captures.pop("en"), captures.pop("zh"))
    target = at or (settings[0] if settings else None)
    place = None
    if target is not None and target.file and target.source in ("script", "yaml", "launcher"):
        place = Place(path=target.file, line=target.line if renamed else target.origin)
        captures.setdefault("file", target.file)
        captures.setdefault("line", target.line)
    known = {name: value for name, value in captures.items() if value is not None}
    return Hit(evidence=evidence[:6], captures=known, at=place, words=words)


def _jobs(store: Store) -> list[Job]:
    stack.of(store)
    return jobs(store)


def _judged(store: Store) -> Iterator[Job]:
    """Yield the jobs whose stack has a complete option list."""
    for job in _jobs(store):
        if job.stack in registry.COMPLETE and job.source != "yaml":
            yield job


def _typed(job: Job) -> Iterator[Setting]:
    """Yield options that somebody typed; what a job dumped was accepted."""
    if job.source == "script":
        for setting in job.options.values():
            if setting.key.startswith("--"):
                yield setting


def _versions(store: Store, job: Job) -> tuple[str, ...]:
    found = stack.of(store)
    if found.stated and found.version and job.stack == found.name:
        return (found.version,)
    return job.versions


def _modern(store: Store, job: Job) -> bool:
    """Whether the release may be one whose choices and checks are known; they are those of 2.2.0 and later."""
    if job.stack != registry.MINDSPEED_LLM:
        return True
    every, versions = registry.releases(registry.MINDSPEED_LLM), _versions(store, job)
    return not versions or every.index(versions[-1]) >= every.index("2.2.0")


# -- options


def unknown_options(store: Store, params: Params) -> list[Hit]:
    """Options that no release of the framework accepts."""
    hits = []
    for job in _judged(store):
        for setting in _typed(job):
            if registry.invented_name(setting.key):
                continue
            misplaced = bool(_TRAINING.search(job.entry)) and registry.of_tools_only(setting.key)
            if registry.accepts(job.stack or "", None, setting.key) != "no" and not misplaced:
                continue
            near = [] if misplaced else registry.nearest(setting.key, job.stack)
            known = near[0] if near else None
            entry = registry.lookup(known, job.stack) if known else None
            taken = known is not None and known in job.options
            hits.append(
                _hit(
                    store, [setting], renamed=True, option=setting.key, stack=job.stack,
                    nearest=None if taken else known, given=known if taken else None,
                    value="" if entry is not None and entry.type == "flag" else setting.value,
                )
            )  # fmt: skip
    return hits


def invented_options(store: Store, params: Params) -> list[Hit]:
    """Options that articles made up."""
    hits = []
    for job in _jobs(store):
        for setting in _typed(job):
            found = registry.invented_name(setting.key)
            if found is None or registry.accepts(job.stack or "", None, setting.key) == "yes":
                continue
            name, entry = found
            kind, key, value = entry.change or (None, None, None)
            hits.append(
                _hit(
                    store, [setting], renamed=True, option=setting.key, name=name, stack=job.stack or "",
                    meant_en=entry.meant.en, meant_zh=entry.meant.zh,
                    instead_en=entry.instead.en, instead_zh=entry.instead.zh,
                    env=key if kind == "env" else None, flag=key if kind == "flag" else None,
                    config=key if kind == "config" else None, to=value,
                )
            )  # fmt: skip
    return hits


def options_not_in_release(store: Store, params: Params) -> list[Hit]:
    """Options that other releases accept, and the one in use does not."""
    hits = []
    for job in _judged(store):
        name = job.stack or ""
        versions = _versions(store, job)
        if not versions or len(versions) == len(registry.releases(name)):
            continue
        stated = stack.of(store).stated
        for setting in _typed(job):
            if any(registry.accepts(name, version, setting.key) != "no" for version in versions):
                continue
            accepted = [v for v in registry.releases(name) if registry.accepts(name, v, setting.key) == "yes"]
            if not accepted:
                continue
            every = registry.releases(name)
            gone = every.index(accepted[-1]) < every.index(versions[0])
            hits.append(
                _hit(
                    store, [setting], option=setting.key, stack=name,
                    version=versions[0] if len(versions) == 1 else f"{versions[0]} - {versions[-1]}",
                    since=None if gone else accepted[0], until=accepted[-1] if gone else None,
                    guessed=None if stated else "",
                )
            )  # fmt: skip
    return hits


def repeated_options(store: Store, params: Params) -> list[Hit]:
    """Options given twice with different values: the last one counts."""
    hits = []
    for job in _judged(store):
        for first, last in job.repeated:
            if first.known and last.known:
                hits.append(_hit(store, [first, last], option=last.key, first_value=first.value, last_value=last.value))
    return hits


def broken_lines(store: Store, params: Params) -> list[Hit]:
    """Options that fall out of the command: a backslash is missing, or a blank follows it."""
    hits = []
    for job in _jobs(store):
        for setting in job.breaks[:20]:
            hits.append(
                _hit(
                    store,
                    [setting],
                    word=setting.key,
                    why_en="the line above does not end in a backslash",
                    why_zh="上一行末尾缺少反斜杠",
                )
            )
        if job.stack not in registry.COMPLETE:
            continue
        for setting in job.words[:20]:
            if setting.key == "\\":
                hits.append(
                    _hit(store, [setting], word="\\", why_en="a blank follows the backslash", why_zh="反斜杠后有空格")
                )
            elif setting.key == "#":
                hits.append(
                    _hit(
                        store,
                        [setting],
                        word="#",
                        why_en="a comment inside quotes is no comment",
                        why_zh="引号内的 # 不是注释",
                    )
                )
    return hits


# -- values


def wrong_choices(store: Store, params: Params) -> list[Hit]:
    """Values that the option does not take."""
    import difflib

    hits = []
    for job in _jobs(store):
        if job.stack is None or not _modern(store, job):
            continue
        for setting in _typed(job):
            if not setting.known or not setting.value:
                continue
            entry = registry.lookup(setting.key, job.stack)
            if entry is None or not entry.choices or setting.value.strip("'\"") in entry.choices:
                continue
            if not set(setting.value.split()) - set(entry.choices):
                continue
            near = difflib.get_close_matches(setting.value, entry.choices, n=1)
            hits.append(
                _hit(
                    store, [setting], option=setting.key, value=setting.value, allowed=", ".join(entry.choices[:12]),
                    nearest=near[0] if near else None,
                )
            )  # fmt: skip
    return hits


def wrong_types(store: Store, params: Params) -> list[Hit]:
    """Values of the wrong kind: no number where one is needed, no value, or one too many."""
    hits = []
    for job in _judged(store):
        for setting in _typed(job) if _modern(store, job) else ():
            entry = registry.lookup(setting.key, job.stack)
            if entry is None or not setting.known:
                continue
            value = setting.value.strip("'\"")
            if entry.type in ("int", "float") and not value:
                wanted = ("a number", "一个数值")
            elif entry.type == "int" and value and not all(re.fullmatch(r"[-+]?\d+", part) for part in value.split()):
                wanted = ("a whole number", "整数")
            elif entry.type == "float" and value and any(not _float(part) for part in value.split()):
                wanted = ("a number", "数值")
            elif entry.type == "flag" and value:
                wanted = ("no value", "不带值")
            else:
                continue
            hits.append(
                _hit(
                    store, [setting], option=setting.key, value=value or None, wanted_en=wanted[0], wanted_zh=wanted[1]
                )
            )
    return hits


def _float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def placeholders(store: Store, params: Params) -> list[Hit]:
    """Values that say that somebody should have filled them in."""
    hits = []
    for job in _jobs(store):
        if job.source == "dump":
            continue
        seen: set[int] = set()
        for setting in (*job.options.values(), *job.env.values(), *job.launcher.values()):
            match = _PLACEHOLDER.search(setting.value)
            if match and setting.known and setting.origin not in seen:
                seen.add(setting.origin)
                hits.append(_hit(store, [setting], option=setting.key, value=setting.value[:120]))
    return hits


# -- constraints


def _constrained(store: Store, effect: str) -> Iterator[tuple[Job, registry.Constraint, list[str], list[str]]]:
    """Yield constraints that are not met: job, constraint, what is missing, what is in the way."""
    for job in _judged(store):
        for item in registry.constraints(job.stack or ""):
            if registry.MEGATRON not in item.stacks and not _modern(store, job):
                continue
            if item.effect != effect or not all(job.holds(term) for term in item.when):
                continue
            settings = job.where(*item.when)
            if not settings or not all(setting.sure or setting.source == "dump" for setting in settings):
                continue
            missing = [term for term in item.need if job.holds(term) is False]
            # Defaults of the frameworks on NPUs are not always those of Megatron: only what is given is in the way.
            denied = [term for term in item.deny if job.holds(term) and job.where(term)]
            if job.source == "dump" and effect == "refused":
                # It did start; what a dump shows was changed by the framework's own checks.
                continue
            if missing or denied:
                yield job, item, missing, denied


def conflicts(store: Store, params: Params) -> list[Hit]:
    """Options that the framework refuses together."""
    hits = []
    for job, item, _, denied in _constrained(store, "refused"):
        for term in denied:
            settings = job.where(*item.when)
            other = job.where(term)
            if other and not all(setting.sure for setting in other):
                continue
            hits.append(
                _hit(
                    store, [*settings, *other], at=other[0] if other else None,
                    option=_shown(item.when), other=_shown((term,)), stack=job.stack,
                )
            )  # fmt: skip
    return hits


def missing_companions(store: Store, params: Params) -> list[Hit]:
    """Options that do not work without others that are not given."""
    hits = []
    for job, item, missing, _ in _constrained(store, "refused"):
        for term in missing:
            plain = re.fullmatch(r"--[\w-]+", term) is not None
            entry = registry.lookup(term, job.stack) if plain else None
            hits.append(
                _hit(
                    store, [*job.where(*item.when), *job.where(term)], option=_shown(item.when), needed=_shown((term,)),
                    add=term if entry is not None and entry.type == "flag" else None, stack=job.stack,
                )
            )  # fmt: skip
    return hits


def overrides(store: Store, params: Params) -> list[Hit]:
    """Options that the framework changes silently, or that do harm in company."""
    hits = []
    for effect in ("override", "warning"):
        for job, item, missing, denied in _constrained(store, effect):
            if job.source == "dump" and effect == "override":
                continue
            settings = [*job.where(*item.when), *job.where(*denied)]
            en = item.en or f"{_shown(item.when)} is meant to go with {_shown(tuple(missing))}"
            zh = item.zh or f"{_shown(item.when)} 应与 {_shown(tuple(missing))} 同时使用"
            shown = job.where(*denied) or settings
            hits.append(_hit(store, settings, at=shown[0], option=shown[0].key, en=en, zh=zh))
    return hits


def _shown(terms: Sequence[str]) -> str:
    out = []
    for term in terms:
        parts = [re.sub(r"(?<!!)=", " ", part) for part in term.split("|")]
        out.append(" | ".join(parts))
    return ", ".join(out)


# -- arithmetic


def _sizes(job: Job) -> dict[str, int] | None:
    """Return parallel sizes by short name; None where one is not known."""
    out: dict[str, int] = {}
    for short, option in (*_ROUTE.items(), ("cp", "--context-parallel-size")):
        setting = job.find(option)
        value = job.number(option, 1)
        if value is None or value < 1 or (setting is not None and not setting.sure):
            return None
        out[short] = value
    return out


def _at(job: Job, *options: str) -> list[Setting]:
    return [setting for option in options if (setting := job.find(option) or job.launcher.get(option)) is not None]


def world_sizes(store: Store, params: Params) -> list[Hit]:
    """Parallel sizes whose product does not divide the number of ranks."""
    hits = []
    for job in _judged(store):
        sizes, world = _sizes(job), job.world
        if sizes is None or world is None or job.source == "dump":
            continue
        if job.find("--use-torch-fsdp2") or job.find("--tp-2d"):
            continue
        product = sizes["tp"] * sizes["pp"] * sizes["cp"]
        if product < 2 or world % product == 0:
            continue
        where = _at(
            job, "--pipeline-model-parallel-size", "--tensor-model-parallel-size", "--context-parallel-size",
            "--nproc_per_node", "--nnodes",
        )  # fmt: skip
        hits.append(
            _hit(
                store,
                where,
                world=world,
                product=product,
                tp=sizes["tp"],
                pp=sizes["pp"],
                cp=sizes["cp"],
                stack=job.stack,
            )
        )
    return hits


def layer_splits(store: Store, params: Params) -> list[Hit]:
    """Layers that cannot be dealt out to pipeline stages evenly."""
    hits = []
    for job in _judged(store):
        sizes, layers = _sizes(job), job.number("--num-layers")
        setting = job.find("--num-layers")
        if sizes is None or not layers or setting is None or not setting.sure or job.source == "dump":
            continue
        stages = sizes["pp"]
        listed = job.find("--num-layer-list")
        if listed is not None:
            numbers = [int(part) for part in re.findall(r"\d+", listed.value)]
            if listed.known and numbers and (sum(numbers) != layers or len(numbers) != stages):
                hits.append(
                    _hit(
                        store, [listed, setting, *_at(job, "--pipeline-model-parallel-size")], layers=layers, pp=stages,
                        en=f"--num-layer-list has {len(numbers)} entries with {sum(numbers)} layers",
                        zh=f"--num-layer-list 共 {len(numbers)} 项、{sum(numbers)} 层",
                    )
                )  # fmt: skip
            continue
        uneven = (
            "--noop-layers", "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
            "--pipeline-model-parallel-layout", "--pipeline-num-transformer-layers", "--mtp-num-layers",
            "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "--use-torch-fsdp2",
            "--schedules-method",
        )  # fmt: skip
        if any(job.find(option) for option in uneven):
            continue
        where = [setting, *_at(job, "--pipeline-model-parallel-size", "--num-layers-per-virtual-pipeline-stage")]
        chunk = job.number("--num-layers-per-virtual-pipeline-stage", 0)
        if layers % stages:
            hits.append(
                _hit(
                    store, where, layers=layers, pp=stages, en=f"{layers} layers, {stages} pipeline stages",
                    zh=f"{layers} 层，{stages} 个流水线 stage",
                )
            )  # fmt: skip
        elif chunk and stages > 1 and layers // stages % chunk:
            hits.append(
                _hit(
                    store, where, layers=layers, pp=stages,
                    en=f"{layers // stages} layers per stage, virtual stages of {chunk}",
                    zh=f"每个 stage {layers // stages} 层，虚拟 stage 每块 {chunk} 层",
                )
            )  # fmt: skip
    return hits


def head_splits(store: Store, params: Params) -> list[Hit]:
    """Attention heads that cannot be dealt out, and hidden sizes that heads do not divide."""
    hits = []
    for job in _judged(store):
        sizes, heads = _sizes(job), job.number("--num-attention-heads")
        setting = job.find("--num-attention-heads")
        if sizes is None or not heads or setting is None or not setting.sure or job.source == "dump":
            continue
        where = [setting, *_at(job, "--tensor-model-parallel-size", "--context-parallel-size", "--num-query-groups")]
        algorithm = job.find("--context-parallel-algo")
        hidden, groups = job.number("--hidden-size"), job.number("--num-query-groups")
        ulysses = sizes["cp"] > 1 and (algorithm.value if algorithm else "ulysses_cp_algo") == "ulysses_cp_algo"
        found: tuple[str, str] | None = None
        if heads % sizes["tp"]:
            found = (
                f"{heads} heads, tensor parallel size {sizes['tp']}",
                f"{heads} 个注意力头，张量并行度 {sizes['tp']}",
            )
        elif ulysses and algorithm is not None and heads % (sizes["tp"] * sizes["cp"]):
            both = sizes["tp"] * sizes["cp"]
            found = (
                f"{heads} heads, tensor times Ulysses size {both}",
                f"{heads} 个注意力头，张量并行与 Ulysses 乘积 {both}",
            )
        elif groups and job.find("--group-query-attention") and groups % sizes["tp"] and sizes["tp"] % groups:
            found = (
                f"{groups} query groups, tensor parallel size {sizes['tp']}",
                f"{groups} 个 query group，张量并行度 {sizes['tp']}",
            )
        elif hidden and hidden % heads and not job.find("--kv-channels") and not job.find("--multi-latent-attention"):
            found = f"hidden size {hidden}, {heads} heads", f"hidden size {hidden}，{heads} 个注意力头"
            where += _at(job, "--hidden-size")
        if found:
            hits.append(_hit(store, where, heads=heads, en=found[0], zh=found[1]))
    return hits


def batch_sizes(store: Store, params: Params) -> list[Hit]:
    """Global batches that are no multiple of what the ranks take at once."""
    hits = []
    for job in _judged(store):
        sizes, world = _sizes(job), job.world
        total, each = job.number("--global-batch-size"), job.number("--micro-batch-size")
        where = _at(job, "--global-batch-size", "--micro-batch-size")
        if sizes is None or world is None or not total or not each or not all(s.sure for s in where):
            continue
        product = sizes["tp"] * sizes["pp"] * sizes["cp"]
        if world % product or job.source == "dump" or job.find("--rampup-batch-size"):
            continue
        share = world // product
        if total % (each * share):
            unit = each * share
            better = max(unit, (total + unit // 2) // unit * unit)
            hits.append(_hit(store, where, total=total, each=each, dp=share, unit=unit, better=better))
    return hits


def expert_splits(store: Store, params: Params) -> list[Hit]:
    """Experts that cannot be dealt out over the expert parallel ranks."""
    hits = []
    for job in _judged(store):
        sizes, experts = _sizes(job), job.number("--num-experts")
        setting = job.find("--num-experts")
        if sizes is None or not experts or setting is None or not setting.sure or job.source == "dump":
            continue
        top = job.number("--moe-router-topk")
        where = [setting, *_at(job, "--expert-model-parallel-size", "--moe-router-topk")]
        if experts % sizes["ep"]:
            en, zh = (
                f"{experts} experts, expert parallel size {sizes['ep']}",
                f"{experts} 个专家，专家并行度 {sizes['ep']}",
            )
        elif top and top > experts:
            en, zh = f"{experts} experts, top {top} of them", f"{experts} 个专家，却选择 top {top}"
        else:
            continue
        hits.append(_hit(store, where, experts=experts, en=en, zh=zh))
    return hits


def sequence_splits(store: Store, params: Params) -> list[Hit]:
    """Sequences that cannot be split, or are longer than the positions."""
    hits = []
    for job in _judged(store):
        sizes, length = _sizes(job), job.number("--seq-length")
        setting = job.find("--seq-length")
        if sizes is None or not length or setting is None or not setting.sure or job.source == "dump":
            continue
        positions = job.number("--max-position-embeddings", 0)
        algorithm = job.find("--context-parallel-algo")
        ring = sizes["cp"] > 1 and (algorithm is None or algorithm.value == "megatron_cp_algo")
        where = [
            setting,
            *_at(job, "--context-parallel-size", "--max-position-embeddings", "--tensor-model-parallel-size"),
        ]
        if positions and positions < length:
            en = f"sequences of {length} tokens, {positions} positions"
            zh = f"序列长度 {length}，位置编码仅 {positions}"
        elif ring and length % (2 * sizes["cp"]):
            en = f"sequences of {length} tokens, twice the context parallel size is {2 * sizes['cp']}"
            zh = f"序列长度 {length}，上下文并行度的两倍为 {2 * sizes['cp']}"
        elif sizes["cp"] > 1 and length % sizes["cp"]:
            en = f"sequences of {length} tokens, context parallel size {sizes['cp']}"
            zh = f"序列长度 {length}，上下文并行度 {sizes['cp']}"
        elif job.find("--sequence-parallel") and length % sizes["tp"] and not job.find("--variable-seq-lengths"):
            en = f"sequences of {length} tokens, tensor parallel size {sizes['tp']} with --sequence-parallel"
            zh = f"序列长度 {length}，启用 --sequence-parallel 的张量并行度 {sizes['tp']}"
        else:
            continue
        hits.append(_hit(store, where, length=length, en=en, zh=zh))
    return hits


def learning_rates(store: Store, params: Params) -> list[Hit]:
    """Learning-rate schedules that end before they begin."""
    hits = []
    for job in _judged(store):
        if job.source == "dump":
            continue
        high, low = job.find("--lr"), job.find("--min-lr")
        steps, warm = job.find("--train-iters"), job.find("--lr-warmup-iters")
        if high and low and high.number is not None and low.number is not None and low.number > high.number:
            hits.append(
                _hit(
                    store, [low, high], en=f"--min-lr {low.value} is above --lr {high.value}",
                    zh=f"--min-lr {low.value} 大于 --lr {high.value}",
                )
            )  # fmt: skip
        elif steps and warm and steps.number and warm.number is not None and warm.number >= steps.number > 0:
            hits.append(
                _hit(
                    store, [warm, steps], en=f"warm-up of {warm.value} steps, {steps.value} steps in all",
                    zh=f"预热 {warm.value} 步，而总步数为 {steps.value}",
                )
            )  # fmt: skip
    return hits


def checkpoint_layouts(store: Store, params: Params) -> list[Hit]:
    """Converted weights whose folder names another parallel layout than the launch."""
    hits = []
    for job in _judged(store):
        setting = job.find("--load")
        if setting is None or not setting.known or job.source == "dump":
            continue
        named = {kind.lower(): int(number) for kind, number in _LAYOUT.findall(setting.value)}
        for kind, option in _ROUTE.items():
            value, own = job.number(option, 1), job.find(option)
            if kind in named and value is not None and value != named[kind] and (own is None or own.sure):
                hits.append(
                    _hit(
                        store, [setting, *_at(job, option)], option=option, value=value, saved=named[kind],
                        folder=setting.value,
                    )
                )  # fmt: skip
    return hits


# -- leftovers and variables


def left_on(store: Store, params: Params) -> list[Hit]:
    """Options and variables that belong to debugging: `params["key"]`, set to one of `params["values"]`."""
    key, values = str(params["key"]), [str(value) for value in params.get("values", [])]
    hits = []
    seen: set[tuple[str, int]] = set()
    for job in _jobs(store):
        for name in key.split("|"):
            setting = job.env.get(name) if not name.startswith("-") else job.find(name)
            if setting is None or not setting.known or (setting.file, setting.line) in seen:
                continue
            if params.get("scripts_only") and setting.source != "script":
                continue
            value = setting.value.strip("'\"").lower()
            if values and value not in values:
                continue
            if not values and value in ("false", "0", "none"):
                continue
            seen.add((setting.file, setting.line))
            hits.append(_hit(store, [setting], option=name, value=setting.value or None))
    return hits


def master_addresses(store: Store, params: Params) -> list[Hit]:
    """Several nodes that are all told to find the master on themselves."""
    hits = []
    for job in _jobs(store):
        nodes = job.launcher.get("--nnodes")
        master = job.launcher.get("--master_addr") or job.launcher.get("--master-addr") or job.env.get("MASTER_ADDR")
        if nodes is None or master is None or nodes.number is None or not master.known:
            continue
        if nodes.number > 1 and nodes.sure and master.value in _LOCAL:
            hits.append(_hit(store, [master, nodes], address=master.value, nnodes=int(nodes.number)))
    return hits


def misspelt_variables(store: Store, params: Params) -> list[Hit]:
    """Variables that nothing reads and that are nearly the name of one that something does."""
    import difflib

    hits = []
    known = registry.variables()
    names = [
        name for name in known if re.match(r"ASCEND_|HCCL_|ACL_|TASK_|CPU_AFF|PYTORCH_NPU|MULTI_STREAM|TORCH_", name)
    ]
    for job in _jobs(store):
        for name, setting in job.env.items():
            if name in known or not re.match(r"A?SCEND|HC?CL|ACL|TASK|CPU_AFF|PYTORCH_NPU|MULTI_STREAM|TORCH_", name):
                continue
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.9)
            if near and near[0] not in job.env and abs(len(near[0]) - len(name)) <= 2 and _typo(name, near[0]):
                hits.append(_hit(store, [setting], renamed=True, variable=name, nearest=near[0], value=setting.value))
    return _once(hits)


def _typo(given: str, known: str) -> bool:
    """Whether two names differ by letters only, not by a whole word that makes another name."""
    return len(given.split("_")) == len(known.split("_")) or given.replace("_", "") == known.replace("_", "")


def _once(hits: list[Hit]) -> list[Hit]:
    seen: set[Any] = set()
    out = []
    for hit in hits:
        place = (hit.evidence[0].path, hit.evidence[0].line) if hit.evidence else id(hit)
        if place not in seen:
            seen.add(place)
            out.append(hit)
    return out


_RANGES: dict[str, tuple[float, float]] = {
    "HCCL_CONNECT_TIMEOUT": (120, 7200), "HCCL_EXEC_TIMEOUT": (0, 2147483647), "HCCL_RDMA_SL": (0, 7),
    "HCCL_RDMA_TC": (0, 255), "HCCL_RDMA_TIMEOUT": (5, 24), "HCCL_RDMA_RETRY_CNT": (1, 7), "HCCL_BUFFSIZE": (1, 1e6),
    "HCCL_RDMA_QPS_PER_CONNECTION": (1, 32), "HCCL_IF_BASE_PORT": (1024, 65520), "TASK_QUEUE_ENABLE": (0, 2),
    "ASCEND_GLOBAL_LOG_LEVEL": (0, 4), "MULTI_STREAM_MEMORY_REUSE": (0, 3), "ASCEND_LAUNCH_BLOCKING": (0, 1),
}  # fmt: skip


def variable_ranges(store: Store, params: Params) -> list[Hit]:
    """Variables whose value lies outside of what is read."""
    hits = []
    for job in _jobs(store):
        for name, (low, high) in _RANGES.items():
            setting = job.env.get(name)
            if setting is None or not setting.known or not setting.value:
                continue
            number = setting.number
            if number is None or not low <= number <= high or (name == "HCCL_RDMA_TC" and number % 4):
                allowed = f"{low:.0f} - {high:.0f}" + (", multiple of 4" if name == "HCCL_RDMA_TC" else "")
                hits.append(_hit(store, [setting], variable=name, value=setting.value, allowed=allowed))
    return _once(hits)


def timeout_order(store: Store, params: Params) -> list[Hit]:
    """Timeouts that fire before the ones they should outlast."""
    hits = []
    for job in _jobs(store):
        for inner, outer, default in (
            ("HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", 1836.0),
            ("HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT", None),
        ):
            first, second = job.env.get(inner), job.env.get(outer)
            if first is None or first.number is None:
                continue
            limit = second.number if second is not None else default
            if limit is not None and limit > 0 and first.number >= limit:
                where = [first, *([second] if second else [])]
                hits.append(
                    _hit(store, where, at=second, inner=inner, outer=outer, value=int(first.number), limit=int(limit))
                )
    return _once(hits)


def allocator_conflicts(store: Store, params: Params) -> list[Hit]:
    """Allocator settings that exclude each other."""
    hits = []
    for job in _jobs(store):
        setting, other = job.env.get("PYTORCH_NPU_ALLOC_CONF"), job.env.get("PYTORCH_ALLOC_CONF")
        if setting is not None and other is not None:
            en, zh = (
                "PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set",
                "同时设置了 PYTORCH_NPU_ALLOC_CONF 与 PYTORCH_ALLOC_CONF",
            )
            hits.append(_hit(store, [setting, other], en=en, zh=zh))
        text = setting.value.replace(" ", "") if setting is not None and setting.known else ""
        if setting is not None and "expandable_segments:True" in text:
            for key in ("max_split_size_mb", "garbage_collection_threshold"):
                if key in text:
                    en, zh = f"expandable_segments:True excludes {key}", f"expandable_segments:True 与 {key} 互斥"
                    hits.append(_hit(store, [setting], en=en, zh=zh, conf="expandable_segments:True"))
                    break
    return _once(hits)


def connection_limits(store: Store, params: Params) -> list[Hit]:
    """CUDA_DEVICE_MAX_CONNECTIONS against what the kind of parallelism wants."""
    hits = []
    for job in _judged(store):
        setting = job.env.get("CUDA_DEVICE_MAX_CONNECTIONS")
        sharded = job.find("--use-torch-fsdp2") or job.find("--use-custom-fsdp")
        if setting is None or not setting.known:
            continue
        if sharded and setting.value == "1":
            en, zh = f"it must not be 1 with {sharded.key}", f"使用 {sharded.key} 时不能为 1"
            hits.append(_hit(store, [setting, sharded], en=en, zh=zh, to="2", value="1"))
        elif (
            not sharded
            and setting.value != "1"
            and (sizes := _sizes(job))
            and sizes["tp"] > 1
            and job.find("--sequence-parallel")
        ):
            en, zh = "it must be 1 with tensor and sequence parallelism", "使用张量并行与序列并行时必须为 1"
            hits.append(_hit(store, [setting], en=en, zh=zh, to="1", value=setting.value))
    return _once(hits)


# -- serving


def token_budgets(store: Store, params: Params) -> list[Hit]:
    """Token budgets of a vLLM engine step that cannot hold what they have to."""
    hits = []
    for job in _jobs(store):
        if job.stack not in ("vllm", "vllm-ascend"):
            continue
        budget, sequences = job.find("--max-num-batched-tokens"), job.find("--max-num-seqs")
        length, chunked = job.find("--max-model-len"), job.find("--no-enable-chunked-prefill")
        if budget is None or not budget.number:
            continue
        if sequences is not None and sequences.number and budget.number < sequences.number:
            en = f"{budget.value} tokens per step, {sequences.value} sequences"
            zh = f"每步 {budget.value} 个 token，{sequences.value} 个序列"
            hits.append(_hit(store, [budget, sequences], en=en, zh=zh, need=int(sequences.number)))
        elif chunked is not None and length is not None and length.number and budget.number < length.number:
            en = f"{budget.value} tokens per step, requests of {length.value}, no chunked prefill"
            zh = f"每步 {budget.value} 个 token，请求最长 {length.value}，且未启用 chunked prefill"
            hits.append(_hit(store, [budget, length, chunked], en=en, zh=zh, need=int(length.number)))
    return hits


def mindie_budgets(store: Store, params: Params) -> list[Hit]:
    """Token limits of a MindIE configuration that contradict each other."""
    hits = []
    for job in _jobs(store):
        if job.stack != "MindIE" or job.source != "yaml":
            continue
        by_name = {key.rpartition(".")[2]: setting for key, setting in job.options.items()}
        prefill, longest, whole = (by_name.get(k) for k in ("maxPrefillTokens", "maxInputTokenLen", "maxSeqLen"))
        if longest and whole and longest.number and whole.number and longest.number > whole.number:
            en = f"maxInputTokenLen {longest.value} is above maxSeqLen {whole.value}"
            zh = f"maxInputTokenLen {longest.value} 大于 maxSeqLen {whole.value}"
            hits.append(_hit(store, [whole, longest], en=en, zh=zh, key="maxSeqLen", need=int(longest.number)))
        elif prefill and longest and prefill.number and longest.number and prefill.number < longest.number:
            en = f"maxPrefillTokens {prefill.value} is below maxInputTokenLen {longest.value}"
            zh = f"maxPrefillTokens {prefill.value} 小于 maxInputTokenLen {longest.value}"
            hits.append(_hit(store, [prefill, longest], en=en, zh=zh, key="maxPrefillTokens", need=int(longest.number)))
    return hits
