"""What kinds of failure exceptions tell of: by their words, by their class, and by the code that raised them."""

from __future__ import annotations

import re

from npudiag.detectors.failure_kinds import (
    BUILD,
    CHECKPOINT,
    DATA,
    DISK,
    GRAPH,
    LIMIT,
    MEMORY,
    NETWORK,
    NUMBERS,
    OPERATOR,
    PACKAGE,
    PERMISSION,
    PORT,
    SETTINGS,
    VERSION,
    Kind,
)
from npudiag.detectors.raised import Frame, Raised

_OUTWARD = 14
"""Frames that are looked at from the innermost outwards."""


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


_ASKS = r"\b(?:[Rr]equires?|[Nn]eeds?|need to have|at least|[Pp]lease use|[Oo]nly|[Mm]inimum|[Ii]nstall)\b"
_PACKAGES = (
    r"[Pp]ython|(?:[Pp]y)?[Tt]orch(?:_npu|vision|audio)?|[Tt]ransformers|[Aa]ccelerate|peft|trl|[Dd]eep[Ss]peed|datasets"
    r"|[Nn]um[Pp]y|vllm|vLLM|CANN|TE|[Tt]riton|[Mm]egatron[\w-]*|[Dd]iffusers|[Rr]ay|tokenizers|huggingface[_-]hub|einops"
)

_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        MEMORY,
        _any(
            r"[Oo]ut of memory|not enough memory|[Cc]annot allocate memory",
            r"Unable to allocate [\d.]+ [KMGT]iB",
        ),
    ),
    (LIMIT, _any(r"AF_UNIX path too long|can't start new thread|[Tt]oo many open files|(?:File name|list) too long")),
    (PERMISSION, _any(r"[Pp]ermission denied|Operation not permitted|Read-only file system|not writable")),
    (PORT, _any(r"[Aa]ddress already in use|already been bound", r"[Pp]ort \d+ is (?:already )?(?:in use|taken)")),
    (DISK, _any(r"No space left on device|[Dd]isk quota exceeded|Input/output error|Stale file handle")),
    (
        NETWORK,
        _any(
            r"[Cc]onnection (?:refused|reset|aborted|timed out)|Read timed out|SSLError|No route to host",
            r"Max retries exceeded|Name or service not known|name resolution|[Nn]etwork is unreachable",
            r"[Cc]ouldn't connect|[Cc]annot reach|Cannot connect to|Failed to (?:connect|resolve|download)",
            r"outgoing traffic has been disabled|server at \S+ does not|Error while uploading",
            r"download(?:ing)? [^\n]{0,80}fail",
        ),
    ),
    (
        VERSION,
        _any(
            rf"{_ASKS}[^\n]{{0,60}}?\b[A-Za-z]\w*[\w-]*`?\s*(?:>=|<=|==|~=|>|<|≥)\s*v?\d+\.\d",
            rf"{_ASKS}[^\n]{{0,60}}?\b(?:[Vv]ersion|{_PACKAGES})`?\s*(?:version\s*)?(?:of\s*)?(?:>=|==|>|~=)?\s*v?\d+\.\d",
            r"[Vv]ersion[^\n]{0,80}(?:must|should|need|at least|or (?:high|new|lat|great)er|lower than|older than)",
            r"[Vv]ersion[^\n]{0,80}(?:>=|<=|too (?:old|low|new|high)|mismatch|does not match|is not supported)",
            r"[Vv]ersion[^\n]{0,80}(?:not compatible|incompatible)|or (?:high|new|lat)er\b|(?:old|new)er version",
            r"(?:[Uu]pgrade|[Dd]owngrade) (?:to |your |the )?`?\w|[Pp]lease update `?\w+`?\.?$",
            r"is already registered|has been (?:removed|renamed) (?:in|since|from)|was removed in",
            r"does not (?:support|recognize) this architecture",
        ),
    ),
    (
        PACKAGE,
        _any(
            r"not installed|to be installed|[Nn]o module named|[Pp]lease install|pip install|command not found",
            r"could ?n[o']t? be (?:imported|loaded)|[Ff]ailed to import|[Cc]an(?:no|')t import|native library",
            r"is not available (?:on (?:this|your)|but)|torch_npu is not|NPU is not available",
            r"[Nn]o GPU\b[^\n]{0,20} found|compiled with CUDA|requires? (?:a )?(?:CUDA|GPU)|expects? a CUDA",
            r"\bCUDA_HOME\b",
            r"[Nn]o (?:available )?(?:NPU|accelerator|device)s? (?:found|available|detected)",
        ),
    ),
    (
        NUMBERS,
        _any(
            r"\b(?:NaNs?|nan|Infs?|inf|[Ii]nfinity)\b[^\n]{0,40}(?:detected|found|encountered)",
            r"(?:[Cc]ontains?|[Dd]etected|[Ff]ound) [^\n]{0,20}\b(?:NaNs?|nan|inf|infinity)\b",
        ),
    ),
    (
        BUILD,
        _any(
            r"[Ee]rror (?:building|compiling) extension|[Ff]ailed to (?:compile|build)",
            r"[Nn]inja |nvcc|\bg\+\+|\bcmake\b|\bgcc\b",
        ),
    ),
)
"""What the words say, whatever code raised it."""

