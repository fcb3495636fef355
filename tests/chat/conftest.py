from __future__ import annotations

import pytest

import maglio
from maglio.errors import ModelFileError
from support.chat_model import STRIPPING, chat_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chat-model")


@pytest.fixture(scope="session")
def model(folder):
    return chat_model(folder)


@pytest.fixture(scope="session")
def roomy_model(folder):
    return chat_model(folder, n_ctx=2048)


@pytest.fixture(scope="session")
def hybrid_model(folder):
    return chat_model(folder, family="qwen35", n_ctx=1024)


@pytest.fixture(scope="session")
def models(folder, model, stripping_model):
    """Models of a small context by what they are for."""
    return {
        "plain": model,
        "stripping": stripping_model,
        "hybrid": chat_model(folder, family="qwen35"),
        "stripping hybrid": chat_model(folder, family="lfm2", template=STRIPPING),
    }


@pytest.fixture(scope="session")
def stripping_model(folder):
    return chat_model(folder, template=STRIPPING)


@pytest.fixture(scope="session")
def smollm2():
    try:
        return maglio.load(n_ctx=2048)
    except ModelFileError as error:
        pytest.skip(str(error))
