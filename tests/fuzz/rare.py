"""A form for every rewrite rule, and for passes that few programs are made for.

By chance most would fire in far less than one program in a hundred (`Report.rare` counts). Each
form says its operands with their shapes, what is written, and the shape of it; `{g}` is a positive
definite matrix, `{l}` its Cholesky factor, `{i}` are indices below n.
"""

from __future__ import annotations

from tests.fuzz.writer import Var, Writer

Form = tuple[str, str, str]
"""Operands as in "a:n,k v:k", the expression, the result's shape."""
_TRIANGLE = (
    "sla.solve_triangular((np.tril({u}[:, None] * np.cos({u})) / len({u})"
    " + 2 * np.eye(len({u}), dtype={u}.dtype))"
)
_EYE = "np.eye({n}, dtype={x}.dtype)"

FORMS: dict[str, tuple[Form, ...]] = {
    "inverse-times": (
        ("g: b:n,k", "np.linalg.inv({g}) @ {b}", "n,k"),
        ("g: v:n", "np.linalg.inv({g}) @ {v}", "n"),
    ),
    "times-inverse": (
        ("g: b:k,n", "{b} @ np.linalg.inv({g})", "k,n"),
        ("g: v:n", "{v} @ np.linalg.inv({g})", "n"),
    ),
    "solve-then-product": (
        ("g: b:n,n v:n", "np.linalg.solve({g}, {b}) @ {v}", "n"),
        ("g: b:n,n v:n", "np.linalg.inv({g}) @ {b} @ {v}", "n"),
        ("g: b:n,n c:n,2", "np.linalg.solve({g}, {b}) @ {c}", "n,2"),
    ),
    "solve-with-factor": (
        ("l: v:n", "np.linalg.solve({l} @ {l}.T, {v})", "n"),
        ("l: b:n,k", "np.linalg.inv({l} @ {l}.T) @ {b}", "n,k"),
    ),
    "determinant-of-factors": (("l:", "np.linalg.det({l} @ {l}.T)", ""),),
    "log-determinant-of-factors": (
        ("l:", "np.linalg.slogdet({l} @ {l}.T)[1]", ""),
        ("g:", "np.linalg.slogdet(np.tril({g}) @ np.tril({g}).T)[1]", ""),
    ),
    "sign-of-factors": (("l:", "np.linalg.slogdet({l} @ {l}.T)[0]", ""),),
    "solve-with-cholesky": (
        ("l: v:n", "np.linalg.solve({g}, {v}) + {l}[0, 0]", "n"),
        ("l: b:n,k", "np.linalg.solve({g}, {b}) + {l}[0, 0]", "n,k"),
    ),
    "determinant-with-cholesky": (("l:", "np.linalg.det({g}) + {l}[0, 0]", ""),),
    "log-determinant-with-cholesky": (("l:", "np.linalg.slogdet({g})[1] + {l}[0, 0]", ""),),
    "sign-with-cholesky": (("l:", "np.linalg.slogdet({g})[0] + {l}[0, 0]", ""),),
    "log-of-determinant": (("g:", "np.log(np.linalg.det({g}))", ""),),
    "trace-of-product": (
        ("x:n,k y:k,n", "np.trace({x} @ {y})", ""),
        ("x:n,k y:n,k", "np.trace({x}.T @ {y})", ""),
        ("x:n,k y:k,n", f"np.sum(({{x}} @ {{y}}) * {_EYE})", ""),
    ),
    "diagonal-of-product": (
        ("x:n,k y:k,n", "np.diag({x} @ {y})", "n"),
        ("x:k,n y:k,n", "np.diagonal({x}.T @ {y})", "n"),
    ),
    "diagonal-of-sum": (
        ("x:n,k y:k,n z:n,n", "np.diag({x} @ {y} + {z})", "n"),
        ("x:n,k y:k,n z:n,n", "np.trace({x} @ {y} + {z})", ""),
    ),
    "diagonal-of-difference": (("x:n,k y:k,n z:n,n", "np.diag({z} - {x} @ {y})", "n"),),
    "diagonal-of-elementwise-product": (("x:n,k y:k,n z:n,n", "np.diag(({x} @ {y}) * {z})", "n"),),
    "diagonal-of-quotient": (
        ("x:n,k y:k,n z:n,n", "np.diag(({x} @ {y}) / {z})", "n"),
        ("x:n,k y:k,n z:n,n", "np.diag({z} / (30 + {x} @ {y}))", "n"),
    ),
    "kronecker-times": (
        ("a:4,5 b:6,7 v:35", "np.kron({a}, {b}) @ {v}", "24"),
        ("a:4,5 b:6,7 v:35,3", "np.kron({a}, {b}) @ {v}", "24,3"),
    ),
    "diagonal-gradient": (
        ("z:n,n", "np.sin(np.diagonal({z}))", "n"),
        ("z:3,n,n", "np.diagonal({z}, axis1=1, axis2=2) ** 2", "3,n"),
    ),
    "without-diagonal": (
        ("z:n,n", "({z} * {z}) - np.diag(np.diag({z} * {z}))", "n,n"),
        ("x:n,k", "({x} @ {x}.T) - np.diag(np.diag({x} @ {x}.T))", "n,n"),
    ),
    "diagonal-times": (
        ("v:n x:n,k", "np.diag({v}) @ {x}", "n,k"),
        ("v:n x:n,k", f"({{v}}[:, None] * {_EYE}) @ {{x}}", "n,k"),
        ("v:n x:n", f"({{v}} * {_EYE}) @ {{x}}", "n"),
    ),
    "times-diagonal": (
        ("x:n,k v:n", "{x}.T @ np.diag({v}) @ {x}", "k,k"),
        ("x:k,n v:n", f"{{x}} @ ({_EYE} * {{v}})", "k,n"),
    ),
    "identity-times": (("x:n,k", f"{_EYE} @ {{x}}", "n,k"), ("x:n,n", f"{{x}} @ {_EYE}", "n,n")),
    "shifted-times": (
        ("x:n,n v:n", f"({{x}} + 0.1 * {_EYE}) @ {{v}}", "n"),
        ("x:n,n c: b:n,3", f"({{c}} * {_EYE} + {{x}}) @ {{b}}", "n,3"),
    ),
    "one-hot-times": (
        ("i:k t:n,9", "nn.one_hot({i}, {n}, dtype={t}.dtype) @ {t}", "k,9"),
        ("i:k t:n", "({i}[:, None] == np.arange({n})).astype({t}.dtype) @ {t}", "k"),
    ),
    "rows-of-identity-times": (
        ("i:k x:n,9", f"{_EYE}[{{i}}] @ {{x}}", "k,9"),
        ("i:k x:n", f"{_EYE}[{{i}}] @ {{x}}", "k"),
    ),
    "one-hot-transposed-times": (
        ("i:k x:k,9", "nn.one_hot({i}, {n}, dtype={x}.dtype).T @ {x}", "n,9"),
        ("i:k x:k", "(np.arange({n})[:, None] == {i}).astype({x}.dtype) @ {x}", "n"),
    ),
    "largest-of-sorted": (
        ("x:k,99", "np.sort({x})[..., -3:]", "k,3"),
        ("x:300", "np.sort({x})[-2:]", "2"),
    ),
    "largest-of-sorted-descending": (
        ("x:k,99", "np.sort({x})[..., ::-1][..., :3]", "k,3"),
        ("x:9,99", "np.flip(np.sort({x})[..., -3:], -1)", "9,3"),
    ),
    "smallest-of-sorted": (
        ("x:k,99", "np.sort({x})[..., :3]", "k,3"),
        ("x:300", "np.sort({x})[:2]", "2"),
    ),
    "places-of-smallest": (
        ("x:k,99", "np.take_along_axis({x}, np.argsort({x})[..., :3], axis=-1)", "k,3"),
        ("x:k,99", "np.argsort(-{x})[..., :3] * {x}[..., :3]", "k,3"),
    ),
    "pack-extremes": (
        ("x:n,k", "np.take_along_axis({x}, np.argmax({x}, axis=1)[:, None], axis=1)", "n,1"),
        ("x:n,k", "np.take_along_axis({x}, np.argmin({x}.T, axis=1)[None], axis=0)", "1,k"),
        ("x:n,k", "{x} * (np.argmin({x}[None], axis=1).reshape(-1) % 5)", "n,k"),
        ("x:3,5000", "np.argmax(np.tanh({x}), axis=1) * {x}[:, 0]", "3"),
        ("x:3000,7", "np.argmin({x} ** 2, axis=0) * {x}[1]", "7"),
        ("x:5,2100", "np.argmax(np.where({x} > 0, {x}, 0), axis=1) + {x}[:, 0]", "5"),
    ),
    "stage-selections": (
        ("x:40,128", "np.sort({x}, axis=1)[:, -5:]", "40,5"),
        ("x:3,5000", "np.sort({x} * 2)[:, ::-1][:, :3]", "3,3"),
        ("x:4009", "np.sort(np.tanh({x}))[-4:]", "4"),
        ("x:40,128", "np.take_along_axis({x}, np.argsort(-{x})[:, :4], axis=1)", "40,4"),
    ),
    "solve-by-blocks": (
        ("u:600 v:600", f"{_TRIANGLE}, {{v}}, lower=True)", "600"),
        ("u:512 v:512", f"{_TRIANGLE}, np.tanh({{v}}), lower=True, trans=1)", "512"),
        ("u:513 v:513", f"{_TRIANGLE}.T, {{v}}, lower=False)", "513"),
    ),
    "sort-as-integers": (
        ("x:3,1500", "np.argsort({x} * 2, axis=1) * {x}", "3,1500"),
        ("x:n,90", "np.argsort({x}[::-1], axis=1) * {x}", "n,90"),
        ("x:90,60", "np.take_along_axis({x}, np.argsort(-{x}, axis=0), axis=0)", "90,60"),
    ),
    "interleave-small-matrices": (
        ("x:300,3,3", "np.linalg.solve({x} + 4 * np.eye(3), np.tanh({x}))", "300,3,3"),
        ("x:261,2,2", "np.linalg.inv({x} + 4 * np.eye(2))", "261,2,2"),
        ("x:2,150,3,3", "np.linalg.det({x} + 3 * np.eye(3))", "2,150"),
        (
            "x:270,4,4 y:270",
            "np.linalg.cholesky({x} @ {x}.mT + np.eye(4)) * {y}[:, None, None]",
            "270,4,4",
        ),
        ("x:400,3,3", "np.linalg.slogdet({x} + 4 * np.eye(3))[1]", "400"),
    ),
    "cumulate-by-numpy": (
        ("x:30,70", "np.cumsum({x} > 0, axis=1) * {x}", "30,70"),
        ("x:2100", "np.cumsum(({x} > 0)[::-1])[::-1] - {x}", "2100"),
        ("x:90,40", "np.maximum.accumulate({x} * 2, axis=0)", "90,40"),
        ("x:3,k,80", "np.minimum.accumulate(np.tanh({x}), axis=2)[..., ::-1]", "3,k,80"),
    ),
    "tile-pairwise-reductions": (
        ("x:17,40 y:n,40", "np.abs({x}[:, None] - {y}[None]).sum(-1)", "17,n"),
        ("x:n,40 y:k,40", "np.maximum({y}[:, None], {x}).min(2) - {y}[:, :1]", "k,n"),
        ("y:n,50", "np.abs({y}[:, None] * {y}[::-1]).max(-1)", "n,n"),
        ("x:2,k,36 y:31,36", "np.tanh({x}[:, :, None] - {y}).sum(-1)", "2,k,31"),
    ),
    "decompose-by-numpy": (
        ("x:20,3,n", "np.linalg.svd({x}, compute_uv=False)[:, :1] * 2", "20,1"),
        ("x:17,n,n", "np.linalg.eigvalsh({x} + np.swapaxes({x}, 1, 2))", "17,n"),
        ("x:n,9,2", "np.linalg.svd(np.swapaxes({x}, 0, 1), compute_uv=False).sum(0)", "2"),
    ),
    "transform-by-scipy": (
        ("x:n,k", "np.fft.fft({x}, axis=0).real", "n,k"),
        ("x:n,12", "np.fft.ifft(np.tanh({x})).imag * {x}", "n,12"),
        ("x:10,n,8", "np.fft.fft({x}, axis=1).real", "10,n,8"),
        ("x:3,n,24", "np.fft.ifft2(np.fft.fft2({x}) * 2).real", "3,n,24"),
        ("x:n,k", "np.fft.fft({x}[::-1].T, axis=0).imag", "k,n"),
        ("x:10,n", "np.fft.rfft({x}, axis=0).imag * 2", "6,n"),
        ("x:9,n", "np.fft.irfft(np.fft.rfft({x}, axis=0) * 1.5, 9, axis=0)", "9,n"),
        ("x:n,12,k", "np.fft.irfft2(np.fft.rfft2({x}, axes=(0, 1)), axes=(0, 1))", "n,12,k"),
        ("x:n,k", "np.abs(np.fft.fftn({x}, axes=(1, 0)))", "n,k"),
    ),
    "sort-by-numpy": (
        ("x:40,128", "np.sort({x}, axis=0)", "40,128"),
        ("x:3,1500", "np.sort(np.tanh({x}), axis=1)", "3,1500"),
        ("x:5000", "np.sort(-{x})[7:9]", "2"),
        ("x:2,3000", "np.median({x} * 2, axis=1)", "2"),
        ("x:n,90", "np.sort({x}.T[::-1], axis=0).T * {x}", "n,90"),
        ("x:n,k,30", "np.sort({x}[:, ::-1], axis=1) - {x}", "n,k,30"),
    ),
    "count-in-memory": (
        ("x:2,70001", "np.median({x} * 2, axis=1)", "2"),
        ("x:140000", "np.sort(np.tanh({x}))[7:8]", "1"),
    ),
    "cumulate-in-pairs": (
        ("x:k,65,70", "np.cumsum({x} * 2, axis=1)", "k,65,70"),
        ("x:9,500", "np.cumsum({x}.T[::-1], axis=0).T", "9,500"),
        ("x:600,k,3", "np.cumprod(np.tanh({x}), axis=0) * {x}", "600,k,3"),
        ("x:513,8", "np.cumsum(np.cumsum({x}, axis=0)[::-1] * {x}, axis=0)", "513,8"),
        ("x:70001", "np.cumsum({x}[::-1]) - {x}", "70001"),
        ("x:700,95", "np.maximum.accumulate({x} * {x}, axis=1)", "700,95"),
    ),
    "lay-out-convolutions": (
        ("x:n y:7", "np.convolve({x}, {y}, 'same')", "n"),
        ("x:n y:5", "np.correlate({x}, {y}, 'same') * {x}", "n"),
        ("x:2,9,9,3 y:3,3,1,6", "nn.conv({x}, {y}, feature_group_count=3)", "2,9,9,6"),
        ("x:3,9,9 y:5,3,3,3", "nn.conv({x}[None], np.moveaxis({y}, 0, 3))[0]", "9,9,5"),
    ),
    "log1p": (("x:n,k", "np.log(1 + {x} * {x})", "n,k"), ("x:n", "np.log({x} ** 2 - (-1))", "n")),
    "log1p-of-negative": (("x:n,k", "np.log(1 - 0.9 * np.tanh({x}))", "n,k"),),
    "expm1": (("x:n,k", "np.exp({x}) - 1", "n,k"), ("x:n", "np.exp({x}) + (-1.0)", "n")),
    "softplus": (
        ("x:n,k", "np.log(1 + np.exp({x}))", "n,k"),
        ("x:n", "np.log1p(np.exp({x}))", "n"),
    ),
    "log-sigmoid": (
        ("x:n,k", "np.log(nn.sigmoid({x}))", "n,k"),
        ("x:n", "np.log(1 / (1 + np.exp(-{x})))", "n"),
    ),
    "log-sum-exp": (
        ("x:n,k", "np.log(np.sum(np.exp({x}), axis=1))", "n"),
        ("x:n,k", "np.log(np.sum(np.exp({x}), axis=0, keepdims=True))", "1,k"),
        ("x:n", "np.log(np.sum(np.exp({x})))", ""),
    ),
    "softmax": (
        ("x:n,k", "np.exp({x}) / np.sum(np.exp({x}), axis=1, keepdims=True)", "n,k"),
        ("x:n,k", "np.exp({x}) / np.sum(np.exp({x}), axis=0)", "n,k"),
    ),
    "softmax-gradient": (
        (
            "x:n,k y:n,k",
            "np.sum({y} * (np.exp({x}) / np.sum(np.exp({x}), axis=1, keepdims=True)))",
            "",
        ),
    ),
    "log-softmax-gradient": (
        (
            "x:n,k y:n,k",
            "np.sum({y} * np.log(np.exp({x}) / np.sum(np.exp({x}), axis=0, keepdims=True)))",
            "",
        ),
    ),
    "softplus-gradient": (("x:n,k y:n,k", "np.sum({y} * np.log(1 + np.exp({x})))", ""),),
    "log-sum-exp-gradient": (
        ("x:n,k v:n", "np.sum({v} * np.log(np.sum(np.exp({x}), axis=1)))", ""),
    ),
    "log-softmax": (
        ("x:n,k", "np.log(nn.softmax({x}, axis=-1))", "n,k"),
        ("x:n,k", "np.log(np.exp({x}) / np.sum(np.exp({x}), axis=0, keepdims=True))", "n,k"),
    ),
    "power-by-multiplication": (
        ("x:n,k", "(0.5 * {x}) ** 4", "n,k"),
        ("x:n", "(1 + {x} * {x}) ** -0.5", "n"),
        ("x:n", "({x} * {x}) ** 2.5", "n"),
    ),
    "reassociate-solves": (
        ("l: s:n,n a:n,400", "sla.solve_triangular({l}, {s} @ {a}, lower=True)", "n,400"),
        (
            "l: s:n,n a:n,400 v:400",
            "sla.solve_triangular({l}, {s} @ {a}, lower=True) @ {v}",
            "n",
        ),
    ),
    "write-out-inner-products": (
        (
            "x:90,8 y:97,8",
            "np.einsum('ijk,ijk->ij', {x}[:, None] - {y}[None], {x}[:, None] - {y}[None])",
            "90,97",
        ),
        ("x:90,3 y:97,3", "np.linalg.vecdot({x}[:, None] - {y}, {x}[:, None] - {y})", "90,97"),
    ),
    "match-contractions": (
        ("x:n,20 y:k,20", "np.sum({x}[:, None] * {y}[None], axis=-1)", "n,k"),
        ("x:n,40 y:k,40", "np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1)", "n,k"),
    ),
    "unroll-short-reductions": (
        ("x:n,3 y:k,3", "np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1)", "n,k"),
        ("x:n,9 y:k,9", "np.sum(np.abs({x}[:, None] - {y}[None]), axis=-1)", "n,k"),
    ),
    "reduce-through-concatenate": (
        ("x:150,100 y:140,100", "np.sum(np.concatenate([{x}, {y}]) ** 2, axis=0)", "100"),
        ("x:150,100 y:150,100", "np.max(np.concatenate([{x}, np.sin({y})], axis=1))", ""),
        ("x:99,150 y:99,150", "np.sum(np.tanh(np.stack([{x}, {y}])), axis=(0, 1))", "150"),
    ),
    "sink-transposes": (
        ("x:90,100", "np.sum(np.exp(0.1 * {x}).T, axis=1)", "100"),
        ("x:20,30,40", "np.max(np.transpose({x}, (2, 0, 1)) * 2.0, axis=0)", "20,30"),
        ("x:90,100", "np.log(np.sum(np.exp({x}.T), axis=1))", "100"),
    ),
    "round-products": (
        ("x:n,k y:k", "np.abs(({x} * {y})[:, None] - {x} * {y}).sum(-1)", "n,n"),
        ("x:16,16 y:6,16", "np.max(({x} ** 2)[:, None] - {y}, axis=1)", "16,16"),
        ("x:40 y:40", "np.sum(np.abs(({x} ** 2)[:, None] - {y} * {y}), axis=0)", "40"),
        ("x:n", "np.min(np.abs(({x} ** 2)[:, None] - {x} ** 2) + {x}, axis=0)", "n"),
        ("x:n", "np.sum(np.sign(np.diff(({x} * 0 + {x}[:1]) * 0.7))) + {x}", "n"),
        ("x:n y:n", "np.sign({x} * {y}[::-1] - {y}[::-1] * {x}) * {x}", "n"),
        ("x:n", "np.abs(({x} / 3.7)[:, None] - {x} / 3.7).sum(0)", "n"),
        ("x:n y:n", "np.sign(np.stack([{x} * {y}, -({y} * {x})]).sum(0)) * {x}", "n"),
        ("x:n,k y:n,k", "np.sign(({x} * {y} - {y} * {x}).sum(1)) + {x}[:, 0]", "n"),
    ),
    "keep-operation-order": (
        ("x:n", "({x} + 1e3) - 1e3 + {x}", "n"),
        ("x:n,k", "np.floor({x} / 0.7 + 0.3) * {x}", "n,k"),
        ("x:n,k y:n", "{x} / (1 + {y}[:, None] ** 2) / (2 + np.sum({x} ** 2))", "n,k"),
        (
            "x:n,k",
            "np.mean(({x} > 0).astype({x}.dtype), axis=1)[:, None] * ({x} * 0.7 * 1.3)",
            "n,k",
        ),
        ("x:n", "np.sum((({x} - np.min({x})) / 0.3).astype('int32') * {x})", ""),
    ),
    "store-updates": (
        ("x:n,k", "{x}.at[1:].add({x}[:-1])[None]", "1,n,k"),
        ("x:n,k", "{x}.at[:, :-1].set({x}[:, 1:] * 2)[:, None]", "n,1,k"),
        ("x:n,k", "np.tanh({x}).at[1:].add({x}[1:][::-1]).T", "k,n"),
        ("x:n", "{x}.at[1:].set({x}[1:] + {x}[:-1])[:, None]", "n,1"),
        ("x:n", "{x}.at[1:].multiply(np.sin({x}[1:]))[None]", "1,n"),
        ("x:n,k", "{x}.at[np.array([1])].add({x}[::-1][np.array([1])])[None]", "1,n,k"),
    ),
    "fusion-merger": (
        (
            "x:700,280",
            "np.sum({x} / (1 + {x} ** 2), axis=0) + np.max(({x} / (1 + {x} ** 2))[:280], axis=1)",
            "280",
        ),
        ("x:280,700", "(1 / (1 + {x} ** 2)) @ np.sum(1 / (1 + {x} ** 2), axis=0)", "280"),
    ),
    "split": (
        (
            "x:1500,3 y:1201,3 v:1201",
            "np.exp(-0.5 * np.sum(({x}[:, None] - {y}[None]) ** 2, axis=-1)) @ {v}",
            "1500",
        ),
        ("x:2003,4 y:4,1500", "np.mean(np.tanh({x} @ {y}) ** 2, axis=1)", "2003"),
    ),
    "transpose-columns": (
        (
            "x:91,3 y:100,3 v:100",
            "np.exp(-np.sum(np.abs({x}[:, None] - {y}[None]), axis=-1)) @ {v}",
            "91",
        ),
        (
            "x:111,2 v:111",
            "np.tanh(np.sum(({x}[:, None] - {x}[None]) ** 2, axis=-1)) @ {v}",
            "111",
        ),
        (
            "x:80,4 y:97,4 v:97,2",
            "np.exp(-np.sqrt(1 + np.sum((({x} * {x})[:, None] - {y}) ** 2, axis=-1))) @ {v}",
            "80,2",
        ),
    ),
    "expand-exponentials": (
        (
            "x:500 y:300",
            "np.exp(-(({x}[:, None] - {y}) ** 2)) @ np.ones({y}.shape, {x}.dtype)",
            "500",
        ),
        ("x:n,k", "np.sum(np.exp(0.3 * {x}), axis=0)", "k"),
    ),
}


