"""Turns collective time-outs from "these ranks gave up" into "this rank was waited for"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudiag.analyses import heartbeat
from npudiag.analyses.job import Job
from npudiag.analyses.operators import Odd
from npudiag.analyses.timeouts import Setting, Timeouts
from npudiag.analyses.topology import Topology
from npudiag.analyses.waits import Party, Wait
from npudiag.diagnosis.findings import EVIDENCE, log_evidence, severity_rank
from npudiag.engine.model import Text
from npudiag.result import Finding

_CATEGORIES = ("hccl-timeout", "hccl-init")
_MOST = 2
_MOST_TOLD = 4
_DEFAULT_S = {"HCCL_EXEC_TIMEOUT": 1836, "HCCL_CONNECT_TIMEOUT": 120}
"""What HCCL takes where nothing is set, in seconds."""
_HEARTBEAT = ("cluster-exception-location", "heartbeat-peer-event")
_CAME_LATE = "rank-late-to-collective"
_EXCEPTION = "python-exception"
_KNOWN_EXCEPTION = "exception-"
"""How the names of rules begin that know what kind of exception it is."""
_AT_START = ("exception-about-missing-module", "exception-about-missing-file", "exception-about-package")
"""Exceptions that end a process before it says who it is."""
_VICTIM = "victim"
"""Capture of host rules: id of the process that was killed."""
_DIFFER = "collective-arguments-inconsistent"
_JOIN = ("topo-server-missing-ranks", "topo-agent-cannot-reach-root")
_TIME_OUTS = {"collective-notify-timeout": "HCCL_EXEC_TIMEOUT", "collective-link-timeout": "HCCL_CONNECT_TIMEOUT"}
"""Rules about giving up, and the setting that says when."""
_GAVE_UP = (*_TIME_OUTS, "communication-task-timeout", "hccl-comm-timeout", "hccl-watchdog-timeout")
"""Rules that tell who gave up, and never of themselves whose fault it is."""
_WAITED = re.compile(r"(?i)hccl|time ?out|timed out|EI00\d\d|connection (?:reset|refused|closed)|broken pipe")
_ORIGINS = (
    (re.compile(r"(?i)data_?loader|data_?set|torch/utils/data|collat|tokeniz|\bsampler"), "data-pipeline"),
    (re.compile(r"(?i)checkpoint|state_dict|safetensors|torch/serialization"), "checkpoint"),
)
"""What the frames of a traceback are about, and the category of a failure there."""


def apply(findings: Sequence[Finding], job: Job) -> None:
    """Set the scope of collective time-outs to the culprit, in place.

    A message that names the culprit itself is trusted first, then what HCCL's own comparison of both ends shows, then
    the wait-for graph. Nothing is changed where more than two could be it.
    """
    for finding in findings:
        _tell_timeouts(finding, job.timeouts)
        _place_victim(finding, job.topology)
    _point_at_odd(findings, [odd for odd in job.operators.odd if odd.linking])
    named = _named(findings, job)
    if named is not None:
        _promote_all(findings, [named])
        return
    waits = job.waits
    if waits.absent:
        _point_at_absent(findings, waits.absent)
        if not waits.culprits:
            _promote_all(findings, waits.absent)
    if not waits.culprits:
        _point_at_silent(findings, job.operators.silent)
        if not job.operators.silent and waits.unheard:
            _point_at_unheard(findings, waits.unheard)
        elif not job.operators.silent and waits.untold:
            _point_beyond(findings, waits.untold)
        elif not (waits.absent or job.operators.silent or job.operators.odd or job.operators.late):
            _point_at_nobody(findings)
        return
    top = waits.waiters[0]
    culprits = [party for party, number in zip(waits.culprits, waits.waiters, strict=True) if number == top]
    late = _late(culprits, job) if waits.circle else None
    others = [party for party in culprits if party != late]
    if late is not None:
        culprits = [late]
    if len(culprits) > _MOST or not any(_known(party) for party in culprits):
        return
    hops = [edge for edge in waits.edges if edge.awaited in culprits]
    unheard = _unheard(culprits, job)
    _promote_all(findings, culprits)
    for finding in findings:
        if _speaks_of_waiting(finding):
            _point_at(finding, culprits, hops)
            if late is not None:
                _explain_late(finding, late, others)
            else:
                _explain(finding, culprits, top, circle=waits.circle, unheard=unheard)
                if job.topology.ranks is None and not any(party.logged for party in culprits):
                    # Neither it nor how many there are beside it is told.
                    finding.confidence = "medium" if finding.confidence == "high" else finding.confidence


def _speaks_of_waiting(finding: Finding) -> bool:
    """Whether a finding is of those whose scope follows from who waited for whom."""
    return finding.category in _CATEGORIES and finding.trust not in ("cause", "envelope") and finding.name not in _JOIN


def _late(circle: Sequence[Party], job: Job) -> Party | None:
    """Return who of those that wait for each other began only when the others had given up.

    A wait lasts as long as its time-out, so one that ends more than a time-out after all others began after them.
    """
    ends: dict[Party, int] = {}
    linking = False
    for edge in job.waits.edges:
        at = job.clocks.corrected(edge.record.node, edge.record.time_us)
        if edge.waiter in circle and at is not None:
            ends[edge.waiter] = max(at, ends.get(edge.waiter, at))
            linking |= "|" in edge.record.text or "-remoteIpAddr[" in edge.record.text
    if len(circle) < _MOST or len(ends) < len(circle):
        return None
    name = "HCCL_CONNECT_TIMEOUT" if linking else "HCCL_EXEC_TIMEOUT"
    limit = max((setting.seconds for setting in job.timeouts.of(name)), default=_DEFAULT_S[name])
    *_, second, last = sorted(ends, key=lambda party: ends[party])
    return last if limit > 0 and ends[last] - ends[second] > limit * 1e6 else None


def _unheard(culprits: Sequence[Party], job: Job) -> int:
    """Return how many other ranks of the job left no log, where the culprit itself left none."""
    size = job.topology.ranks
    if size is None or any(party.logged for party in culprits):
        return 0
    heard = {process.rank for process in job.topology.world.values() if process.rank is not None}
    return max(size - len(heard | {party.rank for party in culprits}), 0)


def _named(findings: Sequence[Finding], job: Job) -> Party | None:
    """Return the one culprit that messages name by address and device; their scopes get its rank and node."""
    parties: set[Party] = set()
    accused = heartbeat.culprit(job.accused)
    for finding in findings:
        address, device = finding.captures.get("node"), finding.captures.get("device")
        if finding.category not in _CATEGORIES or not isinstance(address, str) or not isinstance(device, int):
            continue
        party = job.people.awaited(None, address, device)
        if finding.name in _HEARTBEAT and len(job.accused) > 1:
            # Several are accused: the first line met is one of many.
            if accused is not None and accused != party:
                name = accused.name()
                _add(
                    finding,
                    Text(
                        f" Several ranks are named; first and by most it is {name}.",
                        f"被点名的 rank 有多个，最早且被最多 rank 点名的是 {name}。",
                    ),
                )
                finding.scope.devices = [accused.device] if accused.device is not None else []
            party = accused
        if party is None:
            continue
        finding.scope.ranks = [party.rank] if party.rank is not None else []
        if party.node is not None:
            finding.scope.nodes = [party.node]
        if finding.trust == "cause":
            parties.add(party)
    return parties.pop() if len(parties) == 1 else None


def _place_victim(finding: Finding, topology: Topology) -> None:
    """Set rank and device of a finding that knows a process by its id alone, as the kernel does."""
    victim, scope = finding.captures.get(_VICTIM), finding.scope
    if finding.category != "host-fault" or scope.ranks or victim is None or not str(victim).isdigit():
        return
    nodes: list[str | None] = [*scope.nodes] or [None]
    for node in nodes:
        process = topology.by_pid(node, int(str(victim)[:12]))
        if process is not None and process.rank is not None:
            scope.ranks = [process.rank]
            scope.devices = [process.device] if process.device is not None else []
            _add(
                finding, Text(f" Process {victim} was rank {process.rank}.", f"进程 {victim} 即 rank {process.rank}。")
            )
            return


def _set_scope(finding: Finding, parties: Sequence[Party]) -> None:
    scope = finding.scope
    scope.ranks = sorted({party.rank for party in parties if party.rank is not None})
    scope.nodes = sorted({party.node or party.address or "" for party in parties} - {""})
    scope.devices = sorted({party.device for party in parties if party.device is not None})


def _point_at(finding: Finding, culprits: Sequence[Party], hops: Sequence[Wait]) -> None:
    """Put the culprits into the scope, and the lines that name them first among the evidence."""
    _set_scope(finding, culprits)
    proof = [log_evidence(edge.record, ("remote", "dst_rank", "|")) for edge in hops[:3]]
    known = {(item.path, item.line) for item in proof}
    rest = (item for item in finding.evidence if (item.path, item.line) not in known)
    finding.evidence = [*proof, *rest][:EVIDENCE]


def _point_at_odd(findings: Sequence[Finding], found: Sequence[Odd]) -> None:
    """Name the rank whose argument differs from that of all others, or both ends where only two were compared."""
    for finding in findings:
        if finding.name != _DIFFER:
            continue
        if not found or not found[0].told:
            finding.confidence = "medium" if finding.confidence == "high" else finding.confidence
        if not found:
            continue
        odd = found[0]
        _set_scope(finding, odd.parties)
        names = " / ".join(party.name() for party in odd.parties)
        if odd.told:
            _add(
                finding,
                Text(
                    f" {names} has {odd.what} {odd.odd}, the other {odd.size - len(odd.parties)} have {odd.others}.",
                    f"{names} 的 {odd.what} 为 {odd.odd}，其余 {odd.size - len(odd.parties)} 个为 {odd.others}。",
                ),
            )
        else:
            _add(
                finding,
                Text(
                    f" {names} differ; with two sides compared, the logs do not tell which of them is wrong.",
                    f"{names} 两端不一致；仅两端参与比较，日志无法判断哪一端有误。",
                ),
            )


def _point_at_absent(findings: Sequence[Finding], absent: Sequence[Party]) -> None:
    """Name the ranks that never joined the communicator."""
    for finding in findings:
        if finding.name in _JOIN:
            _set_scope(finding, absent)
            if len(absent) > _MOST:
                finding.scope.devices = []


def _point_at_silent(findings: Sequence[Finding], silent: Sequence[Party]) -> None:
    """Name those that did not give up while all others of their communicator did: nobody's line names a peer."""
    if not silent:
        return
    _promote_all(findings, silent)
    names = " / ".join(party.name() for party in silent)
    for finding in findings:
        if _speaks_of_waiting(finding):
            _set_scope(finding, silent)
            _add(
                finding,
                Text(
                    f" All ranks of the communicator gave up but {names}: they were waiting for it.",
                    f"该通信域中除 {names} 外的所有 rank 均已超时，说明它们都在等待它。",
                ),
            )


