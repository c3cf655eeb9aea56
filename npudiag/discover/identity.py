"""Reads from a path who wrote the file: node, host, device, rank, process, kind of tree.

Everything is a table of patterns. A wrong identity misleads a diagnosis more than a missing one, so a pattern names
the whole folder or file, or a part of it between separators, and numbers that could be something else are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from npudiag.discover.names import VCS_FOLDERS, without_archive_ending
from npudiag.discover.source import Identity

_Facts = dict[str, int | str]


def _number(name: str, most: int) -> Callable[[re.Match[str]], _Facts]:
    """Return a reader of group 1 as fact `name`, nothing where it is larger than `most`."""

    def read(match: re.Match[str]) -> _Facts:
        value = int(match[1])
        return {name: value} if value <= most else {}

    return read


def _word(name: str, value: str) -> Callable[[re.Match[str]], _Facts]:
    return lambda match: {name: value}


def _both(*readers: Callable[[re.Match[str]], _Facts]) -> Callable[[re.Match[str]], _Facts]:
    def read(match: re.Match[str]) -> _Facts:
        facts: _Facts = {}
        for reader in readers:
            facts |= reader(match)
        return facts

    return read


_SIZE_OF_JOB = re.compile(
    r"(?i)(?:^|[-.])(?:multi|single|dual|two|four|eight|cross)[-.][a-z]+[-_]?\d+$|^\d+[-.][a-z]+[-_]?\d+$"
)
_LAN = frozenset({10, 172, 192})


def _node(match: re.Match[str]) -> _Facts:
    """``worker-1`` names a machine; ``multi-node-16`` and ``2-node-8`` say how many there are."""
    return {} if _SIZE_OF_JOB.search(match[0]) else {"node": match[0]}


def _address(match: re.Match[str]) -> _Facts:
    """``10.0.0.7`` is an address; ``8.1.0.2`` may be a version and is left alone."""
    octets = [int(octet) for octet in re.findall(r"\d+", match[0])]
    if max(octets) > 255 or (octets[0] not in _LAN and max(octets) < 32):
        return {}
    return {"node": match[0]}


def _profiler_folder(match: re.Match[str]) -> _Facts:
    """``<host>_<pid>_<time>_ascend_pt``; "localhost" is the same on every node and names none of them."""
    facts: _Facts = {"pid": int(match["pid"])}
    if not match["host"].startswith("localhost"):
        facts["host"] = match["host"]
    return facts


_MOST_DEVICE = 1023
_MOST_RANK = 999_999
_MOST_PID = 1 << 22  # PID_MAX_LIMIT of Linux

_device = _number("device", _MOST_DEVICE)
_rank = _number("rank", _MOST_RANK)
_pid = _number("pid", _MOST_PID)

_MACHINE = r"(?:worker|node|host|master|server|machine|pod|ps|slave|launcher)"

_FOLDERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Facts]], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        # slog and plog trees
        (r"device-(\d{1,9})", _device),
        (r"(?:dev|device)-os-(\d{1,9})", _both(_device, _word("role", "device-os"))),
        (r"device-os", _word("role", "device-os")),
        (r"device-app-(\d{1,9})", _pid),
        # profiler output
        (r"device_(\d{1,9})", _device),
        (r"(?P<host>.+)_(?P<pid>\d{1,7})_\d{14,20}_ascend_(?:pt|ms)", _profiler_folder),
        # one folder per rank
        (r"rank[_-]?(\d{1,9})", _rank),
        # one folder per machine: worker-1, node_2, job-a-worker-0, node03.cluster.local, 10.0.0.7, ip-10-0-0-7
        (rf"(?i:(?:[a-z0-9]+[-.])*{_MACHINE}[-_]?\d{{1,9}}(?:\.[a-z][a-z0-9.-]*)?)", _node),
        (rf"(?i:(?:[a-z0-9]+[-.])*{_MACHINE}[-_][a-z])", _node),
        (r"(?:ip-)?(?:\d{1,3}[.-]){3}\d{1,3}", _address),
    )
)

_FILES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Facts]], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (r"plog-(\d{1,9})_\d{14,17}\.log", _pid),
        (r"device-app-(\d{1,9})_\d{14,17}\.log", _pid),
        (r"device-os_\d{14,17}\.log", _word("role", "device-os")),
        (r"device-os-(\d{1,9})_\d{14,17}\.log", _both(_device, _word("role", "device-os"))),
        (r"event_\d{14,17}\.log", _word("role", "event")),
        (r"mindie-[a-z-]+_(\d{1,9})_\d{12,20}(?:\.\d+)?\.log", _pid),
        (r"npu_(?:smi_)?(\d{1,9})_details\.csv", _device),
        (r"profiler_info_(\d{1,9})\.json", _rank),
        (r"ascend_(?:pytorch|mindspore)_profiler_(\d{1,9})\.db", _rank),
        (r"device_(\d{1,9})\.(?:log|txt|out)", _device),
        # msrun writes one file per rank
        (r"worker_(\d{1,9})\.log", _rank),
    )
)

# "rank" inside a longer name: train_rank_3.log, worker-0_rank-0.txt, rank3_ascend_pt. Not: frank3, lora_rank64,
# local_rank_3, mp_rank_00, world_rank: those number something else.
_RANK_WITHIN = re.compile(r"(?<![A-Za-z0-9])(?:(?P<what>[A-Za-z]+)[_.-])?rank[_-]?(?P<rank>\d{1,6})(?![A-Za-z0-9])")
_NOT_GLOBAL = re.compile(
    r"(?i)(?:lora|qlora|dora|peft|low|local|node|group|world|size|expert|parallel|stage|matrix|model|max|[a-z]{0,3}p)$"
)
_WORKER_WITHIN = re.compile(r"(?:^|_)(worker-\d+)(?=[_.]|$)")
_NODE_FILE = re.compile(r"((?:worker|node)-\d+)\.(?:log|txt|out|err)")

_DEVICE_FILE = re.compile(r"device-(\d{1,9})_\d{14,17}\.log")
_OLD_HOST_FILE = re.compile(r"(host-\d+)_\d{14,17}\.log")
_LOG_FOLDER = re.compile(r"(?i)(?:.*[_-])?logs?(?:[_-].*)?|(?:.*[_-])?ranks?(?:[_-]logs?)?")
_NUMBER_FILE = re.compile(r"(0|[1-9]\d{0,4})\.(?:log|out|err)")
_YEARS = range(1990, 2100)
_ATTEMPT = re.compile(r"attempt_\d+")
_LOCAL_RANK = re.compile(r"\d{1,3}")
_TREE_KINDS = frozenset({"debug", "run", "security"})
_TREE_CHILD = re.compile(r"plog|event|device-.*")
_NODE_NUMBER = re.compile(r"[a-z][-_]?(\d{1,9})(?:\.[a-z]|$)", re.IGNORECASE)
_PACKED = re.compile(r"\.(?:gz|zst|bz2|xz)$")


def identify(relative_path: str) -> Identity:
    """Return what an evidence path tells about who wrote the file.

    Args:
        relative_path: POSIX path relative to the input argument's parent; archives count as folders
            (``worker-0.tar.gz!/plog-..``).
    """
    folder, _, name = relative_path.rpartition("/")
    facts = dict(_folder_facts(folder))
    last_folder = folder.rpartition("/")[2]
    _read_file(_PACKED.sub("", name), last_folder, facts)
    local = facts.pop("local_rank", None)
    if local is not None and "rank" not in facts and _first_node(facts.get("node")):
        facts["rank"] = local
    return Identity(**facts)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def _folder_facts(folder: str) -> tuple[tuple[str, int | str], ...]:
    """Read all folders of a path, the outermost first. Inner ones are closer to the writer and win, nodes excepted."""
    parts = [_folder_name(part) for part in folder.split("/")] if folder else []
    facts: _Facts = {}
    for index, part in enumerate(parts):
        if part in VCS_FOLDERS:
            continue
        found = _match_folder(part)
        if "node" in facts:
            found.pop("node", None)
        if part in _TREE_KINDS and index + 1 < len(parts) and _TREE_CHILD.fullmatch(parts[index + 1]):
            found["role"] = part
        if part == "event" and facts.get("role") in _TREE_KINDS:
            found["role"] = "event"
        facts |= found
        if _LOCAL_RANK.fullmatch(part) and index and _ATTEMPT.fullmatch(parts[index - 1]):
            # torchrun numbers these folders by local rank, which is the global one on the first node only.
            facts["local_rank"] = int(part)
    return tuple(facts.items())


def _folder_name(part: str) -> str:
    return without_archive_ending(part[:-1]) if part.endswith("!") else part


def _match_folder(part: str) -> _Facts:
    for pattern, read in _FOLDERS:
        match = pattern.fullmatch(part)
        if match:
            return read(match)
    return _rank_within(part)


def _rank_within(text: str) -> _Facts:
    if "rank" not in text:
        return {}
    for match in _RANK_WITHIN.finditer(text):
        if not match["what"] or not _NOT_GLOBAL.fullmatch(match["what"]):
            return {"rank": int(match["rank"])}
    return {}


def _read_file(name: str, last_folder: str, facts: _Facts) -> None:
    """Add to `facts` what the file's own name tells."""
    number = _DEVICE_FILE.fullmatch(name)
    if number:
        # Host trees: device-<id>/device-<pid>_<time>.log. Trees of the device itself repeat the id instead.
        folder = re.fullmatch(r"device-(\d{1,9})", last_folder)
        if folder[1] != number[1] if folder else int(number[1]) > _MOST_DEVICE:
            facts |= _pid(number)
        return
    old_host = _OLD_HOST_FILE.fullmatch(name)
    if old_host:
        # host-0/host-0_<time>.log of old releases is the host's side of the tree, not a machine's name.
        if facts.get("node") == old_host[1]:
            del facts["node"]
        return
    for pattern, read in _FILES:
        match = pattern.fullmatch(name)
        if match:
            facts |= read(match)
            return
    match = _NUMBER_FILE.fullmatch(name)
    if match:
        if int(match[1]) not in _YEARS and _LOG_FOLDER.fullmatch(last_folder):
            facts.setdefault("rank", int(match[1]))
        return
    facts |= _rank_within(name)
    node = _NODE_FILE.fullmatch(name) or _WORKER_WITHIN.search(name)
    if node:
        facts.setdefault("node", node[1])


def _first_node(node: int | str | None) -> bool:
    """Say whether a local rank on this node is the global one, as far as anybody can tell."""
    if not isinstance(node, str):
        return True
    number = _NODE_NUMBER.search(node)
    return number is not None and int(number[1]) == 0
