"""Software a job runs on: Python packages and their wheels, CANN and its environment. Nothing is imported or run."""

from __future__ import annotations

import mmap
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from npudiag.host.facts import Facts, read

PACKAGES = (
    "torch", "torch-npu", "torchvision", "apex", "mindspeed", "mindspeed-llm", "megatron-core", "transformers",
    "accelerate", "deepspeed", "vllm", "vllm-ascend", "mindspore", "mindformers", "triton-ascend", "triton",
    "llamafactory", "verl", "numpy", "modelscope", "mooncake-transfer-engine",
)  # fmt: skip
_WHEELS = ("torch", "torch-npu", "apex", "mindspore", "triton-ascend")
ROOT = "/usr/local/Ascend"

_CHECK_FAIL = {
    True: b"_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_string",
    False: b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
}
"""A function of libc10 that takes a C++ string, as its name is mangled with the C++11 string and with the old one."""
_LARGEST = 4 << 30

VERSION_FILES = (
    "driver/version.info", "firmware/version.info", "ascend-toolkit/latest/{arch}-linux/ascend_toolkit_install.info",
    "cann/{arch}-linux/ascend_toolkit_install.info", "latest/{arch}-linux/ascend_toolkit_install.info",
    "nnae/latest/ascend_nnae_install.info", "nnae/latest/{arch}-linux/ascend_nnae_install.info",
    "nnal/latest/ascend_nnal_install.info", "nnal/atb/latest/version.info",
)  # fmt: skip


def python(facts: Facts) -> None:
    """The interpreter, installed packages, and the tags of those wheels that hold compiled code."""
    facts.add("python", "version", platform.python_version())
    facts.add("python", "implementation", sys.implementation.name)
    facts.add("python", "prefix", sys.prefix)
    for name in PACKAGES:
        try:
            found = metadata.distribution(name)
            version = found.version
        except (metadata.PackageNotFoundError, OSError, ValueError, KeyError):
            continue
        facts.add("python", "package", version, name)
        if name in _WHEELS:
            text = found.read_text("WHEEL") or ""
            tags = re.findall(r"^Tag: *(\S+)", text, re.MULTILINE)
            facts.add("wheel", "tags", " ".join(tags[:20]) or None, name)
    _abi(facts)


def _abi(facts: Facts) -> None:
    """Note which C++ string torch and torch_npu were built with: they have to agree, or symbols are missing."""
    for name, package, library in (
        ("torch", "torch", "lib/libc10.so"),
        ("torch-npu", "torch_npu", "lib/libtorch_npu.so"),
    ):
        path = _package_file(package, library)
        if path is None:
            continue
        new = _contains(path, _CHECK_FAIL[True])
        if new is not None and (new or _contains(path, _CHECK_FAIL[False])):
            facts.add("wheel", "cxx11_abi", new, name)


def _package_file(package: str, relative: str) -> Path | None:
    for folder in sys.path:
        path = Path(folder or ".") / package / relative
        try:
            if path.is_file():
                return path
        except OSError:
            continue
    return None


def _contains(path: Path, wanted: bytes) -> bool | None:
    """Whether a file holds `wanted`; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            if not 0 < os.fstat(file.fileno()).st_size < _LARGEST:
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return view.find(wanted) >= 0
    except (OSError, ValueError):
        return None


def cann(facts: Facts, environment: Mapping[str, str]) -> None:
    """What of CANN the environment names, and whether that is there."""
    for variable in (
        "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "ATB_HOME_PATH",
        "ASCEND_CUSTOM_OPP_PATH",
    ):  # fmt: skip
        value = environment.get(variable)
        facts.add("cann", "variable", value, variable)
        if value:
            there = any(Path(part).exists() for part in value.split(":")[:50] if part)
            facts.add("cann", "exists", there, variable)
    for path in environment.get("LD_LIBRARY_PATH", "").split(":")[:200]:
        if path and re.search(r"(?i)ascend|cann|dcmi", path):
            facts.add("cann", "library_path", Path(path).is_dir(), path)
    for path in environment.get("PYTHONPATH", "").split(":")[:200]:
        if path and re.search(r"(?i)ascend|cann", path):
            facts.add("cann", "python_path", Path(path).is_dir(), path)
    installed = sorted({str(path.parent) for path in _set_env_files()})
    for folder in installed:
        facts.add("cann", "set_env", f"{folder}/set_env.sh", folder)
    facts.add("cann", "installed", len(installed))


def _set_env_files() -> list[Path]:
    root = Path(ROOT)
    try:
        return [*root.glob("ascend-toolkit/set_env.sh"), *root.glob("cann*/set_env.sh"), *root.glob("nnae/set_env.sh")]
    except OSError:
        return []


def version_files(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the version files of driver, firmware and CANN: path to text."""
    arch = platform.machine()
    home = environment.get("ASCEND_HOME_PATH") or environment.get("ASCEND_TOOLKIT_HOME")
    paths = [f"{ROOT}/{name.format(arch=arch)}" for name in VERSION_FILES]
    if home and os.path.isabs(home):  # noqa: PTH117
        # What the environment names comes last: of several the last counts.
        paths += [f"{home}/{arch}-linux/ascend_toolkit_install.info", f"{home}/ascend_toolkit_install.info"]
    return {path: text for path in dict.fromkeys(paths) if (text := read(path)) is not None}
