"""Numbers at any byte of a buffer, for compiled loops. Nothing is checked: the caller has proven they are there."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


def _loader(bits: int) -> Any:
    @intrinsic
    def load(typing_context: Any, array: Any, position: Any) -> Any:
        """``bits`` bits of a byte array, little-endian, as UInt64."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.gep(data, [arguments[1]])
            loaded = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()))
            loaded.align = 1
            return builder.zext(loaded, ir.IntType(64)) if bits < 64 else loaded

        return types.uint64(array, types.int64), generate

    return load


load16, load32, load64 = _loader(16), _loader(32), _loader(64)


@intrinsic
def store64(typing_context: Any, array: Any, position: Any, value: Any) -> Any:
    """Write 64 bits into a byte array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.gep(data, [arguments[1]])
        stored = builder.store(arguments[2], builder.bitcast(address, ir.IntType(64).as_pointer()))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate
