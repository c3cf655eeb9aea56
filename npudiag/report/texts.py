"""Words of the reports in English and Chinese.

A text is looked up as an attribute (``UI.root_cause``), so a misspelt one is a
type error. Texts of findings come from the result document, never from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from npudiag.result import Confidence, Disposition, RemedyKind, Role, Severity

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, Lang] = ("en", "zh")


class Text(NamedTuple):
    """One text in both languages; may hold ``{name}`` places.

    Attributes:
        en: English.
        zh: Simplified Chinese.
        one: English for a count of one (place ``n``), where it differs.
    """

    en: str
    zh: str
    one: str | None = None


def as_lang(name: str) -> Lang:
    """Return the report language for a language tag such as ``zh_CN.UTF-8``."""
    return "zh" if name.strip().lower().startswith("zh") else "en"


def pick_lang(env: Mapping[str, str]) -> Lang:
    """Choose the language: ``NPUDIAG_LANG``, then the locale variables, else English.

    The ``C`` and ``POSIX`` locales say nothing about the reader's language and are passed over.
    """
    own = env.get("NPUDIAG_LANG", "")
    if own:
        return as_lang(own)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = env.get(name, "")
        if value and value.partition(".")[0] not in ("C", "POSIX"):
            return as_lang(value)
    return "en"


def say(text: Text, lang: str, **values: object) -> str:
    """Return `text` in `lang` with its places filled; whole numbers get thousands separators."""
    template = text.zh if lang == "zh" else text.one if text.one is not None and values.get("n") == 1 else text.en
    return template.format(**{name: number(value) for name, value in values.items()}) if values else template


def joined(parts: Iterable[str], lang: str) -> str:
    """Return parts of a sentence separated by commas."""
    return ("，" if lang == "zh" else ", ").join(parts)


def labelled(label: Text, text: str, lang: str) -> str:
    """Return ``label: text``."""
    return f"{say(label, lang)}{'：' if lang == 'zh' else ': '}{text}"


def in_brackets(text: str, lang: str) -> str:
    """Return text to put behind a word, in brackets."""
    return f"（{text}）" if lang == "zh" else f" ({text})"


def number(value: object) -> str:
    """Return a value as text, whole numbers with thousands separators."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


SEVERITY: dict[Severity, Text] = {
    "critical": Text("critical", "致命"),
    "error": Text("error", "错误"),
    "warning": Text("warning", "警告"),
    "info": Text("info", "提示"),
}

CONFIDENCE: dict[Confidence, Text] = {
    "high": Text("high confidence", "置信度高"),
    "medium": Text("medium confidence", "置信度中"),
    "low": Text("low confidence", "置信度低"),
}

ROLE: dict[Role, Text] = {
    "root": Text("root cause", "根因"),
    "consequence": Text("consequence", "连带现象"),
    "contributing": Text("contributing factor", "诱因"),
}

DISPOSITION: dict[Disposition, Text] = {
    "safe": Text("safe", "可放心修改"),
    "review": Text("review first", "修改前请评估"),
    "risky": Text("risky", "有风险"),
}

REMEDY: dict[RemedyKind, Text] = {
    "flag": Text("launch flag", "启动参数"),
    "env": Text("environment variable", "环境变量"),
    "config": Text("configuration", "配置项"),
    "command": Text("command", "命令"),
    "code": Text("code change", "代码修改"),
    "hardware": Text("hardware", "硬件处理"),
    "collect": Text("collect data", "补充采集"),
}

