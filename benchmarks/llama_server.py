"""Run llama.cpp's server from the package xllamacpp, for benchmarks/serving.py.

    python benchmarks/llama_server.py MODEL --parallel N --context N --threads N [--draft KIND]

Prints its address as the only line of stdout, and serves until it is ended.
"""

from __future__ import annotations

import argparse
import signal

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--context", type=int, required=True, help="tokens of each slot")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--draft", help="a kind of common_speculative_type, such as NGRAM_MOD")
    args = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.n_parallel = args.parallel
    params.n_ctx = args.parallel * args.context  # slots share it
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.verbosity = -1
    if args.draft:
        kind = f"COMMON_SPECULATIVE_TYPE_{args.draft.upper()}"
        params.speculative.types = [getattr(xllamacpp.common_speculative_type, kind)]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