_LATER_WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        SETTINGS,
        _any(
            r"not (?:in the [\w-]+ registry|(?:a )?registered)|environment variable|\b[A-Z]{3,}(?:_[A-Z]+)+\b",
            r"--\w[\w-]+|\w+=\w+|config",
        ),
    ),
    (
        CHECKPOINT,
        _any(r"(?<![\w-])[Cc]heckpoints?\b|state[_ ]?dict|safetensors|\bweights? file|pretrained weights|\.pth?\b"),
    ),
    (
        DATA,
        _any(
            r"\b[Dd]ataset|\bsamples?\b|[Tt]okeniz|\bcolumns?\b|\bcorpus\b",
            r"\b[Ii]mages?\b|\b[Aa]udios?\b|\b[Vv]ideos?\b",
        ),
    ),
    (
        OPERATOR,
        _any(
            r"\b[Ss]hapes?\b|\bdtype|\b[Tt]ensors?\b|\bdim(?:ension)?s?\b|on device|kernel",
            r"\bsizes?\b[^\n]{0,40}(?:differ|match)|float16|bfloat16|\bbf16\b|\bfp16\b|\bint8\b",
        ),
    ),
)
"""What the words say where the code does not tell."""

_CLASSES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (MEMORY, _any(r"(?:^|\.)(?:OutOfMemoryError|MemoryError|_ArrayMemoryError)$")),
    (PERMISSION, _any(r"(?:^|\.)PermissionError$")),
    (
        NETWORK,
        _any(
            r"^(?:requests|urllib3|httpx|httpcore|aiohttp|urllib|socket|ssl|grpc|http)\.",
            r"(?:^|\.)(?:HTTPError|HfHubHTTPError|ProxyError|SSLError|CommError|MaxRetryError|gaierror)$",
            r"(?:^|\.)(?:Connection(?:Refused|Reset|Aborted)?Error|ConnectTimeout|ReadTimeout)$",
            r"(?:^|\.)(?:LocalEntryNotFoundError|OfflineModeIsEnabled|GatedRepoError|RepositoryNotFoundError)$",
        ),
    ),
    (
        SETTINGS,
        _any(
            r"^(?:yaml|omegaconf|hydra|argparse|pydantic|toml\w*)\.",
            r"(?:^|\.)(?:Config\w*(?:Error|Exception)|HFValidationError)$",
        ),
    ),
    (
        CHECKPOINT,
        _any(r"(?:^|\.)(?:SafetensorError|UnpicklingError|BadZipFile|EOFError|Checkpoint\w*(?:Error|Exception))$"),
    ),
    (
        DATA,
        _any(
            r"^(?:pyarrow|pandas|PIL|cv2|h5py|lmdb|datasets|decord|av|soundfile|jinja2|webdataset|tokenizers)\.",
            r"(?:^|\.)(?:UnicodeDecodeError|UnidentifiedImageError|Arrow\w+)$",
        ),
    ),
    (
        GRAPH,
        _any(r"^torch\._(?:dynamo|inductor)\.", r"(?:^|\.)(?:BackendCompilerFailed|InductorError|FakeTensor\w+)$"),
    ),
    (PACKAGE, _any(r"(?:^|\.)(?:ImportError|ModuleNotFoundError|PackageNotFoundError)$")),
    (BUILD, _any(r"(?:^|\.)CalledProcessError$")),
)

