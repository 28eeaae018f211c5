"""Read a graph back from the text that `tracer.ir.text` prints.

A recursive descent over this grammar (white space and `# comments` separate)::

    graph  := "graph" "(" [value {"," value}] ")" "{" {node} "return" [name {"," name}] "}"
    value  := name ":" type                      name := %digits        type := dtype "[" sizes "]"
    node   := value {"," value} "=" op "(" [name {"," name}] ")" [params] ["with" {key "=" bodies}]
    params := "{" key "=" param {"," key "=" param} "}"
    bodies := graph | "(" {graph ","} ")"
    param  := number | string | True | False | None | dtype | type dense | "(" {param ","} ")"
            | "python" "(" number "," string ")"
    dense  := ["splat"] element | "[" [dense {"," dense}] "]"
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.errors import TracerError
from tracer.ir.graph import Graph, Node, Value
from tracer.ir.host import WORD, HostFunction, host_function_of
from tracer.ir.op import Op, registry
from tracer.ir.scanner import Scanner, Token, number
from tracer.ir.types import DTYPES_BY_NAME, ShapeDtype

_WORDS = {"True": True, "False": False, "None": None}


def parse_graph(text: str) -> Graph:
    """Read a graph from the text of `print_graph`.

    Parameters
    ----------
    text : str
        The text; comments are ignored, so the nodes of the result carry no user lines.

    Returns
    -------
    Graph
        A graph with the fingerprint of the one that was printed.

    Raises
    ------
    ArgumentError
        The text is not a graph; the message has line, column and what was expected there.

    Examples
    --------
    >>> from tracer import ops
    >>> from tracer.ir import parse_graph
    >>> graph = parse_graph("graph(%0: float32[3]) { %1: float32[3] = abs(%0) return %1 }")
    >>> len(graph.nodes)
    1
    """
    parser = _Parser(text)
    try:
        graph = parser.graph()
        parser.expect("end")
    except RecursionError as error:
        parser.refuse("it is nested too deeply", parser.next.start, error)
    return graph


class _Parser(Scanner):
    """The recursive descent: one method for each rule of the grammar."""

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("(")
        scope: dict[str, Value] = {}
        inputs = []
        for name, type in self.listed(self.value, ")"):
            inputs.append(Node(None, (), {}, (type,), None).results[0])
            self.define(scope, name, inputs[-1])
        self.expect("{")
        nodes = []
        while not self.accept("return"):
            nodes.append(self.node(scope))
        outputs = self.listed(lambda: self.read(scope), "}")
        return Graph(inputs, outputs, nodes)

    def value(self) -> tuple[Token, ShapeDtype]:
        name = self.expect("name")
        self.expect(":")
        return name, self.type()

    def type(self) -> ShapeDtype:
        dtype = self.dtype()
        self.expect("[")
        return ShapeDtype([int(size) for size in self.listed(self.size, "]")], dtype)

    def size(self) -> int:
        token = self.expect("number")
        if not token.text.isdigit():
            self.refuse(f"{token.text} is not a size", token.start)
        return self.integer(token)

    def integer(self, token: Token) -> int:
        try:
            return int(token.text)
        except ValueError as error:  # Python reads no more than some thousand digits.
            self.refuse("a number has too many digits", token.start, error)

    def dtype(self) -> np.dtype[Any]:
        token = self.expect("word")
        if token.text not in DTYPES_BY_NAME:
            self.refuse(_unknown("dtype", token.text, DTYPES_BY_NAME), token.start)
        return DTYPES_BY_NAME[token.text]

    def define(self, scope: dict[str, Value], name: Token, value: Value) -> None:
        if name.text in scope:
            self.refuse(f"{name.text} is defined twice", name.start)
        scope[name.text] = value

    def read(self, scope: dict[str, Value]) -> Value:
        token = self.expect("name")
        if token.text not in scope:
            self.refuse(f"{token.text} is not defined before its use", token.start)
        return scope[token.text]

    def node(self, scope: dict[str, Value]) -> Node:
        results = self.listed(self.value, "=")
        word = self.expect("word")
        if word.text not in registry():
            self.refuse(_unknown("op", word.text, registry()), word.start)
        op = registry()[word.text]
        self.expect("(")
        operands = tuple(self.listed(lambda: self.read(scope), ")"))
        params = self.params()
        types = tuple(type for _, type in results)
        self.check(op, operands, params, types, word.start)
        node = Node(op, operands, params, types, None)
        for (name, _), value in zip(results, node.results, strict=True):
            self.define(scope, name, value)
        return node

    def check(
        self,
        op: Op,
        operands: tuple[Value, ...],
        params: dict[str, Any],
        types: tuple[ShapeDtype, ...],
        start: int,
    ) -> None:
        try:
            inferred = op.infer(*[value.type for value in operands], **params)
        except Exception as error:  # rules take parameters as they are said to be, and fail anyhow
            what = (
                error.what if isinstance(error, TracerError) else str(error) or type(error).__name__
            )
            self.refuse(f"{op.name} does not fit: {what}", start, error)
        wanted = (inferred,) if isinstance(inferred, ShapeDtype) else tuple(inferred)
        if wanted != types:
            shown = ", ".join(map(str, wanted))
            self.refuse(f"the results of {op.name} are of type {shown}", start)

    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if self.accept("{"):
            params.update(self.listed(lambda: self.assignment(self.param), "}"))
        if self.accept("with"):
            while self.next.kind == "word" and self.next.text != "return":
                params.update([self.assignment(self.bodies)])
        return params

    def assignment(self, read: Callable[[], Any]) -> tuple[str, Any]:
        key = self.expect("word").text
        self.expect("=")
        return key, read()

    def bodies(self) -> Graph | tuple[Graph, ...]:
        return tuple(self.listed(self.graph, ")")) if self.accept("(") else self.graph()

    def param(self) -> Any:
        token = self.next
        if token.kind == "string":
            return self.string()
        if token.kind == "number":
            return self.plain_number()
        if token.text in _WORDS:
            return _WORDS[self.take().text]
        if token.text == WORD:
            return self.host_function()
        if self.accept("("):
            return tuple(self.listed(self.param, ")"))
        after = self.tokens[self.position + 1] if token.kind == "word" else token
        return self.array(self.type()) if after.text == "[" else self.dtype()

    def string(self) -> str:
        token = self.take()
        try:
            return str(ast.literal_eval(token.text))
        except (SyntaxError, ValueError) as error:
            self.refuse(f"{token.text} is no string: {error}", token.start, error)

    def host_function(self) -> HostFunction:
        start = self.take().start
        self.expect("(")
        number, *_ = self.listed(self.param, ")")
        found = host_function_of(number)
        if found is None:
            self.refuse(f"this process has no Python function {number} any more", start)
        return found

    def plain_number(self) -> int | float:
        token = self.take()
        if token.text.startswith("bits:"):
            self.refuse("bits are for elements of arrays only", token.start)
        return self.integer(token) if token.text.lstrip("-").isdigit() else float(token.text)

    def array(self, type: ShapeDtype) -> np.ndarray[Any, Any]:
        start = self.next.start
        if self.accept("splat"):
            element = self.element(type.dtype).tobytes()
            try:
                return _from_bytes(element * type.size, type)
            except (MemoryError, OverflowError) as error:
                self.refuse(f"no memory has room for {type}", start, error)
        elements: list[Any] = []
        self.dense(type, 0, elements)
        if len(elements) != type.size:
            self.refuse(f"{len(elements)} elements for {type}", start)
        # By bytes: conversions may change the bits of NaN.
        return _from_bytes(b"".join(element.tobytes() for element in elements), type)

    def dense(self, type: ShapeDtype, axis: int, elements: list[Any]) -> None:
        if axis == type.ndim:
            elements.append(self.element(type.dtype))
            return
        start = self.expect("[").start
        found = len(self.listed(lambda: self.dense(type, axis + 1, elements), "]"))
        if found != type.shape[axis]:
            self.refuse(f"{found} items along axis {axis} of {type}", start)

    def element(self, dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "c":
            return self.complex(dtype)
        token = self.take()
        if dtype.kind == "b" and token.text in ("True", "False"):
            return np.bool_(token.text == "True")
        if dtype.kind == "b" or token.kind != "number":
            self.refuse(f"{token.text!r} is no element of {dtype}", token.start)
        try:
            return number(token.text, dtype)
        except (ValueError, OverflowError) as error:
            self.refuse(f"{token.text} is no element of {dtype}", token.start, error)

    def complex(self, dtype: np.dtype[Any]) -> Any:
        part = np.dtype(f"f{dtype.itemsize // 2}")
        start = self.expect("(").start
        parts = self.listed(lambda: self.element(part), ")")
        if len(parts) != 2:
            self.refuse("a complex element is (real, imaginary)", start)
        return np.frombuffer(parts[0].tobytes() + parts[1].tobytes(), dtype)[0]


def _from_bytes(data: bytes, type: ShapeDtype) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, type.dtype).reshape(type.shape).copy()


def _unknown(what: str, name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"unknown {what} {name!r}" + (f"; did you mean {' or '.join(close)}?" if close else "")


__all__ = ["parse_graph"]
