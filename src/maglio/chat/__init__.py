"""Conversations: turns, their prompts, what is kept of them, and where they are saved."""

from maglio.chat.conversation import Conversation
from maglio.chat.limits import OnFull
from maglio.chat.turn import Answer, Turn

__all__ = ["Answer", "Conversation", "OnFull", "Turn"]
