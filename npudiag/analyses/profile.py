"""Profiler captures put together: whose each file is, which captures form a job, who waited for whom.

A capture is the folder a profiler wrote. Its files name rank and device in different places, or not at all; here each
row gets the identity of its capture. Captures next to each other form a job, in which ranks are unique. Where a
capture was exported twice, as text and as database, the more complete export is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from npudiag.analyses.profile_unread import unread
from npudiag.parsers.base import Partial
from npudiag.parsers.profiler.raw import KEY, Raw
from npudiag.result import Problem

Row = dict[str, Any]
_FOLDER = re.compile(r"_ascend_(?:pt|ms)!?$|^PROF_\d")
_OUTPUTS = frozenset({"ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output", "ASCEND_MINDSPORE_PROFILER_OUTPUT"})
_CLUSTER = "cluster_analysis_output"
_STAMP = re.compile(r"_(\d{14,17})_ascend_")
_STEP_SOURCES = ("text", "db", "mindspore-legacy", "db-tasks", "trace")
_FORMS = {"text": "the text export", "db": "the database"}
_KERNEL_SOURCES = ("kernel_details", "op_summary", "db", "op_statistic")


@dataclass(slots=True)
class Capture:
    """One folder that a profiler wrote.

    Attributes:
        key: Its path.
        parent: The folder it lies in.
        files: What was read of it.
        facts: What its files say about themselves, and who wrote it.
        stamp: Digits of the time in its name.
    """

    key: str
    parent: str
    files: list[tuple[Partial, Raw]] = field(default_factory=list)
    facts: Row = field(default_factory=dict)
    rank: int | None = None
    device: int | None = None
    node: str | None = None
    job: str = ""
    stamp: str = ""
    used: bool = True
    form: str = ""

    @property
    def cluster(self) -> bool:
        """Whether it is the product of a cluster analysis, which holds many ranks."""
        return self.key.endswith(_CLUSTER)


@dataclass(slots=True)
class Profiles:
    """What is known of all captures.

    Attributes:
        tables: Table name to rows, file and identity filled in.
        problems: What was left out, and why.
    """

    tables: dict[str, list[Row]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows."""
        self.tables.setdefault(table, []).extend(rows)


def derive(partials: Sequence[Partial]) -> Profiles | None:
    """Make the tables of all captures; ranks and devices found are noted in the partials too.

    None where the input holds nothing of a profiler.
    """
    mine = [(partial, partial.packed[KEY]) for partial in partials if KEY in partial.packed]
    out = Profiles(problems=unread(partials))
    if not mine:
        return out if out.problems else None
    captures: dict[str, Capture] = {}
    alone = _databases_side_by_side(mine)
    for partial, raw in mine:
        key, parent = place(partial.source.path)
        if id(partial) in alone:
            raw.facts.setdefault("rank", alone[id(partial)])
            key = partial.source.path
        capture = captures.setdefault(key, Capture(key, parent))
        if capture.parent == key:  # what lies above the outputs does not tell the folder of the captures
            capture.parent = parent
        capture.files.append((partial, raw))
    for capture in captures.values():
        _drop_older_exports(capture, out)
        _identify(capture)
    for name, members in _jobs(list(captures.values())):
        _number(name, members, out)
        _drop_older(members, out)
        _job(name, [capture for capture in members if capture.used], out)
        _say_which_export(name, members, out)
        out.add("prof_captures", (_capture_row(capture) for capture in members))
    return out


_DATABASE = re.compile(r"(?:profiler|msmonitor|msprof)_(?:\d+_\d+_)?(\d{1,6})\.db")


def _databases_side_by_side(files: Iterable[tuple[Partial, Raw]]) -> dict[int, int]:
    """Return the rank of databases that lie beside those of other ranks, by the id of the partial.

    Monitors write one database for each process into one folder; each is a capture.
    """
    folders: dict[str, dict[int, int]] = {}
    for partial, raw in files:
        folder, _, name = partial.source.path.rpartition("/")
        match = _DATABASE.search(name)
        rank = raw.facts.get("rank", int(match[1]) if match else None)
        if partial.kind == "prof-db" and isinstance(rank, int) and "framework" in raw.facts:
            folders.setdefault(folder, {})[id(partial)] = rank
    return {
        number: rank for found in folders.values() if len(set(found.values())) > 1 for number, rank in found.items()
    }


