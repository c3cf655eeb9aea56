"""What ``watch`` shows: one line per finding as it appears, and a view that is redrawn while the job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npudiag.report.localise import words
from npudiag.report.safe_text import visible
from npudiag.report.terminal import ICONS
from npudiag.report.texts import Text, as_lang, say
from npudiag.result import Finding

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}
_SHOWN_NPUS = 16
_SHOWN_FINDINGS = 8

_WATCHING = Text("Watching for {time}", "已监视 {time}")
_READ = Text("{lines} lines, {size} MB", "{lines} 行，{size} MB")
_QUIET = Text("nothing written for {time}", "已有 {time} 无新日志")
_STEP = Text("Step", "训练步")
_LOSS = Text("Loss", "损失")
_NORM = Text("Gradient norm", "梯度范数")
_TIME = Text("Step time", "单步耗时")
_HOST = Text("Host", "主机")
_HOST_LINE = Text(
    "CPU {cpu} %, memory {memory} %, disk {disk} MB/s, network {net} MB/s",
    "CPU {cpu} %，内存 {memory} %，磁盘 {disk} MB/s，网络 {net} MB/s",
)
_JOB = Text("job {cpu} % CPU, {rss} GiB in {n} processes", "作业 CPU {cpu} %，内存 {rss} GiB，{n} 个进程")
_NPU = Text("NPU", "NPU")
_UTIL = Text("AI Core %", "AI Core %")
_HBM = Text("HBM %", "HBM %")
_TEMP = Text("Temp. °C", "温度 °C")
_POWER = Text("Power W", "功耗 W")
_HEALTH = Text("Health", "健康状态")
_FINDINGS = Text("Findings", "发现的问题")
_NONE = Text("none so far", "暂无")
_MORE = Text("{n} earlier ones", "更早的 {n} 项")


@dataclass(slots=True)
class Now:
    """What is known at a moment.

    Attributes:
        elapsed_s: Seconds since the watch began.
        quiet_s: Seconds since a log grew.
        lines, size: What was read; bytes.
        training: step, total_steps, loss, grad_norm, step_time_ms as far as a log tells.
        host: A row of table ``host_samples``.
        npus: Rows of table ``npu_samples``.
        findings: In order of appearance.
    """

    elapsed_s: float
    quiet_s: float
    lines: int
    size: int
    training: Mapping[str, float | None] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    npus: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Finding] = ()


def line(finding: Finding, lang: str) -> str:
    """Return a finding as one line of plain text."""
    where = next((f" {proof.path}:{proof.line}" for proof in finding.evidence if proof.path and proof.line), "")
    title = visible(words(finding, as_lang(lang)).title)
    return f"{ICONS[finding.severity]} {finding.severity} {finding.code} {title}{visible(where)}"


def duration(seconds: float) -> str:
    """Return seconds as ``1:02:03`` or ``2:03``."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def view(now: Now, lang: str) -> RenderableType:
    """Return what is to be drawn."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text as Styled

    told = as_lang(lang)
    head = Styled(say(_WATCHING, told, time=duration(now.elapsed_s)), style="bold")
    head.append("  " + say(_READ, told, lines=now.lines, size=f"{now.size / 1e6:.1f}"), style="dim")
    if now.quiet_s >= 60:
        head.append("  " + say(_QUIET, told, time=duration(now.quiet_s)), style="yellow")
    parts: list[RenderableType] = [_numbers(now, told)]
    if now.npus:
        parts.append(_npus(now.npus, told))
    parts.append(_findings(now.findings, told))
    return Panel(Group(*parts), title=head, title_align="left")


def _numbers(now: Now, lang: Any) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    training = now.training
    if training.get("step") is not None:
        total = training.get("total_steps")
        table.add_row(say(_STEP, lang), f"{training['step']:,.0f}" + (f" / {total:,.0f}" if total else ""))
        for name, text, form in (("loss", _LOSS, ".6g"), ("grad_norm", _NORM, ".4g"), ("step_time_ms", _TIME, ",.0f")):
            value = training.get(name)
            if value is not None:
                table.add_row(say(text, lang), format(value, form) + (" ms" if name == "step_time_ms" else ""))
    host = now.host
    if host:
        shown = say(
            _HOST_LINE,
            lang,
            cpu=_figure(host.get("cpu_pct")),
            memory=_figure(host.get("memory_pct")),
            disk=_figure(_sum(host, "disk_read_mbps", "disk_write_mbps")),
            net=_figure(_sum(host, "net_rx_mbps", "net_tx_mbps")),
        )
        if host.get("job_processes"):
            rss = host.get("job_rss_mb")
            shown += "; " + say(
                _JOB,
                lang,
                cpu=_figure(host.get("job_cpu_pct")),
                rss=_figure(rss / 1024 if rss is not None else None, 1),
                n=int(host["job_processes"]),
            )
        table.add_row(say(_HOST, lang), shown)
    return table


def _sum(row: Mapping[str, Any], *names: str) -> float | None:
    values = [row[name] for name in names if row.get(name) is not None]
    return sum(values) if values else None


def _figure(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _npus(rows: Sequence[Mapping[str, Any]], lang: Any) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for text in (_NPU, _UTIL, _HBM, _TEMP, _POWER, _HEALTH):
        table.add_column(say(text, lang), justify="left" if text is _HEALTH else "right")
    for row in rows[:_SHOWN_NPUS]:
        health = visible(str(row.get("health") or "–"))
        table.add_row(
            f"{row.get('device', '?')}",
            *(_figure(row.get(name)) for name in ("util_pct", "hbm_pct", "temp_c", "power_w")),
            health,
            style=None if health in ("OK", "–") else "yellow",
        )
    return table


def _findings(findings: Sequence[Finding], lang: Any) -> RenderableType:
    from rich.text import Text as Styled

    out = Styled(say(_FINDINGS, lang) + ": ", style="bold")
    if not findings:
        return out.append(say(_NONE, lang), style="not bold dim")
    if len(findings) > _SHOWN_FINDINGS:
        out.append(say(_MORE, lang, n=len(findings) - _SHOWN_FINDINGS), style="not bold dim")
    for finding in findings[-_SHOWN_FINDINGS:]:
        out.append("\n" + line(finding, lang), style=f"not bold {_STYLES.get(finding.severity, '')}")
    return out
