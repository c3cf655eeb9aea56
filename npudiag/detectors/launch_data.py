"""Checks that weights and data fit the launch, by the scripts and logs of the tools that made them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from npudiag.advice import registry
from npudiag.advice.settings import Job, Setting
from npudiag.detectors.launch_hits import Params, found_jobs, hit, judged
from npudiag.detectors.launch_sizes import ROUTE
from npudiag.engine.hits import Hit
from npudiag.result import Evidence

if TYPE_CHECKING:
    from npudiag.tables.store import Store

_LAYOUT = re.compile(r"(?i)(?<![a-z])(tp|pp|ep|cp)[-_]?(\d{1,3})(?![0-9])")
_TARGETS = (
    ("--tensor-model-parallel-size", "--target-tensor-parallel-size"),
    ("--pipeline-model-parallel-size", "--target-pipeline-parallel-size"),
    ("--expert-model-parallel-size", "--target-expert-parallel-size"),
)
"""Option of the launch and of the conversion; both default to 1."""
_ALIKE = ("--num-layers-per-virtual-pipeline-stage", "--num-layer-list", "--noop-layers", "--schedules-method")
"""Options that have to be the same for both."""
_INSTRUCTIONS = re.compile(r"Instruction|Pairwise|Reward")
_SUFFIX = re.compile(r"_(?:text|packed|input_ids|labels|attention_mask|document|sentence)")


def _sure(*settings: Setting | None) -> bool:
    given = [setting for setting in settings if setting is not None]
    return all(setting.known and (setting.sure or setting.source == "dump") for setting in given)


def _plain(setting: Setting | None) -> str:
    """Return a value without quotes and blanks, empty where nothing is set."""
    return re.sub(r"[\s'\"]", "", setting.value) if setting is not None else ""


def _trainings(store: Store) -> list[Job]:
    """Return the training launches, scripts ahead of what the jobs printed."""
    return sorted((job for job in judged(store) if not job.tool), key=lambda job: job.source == "dump")


def _tools(store: Store, tool: str) -> Iterator[Job]:
    for job in found_jobs(store):
        if job.tool == tool:
            yield job


def _events(store: Store, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind; a long training has many others, which are not looked at one by one."""
    columns = store.columns("train_events")
    if kind not in columns.texts("kind"):
        return []
    return [row for row in columns.rows() if row["kind"] == kind]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in PurePosixPath(path.strip("'\"")).parts if part not in (".", "/"))


def _same_folder(one: str, other: str) -> bool:
    """Whether two paths mean the same folder, as far as a relative one can be told."""
    first, second = _parts(one), _parts(other)
    if not first or not second:
        return False
    if one.startswith("/") and other.startswith("/"):
        return first == second
    size = min(len(first), len(second))
    return first[-size:] == second[-size:]


def _conversions(store: Store, training: Job) -> list[Job]:
    """Return the conversions whose output a training loads."""
    load = training.find("--load")
    if load is None or not load.known or training.find("--enable-hf2mg-convert"):
        return []
    return [
        job for job in _tools(store, "convert")
        if (saved := job.find("--save-dir")) is not None and saved.known and _same_folder(load.value, saved.value)
    ]  # fmt: skip


def converted_otherwise(store: Store, params: Params) -> list[Hit]:
    """Weights that were converted for another layout than the launch has."""
    hits: list[Hit] = []
    seen: set[tuple[str, str]] = set()
    for training in _trainings(store):
        for conversion in _conversions(store, training):
            where = [training.find("--load"), conversion.find("--save-dir")]
            shown = [setting for setting in where if setting is not None]
            for option, target in _TARGETS:
                mine, made = training.number(option, 1), conversion.number(target, 1)
                own, other = training.find(option), conversion.find(target)
                if target not in conversion.options and conversion.source == "dump":
                    # A log that names no size does not say that it is 1.
                    continue
                if mine is None or made is None or mine == made or not _sure(own, other):
                    continue
                if (option, str(made)) in seen:
                    continue
                seen.add((option, str(made)))
                settings = [s for s in (own, other) if s is not None] + shown
                hits.append(hit(store, settings, at=own or shown[0], option=option, value=mine, to=made, target=target))
            for option in _ALIKE:
                own, other = training.find(option), conversion.find(option)
                if conversion.source == "dump" and "--load-dir" not in conversion.options:
                    # Only the printed arguments tell what was not given.
                    continue
                wanted = _plain(other)
                if not _sure(own, other) or _plain(own) == wanted:
                    continue
                if (option, wanted) in seen:
                    continue
                seen.add((option, wanted))
                settings = [s for s in (own, other) if s is not None] + shown
                hits.append(
                    hit(
                        store, settings, at=own or shown[0], option=option, value=own.value if own else "-",
                        to=wanted or "-", target=option,
                    )
                )  # fmt: skip
    return hits


