"""Which values XLA stores, and which it computes inside the kernels that read them.

XLA fuses a loop op into every kernel that reads it and recomputes it in each, with two exceptions.
The op is *expensive* (a quotient or an exponential, not a sum) and would be computed more than
once, by several kernels or by one that broadcasts it. Or it reads more than it produces and cannot
be fused into all readers, because one of them depends on another. These are the rules of
`InstructionFusion` (`ShouldFuse`, `IsExpensive`, `ReusesOperandElements`,
`ComputeGloballyUnfusible`; xla/service/instruction_fusion.cc); Snider & Liang, "Operator Fusion in
XLA" (2023), describe them. A kernel is identified by the node it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ir.op import Fusion
from tracer.ops.rules import is_float
from tracer.target import current_target

# Operations per element from which on XLA calls an op expensive, on every device: from a quotient
# on. Checked for every loop op; `Op.repeats` are the exceptions.
_EXPENSIVE_FLOPS = 4


@dataclass(frozen=True)
class _Reading:
    """How a value that is not stored is computed: by which kernel, and whether once per element."""

    kernel: Node | None
    """The only kernel that computes it; None when several do."""
    is_repeated: bool
    """The kernel reads elements more than once: it broadcasts them."""


def stored_nodes(
    graph: Graph, users: Mapping[Value, Sequence[Node]], outputs: Set[Value]
) -> tuple[set[Node], set[Node]]:
    """Return the nodes whose results have buffers, and those of them that kernels compute again.

    A cheap value that a library reads is stored for it, and other kernels still compute it.

    Parameters
    ----------
    graph : Graph
    users : mapping
        The nodes that read each value.
    outputs : set of Value
        The graph's outputs.
    """
    return _Fusion(graph, users, outputs).run()


def is_fused(node: Node) -> bool:
    """Tell whether a kernel that computes the node can compute its operands too."""
    return fusion_of(node) in ("loop", "reduce")


def fusion_of(node: Node) -> Fusion:
    """Return how XLA takes a node: its op's way, but where axes of one element make it another op.

    Source: XLA's `AlgebraicSimplifier` (`HandleReduce`, `HandleDot`,
    `ShouldStrengthReduceDotToReduce`; xla/hlo/transforms/simplifiers/algebraic_simplifier.cc). A
    reduction over such axes is a view. A product that contracts no others is an element-wise one of
    what it broadcasts. One of vectors, or on GPUs with a vector, also in batches, is the sum of
    such a product. Many arrays, or long rows, are joined by a kernel that only copies
    (`CpuInstructionFusion::ShouldFuse`; xla/service/cpu/cpu_instruction_fusion.cc).
    """
    assert node.op is not None
    storage = current_target().storage
    if node.op.fusion == "reduce" and len(node.operands) == 1:
        return "view" if node.operands[0].type.size == node.types[0].size else "reduce"
    if node.op is ops.concatenate and _is_joined_apart(node):
        return "opaque"
    if node.op is not ops.dot_general or not storage.fuses_vectors:
        return node.op.fusion
    left, right = (_labels(node, side) for side in (0, 1))
    if all(label not in left for label in node.axes.reduced):
        return "loop"
    alone = [bool(mine - theirs) for mine, theirs in ((left, right), (right, left))]
    is_sum = not all(alone) if storage.fuses_vector_products else not any(alone)
    return "reduce" if is_sum else node.op.fusion


def _is_joined_apart(node: Node) -> bool:
    storage, type = current_target().storage, node.types[0]
    if storage.joined is None:
        return False
    is_of_rows = type.ndim > 1 and node.params["dimension"] == type.ndim - 1
    is_long = is_of_rows and type.shape[-1] >= storage.joined_columns
    return is_long or len(node.operands) > storage.joined


def _labels(node: Node, side: int) -> set[object]:
    """Return the labels of the axes of an operand that have more than one element, or none."""
    labels, type = node.axes.operands[side], node.operand_types[side]
    return {label for label, size in zip(labels, type.shape, strict=True) if size != 1}


class _Fusion:
    """One sweep from the outputs to the inputs, as XLA's pass goes."""

    def __init__(
        self, graph: Graph, users: Mapping[Value, Sequence[Node]], outputs: Set[Value]
    ) -> None:
        self.graph = graph
        self.users = users
        self.outputs = outputs
        self.stored: set[Node] = set()
        self.demanded: set[Node] = set()
        """Views whose operand must have a buffer, because a consumer reads memory through them."""
        self.again: set[Node] = set()
        """Stored nodes that kernels compute again rather than read."""
        self.readings: dict[Node, _Reading] = {}
        self.indices = _Indices()
        self.kinds: dict[Node, Fusion] = {}
        self.bits, self.before = _barriers_before(graph)
        self.behind: dict[Node, int] = {}
        """The barriers that come after a node, as bits."""

    def run(self) -> tuple[set[Node], set[Node]]:
        for node in reversed(self.graph.nodes):
            readers = [user for value in node.results for user in self.users.get(value, ())]
            self.behind[node] = behind = self._barriers_behind(readers)
            kind = self.kinds[node] = self._kind(node, readers)
            if kind in ("opaque", "reduce"):
                self.stored.add(node)
            elif self._is_read_from_memory(node, readers) or self._is_needed_later(
                node, readers, behind
            ):
                (self.demanded if kind == "view" else self.stored).add(node)
                self.readings.pop(node, None)  # What it is made of is read by its own kernel alone.
                self.indices.forget(node)
                if kind == "loop" and self._is_computed_again(node, readers):
                    self.again.add(node)
        return self.stored, self.again

    def _kind(self, node: Node, readers: Sequence[Node]) -> Fusion:
        """Return how XLA takes a node: nothing is joined where only the parts are reduced."""
        is_never_joined = bool(readers) and all(_is_of_parts(user, node) for user in readers)
        return "loop" if is_never_joined else fusion_of(node)

    def _is_computed_again(self, node: Node, readers: Sequence[Node]) -> bool:
        others = [user for user in readers if is_fused(user) and user not in self.demanded]
        if not node.operands or len(others) in (0, len(readers)) or _is_stored_once(node):
            return False
        return _read_bytes(node) <= sum(type.nbytes for type in node.types)

    def _barriers_behind(self, readers: Sequence[Node]) -> int:
        found = 0
        for user in readers:
            found |= self.behind[user] | self.bits.get(user, 0)
        return found

    def _is_read_from_memory(self, node: Node, readers: Sequence[Node]) -> bool:
        if any(value in self.outputs for value in node.results):
            return True
        size = node.types[0].size
        kernels: set[Node | None] = set()
        is_repeated = False
        for user in readers:
            assert user.op is not None
            if self.kinds[user] == "opaque" or user in self.demanded:
                return True
            reading = self.readings.get(user)
            kernels.add(user if reading is None else reading.kernel)
            if user in self.again:
                kernels.add(None)
            is_repeated |= user.types[0].size > size and not user.op.branches
            is_repeated |= reading is not None and reading.is_repeated
        kernel = next(iter(kernels)) if len(kernels) == 1 else None
        if (kernel is None or is_repeated) and _is_stored_once(node):
            return True
        if self.indices.are_too_many(node, readers, kernel):
            return True
        self.readings[node] = _Reading(kernel, is_repeated)
        return False

    def _is_needed_later(self, node: Node, readers: Sequence[Node], behind: int) -> bool:
        """Tell whether a reader waits for a result of the node, and recomputing it costs reads.

        The forward values that a backward pass reads are of this kind.
        """
        if len(readers) < 2 or not any(behind & self.before[user] for user in readers):
            return False
        needed = _read_bytes(node)
        return needed > sum(type.nbytes for type in node.types)