def _point_beyond(findings: Sequence[Finding], last: Sequence[Party]) -> None:
    """Say that the trail leads out of the input: a number in a small communicator does not tell whose it is."""
    names = " / ".join(party.name() for party in last[:_MOST_TOLD]) + (" …" if len(last) > _MOST_TOLD else "")
    for finding in findings:
        if _speaks_of_waiting(finding):
            _set_scope(finding, ())
            finding.confidence = "medium" if finding.confidence == "high" else finding.confidence
            _add(
                finding,
                Text(
                    f" The trail ends at {names}, waiting for a peer of a smaller communicator whose place in the job "
                    "the input does not tell; the run plogs of all ranks would.",
                    f"等待链止于 {names}：它在等待某个子通信域中的对端，而输入无法说明该对端是哪个 rank；"
                    "需要全部 rank 的 run 目录 plog。",
                ),
            )


def _point_at_unheard(findings: Sequence[Finding], last: Sequence[Party]) -> None:
    """Say that the trail ends at a rank that waited as well, and of which the plog that tells for whom is missing."""
    names = " / ".join(party.name() for party in last[:_MOST_TOLD]) + (" …" if len(last) > _MOST_TOLD else "")
    for finding in findings:
        if _speaks_of_waiting(finding):
            _set_scope(finding, ())
            finding.confidence = "medium" if finding.confidence == "high" else finding.confidence
            finding.collect.append(f"plog of {names}")
            finding.i18n.get("zh", {}).setdefault("collect", []).append(f"{names} 的 plog 日志")
            _add(
                finding,
                Text(
                    f" The trail ends at {names}, which gave up waiting as well, as the console says; for whom it "
                    "waited stands in its plog, which is not among the input.",
                    f"等待链止于 {names}：终端日志表明它自身也因等待超时退出，而说明它在等待谁的 plog 不在输入中。",
                ),
            )


