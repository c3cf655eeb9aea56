"""Words of the charts in English and Chinese: what each one asks, what it answers, how its parts are called."""

from __future__ import annotations

from npudiag.report.texts import Text

QUESTION: dict[str, Text] = {
    "loss": Text("Does the loss fall, and do the gradients stay calm?", "Loss 是否正常下降，梯度是否平稳？"),
    "pace": Text("Is every step equally fast?", "每一步的耗时是否稳定？"),
    "breakdown": Text("Where does the time of a step go?", "每一步的时间花在哪里？"),
    "skew": Text("Which rank computes longer than the others?", "哪个 Rank 的计算时间更长？"),
    "step_times": Text("Which rank is slow, and at which steps?", "哪个 Rank 慢，慢在哪些 Step？"),
    "activity": Text("Which rank fell silent, and when?", "哪个 Rank 停止输出日志，何时停止？"),
    "links": Text("Which link is slow?", "哪条链路慢？"),
    "memory": Text("How close is device memory to its limit?", "显存距离上限还有多少？"),
    "memory_peaks": Text("How much memory does each rank need?", "每个 Rank 需要多少显存？"),
    "npu": Text("Are the NPUs busy, at full clock, and cool?", "NPU 是否繁忙、是否满频、温度是否正常？"),
    "serving": Text("Does the KV cache fill up, and do requests queue?", "KV Cache 是否占满，请求是否排队？"),
}
"""What each chart answers; a chart of another name shows its name."""

QUANTITY: dict[str, Text] = {
    "loss": Text("loss", "loss"),
    "grad_norm": Text("gradient norm", "梯度范数"),
    "step_time_ms": Text("time per step", "每步耗时"),
    "step_ms": Text("time per step", "每步耗时"),
    "computing": Text("computing", "计算"),
    "communication": Text("communication not hidden", "未掩盖通信"),
    "bubble": Text("pipeline bubble", "流水线气泡"),
    "free": Text("idle", "空闲"),
    "memory": Text("device memory", "显存"),
    "allocated": Text("in use at the peak", "峰值占用"),
    "reserved": Text("held beyond that", "额外预留"),
    "hbm_used_mb": Text("device memory in use", "显存占用"),
    "hbm_pct": Text("device memory in use", "显存占用率"),
    "util_pct": Text("AI Core utilisation", "AI Core 利用率"),
    "clock_mhz": Text("AI Core clock", "AI Core 频率"),
    "temp_c": Text("temperature", "温度"),
    "power_w": Text("power", "功耗"),
    "kv_usage_pct": Text("KV cache in use", "KV Cache 使用率"),
    "waiting": Text("requests waiting", "等待请求数"),
    "running": Text("requests running", "运行请求数"),
    "generation_tps": Text("tokens generated", "生成吞吐"),
    "median": Text("median", "中位数"),
    "capacity": Text("capacity", "容量"),
}
"""Names of quantities, parts and bounds; others are shown as they are called."""

AXIS: dict[str, Text] = {
    "step": Text("step", "Step"),
    "second": Text("time", "时间"),
    "reading": Text("reading", "采样序号"),
    "rank": Text("rank", "Rank"),
    "sender": Text("sender", "发送方"),
    "receiver": Text("receiver", "接收方"),
    "minute": Text("time", "时间"),
}

PHASE: dict[str, Text] = {
    "starting": Text("starting", "启动"),
    "training": Text("training", "训练"),
    "silent": Text("silent", "无输出"),
    "afterwards": Text("after the last step", "最后一步之后"),
}

HAPPENING: dict[str, Text] = {
    "start": Text("start", "启动"),
    "load": Text("checkpoint loaded", "加载检查点"),
    "save": Text("checkpoint saved", "保存检查点"),
    "saved": Text("checkpoint written", "检查点写入完成"),
    "validation": Text("validation", "验证"),
    "overflow": Text("overflow", "溢出"),
    "failure": Text("failure", "失败"),
    "end": Text("end", "结束"),
}