CATEGORY: dict[str, Text] = {
    "hccl-init": Text("HCCL initialisation", "HCCL 建链"),
    "hccl-timeout": Text("HCCL timeout", "HCCL 超时"),
    "device-fault": Text("device fault", "芯片故障"),
    "aicore-exception": Text("AI Core exception", "AI Core 异常"),
    "aicpu-exception": Text("AI CPU exception", "AI CPU 异常"),
    "operator": Text("operator", "算子"),
    "graph-capture": Text("graph capture", "图捕获"),
    "moe": Text("mixture of experts", "MoE"),
    "kv-cache": Text("KV cache", "KV Cache"),
    "kv-transfer": Text("KV transfer", "KV 传输"),
    "out-of-memory": Text("out of memory", "内存不足"),
    "process-conflict": Text("process conflict", "进程冲突"),
    "environment": Text("environment", "运行环境"),
    "version-mismatch": Text("version mismatch", "版本不匹配"),
    "permission": Text("permission", "权限"),
    "scheduling": Text("scheduling", "调度"),
    "config": Text("configuration", "配置"),
    "data-pipeline": Text("data pipeline", "数据加载"),
    "checkpoint": Text("checkpoint", "检查点"),
    "numerics": Text("numerics", "数值精度"),
    "performance": Text("performance", "性能"),
    "host-fault": Text("host fault", "主机故障"),
    "insufficient-evidence": Text("insufficient evidence", "证据不足"),
}

STATUS: dict[str, Text] = {
    "healthy": Text("No problem found", "未发现问题"),
    "findings": Text("Problem found", "发现问题"),
    "insufficient": Text("Not enough evidence", "证据不足"),
    "nothing-recognised": Text("Nothing recognised", "未识别到可分析的内容"),
}

REASON: dict[str, Text] = {
    "unreadable": Text("unreadable", "无法读取"),
    "truncated": Text("truncated", "被截断"),
    "corrupt": Text("corrupt", "已损坏"),
    "bomb": Text("decompression bomb", "疑似压缩炸弹"),
    "vanished": Text("vanished while reading", "读取时已消失"),
    "unsupported": Text("unsupported", "不支持"),
    "escape": Text("points outside the input", "指向输入目录之外"),
    "loop": Text("link loop", "链接成环"),
    "special": Text("special file", "特殊文件"),
    "grew": Text("grew while reading", "读取时仍在写入"),
    "limit": Text("limit reached", "达到上限"),
    "duplicate": Text("held twice", "内容重复"),
}


