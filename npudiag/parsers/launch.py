"""Launch scripts and configuration files: which options and variables a job was given, and where.

Scripts are read, never run (`npudiag.parsers.shell`). Every option, exported variable and configuration key becomes
a row of table ``launch``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from npudiag.errors import SourceError
from npudiag.parsers.base import Context, Partial, Stream
from npudiag.tables.columns import Columns

if TYPE_CHECKING:
    from npudiag.parsers.shell import Command, Script, Word

MAX_BYTES = 2 << 20
"""Largest file that is read as a script or configuration."""
_ROWS = 6000
_VALUE = 2000
_QUOTE = 900

_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|slurm|sbatch)\Z", re.IGNORECASE)
_SHEBANG = re.compile(rb"#!\s*\S*(?:/env\s+)?(?:ba|z|da)?sh\b")
_LAUNCHES = re.compile(
    rb"\b(?:torchrun|msrun|deepspeed|accelerate|torch\.distributed|vllm|llamafactory-cli|mindieservice_daemon|python3?)\b"
    rb"|\bexport\s+\w+="
)

_LAUNCHER_MODULES = ("torch.distributed.launch", "torch.distributed.run", "torch.distributed.elastic")
_VALUELESS = frozenset(
    (
        "--standalone", "--no-python", "--no_python", "--use_env", "--use-env", "--module", "-m", "--run-path",
        "--no_ssh", "--force_multi", "--enable_each_rank_log", "--multi_gpu", "--use_deepspeed", "--use_fsdp",
    )
)  # fmt: skip
"""Options of launchers that take no value."""
_NUMBER = re.compile(r"-(?:\d|\.\d)")
_HYDRA = re.compile(r"\+{0,2}~?([A-Za-z_][\w.@/-]*)=(.*)\Z", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z]")

_CONFIG_MARKS = re.compile(
    rb"(?m)(?:^|[{,])[ \t]*[\"']?(?:model_name_or_path|finetuning_type|actor_rollout_ref|parallel_config|runner_config"
    rb"|context|moe_token_dispatcher|fsdp_size|zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|ServerConfig"
    rb"|ScheduleConfig|BackendConfig|ModelDeployConfig|deepspeed_multinode_launcher|distributed_type|parallel|training"
    rb"|megatron_training|rl_config|tensor_model_parallel_size|data_parallel_shard_degree)[\"']?\s*:"
)

_HISTORY = b'"log_history"'
"""Stands in the state of a trainer, which tells its batch size as well."""


def take(stream: Stream, head: bytes, partial: Partial) -> bytes:
    """Read the stream up to `MAX_BYTES`."""
    data = [head]
    size = len(head)
    try:
        while size <= MAX_BYTES:
            piece = stream.read(MAX_BYTES + 1 - size)
            if not piece:
                break
            data.append(piece)
            size += len(piece)
    except SourceError as exc:
        partial.broke_off(exc, 0)
    whole = b"".join(data)
    partial.bytes = len(whole)
    if len(whole) > MAX_BYTES:
        partial.truncated = True
        partial.note = f"only the first {MAX_BYTES >> 20} MiB were read"
    return whole[:MAX_BYTES]


def decode(data: bytes, partial: Partial) -> str:
    """Return text with plain line ends."""
    text = data.decode("utf-8-sig", "replace")
    if "\r\n" in text:
        partial.normalised = ("crlf",)
    partial.lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    return text.replace("\r\n", "\n").replace("\0", "")


class LaunchScript:
    """Reads shell scripts that start training or serving."""

    name = "launch-script"

    def recognise(self, head: bytes, path: str) -> float:
        """Certain of scripts by name or first line that launch or export something."""
        if b"\0" in head[:4096]:
            return 0.0
        named = bool(_SCRIPT_NAME.search(path.rpartition("!")[2]))
        if not named and not _SHEBANG.match(head[:128]):
            return 0.0
        if _LAUNCHES.search(head):
            return 0.95
        return 0.6 if named else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        text = decode(take(stream, head, partial), partial)
        from npudiag.parsers.shell import read  # not at the top: every run loads this module, few meet a script

        keep(partial, _script_rows(read(text)), text)
        return partial


def keep(partial: Partial, rows: Iterator[dict[str, Any]], text: str) -> None:
    """Put rows into table ``launch``, and the lines they stand in where evidence is quoted from."""
    columns = Columns("launch")
    lines = text.split("\n")
    for row in rows:
        if columns.size >= _ROWS:
            partial.note = partial.note or f"only the first {_ROWS:,} settings were kept"
            break
        row["value"] = row["value"][:_VALUE]
        row["key"] = row["key"][:400]
        columns.append(row)
        for number in (row["line"], row["origin"]):
            if 0 < number <= len(lines):
                partial.quotes[number] = lines[number - 1][:_QUOTE]
    if columns.size:
        partial.columns["launch"] = columns


def _script_rows(script: Script) -> Iterator[dict[str, Any]]:
    exported = set()
    for number, command in enumerate(script.commands):
        yield from command_rows(command, number)
        # A variable set for one command is part of its environment.
        for name, word in command.exports.items():
            if name not in exported and not script.variables.get(name, (word, False))[1]:
                exported.add(name)
                yield _row(name, word, "env", "script", number=number)
    for name, (word, is_exported) in script.variables.items():
        # What holds options is in the commands that use it.
        if name not in exported and "--" not in word.text:
            yield _row(name, word, "env" if is_exported else "variable", "script")


def _row(
    key: str, word: Word, kind: str, source: str, *, entry: str | None = None, number: int | None = None
) -> dict[str, Any]:
    return {
        "line": word.line, "key": key, "value": word.text.strip(), "kind": kind, "source": source, "entry": entry,
        "command": number, "origin": word.origin, "known": word.known, "sure": word.sure,
    }  # fmt: skip


def command_rows(command: Command, number: int, source: str = "script") -> Iterator[dict[str, Any]]:
    """Yield the rows of one command, none where it launches nothing.

    Args:
        command: The command.
        number: Its number within the file.
        source: Where it stands: ``script`` or ``trace``.
    """
    words = command.words
    if words and words[0].text.startswith("--") and len(words[0].text) > 3:
        # The line above lost its backslash: the shell takes these options for a command.
        yield _row(words[0].text.partition("=")[0], words[0], "break", source, number=number)
        return
    launched = _launch(words)
    if launched is None:
        return
    launcher, entry, rest = launched
    sure = command.sure
    for key, word in _pairs(launcher):
        row = _row(key or word.text, word, "flag" if key else "word", "launcher", entry=entry, number=number)
        yield {**row, "sure": word.sure and sure, "value": row["value"] if key else ""}
    hydra = "verl" in entry or entry.endswith(("main_ppo", "cli/train_grpo.py"))
    for key, word in _pairs(rest, hydra=hydra, serve=entry.startswith("vllm") or entry.endswith(("-cli", "swift"))):
        kind = "flag" if key.startswith("-") else "config" if hydra and key else "word"
        row = _row(key or word.text, word, kind, source, entry=entry, number=number)
        yield {**row, "sure": word.sure and sure, "value": "" if kind == "word" else row["value"]}


def _base(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _launch(words: Sequence[Word]) -> tuple[Sequence[Word], str, Sequence[Word]] | None:
    """Return the launcher's words, the program and its words."""
    for index, word in enumerate(words):
        name = _base(word)
        if word.text.startswith("-"):
            continue
        following = words[index + 1 :]
        if name == "vllm" and following and following[0].text in ("serve", "bench", "run-batch"):
            return (), "vllm serve", following[1:]
        if name == "llamafactory-cli" or (name == "swift" and following):
            return (), name, following[1:]
        if name in ("torchrun", "msrun", "deepspeed", "accelerate"):
            if name == "accelerate":
                following = following[1:]
            return _split(following)
        if re.fullmatch(r"python[\d.]*", name):
            return _python(following)
    return None


