"""Stack detection, and remedies resolved against it."""

from __future__ import annotations

from typing import Any

import pytest

from npudiag.advice import resolve, stack
from npudiag.advice.explain import explain_option, lines
from npudiag.advice.registry import MINDSPEED_LLM
from npudiag.advice.settings import Job, jobs
from npudiag.filling import fill
from npudiag.parsers.scan import Literals
from npudiag.reading import texts
from npudiag.result import Change, Finding, Remedy
from npudiag.tables.store import Store


def store_with(*options: tuple[str, str], env: dict[str, str] | None = None, entry: str = "pretrain_gpt.py") -> Store:
    """Return a store with one command that starts on line 10."""
    store = Store()
    rows: list[dict[str, Any]] = [
        {"file": "job/run.sh", "line": 10 + n, "key": key, "value": value, "kind": "flag", "source": "script",
         "entry": entry, "command": 0, "origin": 10 + n, "known": True, "sure": True}
        for n, (key, value) in enumerate(options)
    ]  # fmt: skip
    rows += [
        {"file": "job/run.sh", "line": 2 + n, "key": key, "value": value, "kind": "env", "source": "script",
         "origin": 2 + n, "known": True, "sure": True}
        for n, (key, value) in enumerate((env or {}).items())
    ]  # fmt: skip
    store.extend("launch", rows)
    return store


MEGATRON_OPTIONS = (
    ("--num-layers", "32"), ("--hidden-size", "4096"), ("--micro-batch-size", "1"), ("--clip-grad", "1.0"),
    ("--train-iters", "100"), ("--lr", "1e-5"), ("--bf16", ""),
)  # fmt: skip
OWN_OPTIONS = (*MEGATRON_OPTIONS, ("--tokenizer-name-or-path", "/data/t"), ("--use-fused-rmsnorm", ""))


def finding(*remedies: Remedy, role: str = "root") -> Finding:
    texts = [{"text": remedy.text, "expect": "", "verify": ""} for remedy in remedies]
    return Finding(
        id="f1", code="XYZ001", name="x", category="config", severity="error", confidence="high", title="t",
        role=role, remedies=list(remedies), i18n={"zh": {"remedies": texts}},  # type: ignore[arg-type]
    )  # fmt: skip


def flag(key: str, to: str = "", *stacks: str) -> Remedy:
    return Remedy(kind="flag", text=f"set {key}", change=Change(key=key, to=to), stack=list(stacks))


def resolved(store: Store, *findings: Finding) -> list[Finding]:
    resolve.apply(findings, store, stack.of(store))
    for item in findings:
        assert len(item.i18n["zh"]["remedies"]) == len(item.remedies)
    return list(findings)


def test_options_tell_the_stack() -> None:
    assert stack.of(store_with(*OWN_OPTIONS)).name == MINDSPEED_LLM
    assert stack.of(store_with(*MEGATRON_OPTIONS)).name == "Megatron-LM"
    assert stack.of(store_with(*MEGATRON_OPTIONS, env={"HCCL_CONNECT_TIMEOUT": "600"})).name == MINDSPEED_LLM
    assert stack.of(store_with(("--max-model-len", "8192"), entry="vllm serve")).name == "vllm-ascend"
    assert stack.of(Store()).facts() == {"stack": "unknown", "stack_version": "unknown"}


def test_options_tell_the_release_where_only_one_has_them() -> None:
    found = stack.of(store_with(*OWN_OPTIONS, ("--num-nextn-predict-layers", "1")))
    assert (found.version, found.facts()["stack_version"]) == ("2.0.0", "2.0.0")
    several = stack.of(store_with(*OWN_OPTIONS))
    assert several.version is None
    assert len(several.versions) > 1


def test_a_path_that_names_the_release_counts() -> None:
    store = store_with(*OWN_OPTIONS, ("--save", "/home/u/MindSpeed-LLM-2.2.0/ckpt"))
    assert stack.of(store).version == "2.2.0"


def test_what_the_user_states_wins() -> None:
    store = store_with(*OWN_OPTIONS)
    store.memo["stack_stated"] = stack.parse("mindspeed_llm==2.1.0")
    assert stack.of(store).version == "2.1.0"
    with pytest.raises(ValueError, match="no release"):
        stack.parse("MindSpeed-LLM==9.9")
    with pytest.raises(ValueError, match="no stack"):
        stack.parse("horovod")


def test_a_change_is_placed_and_says_what_was() -> None:
    (found,) = resolved(store_with(*OWN_OPTIONS), finding(flag("--clip-grad", "0.5", MINDSPEED_LLM)))
    remedy = found.remedies[0]
    assert remedy.at is not None and (remedy.at.path, remedy.at.line) == ("job/run.sh", 13)
    assert remedy.change is not None and (remedy.change.old, remedy.change.to) == ("1.0", "0.5")


def test_what_is_set_already_or_goes_further_is_not_advised() -> None:
    env = Remedy(kind="env", text="t", change=Change(key="HCCL_CONNECT_TIMEOUT", to="1200"))
    store = store_with(*OWN_OPTIONS, env={"HCCL_CONNECT_TIMEOUT": "3600"})
    same = flag("--clip-grad", "1", MINDSPEED_LLM)
    (found,) = resolved(store, finding(env, same, flag("--bf16", "", MINDSPEED_LLM)))
    assert [remedy.kind for remedy in found.remedies] == ["collect"]


def test_advice_for_another_stack_goes() -> None:
    vllm = flag("--max-num-seqs", "64", "vllm-ascend")
    both = Remedy(kind="command", text="t", command="npu-smi info", stack=["torch_npu"])
    (found,) = resolved(store_with(*OWN_OPTIONS), finding(vllm, both))
    assert found.remedies == [both]
    (unknown,) = resolved(
        Store(), finding(flag("--max-num-seqs", "64", "vllm-ascend"), flag("--bf16", "", MINDSPEED_LLM))
    )
    assert len(unknown.remedies) == 2