_NEUTRAL = _any(
    r"/torch/nn/modules/(?:module|container)\.py$|/torch/amp/",
    r"/torch/(?:utils/_contextlib|autograd/\w+|_tensor|_compile|library)\.py$",
    r"/contextlib\.py$|/functools\.py$|/importlib/|frozen importlib|/multiprocess(?:ing)?/|/concurrent/",
    r"/threading\.py$|/runpy\.py$|/typing\.py$|<string>|/dataclasses\.py$|/enum\.py$|/asyncio/",
)
"""Frames that everything passes through."""

_FUNCTIONS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        CHECKPOINT,
        _any(
            r"^_?(?:load|save|resume|restore)_\w*(?:checkpoint|ckpt|state_dict|weights?|pretrained|adapter|optimizer)\w*$",
            r"^from_pretrained$|_load_optimizer_and_scheduler|^convert_\w*(?:ckpt|weight)",
            r"^_?export_(?:model|weights|ckpt|checkpoint|hf)\w*",
        ),
    ),
    (
        DATA,
        _any(
            r"^_?(?:load|get|build|make|prepare|create|read)_\w*(?:data|dataset|dataloader|sampler|corpus)\w*$",
            r"collate|^_?tokenize|^_?preprocess|^_?encode(?:_plus|_batch|_fn)?$|^apply_chat_template$",
            r"^_?read_(?:json|csv|parquet|text|image|video|audio|line|sample|record)\w*$",
        ),
    ),
    (
        SETTINGS,
        _any(
            r"validate|sanity_check|^_?check_\w+|^_?verify_\w+|^_?parse_\w*|__post_init__",
            r"^_?get_\w*(?:args|config)$|^setup_\w*config|initialize_model_parallel|^_?init_dist\w*",
        ),
    ),
)
"""What a frame is about by the name of its function."""

_PLACES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        PACKAGE,
        _any(
            r"/(?:bitsandbytes|flash_attn|apex|xformers|auto_gptq|autoawq|awq|causal_conv1d|mamba_ssm)/",
            r"import_utils\.py$|/(?:is_)?\w*availab\w*\.py$",
        ),
    ),
    (BUILD, _any(r"/torch/utils/cpp_extension\.py$|/op_builder/(?:builder|__init__|all_ops)\.py$")),
    (
        DATA,
        _any(
            r"/torch/utils/data/|/datasets?/|/data/[\w/]*\w+\.py$|/hf_datasets/|/pyarrow/|/pandas/|/PIL/",
            r"datasets?\.py$|data_?(?:loader|module|utils|collator)\w*\.py$|collat\w*\.py$|samplers?\.py$",
            r"tokeniz\w*\.py$|(?:image|video|audio)_(?:processing|utils)\w*\.py$|processing_\w+\.py$",
            r"feature_extraction\w*\.py$|preprocess\w*\.py$|converter\.py$|mm_plugin\.py$",
            r"/(?:chat_)?templates?/|/template\.py$",
        ),
    ),
    (
        CHECKPOINT,
        _any(
            r"/(?:dist_)?checkpoint(?:ing|ers?|s)?/|checkpoint\w*\.py$|/safetensors/|/serialization\.py$",
            r"state_dict\w*\.py$|convert_ckpt|model_merger|weight_(?:loader|converter|utils)\w*\.py$",
        ),
    ),
    (
        GRAPH,
        _any(
            r"/torch(?:_npu)?/(?:_dynamo|_inductor|fx|_functorch|_export|dynamo)/|/torchair/",
            r"/npugraph\w*|/_graph_tree\.py$|/npu/graphs\.py$",
        ),
    ),
    (
        SETTINGS,
        _any(
            r"(?:config\w*|arguments?|\w+_args|args|parser|hf_argparser|options|hparams|training_args)\.py$",
            r"(?:parallel_state|parallel_dims|groups|registry|build_functions|builder)\.py$",
            r"(?:launch\w*|cli|runner|accelerator)\.py$",
            r"/(?:configs?|hparams|arguments?|omegaconf|hydra|launcher|pydantic\w*|registry)/",
        ),
    ),
)
"""What a frame is about by the path of its file."""

