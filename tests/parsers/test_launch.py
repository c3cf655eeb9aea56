"""Scripts that are read and never run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from npudiag.parsers.scan import Literals
from npudiag.parsers.shell import calculate, read
from npudiag.reading import texts

SCRIPT = """\
#!/bin/bash
# a comment with torchrun --no-such
export HCCL_CONNECT_TIMEOUT=1200
source /usr/local/Ascend/ascend-toolkit/set_env.sh

NPUS_PER_NODE=8
NNODES=${NNODES:-2}
WORLD_SIZE=$(($NPUS_PER_NODE * 2))
TP=4
TOKENIZER="/data/my models/t"

GPT_ARGS="
    --tensor-model-parallel-size ${TP} \\
    --num-layers 32 \\
    --lr -1e-5
    --swiglu
"
MORE=(
    --log-interval 1  # every step
    --save "$SAVE_DIR/${TP}"
)

ASCEND_LAUNCH_BLOCKING=1 torchrun --nproc_per_node $NPUS_PER_NODE --nnodes=$NNODES pretrain_gpt.py \\
    $GPT_ARGS ${MORE[@]} \\
    --tokenizer-name-or-path "$TOKENIZER" \\
    --world $WORLD_SIZE 2>&1 | tee logs/train_${TP}.log
