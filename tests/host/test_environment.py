"""The environment of a job as a script: what matters is kept, secrets never, hostile values do no harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.errors import UsageError
from npudiag.host import environment
from npudiag.host.secrets import MASK
from npudiag.parsers import shell

VALUES = st.text(alphabet=st.characters(exclude_characters="\0"), max_size=60)


def exported(text: str) -> dict[str, str]:
    return {name: word.text for name, (word, export) in shell.read(text).variables.items() if export}


@settings(deadline=None)
@given(value=VALUES)
def test_whatever_a_value_holds_it_stays_one_line_and_is_read_back(value: str) -> None:
    text = environment.script({"HCCL_ALGO": value, "HCCL_BUFFSIZE": "200"})
    assert text.count("\n") == 4
    assert exported(text)["HCCL_BUFFSIZE"] == "200"


@pytest.mark.parametrize(
    "value", ["$(touch made)", "`id`", "${HOME}", "a'b\"c", "x; exit 7", "\\", "#no", "名字", "--flag"]
)
def test_a_shell_would_take_the_value_as_it_is(value: str) -> None:
    text = environment.script({"HCCL_ALGO": value})
    done = subprocess.run(["sh", "-c", text + 'printf %s "$HCCL_ALGO"'], capture_output=True, text=True, check=True)
    assert done.stdout == value


@settings(deadline=None)
@given(value=VALUES)
def test_values_of_other_variables_are_not_kept(value: str) -> None:
    text = environment.script({"SOME_INNER_THING": f"zq{value}zq", "HCCL_BUFFSIZE": "200"})
    assert "zq" not in text
    assert "SOME_INNER_THING" in text


def test_secrets_are_masked_even_where_the_name_is_one_that_matters() -> None:
    text = environment.script(
        {
            "VLLM_API_KEY": "0123456789abcdef",
            "MASTER_ADDR": "https://u:topsecret@host/",
            "HCCL_ALGO": "level0:NA;level1:ring",
            "ASCEND_TOKEN": "abc",
        },
        ["python", "train.py", "--hf-token", "hf_secret", "--wandb-api-key=abcdefgh", "--lr", "1e-5"],
    )
    for secret in ("0123456789abcdef", "topsecret", "abc'", "hf_secret", "abcdefgh"):
        assert secret not in text
    assert "level0:NA;level1:ring" in text
    assert "--lr 1e-5" in text
    assert exported(text)["VLLM_API_KEY"] == MASK


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\nexport HCCL_BUFFSIZE=200\nNOT_EXPORTED=1\n",
        'declare -x HCCL_BUFFSIZE="200"\n',
        "HCCL_BUFFSIZE=200\nPS1=[\\u@\\h] $\n",
        "HCCL_BUFFSIZE=200\0PATH=/bin\0",
        "export HCCL_BUFFSIZE=200\r\n",
    ],
)
def test_environment_files_of_all_kinds(tmp_path: Path, text: str) -> None:
    path = tmp_path / "env"
    path.write_bytes(text.encode())
    found = environment.of_file(path)
    assert found["HCCL_BUFFSIZE"].strip() == "200"
    assert "NOT_EXPORTED" not in found


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        environment.of_file(tmp_path / "none")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc")
def test_a_running_process_is_read_for_real() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()", "--tp", "8"],
        env={**os.environ, "HCCL_BUFFSIZE": "321"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        variables, command = environment.of_process(process.pid)
    finally:
        process.communicate()
    assert variables["HCCL_BUFFSIZE"] == "321"
    assert command[-2:] == ["--tp", "8"]


def test_a_process_that_is_gone_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        environment.of_process(2**22 + 1)