def _point_at_nobody(findings: Sequence[Finding]) -> None:
    """Name no rank where the input tells who gave up waiting, but not for whom: those who gave up are no culprits."""
    for finding in findings:
        ranks = finding.scope.ranks
        if not ranks or finding.name not in _GAVE_UP:
            continue
        names = ", ".join(map(str, ranks[:_MOST_TOLD])) + (" …" if len(ranks) > _MOST_TOLD else "")
        _set_scope(finding, ())
        finding.confidence = "medium" if finding.confidence == "high" else finding.confidence
        _add(
            finding,
            Text(
                f" Reported by rank {names}; the input does not tell for whom it waited. The plogs of all ranks would.",
                f"由 rank {names} 上报，但输入未说明其在等待哪个 rank；需要全部 rank 的 plog。",
            ),
        )


def _explain_late(finding: Finding, late: Party, others: Sequence[Party]) -> None:
    """Say that those who wait for each other did so one after the other."""
    names, zh_names = " and ".join(p.name() for p in others), " 与 ".join(p.name() for p in others)
    _add(
        finding,
        Text(
            f" {late.name()} began to wait only when {names} had given up: it came late.",
            f" {late.name()} 开始等待时，{zh_names} 已超时退出，说明它是迟到的一方。",
        ),
    )