def checkpoint_layouts(store: Store, params: Params) -> list[Hit]:
    """Converted weights whose folder names another parallel layout than the launch."""
    hits = []
    for job in judged(store):
        setting = job.find("--load")
        if setting is None or not setting.known or job.source == "dump" or _conversions(store, job):
            continue
        named = {kind.lower(): int(number) for kind, number in _LAYOUT.findall(setting.value)}
        for kind, option in ROUTE.items():
            value, own = job.number(option, 1), job.find(option)
            if kind in named and value is not None and value != named[kind] and (own is None or own.sure):
                where = [setting, *([own] if own is not None else [])]
                hits.append(
                    hit(store, where, option=option, value=value, saved=named[kind], folder=setting.value)
                )  # fmt: skip
    return hits


def _data_paths(training: Job) -> list[str]:
    setting = training.find("--data-path")
    if setting is None or not setting.known:
        return []
    text = re.sub(r"[\[\]',\"]", " ", setting.value)
    return [part for part in text.split() if not re.fullmatch(r"[\d.]+", part)]


def _bare(path: str) -> str:
    return _SUFFIX.split(path.strip("'\""), maxsplit=1)[0]


def _prepared(store: Store, training: Job) -> Iterator[tuple[Job, Setting]]:
    """Yield the preprocessing runs whose output a training reads, with its data path."""
    paths, setting = _data_paths(training), training.find("--data-path")
    for job in _tools(store, "preprocess"):
        prefix = job.find("--output-prefix")
        if prefix is None or not prefix.known or setting is None:
            continue
        # The tool puts kind, key and level behind the prefix; trainings on text name all of it.
        if any(_same_folder(_bare(path), _bare(prefix.value)) for path in paths):
            yield job, setting


def prepared_otherwise(store: Store, params: Params) -> list[Hit]:
    """Data that were prepared for another tokenizer, length or kind of training."""
    hits: list[Hit] = []
    seen: set[str] = set()
    for training in _trainings(store):
        for job, path in _prepared(store, training):
            for check in (_tokenizers, _lengths, _kinds, _packing):
                found = check(training, job)
                if found is None or found[2] in seen:
                    continue
                settings, (en, zh), option, to = found
                if not _sure(*settings):
                    continue
                seen.add(option)
                hits.append(hit(store, [*settings, path], option=option, to=to, en=en, zh=zh))
    return hits


_Found = tuple[Sequence[Setting], tuple[str, str], str, str | None] | None


def _tokenizers(training: Job, job: Job) -> _Found:
    mine, theirs = training.find("--tokenizer-name-or-path"), job.find("--tokenizer-name-or-path")
    if mine is None or theirs is None or not mine.known or not theirs.known:
        return None
    # The same model lies in other folders on other machines.
    if _parts(mine.value)[-1:] == _parts(theirs.value)[-1:]:
        return None
    words = (
        f"the tokenizer {theirs.value} made the data, {mine.value} is given to the training",
        f"数据由 tokenizer {theirs.value} 生成，训练使用的是 {mine.value}",
    )
    return [mine, theirs], words, mine.key, theirs.value


def _lengths(training: Job, job: Job) -> _Found:
    mine, theirs = training.find("--seq-length"), job.find("--seq-length")
    if mine is None or theirs is None or not mine.number or not theirs.number:
        return None
    if job.find("--pack") and mine.number != theirs.number:
        words = (
            f"samples are packed to {theirs.value} tokens, the training takes {mine.value}",
            f"数据按 {theirs.value} 个 token 打包，而训练序列长度为 {mine.value}",
        )
    elif mine.number < theirs.number and job.find("--handler-name"):
        words = (
            f"samples of up to {theirs.value} tokens were kept, the training cuts them at {mine.value}",
            f"数据保留了最长 {theirs.value} 个 token 的样本，训练会截断到 {mine.value}",
        )
    else:
        return None
    return [mine, theirs], words, mine.key, theirs.value


