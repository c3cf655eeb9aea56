"""The registry of options and variables."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from npudiag.advice import registry
from npudiag.advice.explain import explain_option
from npudiag.engine.load import load_pack

LLM, MEGATRON, MINDSPEED = registry.MINDSPEED_LLM, registry.MEGATRON, registry.MINDSPEED


@pytest.mark.parametrize(
    ("stack", "version", "option", "answer"),
    [
        (LLM, "2.3.0", "--overlap-grad-reduce", "yes"),  # of Megatron
        (LLM, "2.0.0", "--fp8-recipe", "no"),  # came with a later Megatron
        (LLM, "2.0.0", "--moe-fb-overlap", "yes"),  # of MindSpeed, all of which this release takes over
        (LLM, "master", "--auto-settings", "no"),  # of MindSpeed, not registered
        (LLM, "2.3.0", "--auto-settings", "unknown"),  # of MindSpeed, not known whether registered
        (LLM, "26.0.0", "--prompt-type", "yes"),  # its own
        (LLM, None, "--kernel_launch_threads", "no"),
        (LLM, None, "--tensor_model_parallel_size", "no"),  # the parser knows no underscores
        (LLM, "2.9.9", "--bf16", "unknown"),  # no such release
        (MEGATRON, "core_r0.6.0", "--use-flash-attn", "yes"),
        (MEGATRON, "core_r0.6.0", "--prompt-type", "no"),
        (MINDSPEED, "2.3.0_core_r0.12.1", "--bf16", "yes"),  # of the Megatron below it
        ("vllm-ascend", None, "--max-model-len", "yes"),
        ("vllm-ascend", None, "--some-new-option", "unknown"),  # the list is not complete
        ("LLaMA-Factory", None, "--finetuning_type", "unknown"),
    ],
)
def test_acceptance_by_release(stack: str, version: str | None, option: str, answer: str) -> None:
    assert registry.accepts(stack, version, option) == answer


def test_entry_holds_type_default_choices_and_releases() -> None:
    entry = registry.lookup("--lr-decay-style", LLM)
    assert entry is not None
    assert (entry.type, entry.default) == ("str", "linear")
    assert {"cosine", "WSD"} <= set(entry.choices)
    assert entry.releases[0] == "1.0.RC1"
    assert entry.suggestible
    switch = registry.lookup("--overlap-grad-reduce")
    assert switch is not None and switch.type == "flag"


def test_options_of_tools_are_told_from_those_of_training() -> None:
    assert registry.of_tools_only("--target-tensor-parallel-size")
    assert not registry.of_tools_only("--tensor-model-parallel-size")


def test_option_that_only_mindspeed_registers_is_not_suggestible_in_mindspeed_llm() -> None:
    entry = registry.lookup("--auto-settings", LLM, "2.3.0")
    assert entry is None or not entry.suggestible
    assert registry.lookup("--auto-settings", MINDSPEED) is not None


@pytest.mark.parametrize("option", ["--enable-share-memory", "--enable-a2avc", "--use-moba-attn"])
def test_what_only_the_mindspore_backend_registers_is_neither_accepted_nor_refused(option: str) -> None:
    entry = registry.lookup(option)
    assert entry is not None and not entry.suggestible and entry.releases == ()
    assert registry.accepts(LLM, "master", option) == "unknown" and registry.accepts(LLM, "2.0.0", option) == "no"
    told = explain_option(option)
    assert told is not None and told.accepted == {} and "MindSpore" in told.overrides[0].en


def test_options_with_dots_are_keys_of_a_configuration() -> None:
    told = explain_option("--parallel.fsdp_size")
    assert told is not None and told.entry is not None
    assert (told.status, told.entry.stack, told.entry.type) == ("config", registry.FSDP2, "int")
    # The list is not complete: of others nothing is known, which is not the same as refused.
    assert explain_option("--parallel.no_such_key") is None


def test_variables_and_configuration_keys() -> None:
    variable = registry.lookup("HCCL_CONNECT_TIMEOUT")
    assert variable is not None
    assert (variable.kind, variable.default, variable.stack) == ("env", "120", "HCCL")
    key = registry.lookup("maxPrefillTokens")
    assert key is not None and key.kind == "config"
    assert registry.lookup("HCCL_NO_SUCH_THING") is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--tensor_model_parallel_size", "--tensor-model-parallel-size"),
        ("--overlap-grad-reduc", "--overlap-grad-reduce"),
        ("--parallel-sequence", "--sequence-parallel"),
        ("--use-flash-attention", "--use-flash-attn"),
    ],
)
def test_nearest(given: str, meant: str) -> None:
    assert registry.nearest(given, LLM)[0] == meant


def test_nothing_is_near_nonsense() -> None:
    assert registry.nearest("--qwertyuiop-zxcv", LLM) == []


def test_no_invented_name_is_a_real_option() -> None:
    for name, entry in registry.invented().items():
        for spelling in (name, *entry.also):
            assert registry.accepts(LLM, None, spelling) == "no", spelling
            assert registry.invented_name(spelling) is not None
        if entry.change is not None:
            assert registry.lookup(entry.change[1]) is not None, entry.change


def test_constraints_name_real_options_only() -> None:
    for item in registry.constraints(LLM):
        for term in (part for terms in (item.when, item.need, item.deny) for one in terms for part in one.split("|")):
            match = re.match(r"!?(--[\w-]+)(?:(?:!=|=|>).+)?\Z", term)
            assert match, term
            assert (
                registry.accepts(MINDSPEED, None, match[1]) == "yes" or registry.accepts(LLM, None, match[1]) == "yes"
            )
        assert item.need or item.deny
        assert bool(item.en) == bool(item.zh)


def test_texts_describe_real_names() -> None:
    for name in registry._texts():
        assert registry.lookup(name) is not None, name


def test_everything_that_rules_change_exists_for_its_stack() -> None:
    wrong = []
    for rule in load_pack().rules:
        for remedy in rule.remedies:
            names = [registry.canonical(stack) for stack in remedy.stack]
            if None in names:
                wrong.append(f"{rule.code}: unknown stack in {remedy.stack}")
            change = remedy.change
            if change is None or "{" in change.key:
                continue
            if remedy.kind == "env" and registry.lookup(change.key) is None:
                wrong.append(f"{rule.code}: no variable {change.key}")
            if remedy.kind == "flag":
                known = [name for name in names if name and registry.accepts(name, None, change.key) == "yes"]
                if len(known) < len(names) or not names:
                    wrong.append(f"{rule.code}: {change.key} is no option of {remedy.stack or 'a named stack'}")
    assert not wrong


def test_one_lookup_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, time; import msgspec; begin = time.perf_counter()\n"
        "from npudiag.advice import registry; registry.lookup('--overlap-grad-reduce')\n"
        "print(time.perf_counter() - begin, 'difflib' in sys.modules, 'pandas' in sys.modules)"
    )
    best = min(
        (
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
            for _ in range(3)
        ),
        key=lambda text: float(text.split()[0]),
    )
    seconds, *loaded = best.split()
    assert loaded == ["False", "False"]
    assert float(seconds) < 0.25  # 30 ms on an idle machine; a busy one takes its time
