"""Processes and threads: what a child of fork() can do, and what two threads may do at once."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import subprocess
import sys
import threading

import pytest

import maglio
from maglio.draft.past import History
from maglio.engine.native import NativeEngine
from maglio.engine.session import Session
from maglio.errors import ContextFullError, MaglioError
from maglio.gguf import ModelFile
from support.models import TINY, write_model
from support.real_models import real_model_path

# Python 3.12 and later say of any process with threads what these tests say of ours.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

PROMPT = [1, 2, 3]
FORK = multiprocessing.get_context("fork")
SECONDS = 120  # of waiting for a child, after which it hangs


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_model(path, "llama", TINY["llama"], "Q4_0")
    return path


@pytest.fixture(scope="module")
def model(path):
    return maglio.load(path, n_ctx=256, threads=3)


def generated(model):
    return model.generate(PROMPT, max_tokens=20).tokens


def in_child(work):
    """What ``work`` says in a child of fork()."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=lambda: there.send(work()))
    child.start()
    try:
        assert here.poll(SECONDS), "the child hangs"
        return here.recv()
    finally:
        child.kill()
        child.join()


def test_a_child_of_fork_generates_what_its_parent_does(model):
    expected = generated(model)
    assert in_child(lambda: generated(model)) == expected
    assert generated(model) == expected


def test_a_child_of_a_child_does_too(model):
    assert in_child(lambda: in_child(lambda: generated(model))) == generated(model)


def test_a_child_goes_on_with_a_conversation_of_its_parent(model):
    session = Session(model.engine)
    session.prefill(PROMPT)
    rest = in_child(lambda: session.forward([4]).tobytes())
    assert rest == session.forward([4]).tobytes()


def test_a_child_can_drop_an_engine_that_it_never_used(path):
    engines = [NativeEngine(ModelFile(path), n_ctx=64, threads=3)]

    def drop():
        engines.clear()
        gc.collect()
        return "dropped"

    assert in_child(drop) == "dropped"


def test_forking_while_other_threads_generate_leaves_no_lock_behind(model):
    expected, stop = generated(model), threading.Event()

    def work():
        while not stop.is_set():
            generated(model)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert in_child(lambda: generated(model)) == expected
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_fork_waits_for_who_changes_a_history():
    history, inside, go_on = History(), threading.Event(), threading.Event()
    history.add([1, 2, 3])

    def change():
        with history._lock:
            inside.set()
            go_on.wait()

    changing = threading.Thread(target=change)
    changing.start()
    inside.wait()
    threading.Timer(0.0, go_on.set).start()
    assert in_child(lambda: len(history.index())) == 3
    changing.join()


HELD = """
import sys, threading
import maglio
model = maglio.load(sys.argv[1], threads=2)
hold = threading.Event()
threading.Thread(target=lambda _: hold.wait(), args=[model.engine], daemon=True).start()
"""


def test_a_program_may_end_while_a_thread_holds_an_engine(path):
    done = subprocess.run([sys.executable, "-c", HELD, path], capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


REFUSED = """
import resource, sys
import maglio
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
try:
    maglio.load(sys.argv[1], threads=256)
except maglio.MaglioError as error:
    print(error)
print(len(maglio.load(sys.argv[1], threads=1).generate([1], max_tokens=3).tokens))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_threads_that_the_system_refuses_are_an_error_and_not_the_end(path):
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    error, tokens = done.stdout.splitlines()
    assert "the system refused to start thread" in error
    assert "of 256" in error
    assert "fewer threads" in error
    assert tokens == "3"


NO_THREADS = """
import sys
import threading
import maglio
from maglio.errors import MaglioError
try:
    threading.Thread(target=int).start()
except RuntimeError:
    print("no thread")
try:
    maglio.load(n_ctx=256, threads=2)  # the loader has shares for two, and does them all itself
except MaglioError as error:
    print(error)
model = maglio.load(n_ctx=256, threads=1)
model._chat_template = "{{ messages[0].content }}"  # not a known one: its process renders
chat = model.chat(max_tokens=3, references=["on and on " * 999])
print(len(chat.send("on and on").result()) > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")
def test_where_no_thread_can_be_started_one_is_enough_for_everything():
    real_model_path("smollm2-135m")
    # A thread has a stack of the size that this limit names, and there is no room for it.
    stack, room = 64 << 30, 32 << 30

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))

    done = subprocess.run(
        [sys.executable, "-c", NO_THREADS],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        preexec_fn=limit,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    refused, error, said = done.stdout.splitlines()
    assert (refused, said) == ("no thread", "True")
    assert "the system refused to start thread 2 of 2" in error


def test_a_session_is_filled_by_many_threads_up_to_its_end_and_not_beyond(model):
    session, full = Session(model.engine), []

    def fill():
        try:
            while True:
                session.forward([1, 2, 3])
        except ContextFullError as error:
            full.append(error)

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(full) == 4
    assert session.cache.length == 255
    with pytest.raises(ContextFullError):
        session.forward([1, 2])


def paused(progress_of):
    """A stream in another thread that stands within its prefill, and what lets it go on."""
    inside, go_on = threading.Event(), threading.Event()

    def progress(done, total):
        inside.set()
        go_on.wait()

    stream = progress_of(progress)
    thread = threading.Thread(target=lambda: next(stream))
    thread.start()
    inside.wait()

    def end():
        go_on.set()
        thread.join()

    return stream, end


def test_a_generation_at_work_in_another_thread_says_so(model):
    stream, end = paused(lambda p: model.stream(PROMPT, max_tokens=9, on_prefill=p))
    for use in (lambda: next(stream), stream.close):
        with pytest.raises(MaglioError, match="generation is in use by another thread"):
            use()
    end()
    assert len(list(stream)) == 8


def test_a_generation_asked_by_its_own_display_says_so(model):
    said = []

    def progress(done, total):
        for use in (lambda: next(stream), stream.close):
            with pytest.raises(MaglioError, match="generation is at work") as caught:
                use()
            said.append(caught)

    stream = model.stream(PROMPT, max_tokens=9, on_prefill=progress)
    assert len(list(stream)) == 9
    assert len(said) == 2


def test_a_batch_asked_by_its_own_display_says_so(model):
    def progress(done, total):
        next(batch)

    batch = model.generate_many(
        [PROMPT, PROMPT], max_tokens=3, as_completed=True, progress=progress
    )
    with pytest.warns(RuntimeWarning, match="batch is at work"):
        assert len(list(batch)) == 2
