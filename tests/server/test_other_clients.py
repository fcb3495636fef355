"""litellm and langchain-openai make their own calls: `make test-clients`. So does aider.

They bring a hundred packages with them and leave sockets open; `make test` leaves them out. aider
needs versions of its own, and runs with `make test-aider`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from maglio.server.task.delta import ContentText, Finished
from maglio.server.telemetry.usage import Usage
from support.scripted_task import answer_with

if "MAGLIO_TEST_CLIENTS" not in os.environ:
    pytest.skip("make test-clients runs these", allow_module_level=True)

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def litellm():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
    import litellm

    return litellm


@pytest.fixture(scope="module")
def langchain():
    import langchain_openai

    return langchain_openai


def lite(litellm, server, **options):
    return litellm.completion(
        **{"model": "openai/tiny", "messages": HELLO, "max_tokens": 8, "temperature": 0}
        | {"api_base": f"{server.url}/v1", "api_key": "none"}
        | options
    )


def test_litellm_gets_an_answer(litellm, server):
    answer = lite(litellm, server)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 8


def test_litellm_streams_as_aider_asks_it_to(litellm, server):
    chunks = list(lite(litellm, server, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == lite(litellm, server).choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"


def test_litellm_knows_a_full_context(litellm, server):
    long = [{"role": "user", "content": "word " * 2000}]
    with pytest.raises(litellm.exceptions.ContextWindowExceededError):
        lite(litellm, server, messages=long)


@pytest.fixture
def chain(langchain, server):
    return langchain.ChatOpenAI(
        base_url=f"{server.url}/v1", api_key="none", model="tiny", max_tokens=8, stream_usage=True
    )


def test_langchain_gets_an_answer_with_logprobs(chain):
    answer = chain.bind(logprobs=True, top_logprobs=2, seed=3).invoke("hello")
    assert answer.content
    assert answer.usage_metadata["output_tokens"] == 8
    assert len(answer.response_metadata["logprobs"]["content"]) == 8


def test_langchain_asks_for_several(chain):
    from langchain_core.messages import HumanMessage

    chain.n = 3
    [choices] = chain.generate([[HumanMessage("hello")]]).generations
    assert len(choices) == 3


def test_langchain_streams(chain):
    seeded = chain.bind(seed=5)
    pieces = list(seeded.stream("hello"))
    assert "".join(piece.content for piece in pieces) == seeded.invoke("hello").content
    assert sum(p.usage_metadata["output_tokens"] for p in pieces if p.usage_metadata) == 8

    async def run():
        return [piece.content async for piece in seeded.astream("hello")]

    assert "".join(asyncio.run(run())) == seeded.invoke("hello").content


def test_langchain_gets_structure(chain):
    schema = {
        "title": "Answer",
        "type": "object",
        "properties": {"kind": {"enum": ["cat", "dog"]}},
        "required": ["kind"],
        "additionalProperties": False,
    }
    chain.max_tokens = 60
    structured = chain.with_structured_output(schema, method="json_schema")
    assert structured.invoke("cat or dog?")["kind"] in ("cat", "dog")


EDIT = """\
greeting.py
```python
<<<<<<< SEARCH
    return "hi"
=======
    return "hello, world"
>>>>>>> REPLACE
```
"""


def test_aider_edits_a_file(server, monkeypatch, tmp_path):
    """The answer is written by hand, since a tiny model has none; all else is the server's."""
    program = os.environ.get("MAGLIO_TEST_AIDER")
    if program is None:
        pytest.skip("make test-aider runs this")
    pieces = [ContentText(0, EDIT[at : at + 7]) for at in range(0, len(EDIT), 7)]
    usage = Usage(prompt_tokens=100, completion_tokens=40)
    requests = answer_with(monkeypatch, [*pieces, Finished(0, "stop", usage)])
    file = tmp_path / "greeting.py"
    file.write_text('def greet():\n    return "hi"\n')
    options = (
        f"--model openai/tiny --openai-api-base {server.url}/v1 --openai-api-key none "
        "--no-git --no-gitignore --yes-always --edit-format diff --map-tokens 0 "
        "--no-check-update --no-show-model-warnings --analytics-disable"
    )
    done = subprocess.run(
        [program, *options.split(), "--message", "Greet the world", file.name],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert file.read_text() == 'def greet():\n    return "hello, world"\n', done.stdout
    assert requests[0].stream
    assert "Greet the world" in str(requests[0].messages[-1].content)