def _kinds(training: Job, job: Job) -> _Found:
    handler, instructed = job.find("--handler-name"), training.find("--is-instruction-dataset")
    if job.source == "dump":
        return None
    tuned = handler is not None and handler.known and bool(_INSTRUCTIONS.search(handler.value))
    if tuned and handler is not None and instructed is None and training.find("--stage") is None:
        words = (
            f"the data are instructions ({handler.value}), and the training is told nothing of it",
            f"数据为指令数据（{handler.value}），而训练未声明",
        )
        return [handler], words, "--is-instruction-dataset", ""
    if instructed is not None and handler is None:
        words = (
            "the data are plain text, and the training expects instructions",
            "数据为纯文本，而训练要求指令数据集",
        )
        return [instructed], words, "--is-instruction-dataset", None
    return None


def _packing(training: Job, job: Job) -> _Found:
    neat = job.find("--neat-pack")
    if neat is None or training.find("--neat-pack") or training.find("--reset-attention-mask"):
        return None
    words = (
        "several samples share a sequence, and nothing keeps attention inside of each",
        "一条序列中打包了多个样本，但未设置各样本间的注意力隔离",
    )
    return [neat], words, "--neat-pack", ""


def small_vocabularies(store: Store, params: Params) -> list[Hit]:
    """A model whose vocabulary ends below that of the tokenizer which made the data."""
    found = [row for row in _events(store, "preprocess") if row["name"] == "vocabulary" and row["value"]]
    if not found:
        return []
    largest = max(found, key=lambda row: float(row["value"]))
    hits = []
    for training in _trainings(store):
        made = [job.file for job, _ in _prepared(store, training)]
        if _data_paths(training) and largest["file"] not in made:
            # It reads other data.
            continue
        for option in ("--padded-vocab-size", "--pad-vocab-size-to", "--vocab-size"):
            setting = training.find(option)
            if setting is None:
                continue
            if setting.number is not None and _sure(setting) and setting.number < float(largest["value"]):
                one = hit(store, [setting], option=option, value=setting.value, vocabulary=int(largest["value"]))
                text = store.quotes.get(largest["file"] or "", {}).get(largest["line"] or 0)
                if text:
                    one.evidence.append(
                        Evidence(kind="log", path=largest["file"] or "", line=largest["line"], text=text)
                    )
                hits.append(one)
            break
    return hits[:1]


def incomplete_conversions(store: Store, params: Params) -> list[Hit]:
    """Conversions that saved fewer parts than their layout has, and did not come to their end."""
    parts: dict[str, tuple[int, int | None]] = {}
    ended: set[str] = set()
    for row in _events(store, "convert"):
        if row["name"] == "parts" and row["value"]:
            parts[row["file"] or ""] = (int(row["value"]), row["line"])
        elif row["name"] == "seconds":
            ended.add(row["file"] or "")
    hits = []
    for job in _tools(store, "convert"):
        saved = parts.get(job.file)
        if job.source != "dump" or saved is None or job.file in ended or job.find("--expert-tensor-parallel-size"):
            continue
        sizes = [job.number(target, 1) for _, target in _TARGETS]
        if any(size is None for size in sizes) or "--load-dir" not in job.options:
            continue
        expected = 1
        for size in sizes:
            expected *= size or 1
        folder = job.find("--save-dir")
        if saved[0] < expected and folder is not None:
            hits.append(hit(store, [folder], saved=saved[0], expected=expected, folder=folder.value))
    return hits


def misspelt_tool_options(store: Store, params: Params) -> list[Hit]:
    """Options that MindSpeed-LLM's ``preprocess_data.py`` does not have; it takes abbreviations."""
    hits = []
    known = registry.names(registry.MINDSPEED_LLM)
    for job in _tools(store, "preprocess"):
        if job.source != "script":
            continue
        for setting in job.options.values():
            name = setting.key
            if not name.startswith("--") or registry.invented_name(name):
                continue
            if registry.accepts(registry.MINDSPEED_LLM, None, name) != "no" or any(
                option.startswith(name) for option in known
            ):
                continue
            near = registry.nearest(name, registry.MINDSPEED_LLM)
            if not near:
                continue
            # Megatron-LM's own tool of that name has options of its own; only a near miss is a mistake.
            hits.append(
                hit(store, [setting], renamed=True, option=name, nearest=near[0], value=setting.value, tool=job.entry)
            )
    return hits
