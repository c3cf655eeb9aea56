"""The numbers behind the charts of a report, thinned to what a screen can show.

Each chart answers one question and is there only where the tables can answer it. Nothing heavy is loaded for tables
without rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npudiag.result import Chart
    from npudiag.tables.store import Store

__all__ = ["build"]


def build(store: Store) -> list[Chart]:
    """Return the charts that the tables have data for, in the order in which they are read."""
    found: list[Chart | None] = []
    if store.size("train_steps"):
        from npudiag.analyses.charts import training

        found += [training.job(store), training.loss(store), training.pace(store)]
    if store.size("prof_steps") or store.size("train_steps"):
        from npudiag.analyses.charts import ranks

        found += [ranks.breakdown(store), *ranks.skew(store)]
    if len({row["rank"] for row in store.rows("files")} - {None}) > 1:
        from npudiag.analyses.charts import activity

        found.append(activity.activity(store))
    if store.size("prof_links"):
        from npudiag.analyses.charts import links

        found += links.matrices(store)
    if store.size("npu_samples") or store.size("serving"):
        from npudiag.analyses.charts import samples

        found += [samples.cards(store), samples.memory(store), samples.serving(store)]
    if store.size("prof_memory"):
        from npudiag.analyses.charts import ranks

        found.append(ranks.memory(store))
    return [chart for chart in found if chart is not None]