_SELDOM = (
    "diagonal-of-elementwise-product sign-of-factors determinant-of-factors "
    "determinant-with-cholesky log-determinant-of-factors times-inverse inverse-times "
    "solve-with-factor reassociate-solves largest-of-sorted smallest-of-sorted places-of-smallest "
    "pack-extremes round-products log1p diagonal-of-sum diagonal-of-difference "
    "largest-of-sorted-descending store-updates keep-operation-order sort-as-integers "
    "sort-by-numpy stage-selections log-sum-exp-gradient reduce-through-concatenate fusion-merger "
    "lay-out-convolutions cumulate-in-pairs "
).split()
"""Those that other values around them keep from firing most often."""

_RAREST = (
    "log-of-determinant log1p-of-negative diagonal-of-quotient expm1 solve-then-product"
).split()
"""Those that fired in under 1 % of the programs when all forms were drawn alike."""

_GRADIENTS = ["log-softmax-gradient", "softmax-gradient", "softplus-gradient"]
"""Those that need a gradient besides."""

_DRAWN = [*FORMS, *2 * _SELDOM, *7 * _RAREST, *14 * _GRADIENTS]


def form(w: Writer) -> None:
    """Write the form of one rule or pass, on values of the program or on arguments."""
    name = w.choose(_DRAWN)
    w.wants_gradient |= name.endswith("gradient")
    operands, text, result = w.choose(FORMS[name])
    sizes = {letter: _size(w) for letter in "nk"}
    named: dict[str, str] = dict(sizes)
    variables: dict[str, Var] = {}
    for operand in operands.split():
        letter, _, shape = operand.partition(":")
        spelled = tuple(sizes.get(size, size) for size in shape.split(",") if size)
        variables |= _operand(w, letter, spelled, sizes["n"])
    named |= {letter: w.use(var) for letter, var in variables.items()}
    # In `{x}.dtype` and such a longer expression needs parentheses, which `use` writes.
    shape = tuple(sizes.get(size, size) for size in result.split(",") if size)
    w.must.append(w.emit(text.format(**named), shape))


def _size(w: Writer) -> str:
    named = [name for name in w.dims if 0 < w.size(name) <= 256]
    return w.choose(named) if named and w.chance(0.6) else w.choose(["24", "40", "7"])


def _operand(w: Writer, letter: str, shape: tuple[str, ...], n: str) -> dict[str, Var]:
    if letter == "i":
        return {"i": w.index(shape, n)}
    if letter in ("g", "l"):
        return _definite(w, n)
    return {letter: w.alike(shape) if w.chance(0.5) else w.input(shape)}


def _definite(w: Writer, n: str) -> dict[str, Var]:
    x = w.alike((n, w.choose([n, "5"])))
    g = w.emit(f"{x} @ {x}.T / {x.shape[1]} + 0.5 * np.eye({n}, dtype={x}.dtype)", (n, n))
    return {"g": g, "l": w.emit(f"np.linalg.cholesky({g})", (n, n))}
