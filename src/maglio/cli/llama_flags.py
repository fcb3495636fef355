"""llama.cpp's flags that have no meaning here, or none yet: which, and what becomes of them.

Boundary: a table and how to look into it. Flags that do have a meaning are options of the commands
themselves. docs/cli.md lists both; a test keeps the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

SWITCH = ("on", "off", "auto", "true", "false", "enabled", "disabled", "1", "0")
"""What may follow a flag that takes a value or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFlag:
    """A flag that is recognised.

    Attributes:
        names: its spellings.
        n_values: how many values follow.
        optional: values of which one may follow.
        refused: why it cannot be accepted; empty for one that is ignored.
        neutral: values that ask for nothing and are accepted all the same.
        silent: whether what it asks for is the case anyway, so that nothing needs to be said.
    """

    names: tuple[str, ...]
    n_values: int = 0
    optional: tuple[str, ...] = ()
    refused: str = ""
    neutral: tuple[str, ...] = ()
    silent: bool = False


def _ignored(*names: str, n_values: int = 0, optional: tuple[str, ...] = ()) -> ForeignFlag:
    return ForeignFlag(names=names, n_values=n_values, optional=optional)


def _refused(
    why: str, *names: str, n_values: int = 1, neutral: tuple[str, ...] = ()
) -> ForeignFlag:
    return ForeignFlag(names=names, n_values=n_values, refused=why, neutral=neutral)


_CHAT = "conversations are held by maglio chat"
_GENERATE = "texts are continued, without a conversation, by maglio generate"
_SAMPLER = "this way of sampling is not supported"
_GRAMMAR = "constraining the output is not supported yet"
_ADAPTER = "adapters are not supported; merge it into the model file"
_POSITIONS = "positions are scaled as the model file says, and cannot be changed"
_DOWNLOAD = "models are downloaded from the hub alone, with --hf-repo; name others with --model"
_TEMPLATE = "conversations are written as the model file says"
_ONE_CACHE = "keys and values are kept alike; choose how with --kv-cache"
_IMAGES = "images and sound are not supported"

