"""The files of the page, and the policy that they come with."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from maglio.server import page as page_module
from support.scripted_server import Script, scripted_app
from support.serving import served


def test_files_come_with_a_policy_that_allows_this_server_alone() -> None:
    with served(scripted_app(Script())) as address:
        answer = urlopen(f"{address}/")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = answer.headers["Content-Security-Policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert not any("http" in rule or "unsafe" in rule for rule in policy)
        script = urlopen(f"{address}/page/app.js")
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
        known = Request(f"{address}/page/app.js", headers={"If-None-Match": script.headers["ETag"]})
        with pytest.raises(HTTPError, match="304"):
            urlopen(known)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/page/../page.py")


def test_the_policy_is_the_documented_one() -> None:
    documented = (Path(__file__).parents[3] / "docs/server-dialects.md").read_text()
    assert page_module.CONTENT_SECURITY_POLICY in " ".join(documented.split())
