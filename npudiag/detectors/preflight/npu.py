"""The NPUs of a machine: device nodes, what npu-smi says, who holds them."""

from __future__ import annotations

from collections.abc import Sequence

from npudiag.analyses.host import Fact, Host
from npudiag.detectors.preflight.answer import Answer, Params, all_hosts, both, each_host, hit
from npudiag.engine.hits import CannotJudge

_MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_RATED_MB = (32_768.0, 65_536.0, 131_072.0)


def _nodes(host: Host) -> list[Fact]:
    return [fact for fact in host.all("device", "node") if fact.item not in _MANAGERS]


@each_host
def device_nodes(host: Host, params: Params) -> Answer:
    """The PCI bus shows NPUs whose device nodes are missing: the driver did not take them."""
    pci = host.number("device", "pci_count")
    nodes = host.number("device", "node_count")
    if not pci and not nodes:
        raise CannotJudge("NPU")
    found = int(nodes or 0)
    missing = [name for name in _MANAGERS if _nodes(host) and host.one("device", "node", name) is None]
    measured = both(f"{found} /dev/davinci* / {int(pci or found)} PCI")
    # A container is given some cards on purpose.
    inside = host.number("system", "container") == 1
    short = pci is not None and found < pci and (not inside or not found)
    if not short and not (found and missing):
        return Answer(measured)
    facts = [host.one("device", "pci_count"), host.one("device", "node_count")]
    managers = ", ".join(missing) if found else None
    return Answer(measured, [hit(host, facts, nodes=found, pci=int(pci or 0), managers=managers)])


@each_host
def device_access(host: Host, params: Params) -> Answer:
    """This user may not open the device nodes."""
    access = host.all("device", "accessible")
    if not access:
        raise CannotJudge("/dev/davinci*")
    closed = [fact for fact in access if fact.number == 0]
    measured = both(f"{len(access) - len(closed)} / {len(access)}")
    if not closed:
        return Answer(measured)
    node = host.one("device", "node", closed[0].item)
    mode = node.value if node else None
    return Answer(measured, [hit(host, [*closed[:4], node], path=closed[0].item, mode=mode, closed=len(closed))])


@each_host
def held(host: Host, params: Params) -> Answer:
    """Processes hold cards although no job is meant to run yet."""
    if not host.before_job:
        raise CannotJudge("npudiag host, before the job")
    if not host.npus:
        raise CannotJudge("NPU")
    holders = [*host.all("process", "holds_npu"), *host.all("npu", "process")]
    pids = list(dict.fromkeys(fact.item for fact in holders))
    hidden = host.number("process", "hidden")
    if not pids and hidden and not host.cards:
        raise CannotJudge("root, /proc/*/fd")
    measured = (f"{len(pids)} processes", f"{len(pids)} 个进程")
    if not pids:
        return Answer(measured)
    devices = [fact.device for fact in holders if fact.device is not None]
    return Answer(
        measured, [hit(host, holders, devices=devices or None, pids=", ".join(pids[:12]), processes=len(pids))]
    )


@each_host
def listed(host: Host, params: Params) -> Answer:
    """npu-smi lists fewer cards than there are device nodes."""
    nodes = _nodes(host)
    if not host.cards or not nodes:
        raise CannotJudge("npu-smi" if not host.cards else "/dev/davinci*")
    measured = both(f"{len(host.cards)} npu-smi / {len(nodes)} /dev/davinci*")
    if len(host.cards) >= len(nodes):
        return Answer(measured)
    return Answer(measured, [hit(host, [host.one("device", "node_count")], listed=len(host.cards), nodes=len(nodes))])


@each_host
def hbm_capacity(host: Host, params: Params) -> Answer:
    """A card has less memory than it should: part of it was taken out after faults."""
    totals = {device: card.hbm_total_mb for device, card in host.cards.items() if card.hbm_total_mb}
    if not totals:
        raise CannotJudge("npu-smi")
    least = float(params.get("least_pct", 95))
    largest = max(totals.values())
    # The rating is that of the sister cards, or the next size that is made.
    rated = min((size for size in _RATED_MB if largest <= size < largest / 0.85), default=largest)
    low = {device: total for device, total in totals.items() if total * 100 < rated * least}
    measured = both(f"{min(totals.values()):,.0f}-{largest:,.0f} MB (>= {least:g} % / {rated:,.0f})")
    if not low:
        return Answer(measured)
    device, total = min(low.items(), key=lambda pair: pair[1])
    return Answer(measured, [hit(host, [], devices=list(low), found=int(total), rated=int(rated), card=device)])