"""


def rows(text: str, path: str = "run.sh") -> list[dict[str, Any]]:
    """Return the rows of table launch that one file gives."""
    (partial,) = texts({path: text}, Literals()).partials
    columns = partial.columns.get("launch")
    return list(columns.rows()) if columns is not None else []


def by_key(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in found}


def test_a_script_with_nested_variables() -> None:
    found = by_key(rows(SCRIPT))
    tp = found["--tensor-model-parallel-size"]
    assert (tp["line"], tp["origin"], tp["value"], tp["sure"]) == (13, 9, "4", True)
    assert found["--lr"]["value"] == "-1e-5"
    assert found["--swiglu"]["value"] == ""
    assert found["--tokenizer-name-or-path"]["value"] == "/data/my models/t"
    assert found["--world"]["value"] == "16"
    assert found["--log-interval"]["line"] == 19
    assert (found["--save"]["value"], found["--save"]["known"]) == ("$SAVE_DIR/4", False)
    launcher = found["--nnodes"]
    assert (launcher["source"], launcher["value"], launcher["sure"]) == ("launcher", "2", False)
    assert found["HCCL_CONNECT_TIMEOUT"]["kind"] == "env"
    assert found["ASCEND_LAUNCH_BLOCKING"]["kind"] == "env"
    assert {row["entry"] for row in rows(SCRIPT) if row["kind"] == "flag"} == {"pretrain_gpt.py"}
    assert "--no-such" not in found


@pytest.mark.parametrize(
    ("command", "entry", "key", "value"),
    [
        ("python -u train.py --lr=1e-4", "train.py", "--lr", "1e-4"),
        (
            "nohup python3 -m torch.distributed.launch --nproc_per_node 8 pretrain_gpt.py --bf16 &",
            "pretrain_gpt.py",
            "--bf16",
            "",
        ),
        ("msrun --worker_num 8 --join=True pretrain_gpt.py --bf16", "pretrain_gpt.py", "--bf16", ""),
        ("deepspeed --num_gpus 8 train.py --deepspeed ds.json", "train.py", "--deepspeed", "ds.json"),
        ("vllm serve /models/q --max-model-len 8192", "vllm serve", "--max-model-len", "8192"),
        ("python -m vllm.entrypoints.openai.api_server --port 8000", "vllm serve", "--port", "8000"),
        (
            "python3 -m verl.trainer.main_ppo data.train_batch_size=64",
            "verl.trainer.main_ppo",
            "data.train_batch_size",
            "64",
        ),
        ("srun -N 2 torchrun --nnodes 2 pretrain_gpt.py --bf16", "pretrain_gpt.py", "--bf16", ""),
    ],
)
def test_ways_to_launch(command: str, entry: str, key: str, value: str) -> None:
    row = by_key(rows(f"#!/bin/bash\n{command}\n"))[key]
    assert (row["entry"], row["value"]) == (entry, value)


def test_branches_are_not_sure() -> None:
    text = "#!/bin/bash\nif [ $1 = a ]; then\n  TP=8\nfi\ntorchrun pretrain_gpt.py --tensor-model-parallel-size $TP\n"
    row = by_key(rows(text))["--tensor-model-parallel-size"]
    assert (row["value"], row["known"], row["sure"]) == ("8", True, False)


def test_broken_lines_and_stray_words() -> None:
    text = '#!/bin/bash\nARGS="\n  --a 1 \\ \n  --b 2\n"\ntorchrun pretrain_gpt.py $ARGS\n  --lost 3\n'
    kinds = {(row["key"], row["kind"], row["line"]) for row in rows(text)}
    assert ("\\", "word", 3) in kinds
    assert ("--lost", "break", 7) in kinds


def test_here_documents_are_not_commands() -> None:
    text = "#!/bin/bash\ncat <<EOF\ntorchrun pretrain_gpt.py --ghost 1\nEOF\nexport HCCL_IF_IP=192.0.2.1\n"
    assert [row["key"] for row in rows(text)] == ["HCCL_IF_IP"]


def test_yaml_and_json_configurations() -> None:
    text = "model_name_or_path: /data/q\nfinetuning_type: lora\nnested:\n  list: [1, 2]\n  deep:\n    - a: x\n"
    found = by_key(rows(text, "sft.yaml"))
    assert found["finetuning_type"]["line"] == 2
    assert found["nested.list"]["value"] == "1,2"
    assert found["nested.deep.0.a"]["value"] == "x"
    served = by_key(rows('{"ServerConfig": {\n  "port": 1025}}\n', "config.json"))
    assert (served["ServerConfig.port"]["value"], served["ServerConfig.port"]["line"]) == ("1025", 2)
    assert rows("some: text\nother: 1\n", "notes.yaml") == []


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\nexport A=" + "(" * 5000,
        "#!/bin/bash\nexport X=a\n" + 'X="$X$X"\n' * 64 + "python t.py --x $X\n",
        "#!/bin/bash\nA=(" * 2000 + "torchrun t.py --x ${A[@]}\n",
        "#!/bin/bash\necho \"unclosed\npython t.py --x 'and `this $(( ${ \\",
        "#!/bin/bash\npython t.py --x $((9**9**9**9)) $((1/0)) ${A:-${B:-$C}} ${#A} ${A//x/y}\n",
        "#!/bin/bash\npython t.py " + "--x 1 " * 30_000,
        "#!/bin/bash\npython t.py --x \x00\x01\n" + "}" * 3000 + "\nfi\nfi\ndone\n",
    ],
)
def test_hostile_scripts_end_soon(text: str) -> None:
    read(text)
    rows(text)


def test_a_hostile_configuration_is_only_noted() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
    )
    rows("parallel: 1\n" + bomb, "x.yaml")
    (partial,) = texts({"x.yaml": "parallel: 1\n" + "[" * 5000}, Literals()).partials
    assert partial.note or not partial.columns


@pytest.mark.parametrize(
    ("text", "value"),
    [("8*2", 16), ("(8+8)/3", 5), ("-3 % 5", 2), ("2**9", None), ("1/0", None), ("a", None), ("", None)],
)
def test_arithmetic(text: str, value: int | None) -> None:
    assert calculate(text) == value


def test_the_state_of_a_trainer_is_no_configuration() -> None:
    state = {"log_history": [{"epoch": 1.0, "loss": 2.5, "step": 10}], "train_batch_size": 2}
    text = json.dumps(state, indent=2).replace("\n", "\r\n")
    found = texts({"trainer_state.json": text}, Literals()).partials[0]
    assert found.columns["train_steps"].size == 1 and "launch" not in found.columns
