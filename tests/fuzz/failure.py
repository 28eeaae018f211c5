"""What the fuzzer found wrong with a program."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {
    "wrong": "a compiled program computes other values than the interpreter",
    "pass": "a pass or rule changed what a graph computes",
    "numpy": "the interpreter computes other values than NumPy",
    "jax": "the interpreter computes other values than JAX",
    "derivative": "a derivative differs from differences of the function's values",
    "error": "an error that is none of tracer.errors, or one that says it is a bug",
    "limit": "a limit was refused that had been said to be met",
    "death": "the process died",
    "hang": "the program took too long",
}


@dataclass(frozen=True)
class Failure:
    """One fault: of which kind, compiled how, by whose hand, how large.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    config : str
        How the program was compiled: "none" for no limit, "never" for `split="never"`, a share of
        the peak, "minimum"; empty where nothing was compiled.
    culprit : str
        The pass, the rule, the options or the error that did it.
    detail : str
        Sizes of differences, the error's text.
    """

    kind: str
    config: str
    culprit: str
    detail: str

    @property
    def signature(self) -> tuple[str, str]:
        """What a smaller program has to show to be the same fault."""
        return self.kind, self.culprit

    def __str__(self) -> str:
        how = f" ({self.config})" if self.config else ""
        return f"{self.kind}{how}: {self.culprit}: {self.detail}"
