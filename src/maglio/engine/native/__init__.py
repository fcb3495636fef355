"""The native CPU engine, whose rows do not depend on batch width, threads or instruction set."""

from maglio.engine.native.engine import NativeEngine

__all__ = ["NativeEngine"]
