"""Maglio's native core: index structures, sampling, and the CPU engine."""

from collections.abc import Callable, Mapping, Sequence, Set
import enum
import os
from typing import Annotated, Final

import numpy
from numpy.typing import NDArray


class SuffixAutomaton:
    """A live index of a token stream."""

    def __init__(self, *, token_cap: int = 4194304) -> None:
        """
        A full index restarts from the last quarter of its ``token_cap`` tokens.
        """

    def append(self, token: int) -> None:
        """Add one token. ``ValueError`` if negative; ``MemoryError`` poisons."""

    def extend(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Add an int32 array of tokens."""

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix that also occurs earlier."""

    @property
    def match_end(self) -> int:
        """
        Where the occurrence that is followed ends, in what is indexed; -1 for none.
        """

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that followed the latest earlier occurrence."""

    def weighed_draft(self, limit: int) -> tuple[list[int], bytes]:
        """
        The same, and the evidence for each token as bytes, see ``evidence.h``.
        """

    def weighed_draft_in_place(self, limit: int) -> tuple[list[int], bytes]:
        """
        The same from where a copy left off, see ``place.h``; none where nothing is expected.
        """

    @property
    def place_agreed(self) -> int:
        """Tokens that agree up to where a copy left off."""

    def freeze(self) -> FrozenAutomaton:
        """A compact, immutable index of the tokens indexed now."""

    def check(self) -> str:
        """What is wrong with the structure; empty if nothing."""

    @property
    def poisoned(self) -> bool:
        """Whether an append failed; the index then answers 0 for ever."""

    @property
    def total_tokens(self) -> int:
        """Tokens ever added."""

    @property
    def indexed_tokens(self) -> int:
        """Tokens that matches can reach."""

    @property
    def states(self) -> int: ...

    @property
    def transitions(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes reserved."""

class FrozenAutomaton:
    """An immutable index of a document."""

    def __init__(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Index an int32 array of tokens."""

    @staticmethod
    def open(path: str | os.PathLike[str], fingerprint: str | None = None) -> FrozenAutomaton:
        """
        Open an index file. ``IndexFileError`` if it is damaged, foreign, or has another fingerprint than the one given.
        """

    def write(self, descriptor: int, *, fingerprint: str) -> None:
        """
        Write an index file into an open file; ``fingerprint`` names the tokenizer. ``OSError`` if it cannot be written.
        """

    def cursor(self) -> FrozenCursor:
        """A new cursor, which keeps the index alive."""

    def check(self) -> str:
        """What is wrong with the structure; empty if nothing."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """The opened file's; empty if built in memory."""

    @property
    def max_token(self) -> int:
        """The largest id of the document; -1 if it is empty."""

    @property
    def states(self) -> int: ...

    @property
    def transitions(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes of the index, or of its share of the file."""

class FrozenCursor:
    """Where one stream stands in a document."""

    def advance(self, token: int) -> None:
        """Take note of the stream's next token."""

    def advance_many(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Take note of an int32 array of tokens."""

    @property
    def match_length(self) -> int:
        """Tokens in the longest suffix that the document continues."""

    def draft(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that follow the match in the document."""

    def weighed_draft(self, limit: int) -> tuple[list[int], bytes]:
        """
        The same, and the evidence for each token as bytes, see ``evidence.h``.
        """

    def weighed_draft_in_place(self, limit: int) -> tuple[list[int], bytes]:
        """
        The same from where a copy left off, see ``place.h``; none where nothing is expected.
        """

    @property
    def place_agreed(self) -> int:
        """Tokens that agree up to where a copy left off."""

class GgufError(ValueError):
    pass

class TensorInfo:
    """A tensor of a model file."""

    @property
    def name(self) -> object: ...

    @property
    def type(self) -> str:
        """Name of the storage type, such as ``Q4_K``."""

    @property
    def supported(self) -> bool:
        """Whether the engine can read the type."""

    @property
    def shape(self) -> list[int]:
        """Dimensions, innermost first."""

    @property
    def bytes(self) -> int:
        """In the file; 0 if the type is not supported."""

def tensor_types() -> list[str]:
    """Names of the types that the engine can read."""

class GgufPart:
    """A GGUF file: a whole model, or a part of one."""

    def __init__(self, descriptor: int) -> None: ...

    @property
    def size(self) -> int:
        """Bytes of the file."""

    @property
    def n_tensors(self) -> int:
        """Number of tensors in this part."""

    def value(self, key: str, otherwise: object) -> object:
        """One value of the metadata."""

    def metadata(self) -> dict[str, object]:
        """
        All metadata: numbers, strings, lists of strings and booleans, arrays of numbers.
        """

class GgufFile:
    """The tensors of a model, in one part or several."""

    def __init__(self, parts: Sequence[GgufPart]) -> None: ...

    def tensors(self) -> list[TensorInfo]:
        """The tensor directory, in the order of the parts."""

    @property
    def identity(self) -> int:
        """64 bits of sizes, times and headers of all parts."""

    def check_unchanged(self) -> None:
        """Raises GgufError when a part was written to since it was opened."""

class KeptWeightsError(ValueError):
    pass

class GateActivation(enum.Enum):
    SILU = 0

    GELU_TANH = 1

    CLAMPED_SWIGLU = 2

class Gating(enum.Enum):
    SOFTMAX = 0

    SIGMOID = 1

class RopeSpec:
    """A rotation: the angle per position of each pair."""

    def __init__(self, inverse_frequencies: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], magnitude: float = 1.0) -> None: ...

class Source:
    """Rows of a tensor that stand for a weight."""

    def __init__(self, tensor: str, first_row: int = 0, all_rows: int = 0, rows: Sequence[int] = []) -> None: ...

class AttentionSpec:
    """The shape of an attention sub-layer."""

    def __init__(self) -> None: ...

    @property
    def n_head(self) -> int: ...

    @n_head.setter
    def n_head(self, arg: int, /) -> None: ...

    @property
    def n_kv_head(self) -> int: ...

    @n_kv_head.setter
    def n_kv_head(self, arg: int, /) -> None: ...

    @property
    def head_dim(self) -> int: ...

    @head_dim.setter
    def head_dim(self, arg: int, /) -> None: ...

    @property
    def scale(self) -> float: ...

    @scale.setter
    def scale(self, arg: float, /) -> None: ...

    @property
    def window(self) -> int: ...

    @window.setter
    def window(self, arg: int, /) -> None: ...

    @property
    def rope(self) -> int: ...

    @rope.setter
    def rope(self, arg: int, /) -> None: ...

    @property
    def rotated(self) -> int: ...

    @rotated.setter
    def rotated(self, arg: int, /) -> None: ...

    @property
    def cap(self) -> float: ...

    @cap.setter
    def cap(self, arg: float, /) -> None: ...

    @property
    def temperature(self) -> float: ...

    @temperature.setter
    def temperature(self, arg: float, /) -> None: ...

    @property
    def temperature_length(self) -> int: ...

    @temperature_length.setter
    def temperature_length(self, arg: int, /) -> None: ...

    @property
    def head_norms(self) -> bool: ...

    @head_norms.setter
    def head_norms(self, arg: bool, /) -> None: ...

    @property
    def wide_norms(self) -> bool: ...

    @wide_norms.setter
    def wide_norms(self, arg: bool, /) -> None: ...

    @property
    def value_norms(self) -> bool: ...

    @value_norms.setter
    def value_norms(self, arg: bool, /) -> None: ...

    @property
    def paired_rows(self) -> bool: ...

    @paired_rows.setter
    def paired_rows(self, arg: bool, /) -> None: ...

    @property
    def keys_as_values(self) -> bool: ...

    @keys_as_values.setter
    def keys_as_values(self, arg: bool, /) -> None: ...

    @property
    def kv_layer(self) -> int: ...

    @kv_layer.setter
    def kv_layer(self, arg: int, /) -> None: ...

    @property
    def sinks(self) -> bool: ...

    @sinks.setter
    def sinks(self, arg: bool, /) -> None: ...

    @property
    def gated(self) -> bool: ...

    @gated.setter
    def gated(self, arg: bool, /) -> None: ...

class DeltaNetSpec:
    """The shape of a gated delta net."""

    def __init__(self) -> None: ...

    @property
    def n_key_head(self) -> int: ...

    @n_key_head.setter
    def n_key_head(self, arg: int, /) -> None: ...

    @property
    def n_value_head(self) -> int: ...

    @n_value_head.setter
    def n_value_head(self, arg: int, /) -> None: ...

    @property
    def head_dim(self) -> int: ...

    @head_dim.setter
    def head_dim(self, arg: int, /) -> None: ...

    @property
    def n_taps(self) -> int: ...

    @n_taps.setter
    def n_taps(self, arg: int, /) -> None: ...

    @property
    def grouped(self) -> bool: ...

    @grouped.setter
    def grouped(self, arg: bool, /) -> None: ...

class ShortConvSpec:
    """The shape of a gated short convolution."""

    def __init__(self) -> None: ...

    @property
    def channels(self) -> int: ...

    @channels.setter
    def channels(self, arg: int, /) -> None: ...

    @property
    def n_taps(self) -> int: ...

    @n_taps.setter
    def n_taps(self, arg: int, /) -> None: ...

class GatedSpec:
    """The shape of a gated feed-forward sub-layer."""

    def __init__(self) -> None: ...

    @property
    def n_ff(self) -> int: ...

    @n_ff.setter
    def n_ff(self, arg: int, /) -> None: ...

    @property
    def activation(self) -> GateActivation: ...

    @activation.setter
    def activation(self, arg: GateActivation, /) -> None: ...

class ExpertsSpec:
    """The shape of a feed-forward sub-layer of experts."""

    def __init__(self) -> None: ...

    @property
    def n_ff(self) -> int: ...

    @n_ff.setter
    def n_ff(self, arg: int, /) -> None: ...

    @property
    def n_expert(self) -> int: ...

    @n_expert.setter
    def n_expert(self, arg: int, /) -> None: ...

    @property
    def n_used(self) -> int: ...

    @n_used.setter
    def n_used(self, arg: int, /) -> None: ...

    @property
    def n_group(self) -> int: ...

    @n_group.setter
    def n_group(self, arg: int, /) -> None: ...

    @property
    def n_group_used(self) -> int: ...

    @n_group_used.setter
    def n_group_used(self, arg: int, /) -> None: ...

    @property
    def gating(self) -> Gating: ...

    @gating.setter
    def gating(self, arg: Gating, /) -> None: ...

    @property
    def normalize(self) -> bool: ...

    @normalize.setter
    def normalize(self, arg: bool, /) -> None: ...

    @property
    def scale(self) -> float: ...

    @scale.setter
    def scale(self, arg: float, /) -> None: ...

    @property
    def n_shared_ff(self) -> int: ...

    @n_shared_ff.setter
    def n_shared_ff(self, arg: int, /) -> None: ...

    @property
    def weighs_shared(self) -> bool: ...

    @weighs_shared.setter
    def weighs_shared(self, arg: bool, /) -> None: ...

    @property
    def norms_router(self) -> bool: ...

    @norms_router.setter
    def norms_router(self, arg: bool, /) -> None: ...

    @property
    def activation(self) -> GateActivation: ...

    @activation.setter
    def activation(self, arg: GateActivation, /) -> None: ...

class ParallelSpec:
    """Two feed-forward sub-layers beside each other."""

    def __init__(self, dense: GatedSpec, experts: ExpertsSpec) -> None: ...

    @property
    def dense(self) -> GatedSpec: ...

    @property
    def experts(self) -> ExpertsSpec: ...

class LayerSpec:
    """The shape of a layer."""

    def __init__(self) -> None: ...

    @property
    def mixer(self) -> AttentionSpec | DeltaNetSpec | ShortConvSpec: ...

    @mixer.setter
    def mixer(self, arg: AttentionSpec | DeltaNetSpec | ShortConvSpec, /) -> None: ...

    @property
    def feed_forward(self) -> GatedSpec | ExpertsSpec | ParallelSpec: ...

    @feed_forward.setter
    def feed_forward(self, arg: GatedSpec | ExpertsSpec | ParallelSpec, /) -> None: ...

    @property
    def pre_norms(self) -> bool: ...

    @pre_norms.setter
    def pre_norms(self, arg: bool, /) -> None: ...

    @property
    def post_norms(self) -> bool: ...

    @post_norms.setter
    def post_norms(self, arg: bool, /) -> None: ...

    @property
    def output_scale(self) -> float: ...

    @output_scale.setter
    def output_scale(self, arg: float, /) -> None: ...

    @property
    def sources(self) -> dict[str, Source]: ...

    @sources.setter
    def sources(self, arg: Mapping[str, Source], /) -> None: ...

class ModelSpec:
    """The shape of a model."""

    def __init__(self) -> None: ...

    @property
    def architecture(self) -> str: ...

    @architecture.setter
    def architecture(self, arg: str, /) -> None: ...

    @property
    def n_embd(self) -> int: ...

    @n_embd.setter
    def n_embd(self, arg: int, /) -> None: ...

    @property
    def n_vocab(self) -> int: ...

    @n_vocab.setter
    def n_vocab(self, arg: int, /) -> None: ...

    @property
    def norm_eps(self) -> float: ...

    @norm_eps.setter
    def norm_eps(self, arg: float, /) -> None: ...

    @property
    def embedding_scale(self) -> float: ...

    @embedding_scale.setter
    def embedding_scale(self, arg: float, /) -> None: ...

    @property
    def residual_scale(self) -> float: ...

    @residual_scale.setter
    def residual_scale(self, arg: float, /) -> None: ...

    @property
    def n_embd_per_layer(self) -> int: ...

    @n_embd_per_layer.setter
    def n_embd_per_layer(self, arg: int, /) -> None: ...

    @property
    def logit_scale(self) -> float: ...

    @logit_scale.setter
    def logit_scale(self, arg: float, /) -> None: ...

    @property
    def logit_cap(self) -> float: ...

    @logit_cap.setter
    def logit_cap(self, arg: float, /) -> None: ...

    @property
    def ropes(self) -> list[RopeSpec]: ...

    @ropes.setter
    def ropes(self, arg: Sequence[RopeSpec], /) -> None: ...

    @property
    def layers(self) -> list[LayerSpec]: ...

    @layers.setter
    def layers(self, arg: Sequence[LayerSpec], /) -> None: ...

    @property
    def sources(self) -> dict[str, Source]: ...

    @sources.setter
    def sources(self, arg: Mapping[str, Source], /) -> None: ...

    @property
    def rotations(self) -> int:
        """64 bits of all rotations."""

    def check(self) -> str:
        """What the engine cannot do, or an empty string."""

class Matrix:
    """A repacked weight matrix."""

    @property
    def rows(self) -> int: ...

    @property
    def cols(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def row(self, index: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
        """One row as float32, as the engine sees it."""

def read_matrix(file: GgufFile, name: str) -> Matrix:
    """Repacks one tensor of a file."""

def read_vector(file: GgufFile, name: str) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
    """The floats of a tensor of one dimension."""

class Model:
    """Weights, repacked for the engine."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def is_mapped(self) -> bool:
        """Whether the weights are pages of a file."""

class ModelLoad:
    """A model on its way into memory."""

    def __init__(self, file: GgufFile, spec: ModelSpec, known: Set[str]) -> None:
        """
        Finds the weights that ``spec`` describes; ``known`` names tensors read by the caller.
        """

    @property
    def weight_bytes(self) -> int:
        """Bytes of the repacked matrices."""

    def cache_bytes(self, positions: int, type: CacheType) -> int:
        """Bytes of a cache of so many positions."""

    def read(self, threads: int, progress: Callable[[int, int], object] | None = None) -> Model:
        """
        Reads and repacks the weights, once; ``progress`` is told bytes done and in all.
        """

    def map(self, descriptor: int) -> Model:
        """
        Maps the weights from a file that ``keep`` wrote; raises KeptWeightsError if they are not of this model.
        """

    @property
    def kept_bytes(self) -> int:
        """Bytes of the file that ``keep`` writes."""

    def keep(self, descriptor: int, progress: Callable[[int, int], object] | None = None) -> None:
        """Writes the weights that were read to an open, empty file."""

class Cache:
    """One sequence inside an engine: a table of shared pages."""

    @property
    def length(self) -> int:
        """Positions held."""

    @property
    def floor(self) -> int:
        """The shortest length that truncate() reaches exactly."""

    @property
    def n_ctx(self) -> int:
        """Most positions."""

    @property
    def bytes(self) -> int:
        """Bytes of its pages, shared ones too."""

    @property
    def pages(self) -> dict[int, int]:
        """Bytes of each of its pages by where it lies, shared ones too."""

    def truncate(self, length: int) -> int:
        """Keep the first ``length`` positions, and return how many are kept."""

    def fork(self, length: int) -> Cache:
        """
        An independent cache of the first ``length`` positions, on the same pages.
        """

    def keep(self) -> None:
        """Remember about where it is, for truncate() to come back to."""

    def reserve(self, n: int) -> None:
        """
        Take the pages of keys and values for ``n`` more positions; no position changes.
        """

def isa_names() -> list[str]:
    """Instruction sets this machine can run, best first."""

class CacheType(enum.Enum):
    """What keys and values are kept as."""

    F16 = 0

    Q8_0 = 1

class Engine:
    """The forward pass of one model."""

    def __init__(self, model: Model, isa: str, threads: int, cache_type: CacheType, cache_budget: int) -> None:
        """
        Caches use at most ``cache_budget`` bytes at a time; 0 stands for no limit.
        """

    MAX_ROWS: Final[int] = ...
    """(arg: object, /) -> int"""

    @property
    def isa(self) -> str: ...

    @property
    def threads(self) -> int: ...

    @property
    def cache_bytes(self) -> int:
        """Bytes of all pages in use."""

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the states of all recurrent layers at a position."""

    @property
    def row_bytes(self) -> int:
        """Bytes of what a row feeds into all recurrent layers."""

    def new_cache(self, n_ctx: int) -> Cache: ...

    def write_caches(self, key: int, caches: Sequence[tuple[bytes, object, object]], descriptor: int) -> None:
        """
        Writes caches to an open, empty file, each with 32 bytes that say whose it is and the tokens that are in it.
        """

    def read_caches(self, key: int, n_ctx: int, max_bytes: int, descriptor: int) -> list[tuple[bytes, Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Cache]]:
        """
        The first caches of a file that ``write_caches`` wrote with this key, of no more than ``max_bytes`` of pages; raises CacheFileError.
        """

    def forward(self, batch: Sequence[tuple[object, object, int]]) -> list[Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C')]]:
        """
        Append segments (cache, tokens, n_logits) to their caches; returns the rows of each.
        """

class Recycling:
    """Which token followed which, as the latest rows said."""

    def __init__(self, n_vocab: int, *, pair_slots: int) -> None:
        """
        ``pair_slots``: size of the table keyed by two tokens, 0 or a power of two.
        """

    def observe(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        The stream goes on with an int32 array of tokens. ``ValueError``, and no change, for an id outside the vocabulary.
        """

    def observe_rows(self, tokens: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], candidates: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
        """
        Learn that ``candidates[i]``, int32 (k, n) best first, may follow ``tokens[i]``.
        """

    def restart(self) -> None:
        """The stream is another one from here on; what was learnt stays."""

    def draft(self, limit: int) -> list[int]:
        """
        At most ``limit`` tokens: the chain of best successors after the stream.
        """

    def topk_of(self, token: int) -> list[int]:
        """At most 8 candidates after ``token``, best first."""

    def check(self) -> str:
        """What is wrong with the tables; empty if nothing."""

    @property
    def n_vocab(self) -> int: ...

    @property
    def pair_slots(self) -> int: ...

    @property
    def memory_bytes(self) -> int:
        """Bytes reserved."""

    WIDTH: Final[int] = ...
    """Candidates kept per token."""

class SpecialTokens:
    """Cuts special tokens out of a text, longer ones first."""

    def __init__(self, tokens: Sequence[tuple[bytes, int, bool, bool, bool]]) -> None:
        """
        ``tokens``: (text, id, control, strips_left, strips_right) each. Raises ValueError for an empty or repeated text.
        """

    def split(self, text: bytes, parse_control: bool) -> list[tuple[int, int, int]]:
        """
        Fragments (begin, end, token) that cover ``text`` in order; token -1 is plain text.
        """

class SpmModel:
    """SentencePiece-style merging by token score."""

    def __init__(self, blob: bytes, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], byte_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Token i is ``blob[offsets[i]:offsets[i + 1]]``. Raises ValueError if the parts do not fit together.
        """

    def encode(self, text: bytes) -> list[int]:
        """Token ids of ``text``, whose spaces are escaped already."""

class SamplerParams:
    def __init__(self) -> None: ...

    @property
    def order(self) -> list[str]: ...

    @order.setter
    def order(self, arg: Sequence[str], /) -> None: ...

    @property
    def temperature(self) -> float: ...

    @temperature.setter
    def temperature(self, arg: float, /) -> None: ...

    @property
    def top_n_sigma(self) -> float: ...

    @top_n_sigma.setter
    def top_n_sigma(self, arg: float, /) -> None: ...

    @property
    def top_k(self) -> int: ...

    @top_k.setter
    def top_k(self, arg: int, /) -> None: ...

    @property
    def typical_p(self) -> float: ...

    @typical_p.setter
    def typical_p(self, arg: float, /) -> None: ...

    @property
    def top_p(self) -> float: ...

    @top_p.setter
    def top_p(self, arg: float, /) -> None: ...

    @property
    def min_p(self) -> float: ...

    @min_p.setter
    def min_p(self, arg: float, /) -> None: ...

    @property
    def xtc_probability(self) -> float: ...

    @xtc_probability.setter
    def xtc_probability(self, arg: float, /) -> None: ...

    @property
    def xtc_threshold(self) -> float: ...

    @xtc_threshold.setter
    def xtc_threshold(self, arg: float, /) -> None: ...

    @property
    def min_keep(self) -> int: ...

    @min_keep.setter
    def min_keep(self, arg: int, /) -> None: ...

    @property
    def repeat_penalty(self) -> float: ...

    @repeat_penalty.setter
    def repeat_penalty(self, arg: float, /) -> None: ...

    @property
    def penalty_last_n(self) -> int: ...

    @penalty_last_n.setter
    def penalty_last_n(self, arg: int, /) -> None: ...

    @property
    def frequency_penalty(self) -> float: ...

    @frequency_penalty.setter
    def frequency_penalty(self, arg: float, /) -> None: ...

    @property
    def presence_penalty(self) -> float: ...

    @presence_penalty.setter
    def presence_penalty(self, arg: float, /) -> None: ...

    @property
    def dry_multiplier(self) -> float: ...

    @dry_multiplier.setter
    def dry_multiplier(self, arg: float, /) -> None: ...

    @property
    def dry_base(self) -> float: ...

    @dry_base.setter
    def dry_base(self, arg: float, /) -> None: ...

    @property
    def dry_allowed_length(self) -> int: ...

    @dry_allowed_length.setter
    def dry_allowed_length(self, arg: int, /) -> None: ...

    @property
    def dry_penalty_last_n(self) -> int: ...

    @dry_penalty_last_n.setter
    def dry_penalty_last_n(self, arg: int, /) -> None: ...

    @property
    def dry_breakers(self) -> list[list[int]]: ...

    @dry_breakers.setter
    def dry_breakers(self, arg: Sequence[Sequence[int]], /) -> None: ...

    @property
    def exempt(self) -> list[int]: ...

    @exempt.setter
    def exempt(self, arg: Sequence[int], /) -> None: ...

    @property
    def logit_bias(self) -> list[tuple[int, float]]: ...

    @logit_bias.setter
    def logit_bias(self, arg: Sequence[tuple[int, float]], /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

class Sampler:
    def __init__(self, params: SamplerParams, n_vocab: int) -> None: ...

    def extend(self, tokens: Sequence[int]) -> None: ...

    def begin_answer(self, index: int) -> None: ...

    def truncate(self, length: int) -> None: ...

    def sample(self, row: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], position: int, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> int: ...

    def stands(self, token: int, row: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], position: int, drift: float, mask: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> bool: ...

    def check(self) -> None: ...

    @property
    def n_vocab(self) -> int: ...

    @property
    def length(self) -> int: ...

def topk_rows(rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], count: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]:
    """
    Ids of the `count` largest logits of each row, int32 (k, count), best first, ties to the lowest id, NaN last. Takes float32 (k, vocab).
    """

def log_mass(row: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> float:
    """
    Natural logarithm of the sum of exp(logit) over a float32 row: a token's log-probability is its logit less this. NaN or infinite where the row cannot be sampled.
    """

def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """
    Ten rounds of Philox4x32 on a counter of four words under a key of two.
    """