class _Indices:
    """By how many indices the values of a kernel are read: its code is written out for each.

    A reader of another shape than what it reads computes an index of its own. XLA stores what
    would be written out too often, and what takes branches if more than once
    (`FusionNodeIndexingEvaluation`; xla/service/fusion_node_indexing_evaluation.cc).
    """

    def __init__(self) -> None:
        self._readers: dict[Node, frozenset[Node]] = {}
        self._counts: dict[Node, int] = {}

    def forget(self, node: Node) -> None:
        """Take a node as the root of a kernel: it has one index."""
        self._readers.pop(node, None)
        self._counts.pop(node, None)

    def are_too_many(self, node: Node, readers: Sequence[Node], kernel: Node | None) -> bool:
        """Tell whether XLA stores a node for them; they are counted for what it reads."""
        assert node.op is not None
        found: set[Node] = set()
        readers = [user for user in readers if not _is_of_parts(user, node)]
        for user in readers:
            is_same = user.op is ops.transpose or user.types[0].shape == node.types[0].shape
            found |= self._readers.get(user, {user}) if is_same else {user}
        count = sum(self._counts.get(user, 1) for user in found)
        self._readers[node], self._counts[node] = frozenset(found), count
        most = current_target().storage.copies
        takes_branches = node.op.branches and not _is_cut_off(node)
        if most is None or (kernel is None and not takes_branches):
            return False
        if takes_branches and any(user is not kernel for user in readers):
            return count > 1 or len(readers) > 1
        return count > most and node.op is not ops.broadcast_in_dim