_FLAGS = (
    # Where and how fast to compute.
    _ignored("-ngl", "--gpu-layers", "--n-gpu-layers", n_values=1),
    _ignored("-fa", "--flash-attn", optional=SWITCH),
    _ignored("--mlock"),
    _ignored("--mmap"),
    _ignored("--no-mmap"),
    _ignored("-dio", "--direct-io"),
    _ignored("-ndio", "--no-direct-io"),
    _ignored("-b", "--batch-size", n_values=1),
    _ignored("-ub", "--ubatch-size", n_values=1),
    _ignored("-tb", "--threads-batch", n_values=1),
    _ignored("-C", "--cpu-mask", n_values=1),
    _ignored("-Cr", "--cpu-range", n_values=1),
    _ignored("--cpu-strict", n_values=1),
    _ignored("-Cb", "--cpu-mask-batch", n_values=1),
    _ignored("-Crb", "--cpu-range-batch", n_values=1),
    _ignored("--cpu-strict-batch", n_values=1),
    _ignored("--prio", n_values=1),
    _ignored("--prio-batch", n_values=1),
    _ignored("--poll", n_values=1),
    _ignored("--poll-batch", n_values=1),
    _ignored("--numa", n_values=1),
    _ignored("-dev", "--device", n_values=1),
    _ignored("-sm", "--split-mode", n_values=1),
    _ignored("-ts", "--tensor-split", n_values=1),
    _ignored("-mg", "--main-gpu", n_values=1),
    _ignored("-ot", "--override-tensor", n_values=1),
    _ignored("-cmoe", "--cpu-moe"),
    _ignored("-ncmoe", "--n-cpu-moe", n_values=1),
    _ignored("-kvo", "--kv-offload"),
    _ignored("-nkvo", "--no-kv-offload"),
    _ignored("--op-offload"),
    _ignored("--no-op-offload"),
    _ignored("--repack"),
    _ignored("-nr", "--no-repack"),
    _ignored("--no-host"),
    _ignored("-fit", "--fit", optional=SWITCH),
    _ignored("-kvu", "--kv-unified"),
    _ignored("--swa-full"),
    _ignored("-dt", "--defrag-thold", n_values=1),
    _ignored("-np", "--parallel", n_values=1),
    _ignored("-cb", "--cont-batching"),
    _ignored("--warmup"),
    _ignored("--no-warmup"),
    _ignored("--check-tensors"),
    # Drafting with a second model.
    _ignored("-md", "--model-draft", "--spec-draft-model", n_values=1),
    _ignored("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", n_values=1),
    _ignored("-devd", "--device-draft", n_values=1),
    _ignored("-td", "--threads-draft", n_values=1),
    _ignored("-cd", "--ctx-size-draft", n_values=1),
    _ignored("--draft-min", "--draft-n-min", n_values=1),
    _ignored("--draft-p-min", n_values=1),
    # What is kept between runs, and what is shown.
    _ignored("--prompt-cache", n_values=1),
    _ignored("--prompt-cache-all"),
    _ignored("--prompt-cache-ro"),
    _ignored("--verbose-prompt"),
    _ignored("-v", "--verbose", "--log-verbose"),
    _ignored("-lv", "--verbosity", "--log-verbosity", n_values=1),
    _ignored("--log-disable"),
    _ignored("--log-file", n_values=1),
    _ignored("--log-colors", optional=SWITCH),
    _ignored("--log-prefix"),
    _ignored("--log-timestamps"),
    _ignored("--perf"),
    _ignored("--no-perf"),
    _ignored("--show-timings"),
    _ignored("--no-show-timings"),
    _ignored("-ptc", "--print-token-count", n_values=1),
    _ignored("--simple-io"),
    _ignored("-mli", "--multiline-input"),
    _ignored("-i", "--interactive"),
    _ignored("-if", "--interactive-first"),
    _ignored("--keep", n_values=1),
    _ignored("--reasoning-format", n_values=1),
    # What is the case anyway.
    ForeignFlag(names=("--jinja",), silent=True),
    ForeignFlag(names=("--no-context-shift",), silent=True),
    # What another command does.
    _ignored("-st", "--single-turn"),
    ForeignFlag(names=("--display-prompt", "--no-display-prompt"), silent=True),
    _refused(_CHAT, "-cnv", "--conversation", n_values=0),
    _refused(_CHAT, "-sys", "--system-prompt"),
    _refused(_CHAT, "-sysf", "--system-prompt-file"),
    _refused(_GENERATE, "-no-cnv", "--no-conversation", n_values=0),
    _refused(_GENERATE, "-sp", "--special", n_values=0),
    # What would change the text. Accepting it in silence would be a lie.
    _refused(
        "the context is not shifted; a chat has --on-full drop", "--context-shift", n_values=0
    ),
    _refused(_ONE_CACHE, "-ctk", "--cache-type-k", neutral=("f16",)),
    _refused(_ONE_CACHE, "-ctv", "--cache-type-v", neutral=("f16",)),
    _refused(_SAMPLER, "--mirostat", neutral=("0",)),
    _refused(_SAMPLER, "--mirostat-lr"),
    _refused(_SAMPLER, "--mirostat-ent"),
    _refused(_SAMPLER, "--dynatemp-range", neutral=("0", "0.0")),
    _refused(_SAMPLER, "--dynatemp-exp"),
    _refused(_GRAMMAR, "--grammar"),
    _refused(_GRAMMAR, "--grammar-file"),
    _refused(_GRAMMAR, "-j", "--json-schema"),
    _refused(_GRAMMAR, "-jf", "--json-schema-file"),
    _refused(_ADAPTER, "--lora"),
    _refused(_ADAPTER, "--lora-scaled"),
    _refused(_ADAPTER, "--control-vector"),
    _refused(_ADAPTER, "--control-vector-scaled"),
    _refused(_POSITIONS, "--rope-scaling"),
    _refused(_POSITIONS, "--rope-scale"),
    _refused(_POSITIONS, "--rope-freq-base", neutral=("0",)),
    _refused(_POSITIONS, "--rope-freq-scale"),
    _refused(_POSITIONS, "--yarn-orig-ctx", neutral=("0",)),
    _refused(_POSITIONS, "--yarn-ext-factor"),
    _refused(_POSITIONS, "--yarn-attn-factor"),
    _refused(_POSITIONS, "--yarn-beta-slow"),
    _refused(_POSITIONS, "--yarn-beta-fast"),
    _refused(_POSITIONS, "-gan", "--grp-attn-n", neutral=("1",)),
    _refused("the model file is used as it is", "--override-kv"),
    _refused(_DOWNLOAD, "-mu", "--model-url"),
    _refused(_DOWNLOAD, "-dr", "--docker-repo"),
    _refused(_IMAGES, "-mm", "--mmproj"),
    _refused(_IMAGES, "--image"),
    _refused(_IMAGES, "--audio"),
    _refused(_TEMPLATE, "--chat-template"),
    _refused(_TEMPLATE, "--chat-template-file"),
    _refused(_TEMPLATE, "--no-jinja", n_values=0),
    _refused(_TEMPLATE, "--in-prefix"),
    _refused(_TEMPLATE, "--in-suffix"),
    _refused("give the template what it reads: --chat-template-kwargs", "--reasoning-budget"),
)

FOREIGN: dict[str, ForeignFlag] = {name: flag for flag in _FLAGS for name in flag.names}
"""Every spelling, and what it is."""