def place(path: str) -> tuple[str, str]:
    """Return the capture a file belongs to and the folder that the capture lies in."""
    parts = path.split("/")
    folders = parts[:-1]
    for index, part in enumerate(folders):
        if _FOLDER.search(part):
            return "/".join(folders[: index + 1]), "/".join(folders[:index])
    for index, part in enumerate(folders):
        if part in _OUTPUTS:
            return "/".join(folders[:index]) or part, "/".join(folders[: index - 1]) if index else ""
        if part == _CLUSTER:
            return "/".join(folders[: index + 1]), "/".join(folders[:index])
    # A file without its folder: what lies beside it belongs to it.
    folder = "/".join(folders)
    return (folder or path), folder


def _identify(capture: Capture) -> None:
    """Find out who wrote a capture, surest sources first."""
    ranks: list[tuple[int, int]] = []
    for partial, raw in capture.files:
        identity = partial.identity
        for name, value in raw.facts.items():
            if name not in ("rank", "device"):
                capture.facts.setdefault(name, value)
        if partial.kind == "prof-info" and identity.rank is not None:
            ranks.append((0, identity.rank))
        if isinstance(raw.facts.get("rank"), int):
            ranks.append((1, raw.facts["rank"]))
        if identity.rank is not None:
            ranks.append((2, identity.rank))
        if capture.device is None:
            device = raw.facts.get("device")
            capture.device = device if isinstance(device, int) else identity.device
        capture.node = capture.node or identity.node or identity.host
    several = capture.cluster or len({rank for order, rank in ranks if order == 2}) > 1
    if ranks and not several:
        capture.rank = min(ranks)[1]
    capture.node = capture.node or capture.facts.get("host")
    if capture.device is None:
        devices = {
            row["device"]
            for _, raw in capture.files
            for name in ("prof_steps", "prof_kernels", "prof_memory")
            for row in raw.tables.get(name, ())[:1]
            if isinstance(row.get("device"), int)
        }
        capture.device = devices.pop() if len(devices) == 1 else None
    stamp = _STAMP.search(capture.key)
    capture.stamp = stamp[1] if stamp else ""
    _pass_on(capture)


def _pass_on(capture: Capture) -> None:
    """Give the files of a capture its identity, where they have none of their own."""
    for partial, _ in capture.files:
        identity = partial.identity
        partial.identity = replace(
            identity,
            rank=identity.rank if identity.rank is not None else capture.rank,
            device=identity.device if identity.device is not None else capture.device,
        )


def _number(name: str, captures: Sequence[Capture], out: Profiles) -> None:
    """Number captures by node and device where none of a job tells its rank: without numbers nobody can be named.

    On one node the device is the number, on several the place in their order.
    """
    if len(captures) < 2 or any(capture.rank is not None or capture.cluster for capture in captures):
        return
    places = {(capture.node or "", capture.device) for capture in captures if capture.device is not None}
    if len(places) < len(captures):
        return
    nodes = {node for node, _ in places}
    order = sorted(captures, key=lambda capture: (capture.node or "", capture.device or 0))
    for index, capture in enumerate(order):
        capture.rank = capture.device if len(nodes) == 1 else index
        _pass_on(capture)
    message = f"{name or '.'}: no capture tells its rank; they are numbered by node and device"
    out.problems.append(Problem(path=name or ".", reason="unsupported", message=message, lost=False))


def _jobs(captures: list[Capture]) -> list[tuple[str, list[Capture]]]:
    """Return the captures by job: those of one folder, and those of sibling folders that complete each other."""
    by_parent: dict[str, list[Capture]] = {}
    for capture in captures:
        by_parent.setdefault(capture.parent, []).append(capture)
    jobs: list[tuple[str, set[int], list[Capture]]] = []
    for parent, members in by_parent.items():
        ranks = {capture.rank for capture in members if capture.rank is not None}
        above = parent.rpartition("/")[0]
        for index, (name, known, others) in enumerate(jobs):
            together = name if not others else others[0].parent.rpartition("/")[0]
            if above and above == together and ranks and known and not ranks & known and _one_world(members, others):
                jobs[index] = (above, known | ranks, others + members)
                break
        else:
            jobs.append((parent, ranks, members))
    return [(name, members) for name, _, members in jobs]


def _one_world(one: Sequence[Capture], other: Sequence[Capture]) -> bool:
    sizes = {capture.facts["world_size"] for capture in (*one, *other) if capture.facts.get("world_size")}
    return len(sizes) <= 1


def _drop_older(captures: Sequence[Capture], out: Profiles) -> None:
    """Of several captures of one rank keep the newest."""
    newest: dict[int, Capture] = {}
    for capture in captures:
        if capture.rank is None:
            continue
        other = newest.get(capture.rank)
        if other is None:
            newest[capture.rank] = capture
            continue
        keep, drop = (capture, other) if capture.stamp > other.stamp else (other, capture)
        newest[capture.rank] = keep
        drop.used = False
        out.problems.append(
            Problem(
                path=drop.key,
                reason="duplicate",
                message=f"{drop.key}: rank {drop.rank} was captured more than once; {keep.key} is used",
                lost=False,
            )
        )