def _python(words: Sequence[Word]) -> tuple[Sequence[Word], str, Sequence[Word]] | None:
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "-m" and index + 1 < len(words):
            module = words[index + 1].text
            rest = words[index + 2 :]
            if module.startswith(_LAUNCHER_MODULES):
                return _split(rest)
            if module.startswith("deepspeed"):
                return _split(rest)
            return (), "vllm serve" if module.startswith("vllm.entrypoints") else module, rest
        if text in ("-X", "-W") and index + 1 < len(words):
            index += 2
        elif text.startswith("-") and text != "-":
            index += 1
        else:
            if not text.endswith(".py") and not any(word.text.startswith("--") for word in words[index + 1 :]):
                return None
            return (), text, words[index + 1 :]
    return None


def _split(words: Sequence[Word]) -> tuple[Sequence[Word], str, Sequence[Word]] | None:
    """Divide the words behind a launcher into its own, the program, and the program's."""
    index = 0
    while index < len(words):
        text = words[index].text
        if text in ("-m", "--module") and index + 1 < len(words):
            return words[:index], words[index + 1].text, words[index + 2 :]
        if text == "\\":
            # A backslash that does not end its line; the program comes later all the same.
            index += 1
        elif text.startswith("-"):
            has_value = "=" not in text and text not in _VALUELESS
            following = words[index + 1].text if index + 1 < len(words) else "-"
            index += 2 if has_value and not following.startswith("-") and not following.endswith(".py") else 1
        else:
            return words[:index], text, words[index + 1 :]
    return (words, "", ()) if words else None