def _explain(finding: Finding, culprits: Sequence[Party], waiters: int, *, circle: bool, unheard: int) -> None:
    """Say in the summary why the culprits are the ones."""
    names = " and ".join(party.name() for party in culprits)
    zh_names = " 与 ".join(party.name() for party in culprits)
    if circle:
        text = f" {names} wait for each other, so none of them is told apart as the first."
        note = f" {zh_names} 互相等待，日志无法区分谁先出错。"
    elif unheard:
        text = (
            f" {waiters} rank(s) waited, directly or through others, for {names}; whether it waited for another in "
            f"turn cannot be seen, since it and {unheard} more rank(s) left no log here."
        )
        note = (
            f" 有 {waiters} 个 rank 直接或间接在等待 {zh_names}；它与另外 {unheard} 个 rank 均无日志，"
            "无法判断它是否又在等待其他 rank。"
        )
        finding.confidence = "medium" if finding.confidence == "high" else finding.confidence
    else:
        text = f" {waiters} rank(s) waited, directly or through others, for {names}, which waited for nobody."
        note = f" 有 {waiters} 个 rank 直接或间接在等待 {zh_names}，而它没有等待任何对端。"
    silent = [party for party in culprits if not party.logged]
    if silent:
        who = " and ".join(party.name() for party in silent)
        text += " No log of it is among the input: it never got that far, or its log was not collected."
        note += " 输入中没有它的日志：它可能未运行到该阶段，或日志未被采集。"
        finding.collect.append(f"plog of {who}")
        finding.i18n.get("zh", {}).setdefault("collect", []).append(f"{who} 的 plog 日志")
    _add(finding, Text(text, note))


def _add(finding: Finding, more: Text) -> None:
    finding.summary += more.en
    zh = finding.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"{zh.get('summary', '')}{more.zh}"


def _tell_timeouts(finding: Finding, timeouts: Timeouts) -> None:
    """Say what the time-out is set to and by whom, and how that compares with what was observed."""
    name = _TIME_OUTS.get(finding.name)
    known = timeouts.of(name) if name is not None else []
    if name is None or not known:
        return
    en = f" {name} was {' / '.join(_setting(setting) for setting in known[:3])}"
    zh = f"{name} 为 {' / '.join(_zh_setting(setting) for setting in known[:3])}"
    meant = [setting for setting in timeouts.meant if setting.name == name]
    if meant and all(meant[0].seconds != setting.seconds for setting in known):
        en += f", though {meant[0].file}:{meant[0].line} sets {meant[0].seconds} s: it did not reach the processes"
        zh += f"，而 {meant[0].file}:{meant[0].line} 设置的是 {meant[0].seconds} s，未对进程生效"
    if len(known) > 1:
        en += "; it must be the same on all ranks"
        zh += "；所有 rank 应保持一致"
    if timeouts.spread_s is not None and timeouts.link == (name == "HCCL_CONNECT_TIMEOUT"):
        values = [setting.seconds for setting in known]
        least, apart = min(values), max(values) - min(values)
        en += f"; the first and the last of {timeouts.ranks} ranks gave up {timeouts.spread_s:,.1f} s apart, "
        zh += f"；{timeouts.ranks} 个 rank 首末报错相差 {timeouts.spread_s:,.1f} s，"
        if apart and least < timeouts.spread_s <= least + apart:
            en += "which the unequal time-outs alone can explain"
            zh += "仅因各 rank 的超时值不一致即可造成"
        elif timeouts.spread_s > least:
            en += "more than the time-out: a rank was late rather than gone"
            zh += "已超过该值：更可能是有 rank 迟到而非缺席"
        else:
            en += "within the time-out: a longer one would only have lengthened the wait"
            zh += "未超过该值：调大超时只会延长等待"
    _add(finding, Text(f"{en}.", f"{zh}。"))