_EXPORT = re.compile(r"(?P<what>[a-z_0-9]+?)(?:_slice_\d+)?_(?P<stamp>\d{14})\.(?:csv|json)")


def _drop_older_exports(capture: Capture, out: Profiles) -> None:
    """Of what was exported several times from the same raw data keep the newest, all slices of it."""
    newest: dict[tuple[str, str], str] = {}
    found: list[tuple[tuple[str, str], str]] = []
    for partial, _ in capture.files:
        folder, _, name = partial.source.path.rpartition("/")
        match = _EXPORT.fullmatch(name)
        key, stamp = ((folder, match["what"]), match["stamp"]) if match else (("", ""), "")
        found.append((key, stamp))
        newest[key] = max(newest.get(key, ""), stamp)
    kept = [item for item, (key, stamp) in zip(capture.files, found, strict=True) if stamp == newest[key]]
    if len(kept) < len(capture.files):
        message = (
            f"{capture.key}: {len(capture.files) - len(kept)} files are older exports of the same data and not used"
        )
        out.problems.append(Problem(path=capture.key, reason="duplicate", message=message, lost=False))
        capture.files = kept


def _say_which_export(name: str, captures: Sequence[Capture], out: Profiles) -> None:
    """Note which export the numbers are from where captures hold two."""
    counts: dict[str, int] = {}
    for capture in captures:
        forms = {"db" if row["source"] == "db-tasks" else row["source"] for row in _all_steps(capture)}
        if capture.used and {"text", "db"} <= forms:
            counts[capture.form] = counts.get(capture.form, 0) + 1
    if counts:
        taken = ", ".join(f"{_FORMS.get(form, form)} for {count}" for form, count in sorted(counts.items()))
        message = f"{sum(counts.values())} captures hold a text and a database export; numbers are from {taken} of them"
        out.problems.append(Problem(path=name or ".", reason="duplicate", message=message, lost=False))


def _all_steps(capture: Capture) -> Iterable[Row]:
    return (row for _, raw in capture.files for row in raw.tables.get("prof_steps", ()))


def _capture_row(capture: Capture) -> Row:
    facts = capture.facts
    names = ("framework", "chip", "level", "aic_metrics", "profile_memory", "with_stack", "torch_npu", "cann")
    info = next((partial for partial, _ in capture.files if partial.kind == "prof-info"), capture.files[0][0])
    kinds = sorted({partial.kind for partial, _ in capture.files})
    return {
        "file": info.source.path,
        "capture": capture.key,
        "job": capture.job,
        "rank": capture.rank,
        "device": capture.device,
        "node": capture.node,
        **{name: facts.get(name) for name in names},
        "framework": "cluster" if capture.cluster else facts.get("framework"),
        "world_size": facts.get("world_size"),
        "tp": facts.get("tp"),
        "pp": facts.get("pp"),
        "peak_tflops": facts.get("peak_tflops"),
        "mfu_pct": facts.get("mfu_pct"),
        "steps": facts.get("steps_used"),
        "kinds": " ".join(kinds),
        "used": capture.used,
        "form": capture.form or None,
    }


def _job(name: str, captures: list[Capture], out: Profiles) -> None:
    """Add the tables of one job."""
    from npudiag.analyses import profile_comm

    groups: dict[str, tuple[str, tuple[int, ...]]] = {}
    for capture in captures:
        capture.job = name
        for _, raw in capture.files:
            for key, entry in raw.groups.items():
                known = groups.get(key)
                if known is None or (not known[0] and entry[0]) or (not known[1] and entry[1]):
                    groups[key] = entry
    steps: list[Row] = []
    for capture in captures:
        steps.extend(_steps(capture))
        out.add("prof_kernels", _kernels(capture))
        for table in _ONE_FORM:
            out.add(table, _one_form(capture, table))
        out.add(
            "prof_env",
            (
                {**_who(capture, partial), "name": key, "value": value}
                for partial, raw in capture.files
                for key, value in raw.env.items()
            ),
        )
    own = {row["rank"] for row in steps if row["source"] != "cluster"}
    steps = [row for row in steps if row["source"] != "cluster" or row["rank"] not in own]
    _stages(steps, captures, groups)
    out.add("prof_steps", steps)
    profile_comm.add(name, captures, groups, out)
    _weigh(name, captures, groups, steps, out)