def _pairs(words: Sequence[Word], *, hydra: bool = False, serve: bool = False) -> Iterator[tuple[str, Word]]:
    """Yield options with their values; a word of no option comes with an empty key."""
    from npudiag.parsers.shell import Word

    key: Word | None = None
    values: list[Word] = []
    positional = serve

    def pair() -> tuple[str, Word]:
        assert key is not None
        origin = values[0].origin if values else key.line
        return key.text, Word(
            " ".join(value.text for value in values),
            key.line,
            origin,
            all(value.known for value in values),
            key.sure and all(value.sure for value in values),
        )

    for word in words:
        text = word.text
        if _OPTION.match(text) and not _NUMBER.match(text):
            if key is not None:
                yield pair()
            name, sign, value = text.partition("=")
            key = Word(name, word.line, word.origin, word.known, word.sure)
            values = [Word(value, word.line, word.origin, word.known, word.sure)] if sign else []
        elif hydra and key is None and (match := _HYDRA.match(text)):
            yield match[1], Word(match[2], word.line, word.origin, word.known, word.sure)
        elif key is not None and text not in ("\\", "#"):
            values.append(word)
        elif positional and key is None:
            positional = False
        else:
            yield "", word
    if key is not None:
        yield pair()


class ConfigFile:
    """Reads YAML and JSON configurations of training and serving frameworks."""

    name = "config-yaml"

    def recognise(self, head: bytes, path: str) -> float:
        """By suffix and the keys that such configurations have."""
        suffix = PurePosixPath(path.rpartition("!")[2]).suffix.lower()
        if suffix not in (".yaml", ".yml", ".json") or b"\0" in head[:4096] or _HISTORY in head[: 64 << 10]:
            return 0.0
        return 0.85 if _CONFIG_MARKS.search(head[: 64 << 10]) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        text = decode(take(stream, head, partial), partial)
        try:
            rows = list(_flatten(text))
        except Exception as exc:  # whatever a YAML reader makes of a hostile file
            partial.note = f"not valid YAML: {type(exc).__name__}"
            return partial
        entry = PurePosixPath(context.source.path).name
        keep(partial, ({**row, "entry": entry} for row in rows), text)
        return partial


def _flatten(text: str) -> Iterator[dict[str, Any]]:
    """Yield every value of a YAML document with its dotted key."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    root = yaml.compose(text, Loader=loader)
    left = [_ROWS * 2]

    def walk(node: Any, path: str, depth: int) -> Iterator[dict[str, Any]]:
        left[0] -= 1
        if left[0] < 0 or depth > 20 or node is None:
            return
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    yield from walk(value, f"{path}.{key.value}" if path else key.value, depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            if all(isinstance(item, yaml.ScalarNode) for item in node.value):
                yield config_row(path, ",".join(item.value for item in node.value), node.start_mark.line + 1)
                return
            for index, item in enumerate(node.value):
                yield from walk(item, f"{path}.{index}", depth + 1)
        elif path:
            yield config_row(path, node.value, node.start_mark.line + 1)

    yield from walk(root, "", 0)


def config_row(key: str, value: str, line: int) -> dict[str, Any]:
    """Return the row of one value of a configuration file."""
    return {
        "line": line, "key": key, "value": value, "kind": "config", "source": "yaml", "origin": line, "known": True,
        "sure": True,
    }  # fmt: skip
