"""A training step that is given its own results: memory does not grow, in a fresh process.

The process has `tracer.tune_host_allocator` on; without it glibc keeps more, and the test of growth
would measure that.

Which freed blocks stay from one call to the next varies, within what the plan says. So the whole is
compared with the plan, and the least of many steps at the start with the least of many at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

STEPS, WINDOW = 1000, 100
SCRIPT = f"""
import ctypes, json, os, sys
# On two cores two products may run at once, at any step, and the library takes one block more.
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy as np
import tracer, tracer.numpy as tnp
tracer.tune_host_allocator()

def loss(p, x):
    return ((tnp.tanh(x @ p["w"]) @ p["v"]) ** 2).mean()

def step(state, x):
    p, m = state["p"], state["m"]
    value, g = tracer.value_and_grad(loss)(p, x)
    m = tracer.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return dict(p=tracer.tree.map(lambda p, m: p - 1e-3 * m, p, m), m=m), value

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

n = 512
rng = np.random.default_rng(0)
weights = lambda: dict(w=tnp.asarray(rng.normal(size=(n, n)) / n),
                       v=tnp.asarray(rng.normal(size=(n, n)) / n))
state = dict(p=weights(), m=tracer.tree.map(lambda w: w * 0, weights()))
x = tnp.asarray(rng.normal(size=(4, n)))
run = tracer.compile(step, donate_argnames="state" if sys.argv[1] == "donated" else ())
size = sum(a.nbytes for a in tracer.tree.leaves(state))
places = lambda: sorted(a._buffer.unsafe_buffer_pointer() for a in tracer.tree.leaves(state))
plan = run.plan(state, x)
ctypes.CDLL(None).malloc_trim(0)  # what tracing and compiling freed
before, baseline, after = places(), resident(), []
for i in range({STEPS}):
    state, value = run(state, x)
    value.block_until_ready()
    after.append(resident())
print(json.dumps(dict(
    growth=min(after[-{WINDOW}:]) - min(after[{WINDOW} // 2:{WINDOW}]),
    rise=max(after) - baseline,
    planned=plan.compiled_bytes - plan.argument_bytes,
    state=size,
    stays=places() == before,
)))
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["donated", "kept"])
def test_a_thousand_steps_take_no_more_memory_than_fifty(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["growth"] < found["state"] / 4, found
    # Besides what is planned there is what Python and glibc keep.
    assert found["rise"] < found["planned"] + found["state"] / 4, found
    # A donated state is in the same memory at the end as at the start.
    assert found["stays"] == (how == "donated")


CALLS = """
import ctypes, gc, numpy as np, tracer, tracer.numpy as tnp
x = tnp.ones((3, 4))
f = tracer.compile(lambda x: (x * 2, x.sum()))

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def call(times):
    for _ in range(times):
        for result in f(x):
            result.block_until_ready()

call(5000)
before = resident()
call(100_000)
print(resident() - before)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hundred_thousand_calls_leave_nothing() -> None:
    """Nothing else happens meanwhile: copying an array to a device would clear up."""
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3_000_000, done.stdout