class UI:
    """All other words of the reports."""

    # Parts of a report
    root_cause = Text("Root cause", "根因")
    unexplained = Text("Unexplained failure", "未能解释的失败")
    root_cause_n = Text("Independent cause {k}", "独立根因 {k}")
    evidence = Text("Evidence", "证据")
    what_to_do = Text("What to do", "处理建议")
    what_it_caused = Text("What it caused", "引发的连带现象")
    runner_up = Text("Also considered", "备选解释")
    why_this = Text("Why this", "判断依据")
    settle = Text("What would settle it:", "如何确认：")
    not_taken = Text("not taken: {why}", "未采纳：{why}")
    collect = Text("Collect next", "建议补充采集")
    references = Text("References", "参考资料")
    contributing = Text("Contributing factors", "诱因")
    other_findings = Text("Other findings", "其他发现")
    notes = Text("Notes", "提示信息")
    suppressed = Text("Suppressed", "已屏蔽")
    unused_suppression = Text("Unused suppression", "未生效的屏蔽规则")
    coverage = Text("What was read", "读取范围")
    checks = Text("What was checked", "检查范围")
    facts = Text("Facts about the job", "任务信息")
    reproduce = Text("Reproduce", "复现方法")
    all_changes = Text("All suggested changes", "全部修改建议")

    # Counts
    n_roots = Text("{n} root causes", "{n} 个根因", "{n} root cause")
    n_consequences = Text("{n} consequences", "{n} 个连带现象", "{n} consequence")
    n_contributing = Text("{n} contributing factors", "{n} 个诱因", "{n} contributing factor")
    n_others = Text("{n} other findings", "{n} 个其他发现", "{n} other finding")
    n_notes = Text("{n} notes", "{n} 条提示", "{n} note")
    n_suppressed = Text("{n} suppressed", "{n} 个已屏蔽")
    n_findings = Text("{n} findings", "{n} 个发现", "{n} finding")
    n_files = Text("{n} files", "{n} 个文件", "{n} file")
    n_lines = Text("{n} lines", "{n} 行", "{n} line")
    n_times = Text("{n} times", "{n} 次", "once")
    n_places = Text("{n} more places", "另有 {n} 处", "{n} more place")
    more_json = Text("{n} more in result.json", "其余 {n} 项见 result.json")
    more_verbose = Text("{n} more (-v shows them)", "另有 {n} 项（加 -v 显示）")
    more_lines = Text("{n} more lines", "另有 {n} 行", "{n} more line")
    stands_for = Text("stands for {n} such lines", "代表 {n} 行同类日志", "stands for {n} such line")
    cut_chars = Text("{n} characters cut", "略去 {n} 个字符", "{n} character cut")

    # Scope
    rank = Text("ranks {list}", "Rank {list}", "rank {list}")
    device = Text("devices {list}", "Device {list}", "device {list}")
    node = Text("nodes {list}", "节点 {list}", "node {list}")
    step = Text("steps {list}", "Step {list}", "step {list}")
    fatal = Text("ended the job", "导致任务终止")
    lost_pct = Text("{pct} % of the time lost", "损失 {pct} % 的时间")
    lost_time = Text("{time} lost", "损失 {time}")

    # Remedies
    first_step = Text("First step:", "首先：")
    expect = Text("Expect", "预期效果")
    verify = Text("Verify", "验证方法")
    was_set = Text("set at {place}", "当前设置位于 {place}")
    same_as_first = Text(
        "Explanation and remedies as for the first {code} above.", "说明与处理建议同上方第一条 {code}。"
    )
    applies_to = Text("for {stack}", "适用于 {stack}")

    # Coverage
    framework = Text("Framework: {name} {version}", "框架：{name} {version}")
    framework_among = Text(
        "Framework: {name}, release unknown (its options fit {versions})",
        "框架：{name}，版本未知（参数与 {versions} 相符）",
    )
    framework_unversioned = Text("Framework: {name}, release unknown", "框架：{name}，版本未知")
    framework_one_of = Text(
        "Framework: {names}, which of them is not known; changes say whose they are (--stack states it)",
        "框架：{names} 之一，无法确定；修改建议注明适用框架（可用 --stack 指定）",
    )
    framework_unknown = Text(
        "Framework: unknown; changes are given for each (--stack states it)",
        "框架：未识别，修改建议按框架分别给出（可用 --stack 指定）",
    )
    framework_none = Text("Framework: none that is known; read as plain text", "框架：未识别到已知框架，按普通文本读取")
    ranks = Text("Ranks", "Rank")
    ranks_read = Text("{list} read", "已读取 {list}")
    ranks_of = Text("{n} of {total}", "{n} / {total}")
    ranks_missing = Text("missing: {list}", "缺失：{list}")
    no_ranks = Text("none identified", "未识别到")
    nodes = Text("Nodes", "节点")
    devices = Text("Devices", "Device")
    time_range = Text("Time range", "时间范围")
    clock = Text("Clock", "时钟")
    n_not_recognised = Text("{n} not recognised: {list}", "{n} 个文件未识别：{list}")
    n_not_read = Text("{n} not read: {list}", "{n} 个文件未读取：{list}")
    n_truncated = Text("{n} truncated: {list}", "{n} 个文件被截断：{list}")
    n_unparsed = Text("{n} lines belong to no record", "{n} 行未能归入任何记录", "{n} line belongs to no record")
    not_recognised = Text("not recognised", "未识别")
    recognised = Text("recognised", "已识别")
    skipped_files = Text("not read", "未读取")
    truncated = Text("truncated", "被截断")
    unparsed = Text("Unassigned", "未归入")
    kept = Text("Used by the rules", "供规则使用")
    kept_folded = Text("{kept} lines, {folded} more alike", "{kept} 行，另有 {folded} 行与之相同")
    incomplete = Text(
        "Part of the input was not analysed. The answer covers only what was read.",
        "部分输入未被分析，结论仅覆盖已读取的内容。",
    )
    complete = Text("All of the input was read.", "输入已全部读取。")
    partly_known = Text(
        "{n} files were not recognised, so nothing in them was judged.",
        "{n} 个文件未被识别，其内容未参与判断。",
        "{n} file was not recognised, so nothing in it was judged.",
    )
    problems = Text("Problems while reading", "读取时的问题")
    inputs = Text("Input files", "输入文件")
    file = Text("File", "文件")
    kind = Text("Kind", "类型")
    lines = Text("Lines", "行数")
    size = Text("Size", "大小")
    of_whom = Text("Of", "归属")
    note = Text("Note", "备注")
    not_lost = Text("nothing lost", "无内容丢失")
    undone = Text("undone first: {list}", "预处理：{list}")
    relative = Text(
        "Paths are relative to the folder that holds the input.",
        "路径均相对于输入所在的上级目录。",
    )
    levels = Text("Lines by level", "各级别行数")
    time = Text("Time", "时间")
    legend_errors = Text("errors", "错误")
    legend_warnings = Text("warnings", "警告")
    legend_others = Text("all other lines", "其余日志")
    per_bucket = Text("lines per {n} minutes", "每 {n} 分钟行数", "lines per minute")
    peak = Text("peak {n}", "峰值 {n}")
    marker_first = Text("root cause first seen {time}", "根因首次出现 {time}")
    not_to_scale = Text(
        "The log has long gaps: minutes without lines are left out.",
        "日志存在较长空白：无日志的时间段已省略。",
    )
    as_table = Text("The numbers as a table", "以表格查看数据")
    series_summary = Text(
        "from {first} to {last}, between {low} and {high}", "从 {first} 到 {last}，介于 {low} 与 {high} 之间"
    )
    culprit = Text("culprit", "问题所在")
    affected = Text("affected", "受影响")
    present = Text("read", "已读取")
    missing = Text("missing", "缺失")

    # Checks
    rules_passed = Text("{n} rules looked and found nothing", "{n} 条规则检查通过", "{n} rule looked and found nothing")
    rules_skipped = Text("{n} could not judge", "{n} 条无法判断")
    rules_broke = Text("{n} broke", "{n} 条执行出错")
    passed = Text("Looked and found nothing", "检查通过")
    skipped = Text("Could not judge", "无法判断")
    broke = Text("Rules that broke", "执行出错的规则")
    broke_hint = Text(
        "{n} rules broke. They have judged nothing and do not count as passed.",
        "{n} 条规则执行出错：未给出判断，不计为通过。",
        "{n} rule broke. It has judged nothing and does not count as passed.",
    )
    comma = Text(", ", "，")
    no_data_for = Text("no data for {tables}", "缺少数据：{tables}")

    # Reproduce
    version = Text("Version", "版本")
    rules = Text("Rules", "规则库")
    rules_value = Text("{n} rules, {hash}", "{n} 条规则，{hash}")
    created = Text("Created", "生成时间")
    timings = Text("Time taken", "耗时")

    # Merged changes
    changes_head = Text(
        "Suggested changes. Read before use; lines starting with # are not executed.",
        "修改建议。使用前请逐条确认；以 # 开头的行不会执行。",
    )
    changes_env = Text("Environment variables", "环境变量")
    changes_flag = Text("Add to the launch command", "加入启动命令")
    changes_config = Text("Change in the configuration", "修改配置")
    changes_command = Text("Commands", "命令")
    changes_was = Text("was {old}", "原值 {old}")
    changes_conflict = Text("another finding suggests {key}={to} instead", "另一条发现建议 {key}={to}")
    changes_symptom = Text(
        "Eases a consequence only; fix the root cause first",
        "仅缓解连带现象，请先处理根因",
    )

    # Page
    skip_link = Text("Skip to the answer", "跳到结论")
    contents = Text("Contents", "目录")
    verdict = Text("Verdict", "结论")
    switch_lang = Text("中文", "English")
    switch_theme = Text("Light / dark", "浅色 / 深色")
    save_json = Text("Save result.json", "保存 result.json")
    copy = Text("copy", "复制")
    copied = Text("copied", "已复制")
    expand_all = Text("Expand all", "全部展开")
    collapse_all = Text("Collapse all", "全部收起")
    filter_none = Text("No finding contains this text.", "没有包含该文字的发现。")
    report_title = Text("npudiag report", "npudiag 诊断报告")
    no_findings = Text(
        "None of the rules that could judge found a problem in what was read.",
        "在已读取的内容中，可判断的规则均未发现问题。",
    )
