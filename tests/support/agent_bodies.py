"""Bodies with what Claude Code 2.1 and Codex 0.171 put into them."""

from __future__ import annotations

from typing import Any

from maglio.server.dialects.responses.reasoning import packed


def claude_code(billing: str) -> dict[str, Any]:
    """A body with what Claude Code puts into one."""
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "stream": True,
        "metadata": {"user_id": "user_0_account__session_1"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "max"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={billing};"},
            {"type": "text", "text": "You are a coding agent.", **cached},
            {"type": "text", "text": "Follow the rules."},
        ],
        "tools": [
            {
                "name": "Read",
                "description": "Reads a file.",
                "input_schema": {
                    "$schema": "http://json-schema.org/draft-07/schema#",
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                    "required": ["path"],
                    "additionalProperties": False,
                },
                "eager_input_streaming": True,
                **cached,
            }
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "<system-reminder>Today</system-reminder>"},
                    {"type": "text", "text": "Read a.py", **cached},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "A file.", "signature": "unsigned"},
                    {"type": "redacted_thinking", "data": "xxxx"},
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "x = 1"}],
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
            {"role": "system", "content": "The mode has changed."},
        ],
    }


CODEX: dict[str, Any] = {
    "model": "tiny",
    "instructions": "You are a coding agent.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "The sandbox is read-only."}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context/>"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Read a.py"}],
        },
        {"type": "reasoning", "summary": [], "encrypted_content": packed("A file.")},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Reading."}],
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "read",
            "namespace": "files",
            "arguments": '{"path": "a.py"}',
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "c1", "output": "x = 1"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "done"}],
        },
        {"type": "ghost_snapshot", "ghost_commit": {"id": "f00"}},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-of-another-server"},
        {"role": "user", "content": "Go on."},
    ],
    "tools": [
        {"type": "function", "name": "shell", "strict": False, "parameters": {"type": "object"}},
        {
            "type": "namespace",
            "name": "files",
            "description": "Files.",
            "tools": [
                {"type": "function", "name": "read", "parameters": {"type": "object"}},
                {"type": "custom", "name": "write", "format": {"type": "text"}},
            ],
        },
        {"type": "custom", "name": "patch", "format": {"type": "grammar"}},
        {"type": "web_search", "external_web_access": False},
        {"type": "something_new"},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "client_metadata": {"x": "y"},
}