def test_an_option_that_the_release_refuses_is_never_advised() -> None:
    store = store_with(*OWN_OPTIONS)
    store.memo["stack_stated"] = (MINDSPEED_LLM, "2.0.0")
    (found,) = resolved(
        store, finding(flag("--fp8-recipe", "mxfp8", MINDSPEED_LLM), flag("--swiglu", "", MINDSPEED_LLM))
    )
    assert [remedy.change.key for remedy in found.remedies if remedy.change] == ["--swiglu"]
    store = store_with(*OWN_OPTIONS)
    store.memo["stack_stated"] = (MINDSPEED_LLM, "2.3.0")
    (found,) = resolved(store, finding(flag("--auto-settings", "", MINDSPEED_LLM)))
    assert [remedy.kind for remedy in found.remedies] == ["collect"]


def test_an_option_that_clashes_with_the_present_ones_is_not_advised() -> None:
    store = store_with(*OWN_OPTIONS, ("--moe-fb-overlap", ""))
    (found,) = resolved(store, finding(flag("--overlap-grad-reduce", "", MINDSPEED_LLM)))
    assert [remedy.kind for remedy in found.remedies] == ["collect"]


def test_companions_come_along() -> None:
    (found,) = resolved(store_with(*OWN_OPTIONS), finding(flag("--overlap-param-gather", "", MINDSPEED_LLM)))
    assert [remedy.change.key for remedy in found.remedies if remedy.change] == [
        "--overlap-param-gather",
        "--use-distributed-optimizer",
        "--overlap-grad-reduce",
    ]


def test_of_two_changes_the_graver_stays() -> None:
    def blocking(to: str) -> Remedy:
        return Remedy(kind="env", text="t", change=Change(key="ASCEND_LAUNCH_BLOCKING", to=to))

    later = finding(blocking("0"), role="contributing")
    first = finding(blocking("1"))
    resolved(Store(), later, first)
    assert first.remedies[0].change is not None
    assert later.remedies[0].change is None


def test_a_dump_counts_values_not_names() -> None:
    store = Store()
    store.extend(
        "launch",
        [
            {"file": "a.log", "line": n, "key": key, "value": value, "kind": "flag", "source": "dump", "known": True}
            for n, (key, value) in enumerate(
                [("--sequence-parallel", "False"), ("--bf16", "True"), ("--gradient-accumulation-fusion", "False")], 1
            )
        ],
    )
    (job,) = jobs(store)
    assert job.find("--sequence-parallel") is None
    assert job.holds("--bf16") and job.holds("!--sequence-parallel") and job.holds("--no-gradient-accumulation-fusion")


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("--kernel_launch_threads", "invented", "export TASK_QUEUE_ENABLE=2"),
        ("--selective-checkpointing", "invented", "--recompute-granularity selective"),
        ("--overlap-param-gather", "option", "--overlap-grad-reduce"),
        ("--clip_grad", "unknown", "--clip-grad"),
        ("--clip-grad=0.5", "option", "1.0"),
        ("TASK_QUEUE_ENABLE", "variable", "0|1|2"),
        ("maxSeqLen", "config", "2560"),
    ],
)
def test_explanations(name: str, status: str, said: str) -> None:
    told = explain_option(name)
    assert told is not None and told.status == status
    for lang in ("en", "zh"):
        assert said in [text for _, text in lines(told, lang)]


def test_no_explanation_of_other_words() -> None:
    assert explain_option("EI0006") is None
    assert explain_option("-9") is None
    assert explain_option("--zzzzqqqq-wwww") is None


CONVERSION = """\
Loaded mindspeed_llm.tasks.checkpoint.loader_hf as the loader.
Loaded mindspeed_llm.tasks.checkpoint.saver as the saver.
Starting saver...
------------------------ arguments ------------------------
  expert_model_parallel_size ...................... 1
  pipeline_model_parallel_size .................... 2
  save ............................................ /data/mcore/demo
  tensor_model_parallel_size ...................... 4
-------------------- end of arguments ---------------------
received transformer layer 0
Done!
"""


def jobs_of(files: dict[str, str]) -> list[Job]:
    return jobs(fill(texts(files, Literals())))


def test_a_conversion_prints_the_arguments_of_a_training_that_is_none() -> None:
    (tool,) = [job for job in jobs_of({"convert.log": CONVERSION}) if "--load-model-type" in job.options]
    assert tool.tool == "convert"
    assert tool.number("--target-tensor-parallel-size") == 4
    assert tool.number("--target-pipeline-parallel-size") == 2
    assert tool.text("--save-dir") == "/data/mcore/demo"
    assert all(job.tool for job in jobs_of({"convert.log": CONVERSION}))


def test_a_training_that_converts_by_itself_stays_one() -> None:
    log = CONVERSION[CONVERSION.index("----") :].replace(
        "received transformer layer 0",
        "Converting the weights of layer 0.\nSaving to /data/mcore/demo/iter_0000001/mp_rank_00_000/model_optim_rng.pt",
    )
    assert sorted(job.tool for job in jobs_of({"train.log": log})) == ["", "convert"]


def test_vllm_takes_underscores_for_dashes() -> None:
    script = "#!/bin/bash\nvllm serve /m --max_num_seqs 8 --compilation-config.cudagraph_mode FULL\n"
    (job,) = jobs_of({"serve.sh": script})
    assert job.number("--max-num-seqs") == 8
    assert "--compilation-config.cudagraph_mode" in job.options
