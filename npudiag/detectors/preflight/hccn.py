"""The network ports of the cards, as hccn_tool and hccn.conf describe them."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence

from npudiag.analyses.host import Fact, Host
from npudiag.detectors.preflight.answer import Answer, Params, all_hosts, both, each_host, hit
from npudiag.engine.hits import CannotJudge

_NOT_TESTED = ("init", "detect ip set", "unknown", "not configured")
"""Answers of the health check that only say that it has nothing to ping."""


def _told(host: Host, name: str) -> list[Fact]:
    facts = host.all("hccn", name)
    if not facts:
        raise CannotJudge("hccn_tool")
    return facts


def _only_before(host: Host) -> None:
    """Leave texts of other times to the rule that knows these messages in any log (npu-port-unhealthy)."""
    if not host.before_job:
        raise CannotJudge("npudiag host, before the job")


def _devices(facts: Sequence[Fact]) -> list[int]:
    return sorted({fact.device for fact in facts if fact.device is not None})


def _counted(facts: Sequence[Fact]) -> tuple[str, str]:
    return both(", ".join(f"{value} x{count}" for value, count in Counter(fact.value for fact in facts).most_common(4)))


@each_host
def link(host: Host, params: Params) -> Answer:
    """Ports are down; where all of them are, the machine may simply have no such network."""
    facts = _told(host, "link")
    down = [fact for fact in facts if "DOWN" in fact.value.upper()]
    if not down:
        return Answer(_counted(facts))
    everywhere = len(down) == len(facts) and len(facts) > 1
    severity = "info" if everywhere else "error"
    found = hit(host, down, severity=severity, devices=_devices(down), down=len(down), ports=len(facts))
    return Answer(_counted(facts), [found])


@each_host
def health(host: Host, params: Params) -> Answer:
    """The card's own network check fails."""
    _only_before(host)
    facts = [fact for fact in _told(host, "net_health") if fact.value.lower() not in _NOT_TESTED]
    if not facts:
        raise CannotJudge("hccn_tool")
    down = {fact.device for fact in host.all("hccn", "link") if "DOWN" in fact.value.upper()}
    # What is down fails the check as well, and is told already.
    bad = [fact for fact in facts if fact.value.lower() != "success" and fact.device not in down]
    if not bad:
        return Answer(_counted(facts))
    return Answer(_counted(facts), [hit(host, bad, devices=_devices(bad), state=bad[0].value, failed=len(bad))])


@all_hosts
def tls(machines: Sequence[Host], params: Params) -> Answer:
    """TLS is on at some ports and off at others."""
    facts = [fact for host in machines for fact in host.all("hccn", "tls")]
    if not facts:
        raise CannotJudge("hccn_tool")
    sides = {value: [fact for fact in facts if fact.value == value] for value in sorted({fact.value for fact in facts})}
    if len(sides) < 2:
        return Answer(_counted(facts))
    rare = min(sides.values(), key=len)
    proof = [side[0] for side in sides.values()]
    on = len(sides.get("1", ()))
    return Answer(_counted(facts), [hit(None, proof, devices=_devices(rare), on=on, off=len(facts) - on)])


@all_hosts
def fec(machines: Sequence[Host], params: Params) -> Answer:
    """Ports use different forward error correction."""
    facts = [fact for host in machines for fact in host.all("hccn", "fec")]
    if not facts:
        raise CannotJudge("hccn_tool")
    modes = Counter(fact.value for fact in facts)
    if len(modes) < 2:
        return Answer(_counted(facts))
    usual = modes.most_common(1)[0][0]
    odd = [fact for fact in facts if fact.value != usual]
    return Answer(_counted(facts), [hit(None, odd, devices=_devices(odd), usual=usual, odd=odd[0].value)])