def _is_cut_off(node: Node) -> bool:
    """Tell whether a node pads by less than nothing, which is a slice to XLA."""
    return node.types[0].size < node.operands[0].type.size


def _is_of_parts(user: Node, joined: Node) -> bool:
    """Tell whether a node reads arrays that are joined one by one, to XLA.

    That is a reduction along the joined axis, or a slice of one of them (`HandleReduce` and
    `HandleSlice` of XLA's `AlgebraicSimplifier`).
    """
    if joined.op is not ops.concatenate:
        return False
    axis = joined.params["dimension"]
    if user.op is not ops.slice:
        return fusion_of(user) == "reduce" and axis in user.params.get("axes", ())
    start, limit = user.params["start"][axis], user.params["limit"][axis]
    ends = [*accumulate((type.shape[axis] for type in joined.operand_types), initial=0)]
    is_of_one = any(first <= start and limit <= end for first, end in pairwise(ends))
    return is_of_one and all(step == 1 for step in user.params["strides"])


def _barriers_before(graph: Graph) -> tuple[dict[Node, int], dict[Node, int]]:
    """Return a bit for each node that nothing is fused across, and those before each node."""
    bits: dict[Node, int] = {}
    before: dict[Node, int] = {}
    for node in graph.nodes:
        assert node.op is not None
        found = 0
        for value in node.operands:
            found |= before.get(value.node, 0) | bits.get(value.node, 0)
        before[node] = found
        if fusion_of(node) in ("opaque", "reduce"):
            bits[node] = 1 << len(bits)
    return bits, before


def _read_bytes(node: Node) -> int:
    """Return the bytes that computing a node again reads; 0 when it has one operand of its size.

    What is generated (broadcasts, iota) costs no reads, and neither do operands of lower rank.
    """
    rank = node.types[0].ndim
    full = [v for v in node.operands if v.type.ndim >= rank and not _is_generated(v.node)]
    if len(full) <= 1:
        return 0
    return sum(value.type.nbytes for value in set(node.operands))


def _is_generated(node: Node) -> bool:
    """Tell whether a loop op makes more elements than it reads: a broadcast, a constant."""
    if node.op is None or fusion_of(node) != "loop":
        return False
    return sum(value.type.size for value in node.operands) < node.types[0].size


def _is_stored_once(node: Node) -> bool:
    """Tell whether XLA stores a node rather than compute it more than once."""
    assert node.op is not None
    is_repeated = node.op.repeats and current_target().storage.repeats
    return is_expensive(node) and not (is_repeated and is_float(node.types[0].dtype))


def is_expensive(node: Node) -> bool:
    """Tell whether an op takes as many operations as those that XLA stores for several kernels."""
    assert node.op is not None
    cost = node.cost
    per_element = cost.flops / max(1, node.types[0].size)
    if per_element == _EXPENSIVE_FLOPS and _is_splat(node.operands[-1].node):
        return False  # XLA multiplies by the reciprocal of a constant.
    return per_element >= _EXPENSIVE_FLOPS


def _is_splat(node: Node) -> bool:
    """Tell whether a node is one constant number for all elements."""
    while node.operands and len(node.operands) == 1 and node.operands[0].type.size == 1:
        node = node.operands[0].node
    return node.op is not None and not node.operands and node.types[0].size == 1