_COMPUTES = _any(
    r"/torch/(?:nn/functional|_ops|functional|_refs/|_decomp|_prims|_jit_internal|distributed/tensor/|nested/)",
    r"/torch/nn/modules/|/ops?/|/kernels?/|/triton/|/layers?/|/torch_npu/npu/|attention\w*\.py$|op_plugin|rotary",
    r"modeling_\w+\.py$|modular_\w+\.py$|/model\w*\.py$|/(?:modules|models)/[\w/]+\.py$",
)
_COMPUTING = _any(
    r"forward|__call__|apply|backward|<lambda>",
    r"\w*(?:attn|attention|rope|rotary|embed|norm|conv|pool|linear|matmul|nms)\w*",
)
"""Paths of code that computes, and its functions that do."""

_INTERNAL = _any(
    r"values? to unpack|could not convert string|invalid literal for|arg is an empty|is not in list|closed file",
    r"could not be broadcast|array element with|null (?:byte|char)|out of range for|math domain|list\.remove",
    r"unconverted data|does not match format|substring not found|truth value of|Expecting value|year \d+ is out",
)
"""What Python and NumPy say of values, wherever that is: it tells of no setting."""
_OPTIONAL = _any(
    r"'\w*(?:npu|flash|attn|torch|bnb|deepspeed|apex|xformers|triton|availab|init_empty|ray|vllm)\w*'",
)
"""Names that are not defined where an optional import failed or a package is too old to have them."""
_ABOUT_SETTINGS = _any(
    r"\b(?:args|cfg|config|hparams|opts?|options)\b|%|environ",
    r"(?:size|rank|world|num|heads|layers|batch|degree|parallel|length|interval)s?\b",
)
_ABOUT_TENSORS = _any(
    r"\.shape|\.n?dim\b|\.size\(|dtype|is_contiguous|\.stride\(|torch\.Tensor|\.device\b",
)
_REFUSALS = ("AssertionError", "ValueError", "NotImplementedError")
"""Exceptions that programs raise to refuse something; others only count with the line that raised them."""
_BY_PROGRAM = (*_REFUSALS, "TypeError", "KeyError")


def judge(raised: Raised) -> Kind | None:
    """Return what kind of failure an exception tells of, None where nothing tells."""
    words = f"{raised.message}\n{raised.rest}"
    for kind, pattern in _WORDS:
        if pattern.search(words):
            return kind
    if raised.name == "NameError" and _OPTIONAL.search(raised.message):
        return PACKAGE
    if raised.name == "FileNotFoundError" and any(frame.path.endswith("/subprocess.py") for frame in raised.frames):
        return PACKAGE
    for kind, pattern in _CLASSES:
        if pattern.search(raised.exception):
            return kind
    return _by_place(raised.frames) or _refused(raised, words)


def _refused(raised: Raised, words: str) -> Kind | None:
    """Return what an exception is about that a program raised on purpose, in code that does not tell."""
    if not raised.checked and raised.name not in _REFUSALS:
        return None
    if not raised.message:
        return _by_condition(raised.checked)
    if not raised.checked and _INTERNAL.search(raised.message):
        return None
    for kind, pattern in _LATER_WORDS:
        if pattern.search(words):
            return kind
    return SETTINGS if raised.name in _BY_PROGRAM else None


def _by_condition(condition: str) -> Kind | None:
    """Return what an assertion without a message is about, going by its condition."""
    if _ABOUT_TENSORS.search(condition):
        return OPERATOR
    return SETTINGS if _ABOUT_SETTINGS.search(condition) else None


def _by_place(frames: tuple[Frame, ...]) -> Kind | None:
    """Return the kind of the innermost frame that has one."""
    for frame in reversed(frames[-_OUTWARD:]):
        kind = _place(frame)
        if kind is not None:
            return kind
    return None


def _place(frame: Frame) -> Kind | None:
    if _NEUTRAL.search(frame.path):
        return None
    for kind, pattern in _FUNCTIONS:
        if pattern.search(frame.function):
            return kind
    for kind, pattern in _PLACES:
        if pattern.search(frame.path):
            return kind
    return OPERATOR if _COMPUTES.search(frame.path) and _COMPUTING.fullmatch(frame.function) else None
