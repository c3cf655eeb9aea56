"""What is to be said of the clocks behind the time stamps, in both languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npudiag.analyses.clocks import Clocks, Offset
from npudiag.engine.model import Text
from npudiag.parsers.base import Partial

_MOST_HOSTS = 8


def of(partials: Sequence[Partial], clocks: Clocks) -> list[Text]:
    """Return the notes: clocks that are apart, clocks that were not set, stamps without a year."""
    notes = _skew(clocks)
    unset = [
        partial.source.path
        for partial in partials
        if any(minute and minute[:4] <= "1971" for _, _, minute in partial.counts)
    ]
    if unset:
        notes.append(
            Text(
                en=f"time stamps of 1970 in {_named(unset, ' and {} more')}: written before the clock was set; "
                "they are not compared with others",
                zh=f"{_named(unset, ' 等 {} 个文件')} 中有 1970 年的时间戳：系统时钟校准之前写入，不与其他时间比较",
            )
        )
    assumed = [partial for partial in partials if partial.assumed_year is not None]
    if assumed:
        years = ", ".join(str(year) for year in sorted({partial.assumed_year or 0 for partial in assumed}))
        paths = [partial.source.path for partial in assumed]
        notes.append(
            Text(
                en=f"time stamps without a year in {_named(paths, ' and {} more')}: {years} is assumed, "
                "from when the file was last written",
                zh=f"{_named(paths, ' 等 {} 个文件')} 的时间戳没有年份：按文件最后修改时间取 {years} 年",
            )
        )
    return notes


def _skew(clocks: Clocks) -> list[Text]:
    if not clocks.offsets:
        return []
    offsets = sorted(clocks.offsets.values(), key=lambda offset: -abs(offset.seconds))
    more = len(offsets) - _MOST_HOSTS
    en = ", ".join(_english(offset) for offset in offsets[:_MOST_HOSTS]) + (f" and {more} more" if more > 0 else "")
    zh = "，".join(_chinese(offset) for offset in offsets[:_MOST_HOSTS]) + (
        f" 等 {len(offsets)} 个节点" if more > 0 else ""
    )
    return [
        Text(
            en=f"clocks of hosts differ: against {clocks.reference}, {en}. Times are shown as each log has them; "
            "what happened first is judged by corrected times",
            zh=f"节点时钟不一致：以 {clocks.reference} 为准，{zh}。时间按各日志原样显示，先后次序按校正后的时间判断",
        )
    ]


def _english(offset: Offset) -> str:
    zone = " (another time zone?)" if offset.zone else ""
    return f"{offset.node} is {_span(offset)} s {'ahead' if offset.seconds > 0 else 'behind'}{zone}"


def _chinese(offset: Offset) -> str:
    zone = "（疑为时区不同）" if offset.zone else ""
    return f"{offset.node} {'快' if offset.seconds > 0 else '慢'} {_span(offset)} s{zone}"


def _span(offset: Offset) -> str:
    return f"{abs(offset.seconds):,.0f}"


def _named(paths: Iterable[str], more: str) -> str:
    listed = list(paths)
    return ", ".join(listed[:3]) + (
        more.format(len(listed) - 3 if "more" in more else len(listed)) if len(listed) > 3 else ""
    )