@each_host
def clock_rate(host: Host, params: Params) -> Answer:
    """A card that computes runs below its rated clock; an idle one saves power and is let alone."""
    busy_pct, least_pct = float(params.get("busy_pct", 30)), float(params.get("least_pct", 95))
    rates = host.all("chip", "rated_mhz")
    if not rates:
        raise CannotJudge("npu-smi")
    slow: list[tuple[Fact, Fact]] = []
    judged = 0
    for rated in rates:
        current = _same_chip(host.all("chip", "current_mhz"), rated)
        use = _same_chip(host.all("chip", "util_pct"), rated)
        if current is None or use is None or not rated.number or (use.number or 0) < busy_pct:
            continue
        judged += 1
        if current.number is not None and current.number * 100 < rated.number * least_pct:
            slow.append((current, rated))
    if not judged:
        raise CannotJudge("a card that computes")
    measured = (f"{judged} busy cards", f"{judged} 张运行中的卡")
    if not slow:
        return Answer(measured)
    current, rated = slow[0]
    devices = [fact.device for fact, _ in slow if fact.device is not None]
    facts = [fact for pair in slow[:4] for fact in pair]
    return Answer(measured, [hit(host, facts, devices=devices, current=current.number, rated=rated.number)])


def _same_chip(facts: Sequence[Fact], wanted: Fact) -> Fact | None:
    return next((fact for fact in facts if (fact.device, fact.item) == (wanted.device, wanted.item)), None)


@all_hosts
def firmware(machines: Sequence[Host], params: Params) -> Answer:
    """Cards run different firmware or driver versions."""
    by_version: dict[str, list[Fact]] = {}
    for host in machines:
        for name in ("firmware_version", "software_version"):
            for fact in host.all("board", name):
                by_version.setdefault(f"{name.partition('_')[0]} {fact.value}", []).append(fact)
    if not by_version:
        raise CannotJudge("npu-smi")
    measured = both(", ".join(f"{version} x{len(facts)}" for version, facts in sorted(by_version.items())))
    hits = []
    for kind in ("firmware", "software"):
        own = {version: facts for version, facts in by_version.items() if version.startswith(kind)}
        if len(own) > 1:
            rare = min(own.values(), key=len)
            devices = sorted({fact.device for fact in rare if fact.device is not None})
            versions = ", ".join(version.partition(" ")[2] for version in sorted(own))
            named = ("driver", "驱动") if kind == "software" else ("firmware", "固件")
            proof = [facts[0] for facts in own.values()]
            hits.append(hit(None, proof, devices=devices, words={"what": named}, versions=versions))
    return Answer(measured, hits)


@each_host
def ecc(host: Host, params: Params) -> Answer:
    """A card counts memory errors that it could not correct."""
    counts = host.all("ecc", "hbm_double_bit")
    if not counts:
        raise CannotJudge("npu-smi")
    bad = [fact for fact in counts if fact.number]
    measured = (f"{len(counts)} counters, {len(bad)} above 0", f"{len(counts)} 个计数器，{len(bad)} 个非 0")
    if not bad:
        return Answer(measured)
    devices = [fact.device for fact in bad if fact.device is not None]
    return Answer(measured, [hit(host, bad, devices=devices, errors=int(max(fact.number or 0 for fact in bad)))])


_FAILING = {"npu-smi": "error", "hccn_tool": "warning"}
"""How grave it is that a tool fails; the others are additions that jobs do without."""


@each_host
def tools(host: Host, params: Params) -> Answer:
    """A tool of the vendor's is there and does not answer."""
    states = [fact for fact in host.all("tool", "status") if fact.item != "msnpureport"]
    there = [fact for fact in states if not fact.value.startswith(("absent", "skipped"))]
    if not there:
        raise CannotJudge("npu-smi")
    measured = both(", ".join(f"{fact.item} {fact.value.partition(' ')[0]}" for fact in there))
    bad = [fact for fact in there if not fact.value.startswith("ok") and "no card" not in fact.value]
    if host.number("device", "root") == 0:
        # Only npu-smi is there for everybody.
        bad = [fact for fact in bad if fact.item == "npu-smi"]
    return Answer(
        measured,
        [
            hit(
                host, [fact], severity=_FAILING.get(fact.item, "info"), tool=fact.item,
                words={"reason": _reason(fact.value)},
            )
            for fact in bad
        ],
    )  # fmt: skip


def _reason(status: str) -> tuple[str, str]:
    state, _, detail = status.partition(" ")
    if state == "timeout":
        return f"does not answer ({detail})", f"无响应（{detail}）"
    return f"fails {detail}".strip(), f"执行失败 {detail}".strip()
