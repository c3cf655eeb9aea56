"""Parallel layouts: what holds, what lies next to one, what a move changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudiag.advice.layout import Layout, changed, neighbours, of_job, two_virtual_stages, with_value
from npudiag.advice.settings import Job, Setting

PRESENT = Layout(
    tp=2, pp=2, cp=1, ep=1, dp=4, chunk=0, micro=1, batch=64, layers=32, heads=32, groups=8, hidden=4096, seq=4096,
    experts=0, node=8, sharded=True, sequence=True, ulysses=False, extended=False, fixed=False,
)  # fmt: skip


def job(**options: str) -> Job:
    """Return a launch on 16 ranks."""
    names = {"--" + name.replace("_", "-"): value for name, value in options.items()}
    settings = {
        name: Setting("run.sh", 1, name, value, 1, True, True, "script") for name, value in names.items()
    }  # fmt: skip
    launcher = {
        name: Setting("run.sh", 1, name, value, 1, True, True, "launcher")
        for name, value in (("--nproc_per_node", "8"), ("--nnodes", "2"))
    }
    return Job("run.sh", "pretrain_gpt.py", options=settings, launcher=launcher)


SIZES = {
    "num_layers": "32", "hidden_size": "4096", "num_attention_heads": "32", "seq_length": "4096",
    "micro_batch_size": "1", "global_batch_size": "64",
}  # fmt: skip


def test_a_launch_has_a_layout_where_all_sizes_are_known() -> None:
    found = of_job(job(**SIZES, tensor_model_parallel_size="4", sequence_parallel=""))
    assert found is not None
    assert (found.tp, found.pp, found.dp, found.node, found.sequence, found.groups) == (4, 1, 4, 8, True, 32)
    assert found.text() == "TP 4 PP 1 DP 4"
    assert of_job(job(**{**SIZES, "num_layers": "$N"})) is None
    assert of_job(job(**SIZES, use_torch_fsdp2="")) is None
    assert of_job(job(**SIZES, tensor_model_parallel_size="3")) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"tp": 3}, {"tp": 64}, {"pp": 3}, {"micro": 3}, {"chunk": 5}, {"chunk": 16}, {"seq": 4095},
        {"ep": 2}, {"experts": 6, "ep": 4}, {"cp": 2, "seq": 4094}, {"cp": 2, "ulysses": True, "heads": 2},
    ],
)  # fmt: skip
def test_what_does_not_divide_is_no_layout(wrong: dict[str, int]) -> None:
    assert PRESENT.valid()
    assert not replace(PRESENT, **wrong).valid()  # type: ignore[arg-type]


power = st.sampled_from([1, 2, 4, 8, 16])


@given(
    tp=power, pp=power, cp=power, dp=power, ep=power, chunk=st.sampled_from([0, 1, 2, 4]), micro=st.integers(1, 3),
    batch=st.integers(1, 300), layers=st.integers(1, 96), heads=st.integers(1, 64), seq=st.sampled_from([4096, 32768]),
    experts=st.sampled_from([0, 8, 60]), fixed=st.booleans(), ulysses=st.booleans(), sequence=st.booleans(),
)  # fmt: skip
def test_neighbours_are_valid_and_use_the_same_ranks(
    tp: int, pp: int, cp: int, dp: int, ep: int, chunk: int, micro: int, batch: int, layers: int, heads: int, seq: int,
    experts: int, fixed: bool, ulysses: bool, sequence: bool,
) -> None:  # fmt: skip
    here = Layout(
        tp=tp, pp=pp, cp=cp, ep=ep, dp=dp, chunk=chunk, micro=micro, batch=batch, layers=layers, heads=heads,
        groups=heads, hidden=heads * 128, seq=seq, experts=experts, node=8, sharded=True, sequence=sequence,
        ulysses=ulysses, extended=False, fixed=fixed,
    )  # fmt: skip
    for there in neighbours(here):
        assert there.valid()
        assert there.world == here.world
        assert there.tp <= max(8, here.tp)
        assert not fixed or there.pp == here.pp
        assert changed(here, there)


def test_a_move_changes_what_arithmetic_says() -> None:
    more = replace(PRESENT, tp=4, dp=2)
    assert more in set(neighbours(PRESENT))
    # (6 + 12 / DP) / (TP * PP): 9 / 4 before, 12 / 8 after.
    assert more.static() / PRESENT.static() == pytest.approx(1.5 / 2.25)
    assert more.activations() / PRESENT.activations() == pytest.approx(0.5)
    # One stage of two waits for 1 of 16 + 1, and 1 of 32 + 1 micro-batches.
    assert PRESENT.bubble() == pytest.approx(1 / 17)
    assert more.bubble() == pytest.approx(1 / 33)
    assert changed(PRESENT, more) == {"--tensor-model-parallel-size": 4}
    assert replace(PRESENT, pp=1, dp=8).bubble() == 0
    interleaved = replace(PRESENT, chunk=8)
    assert interleaved.bubble() == pytest.approx(1 / 33)
    assert interleaved.activations() > PRESENT.activations()


def test_virtual_stages_only_where_they_divide() -> None:
    assert two_virtual_stages(PRESENT) == 8
    assert two_virtual_stages(replace(PRESENT, layers=30)) == 0
    assert two_virtual_stages(replace(PRESENT, pp=1)) == 0
    assert two_virtual_stages(replace(PRESENT, fixed=True)) == 0


def test_one_option_changed_takes_data_parallelism_along() -> None:
    there = with_value(PRESENT, "--pipeline-model-parallel-size", 4)
    assert there is not None and (there.pp, there.dp, there.world) == (4, 2, 16)
    assert with_value(PRESENT, "--pipeline-model-parallel-size", 3) is None
    assert with_value(PRESENT, "--lr", 1) == PRESENT