def _setting(setting: Setting) -> str:
    by = "the default" if setting.by == "default" else f"set by {setting.by}"
    return f"{setting.seconds} s ({by}, {setting.processes} process{'es' if setting.processes > 1 else ''})"


def _zh_setting(setting: Setting) -> str:
    by = {"default": "默认值", "environment": "环境变量设置", "config": "通信域配置设置"}.get(setting.by, setting.by)
    return f"{setting.seconds} s（{by}，{setting.processes} 个进程）"


def _promote_all(findings: Sequence[Finding], culprits: Sequence[Party]) -> None:
    """Make the cause of an exception on the very rank that everybody waited for: it is why that rank stopped."""
    if len(culprits) != 1 or culprits[0].rank is None or any(finding.name == _CAME_LATE for finding in findings):
        return  # a late one ran on while the others waited; what it raised came after
    culprit = culprits[0]
    if any(_breaks(finding, culprit) for finding in findings):
        return
    ended = [finding for finding in findings if finding.scope.ranks == [culprit.rank] and _ends_a_rank(finding)]
    # A rule that knows the exception says more than the one that reads any.
    for finding in [finding for finding in ended if finding.name != _EXCEPTION] or ended:
        _promote(finding, culprit)
    if not ended and not culprit.logged:
        for finding in findings:
            if finding.name in _AT_START and not finding.scope.ranks and _may_be_of(finding, culprit):
                _promote(finding, culprit, sure=False)


def _ends_a_rank(finding: Finding) -> bool:
    """Whether a finding is an exception that does not speak of waiting itself."""
    known = finding.trust == "generic" and finding.name.startswith(_KNOWN_EXCEPTION)
    text = "\n".join(item.text or "" for item in finding.evidence[:3])
    return (known or finding.name == _EXCEPTION) and not _WAITED.search(text)


def _may_be_of(finding: Finding, culprit: Party) -> bool:
    return culprit.node is None or not finding.scope.nodes or culprit.node in finding.scope.nodes


def _breaks(finding: Finding, culprit: Party) -> bool:
    """Whether a finding says more of why the culprit stopped than an exception could."""
    return (
        finding.trust in ("cause", "specific")
        and severity_rank(finding) >= 2
        and finding.category not in _CATEGORIES
        and (culprit.rank in finding.scope.ranks or (culprit.device in finding.scope.devices))
    )


def _promote(finding: Finding, culprit: Party, *, sure: bool = True) -> None:
    """Make the cause of an exception that otherwise only says that something failed.

    Args:
        finding: The exception.
        culprit: Who was waited for.
        sure: Whether the exception is known to be of that rank.
    """
    if finding.name == _EXCEPTION:
        whole = "\n".join("\n".join((*item.before, item.text or "")) for item in finding.evidence[:3])
        finding.category = next((category for words, category in _ORIGINS if words.search(whole)), "config")
    finding.trust = "specific"
    finding.severity = "critical"
    finding.confidence = "medium" if sure else "low"
    finding.impact.fatal = True
    name = culprit.name()
    lead = Text(
        f"The ranks that gave up were waiting for {name}, of which nothing else was logged: which rank raised this "
        "exception is not told, but it fits. ",
        f"超时的 rank 均在等待 {name}，而输入中没有其他关于它的日志；该异常未注明所属 rank，但与之相符。",
    )
    if sure:
        if not finding.scope.devices and culprit.device is not None:
            finding.scope.devices = [culprit.device]
        if not finding.scope.nodes and culprit.node is not None:
            finding.scope.nodes = [culprit.node]
        lead = Text(
            f"All ranks that gave up were waiting for {name}, and this exception ended it. ",
            f"其余 rank 均在等待 {name}，而该异常使其退出。",
        )
    finding.summary = lead.en + finding.summary
    zh = finding.i18n.get("zh")
    if zh is not None:
        zh["summary"] = f"{lead.zh}{zh.get('summary', '')}"


def _known(party: Party) -> bool:
    return party.node is not None or party.rank is not None or party.address is not None