@each_host
def addresses(host: Host, params: Params) -> Answer:
    """Cards without an address, or two with the same."""
    facts = host.all("hccn", "ip") or host.all("hccn", "conf_address")
    if not facts:
        raise CannotJudge("hccn_tool")
    measured = (f"{len(facts)} addresses", f"{len(facts)} 个地址")
    counts = Counter(fact.value for fact in facts)
    twice = [fact for fact in facts if counts[fact.value] > 1]
    hits = []
    if twice:
        words = {"problem": (f"address {twice[0].value} is given twice", f"地址 {twice[0].value} 重复配置")}
        hits.append(hit(host, twice, devices=_devices(twice), words=words))
    have = set(_devices(facts))
    lacking = sorted(set(host.cards) - have) if have <= set(host.cards) else []
    if lacking and host.all("hccn", "conf_address"):
        words = {"problem": ("some cards have no address", "部分卡没有地址")}
        hits.append(hit(host, facts[:2], devices=lacking, words=words))
    broken = [fact for fact in facts if not _is_address(fact.value)]
    if broken:
        words = {"problem": (f"{broken[0].value} is no address", f"{broken[0].value} 不是合法地址")}
        hits.append(hit(host, broken, devices=_devices(broken), words=words))
    return Answer(measured, hits)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@each_host
def flaps(host: Host, params: Params) -> Answer:
    """A port lost its link again and again, or for long, during the last hours."""
    records = host.all("hccn", "link_down_s")
    if not records and not host.all("hccn", "link"):
        raise CannotJudge("hccn_tool")
    hours, longest, most = (float(params.get(name, value)) for name, value in _FLAPS.items())
    recent = [fact for fact in records if (ago := _hours_ago(fact)) is not None and ago <= hours]
    # A link that is down now is a matter of its own.
    long = [fact for fact in recent if fact.number is not None and fact.number > longest]
    counts = Counter(fact.device for fact in recent if fact.number is not None)
    often = {device for device, count in counts.items() if count > most}
    bad = [fact for fact in recent if fact in long or fact.device in often]
    measured = (f"{len(recent)} losses in {hours:g} h", f"{hours:g} 小时内 {len(recent)} 次断链")
    if not bad:
        return Answer(measured)
    worst = max((fact.number or 0 for fact in bad), default=0)
    return Answer(measured, [hit(host, bad, devices=_devices(bad), losses=len(bad), hours=hours, longest=worst)])


_FLAPS = {"hours": 24.0, "longest_s": 30.0, "most": 3.0}


def _hours_ago(fact: Fact) -> float | None:
    match = re.match(r"([\d.]+) h ago", fact.item)
    return float(match[1]) if match else None


@each_host
def optics(host: Host, params: Params) -> Answer:
    """An optical module is missing or sees no light."""
    _only_before(host)
    facts = host.all("hccn", "optical_present")
    flags = [fact for name in ("rx_los", "tx_los", "rx_lol", "tx_lol") for fact in host.all("hccn", name)]
    if not facts and not flags:
        raise CannotJudge("hccn_tool")
    down = [fact for fact in host.all("hccn", "link") if "DOWN" in fact.value.upper()]
    everywhere = bool(down) and len(down) == len(host.all("hccn", "link"))
    absent = [fact for fact in facts if fact.value.lower() not in ("present", "1", "yes", "true")]
    dark = [fact for fact in flags if fact.number]
    measured = (f"{len(facts)} modules", f"{len(facts)} 个光模块")
    # Without any cable there is no light to see.
    bad = [] if everywhere else [*absent, *dark]
    if not bad:
        return Answer(measured)
    words = {
        "problem": ("a module is missing", "光模块不在位") if absent else ("a module sees no light", "光模块收发无光")
    }
    return Answer(measured, [hit(host, bad, devices=_devices(bad), words=words)])


@each_host
def packet_errors(host: Host, params: Params) -> Answer:
    """Ports count damaged RoCE packets."""
    facts = [fact for name in ("rx_errors", "tx_errors") for fact in host.all("hccn", name)]
    if not facts:
        raise CannotJudge("hccn_tool")
    most = float(params.get("most", 0))
    bad = [fact for fact in facts if fact.number is not None and fact.number > most]
    measured = (
        f"{len(facts)} counters, {len(bad)} above {most:g}",
        f"{len(facts)} 个计数器，{len(bad)} 个超过 {most:g}",
    )
    if not bad:
        return Answer(measured)
    worst = max(bad, key=lambda fact: fact.number or 0)
    return Answer(measured, [hit(host, bad, devices=_devices(bad), errors=int(worst.number or 0), card=worst.device)])