def _weigh(
    job: str,
    captures: Sequence[Capture],
    groups: dict[str, tuple[str, tuple[int, ...]]],
    steps: Sequence[Row],
    out: Profiles,
) -> None:
    """Set what each row of the job costs as a share of the step time of its rank."""
    from npudiag.analyses import profile_compute

    spans: dict[int | None, tuple[float, int]] = {}
    lengths: dict[int | None, list[float]] = {}
    for row in steps:
        total, count = spans.get(row["rank"], (0.0, 0))
        spans[row["rank"]] = (total + row["e2e_us"], count + 1)
        lengths.setdefault(row["rank"], []).append(row["e2e_us"])
    kernels: dict[int | None, float] = {}
    mine = [row for row in out.tables.get("prof_kernels", ()) if row["job"] == job]
    for row in mine:
        kernels[row["rank"]] = kernels.get(row["rank"], 0.0) + row["total_us"]
    for row in mine:
        total, count = spans.get(row["rank"], (0.0, 0))
        if total:
            row["step_ms"] = total / count / 1e3
        total = total or kernels[row["rank"]]
        row["share_pct"] = 100 * row["total_us"] / total if total else None
    profile_compute.against_peak(captures, mine, spans)
    out.add("prof_experts", profile_compute.experts(job, mine, groups))
    for table, columns in _WEIGHED.items():
        for row in out.tables.get(table, ()):
            total, _ = spans.get(row["rank"], (0.0, 0))
            if row["job"] != job or not total:
                continue
            for source, target in columns:
                if row.get(source) is not None:
                    row[target] = 100 * row[source] / total
    # Communication of a capture may be of other steps than its table has, and a step that warms up would outweigh the
    # others: here a usual step is compared with a usual one.
    for row in out.tables.get("prof_comm", ()):
        if row["job"] == job and row["rank"] in lengths:
            usual = median(lengths[row["rank"]]) / 1e3
            for source, target in _OF_A_STEP:
                row[target] = 100 * row[source] / usual


_ONE_FORM = (
    "prof_api",
    "prof_memory",
    "prof_allocations",
    "prof_counters",
    "prof_events",
    "prof_metrics",
    "prof_sequences",
    "prof_transfers",
)
_WEIGHED: dict[str, tuple[tuple[str, str], ...]] = {
    "prof_api": (("total_us", "share_pct"),),
    "prof_events": (("total_us", "share_pct"),),
    "prof_sequences": (("whole_us", "share_pct"), ("gain_us", "gain_pct")),
}
"""Table to: cost, the column that holds its share."""
_OF_A_STEP = (("step_ms", "share_pct"), ("step_late_ms", "late_pct"), ("step_caused_ms", "caused_pct"))
"""Columns of ``prof_comm``: cost in a usual step, the column that holds its share."""


def _who(capture: Capture, partial: Partial) -> Row:
    return {"file": partial.source.path, "job": capture.job, "rank": capture.rank, "device": capture.device}


def _taken(capture: Capture, partial: Partial, rows: Iterable[Row]) -> list[Row]:
    """Return rows with the identity of their capture, where they have none of their own."""
    who = _who(capture, partial)
    return [{**who, **{name: value for name, value in row.items() if value is not None}} for row in rows]


def _steps(capture: Capture) -> list[Row]:
    by_source: dict[str, list[Row]] = {}
    for partial, raw in capture.files:
        for row in _taken(capture, partial, raw.tables.get("prof_steps", ())):
            by_source.setdefault(row["source"], []).append(row)
    cluster = by_source.pop("cluster", [])
    chosen: list[Row] = []
    for source in _STEP_SOURCES:
        rows = by_source.get(source, [])
        # The text export has the last word unless the database knows more steps.
        if len({(row.get("rank"), row.get("step")) for row in rows}) > len(chosen):
            chosen = rows
    unique = {(row.get("rank"), row.get("step"), row["file"]): row for row in (*chosen, *cluster)}
    rows = list(unique.values())
    for row in rows:
        _complete(row)
        row["source"] = "db" if row["source"] == "db-tasks" else row["source"]
    rows = [row for row in rows if row["e2e_us"] > 0]
    last = max((row["step"] for row in rows if row.get("step") is not None), default=None)
    for row in rows:
        row["last"] = len(rows) > 1 and row.get("step") == last
    if rows:
        capture.form = str(rows[0]["source"])
        capture.facts["steps_used"] = len({row.get("step") for row in rows})
    return rows


