"""Files that bear the name of a profiler's deliverable and hold none: told, since nothing else would miss them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudiag.parsers.base import Partial
from npudiag.result import Problem

_PLAIN = re.compile(
    r"(?:step_trace_time|kernel_details|operator_details|npu_module_mem|cluster_step_trace_time|"
    r"(?:op_summary|op_statistic|api_statistic|communication_statistic)(?:_slice_\d+)?(?:_\d+)*)\.csv|"
    r"trace_view\.json|profiler_(?:info(?:_\d+)?|metadata)\.json|msprof(?:_slice_\d+)?_\d{14}\.json|"
    r"cluster_communication(?:_matrix)?\.json|ascend_(?:pytorch|mindspore)_profiler(?:_\d+)?\.db|msprof_\d{17}\.db|"
    r"cluster_analysis\.db"
)
"""Names that nothing but a profiler gives."""
_COMMON = re.compile(
    r"(?:memory_record|operator_memory|l2_cache|data_preprocess|op_statistic|api_statistic|hccs|pcie|nic|roce)\.csv|"
    r"communication(?:_matrix|_group)?\.json|analysis\.db|communication_analyzer\.db"
)
"""Names that mean a deliverable in the folder of a capture only."""
_OUTPUT = re.compile(
    r"(?:^|/)(?:[^/]*_ascend_(?:pt|ms)|ASCEND_(?:MINDSPORE_)?PROFILER_OUTPUT|mindstudio_profiler_output|"
    r"cluster_analysis_output|PROF_\d+_\d+_[A-Z]+)(?:/|$)"
)


def unread(partials: Sequence[Partial]) -> list[Problem]:
    """Return a problem for each file with the name of a deliverable that was not recognised as one."""
    read = {id(partial) for partial in partials if partial.kind.startswith("prof-") and partial.kind != "prof-other"}
    folders = {partial.source.path.rpartition("/")[0] for partial in partials if id(partial) in read}
    problems = []
    for partial in partials:
        if id(partial) in read or partial.truncated or partial.part:
            continue
        folder, _, name = partial.source.path.rpartition("/")
        inside = folder in folders or _OUTPUT.search(folder)
        if not (_PLAIN.fullmatch(name) or (inside and _COMMON.fullmatch(name))):
            continue
        empty = not partial.bytes and not partial.source.size
        what = "is empty" if empty else "holds nothing that a profiler writes: it is damaged, or its columns are others"
        problems.append(
            Problem(
                path=partial.source.path,
                reason="truncated" if empty else "corrupt",
                message=f"{partial.source.path}: the file has the name of a profiler's deliverable and {what}",
            )
        )
    return problems