class Say:
    """Sentences that a chart's numbers are put into."""

    loss = Text(
        "From {first} to {last}, lowest {low} at {axis} {at}.",
        "从 {first} 到 {last}，最低 {low}（{axis} {at}）。",
    )
    marks = Text("{n} places stand out.", "{n} 处异常已标出。", "{n} place stands out.")
    pace = Text(
        "Half of the steps take less than {median} ms; the slowest takes {high} ms ({times} times that, {axis} {at}).",
        "每步耗时中位数 {median} ms；最慢 {high} ms（{times} 倍，{axis} {at}）。",
    )
    shares = Text("On average {parts}.", "平均：{parts}。")
    share = Text("{pct} % {name}", "{name} {pct} %")
    outlier = Text(
        "Rank {rank} computes {value} ms, {pct} % more than the median of {median} ms.",
        "Rank {rank} 计算 {value} ms，比中位数 {median} ms 多 {pct} %。",
    )
    even = Text("All ranks compute about equally long.", "各 Rank 计算时间基本一致。")
    highest = Text(
        "Longest: {value} {unit} on rank {row} at step {column}; the median is {median} {unit}.",
        "最长 {value} {unit}（Rank {row}，Step {column}）；中位数 {median} {unit}。",
    )
    slow_row = Text(
        "Rank {row} is the slowest: median {value} {unit}, that of the others {median} {unit}.",
        "Rank {row} 最慢：中位数 {value} {unit}，其余 Rank 为 {median} {unit}。",
    )
    silent = Text(
        "Rank {rows} logged last at {time}, {n} minutes before the others stopped.",
        "Rank {rows} 最后一次输出日志在 {time}，比其他 Rank 早 {n} 分钟。",
        "Rank {rows} logged last at {time}, a minute before the others stopped.",
    )
    all_log = Text("All ranks log to the end.", "所有 Rank 均持续输出到最后。")
    slow_link = Text(
        "Slowest: rank {src} to {dst} with {value} GB/s; the median of {n} links is {median} GB/s.",
        "最慢：Rank {src} 到 {dst}，{value} GB/s；{n} 条链路的中位数为 {median} GB/s。",
    )
    few_links = Text("{n} links, from {low} to {high} GB/s.", "{n} 条链路，{low} 至 {high} GB/s。")
    per_minute = Text("records per minute", "每分钟记录数")
    even_links = Text("All {n} links reach about {median} GB/s.", "全部 {n} 条链路均约为 {median} GB/s。")
    peak_of = Text(
        "At most {value} of {limit} {unit} ({pct} %), {whose}.", "最高 {value} / {limit} {unit}（{pct} %），{whose}。"
    )
    peak = Text("At most {value} {unit}, {whose}.", "最高 {value} {unit}，{whose}。")
    card = Text("card {name}", "卡 {name}")
    rank = Text("rank {name}", "Rank {name}")
    mean_util = Text("Busy {value} % of the time on average.", "平均利用率 {value} %。")
    clock = Text("Lowest clock {value} MHz ({whose}).", "最低频率 {value} MHz（{whose}）。")
    steady_clock = Text("The clock holds at {value} MHz.", "频率稳定在 {value} MHz。")
    heat = Text("Hottest {value} °C ({whose}).", "最高温度 {value} °C（{whose}）。")
    kv = Text("The KV cache reaches {value} %.", "KV Cache 最高 {value} %。")
    queue = Text("Up to {n} requests wait.", "最多 {n} 个请求等待。", "Up to one request waits.")
    no_queue = Text("No request waits.", "没有请求等待。")

    start_n = Text("start {n}", "第 {n} 次启动")
    lowest = Text("lowest", "最小")
    middle = Text("median", "中位数")
    highest_column = Text("highest", "最大")
    where = Text("where", "位置")
    last_seen = Text("last record", "最后记录")
    first_seen = Text("first record", "最早记录")
    others = Text("{n} others", "其余 {n} 个", "one other")
    every = Text("all {n}", "全部 {n} 个")
    even_pace = Text("All steps take about {median} ms.", "各步耗时均约为 {median} ms。")
    rounded = Text(
        "The shades, and so these numbers, are rounded to 1/254 of the range.", "色阶及下列数值按量程的 1/254 取整。"
    )
    source = Text("{rows} rows of table {table}", "数据表 {table}，共 {rows} 行", "one row of table {table}")
    stands_out = Text("stands out", "异常")


class Page:
    """Words around the charts and the parts of the page that came with them."""

    charts = Text("The job in charts", "任务图表")
    timeline = Text("What happened when?", "各事件发生在何时？")
    phases = Text("phases", "阶段")
    happenings = Text("events", "事件")
    findings = Text("findings", "发现")
    hover = Text(
        "Point at a chart, or focus it and use the arrow keys, to read its values.",
        "将指针移到图上，或选中图表后按方向键，可读取数值。",
    )
    costs = Text("What costs time", "时间损失排名")
    costs_hint = Text(
        "Ordered by the time lost. The shares overlap and do not add up.", "按损失时间排序；各项可能重叠，不可相加。"
    )
    lost = Text("Time lost", "损失时间")
    finding = Text("Finding", "发现")
    filters = Text("Find and filter", "查找与筛选")
    search = Text("Search findings", "搜索发现")
    severity = Text("Severity", "严重级别")
    category = Text("Category", "类别")
    every_category = Text("all categories", "全部类别")
    rank = Text("Rank", "Rank")
    clear = Text("Clear", "清除")
    shown = Text("{n} of {total} shown", "显示 {n} / {total}")
    keys = Text("Keyboard shortcuts", "键盘快捷键")
    key_next = Text("next, previous finding", "下一个 / 上一个发现")
    key_search = Text("search", "搜索")
    key_open = Text("open or close the finding", "展开 / 收起当前发现")
    key_all = Text("open or close all", "全部展开 / 收起")
    key_theme = Text("light or dark", "浅色 / 深色")
    key_lang = Text("English or Chinese", "中文 / 英文")
    key_clear = Text("clear search and filters", "清除搜索与筛选")
    key_help = Text("this list", "本列表")
    more_charts = Text(
        "{n} more charts in result.json", "其余 {n} 张图的数据见 result.json", "one more chart in result.json"
    )
    seen_in = Text("In the charts:", "相关图表：")
    close = Text("Close", "关闭")
    link = Text("Link to this finding", "指向此发现的链接")
    cut = Text(
        "To keep this page small, long excerpts are cut; result.json holds them whole.",
        "为控制页面大小，较长的摘录已截断；完整内容见 result.json。",
    )
    redraw = Text("Write this page again from the saved document:", "由保存的文档重新生成本页：")