def _complete(row: Row) -> None:
    """Fill in what follows from the other columns."""
    computing = row.setdefault("computing_us", 0.0)
    uncovered = row.get("comm_not_overlapped_us")
    overlapped, comm = row.get("overlapped_us"), row.get("comm_us")
    if uncovered is None:
        uncovered = row["comm_not_overlapped_us"] = max((comm or 0.0) - (overlapped or 0.0), 0.0)
    if overlapped is None and comm is not None:
        row["overlapped_us"] = max(comm - uncovered, 0.0)
    if comm is None and overlapped is not None:
        row["comm_us"] = uncovered + overlapped
    free = row.get("free_us")
    if row.get("e2e_us") is None:
        row["e2e_us"] = computing + uncovered + (free or 0.0)
    row.setdefault("rank", None)
    row.setdefault("step", None)


def _stages(steps: list[Row], captures: Sequence[Capture], groups: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Set the pipeline stage of each row, where groups or sizes tell."""
    stage: dict[int, int] = {}
    for kind, ranks in groups.values():
        if kind == "pp" and len(ranks) > 1:
            for index, rank in enumerate(ranks):
                stage[rank] = index
    for capture in captures:
        listed = capture.facts.get("stages") or capture.facts.get("p2p_sets")
        if not stage and listed and len(listed) > 1:
            stage = {rank: index for index, ranks in enumerate(listed) for rank in ranks}
        size, depth = capture.facts.get("world_size"), capture.facts.get("pp")
        if not stage and size and depth and depth > 1 and size % depth == 0:
            stage = {rank: rank * depth // size for rank in range(min(size, 1 << 20))}
    for row in steps:
        if row.get("pp_stage") is None and row["rank"] in stage:
            row["pp_stage"] = stage[row["rank"]]


def _kernels(capture: Capture) -> list[Row]:
    by_source: dict[str, list[Row]] = {}
    for partial, raw in capture.files:
        for row in _taken(capture, partial, raw.tables.get("prof_kernels", ())):
            by_source.setdefault(row["source"], []).append(row)
    chosen: list[Row] = []
    for source in _KERNEL_SOURCES:
        rows = by_source.get(source, [])
        if sum(row["count"] for row in rows) > sum(row["count"] for row in chosen):
            chosen = rows
    known = {row.get("core") for row in chosen}
    if "AI_CPU" not in known:
        chosen = chosen + by_source.get("data_preprocess", [])
    if not known & {"HCCL", "COMMUNICATION"} and by_source.get("communication_statistic"):
        chosen = chosen + by_source["communication_statistic"]
    return _merged(chosen)


_ADDED = (
    "count",
    "total_us",
    "wait_us",
    "small",
    "dynamic",
    "stated",
    "unaligned_us",
    "flops",
    "flops_us",
    "tokens",
)
_MEANS = ("mac_ratio", "vec_ratio", "mte2_ratio", "mte3_ratio", "scalar_ratio", "cube_pct")


def _merged(rows: Sequence[Row]) -> list[Row]:
    """Return one row for each type, core and device: long lists are written in slices."""
    out: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = (row.get("rank"), row.get("device"), row.get("type"), row.get("core"))
        other = out.get(key)
        if other is None:
            out[key] = row
            continue
        longer = row if (row.get("max_us") or 0.0) > (other.get("max_us") or 0.0) else other
        whole = row["total_us"] + other["total_us"]
        joined = {**other, **{name: value for name, value in longer.items() if name not in ("file", "line")}}
        for name in _MEANS:
            values = [(one[name], one["total_us"]) for one in (row, other) if one.get(name) is not None]
            spent = sum(weight for _, weight in values)
            if spent:
                joined[name] = sum(value * weight for value, weight in values) / spent
        for name in _ADDED:
            found = [one[name] for one in (row, other) if one.get(name) is not None]
            if found:
                joined[name] = sum(found)
        lows = [one["min_us"] for one in (row, other) if one.get("min_us") is not None]
        if lows:
            joined["min_us"] = min(lows)
        joined["avg_us"] = whole / joined["count"] if joined["count"] else None
        out[key] = joined
    return list(out.values())


def _one_form(capture: Capture, table: str) -> list[Row]:
    """Return the rows of a table, from the text files where they have as many, else from the database."""
    text: list[Row] = []
    database: list[Row] = []
    for partial, raw in capture.files:
        rows = _taken(capture, partial, raw.tables.get(table, ()))
        (database if partial.kind == "prof-db" else text).extend(rows)
    if not text or not database:
        return text or database
    if table in ("prof_counters", "prof_events", "prof_memory"):
        key = {"prof_counters": "name", "prof_events": "kind", "prof_memory": "component"}[table]
        known = {row.get(key) for row in text}
        return text + [row for row in database if row.get(key) not in known]
    return text
