"""What a checkpoint keeps: policies, with JAX's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.errors import DTypeError


@dataclass(frozen=True)
class Policy:
    """Which intermediates of a checkpointed function its gradient keeps.

    Made by `checkpoint_policies`; `words` is what the op `checkpoint` takes.
    """

    words: tuple[str, ...]


class checkpoint_policies:  # noqa: N801 - a namespace, named as in JAX
    """Policies for `tracer.checkpoint(f, policy=...)`.

    Attributes
    ----------
    nothing_saveable : Policy
        Keep the arguments only; what `checkpoint` does by default.
    everything_saveable : Policy
        Keep all that the backward pass reads, as without a checkpoint.
    dots_saveable : Policy
        Keep the products (matmul, dot, einsum), compute the rest again.
    dots_with_no_batch_dims_saveable : Policy
        Keep products without batch dimensions: those with weights, not those within attention.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> policy = tracer.checkpoint_policies.dots_saveable
    >>> layer = tracer.checkpoint(lambda w, x: tnp.tanh(w @ x), policy=policy)
    >>> tracer.grad(lambda w, x: layer(w, x).sum())(tnp.zeros((2, 2)), tnp.ones(2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    nothing_saveable = Policy(("nothing",))
    everything_saveable = Policy(("everything",))
    dots_saveable = Policy(("dots",))
    dots_with_no_batch_dims_saveable = Policy(("dots without batch",))

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Keep the values that were given one of these names by `tracer.checkpoint_name`.

        Raises
        ------
        DTypeError
            A name is no string.
        """
        for name in names:
            if not isinstance(name, str):
                raise DTypeError(
                    f"save_only_these_names got {name!r}, which is no name",
                    mend="give names as strings, such as save_only_these_names('a', 'b')",
                )
        return Policy(("names", *names))


def words_of(policy: Any) -> tuple[str, ...]:
    """Return what the op takes; None means keeping nothing.

    Raises
    ------
    DTypeError
        It is no policy.
    """
    if policy is None:
        return checkpoint_policies.nothing_saveable.words
    if not isinstance(policy, Policy):
        raise DTypeError(
            f"checkpoint: the policy is {policy!r}",
            mend="give one of tracer.checkpoint_policies, such as "
            "tracer.checkpoint_policies.dots_saveable",
        )
    return policy.words


__all__ = ["Policy", "checkpoint_policies", "words_of"]
