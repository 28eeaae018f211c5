"""The page of a plan: its numbers, its text, and what a real browser makes of it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError, Source, TracingError
from tracer.optimizer.page import LiveRange, LiveRanges, page_of

pytestmark = pytest.mark.xla
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def kernel(x: Any, y: Any) -> Any:
    distances = ((x[:, None] - y[None]) ** 2).sum(-1)
    return tnp.exp(-distances).sum(1).mean()


POINTS = (tracer.ShapeDtype((3000, 3), "float32"), tracer.ShapeDtype((2000, 3), "float32"))


@pytest.fixture(scope="module")
def plan() -> tracer.Plan:
    return tracer.compile(tracer.value_and_grad(kernel), memory_limit="4MB").plan(*POINTS)


def data_of(page: str) -> Any:
    found = re.search(r'<script id="plan" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_what_is_alive_adds_up_to_the_timeline(plan: tracer.Plan) -> None:
    written, planned = plan.live_ranges
    for found in (written, planned):
        for step, nbytes in enumerate(found.live_bytes):
            alive = sum(row.nbytes for row in found.ranges if row.first <= step <= row.last)
            # Results have their memory from the beginning; kernels allocate besides.
            results = sum(row.nbytes for row in found.ranges if row.kind == "result")
            assert alive - results <= nbytes
    assert max(planned.live_bytes) < 4e6 < max(written.live_bytes)
    # The step that takes most is explained but for a few bytes.
    peak = max(range(len(planned.live_bytes)), key=planned.live_bytes.__getitem__)
    alive = sum(row.nbytes for row in planned.ranges if row.first <= peak <= row.last)
    assert alive > 0.9 * planned.live_bytes[peak]


def test_values_are_named_as_on_the_users_line(plan: tracer.Plan) -> None:
    written, planned = plan.live_ranges
    largest = written.ranges[0]
    assert largest.name == "float32[3000,2000] of reduce_add"
    assert largest.source is not None
    assert "distances =" in str(largest.source)
    in_loop = [row for row in planned.ranges if row.kind == "in the loop"]
    assert in_loop
    assert all(row.first == row.last for row in in_loop)
    kinds = {row.kind for row in planned.ranges}
    assert {"argument", "result", "temporary", "in the loop"} == kinds


def test_the_page_has_all_and_asks_nothing_of_the_network(
    plan: tracer.Plan, tmp_path: Path
) -> None:
    plan.save(tmp_path / "plan.html", measured=[(0.0, 60_000), (0.5, 3_000_000)])
    page = (tmp_path / "plan.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    for title in (
        "As planned",
        "As written",
        "Measured",
        "Loops",
        "What would take the peak lower",
    ):
        assert title in page
    assert "not stored: loop 0 goes over it" in page
    found = data_of(page)
    assert found["limit"] == 4_000_000
    assert max(step[1] for step in found["planned"]["steps"]) == max(plan.live_ranges[1].live_bytes)
    assert found["measured"]["steps"][1][1] == 3_000_000


def test_without_a_measurement_there_is_no_chart_of_it(plan: tracer.Plan) -> None:
    assert 'id="measured"' not in page_of(plan)


def test_text_of_the_users_file_ends_no_element(plan: tracer.Plan) -> None:
    evil = "</script><b>"
    rows = (LiveRange(evil, "temporary", 8, 0, 0, Source(evil, 1, evil)),)
    ranges = LiveRanges(((evil, None),), (8,), rows)
    page = page_of(replace(plan, find_live_ranges=lambda: (ranges, ranges)))
    assert evil not in page
    assert data_of(page)["planned"]["ranges"][0][3] == evil


def test_a_notebook_shows_the_page(plan: tracer.Plan) -> None:
    shown = plan._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "As planned" in html.unescape(shown)


def test_other_endings_are_refused(plan: tracer.Plan, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"does not end in \.html"):
        plan.save(tmp_path / "plan.png")


def test_plans_without_a_limit_and_without_steps_have_pages(tmp_path: Path) -> None:
    tracer.compile(kernel).plan(*POINTS).save(tmp_path / "free.html")
    assert "ask for less" in (tmp_path / "free.html").read_text()
    tracer.compile(lambda x: x).plan(POINTS[0]).save(tmp_path / "empty.html")
    assert "As planned" in (tmp_path / "empty.html").read_text()


def test_a_call_is_sampled_and_changes_no_argument() -> None:
    f = tracer.compile(lambda x, y: x.at[0].set(tnp.exp(x @ y)[0]), donate_argnums=0)
    x = tnp.asarray(np.random.default_rng(0).normal(size=(1500, 1500)) * 0.01)
    samples = f.sample_memory(x, x + 0)
    assert samples[0] == (0.0, 2 * x.nbytes)
    assert [seconds for seconds, _ in samples] == sorted(seconds for seconds, _ in samples)
    assert max(nbytes for _, nbytes in samples) > 2.5 * x.nbytes
    assert float(x[0, 0]) == float(x[0, 0])  # It was not donated.


def test_a_traced_call_is_not_sampled() -> None:
    f = tracer.compile(lambda x: x + 1)
    with pytest.raises(TracingError, match="sample_memory inside of a traced function"):
        tracer.compile(lambda x: f.sample_memory(x))(tnp.ones(3))


READ = """
<script>
const results = {};
for (const name of ["planned", "written", "measured"]) {
  const place = document.getElementById(name);
  if (!place) continue;
  const told = () => document.getElementById(name + "-alive").textContent;
  const before = told();
  place.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
  results[name] = {
    areas: place.querySelectorAll("path.area").length,
    width: place.querySelector("path.area").getBoundingClientRect().width,
    lines: place.querySelectorAll("line.limit").length,
    before: before, after: told(),
  };
}
results.paper = getComputedStyle(document.body).backgroundColor;
document.body.setAttribute("data-results", JSON.stringify(results));
</script>
"""


def in_browser(page: str, path: Path, *, dark: bool = False) -> Any:
    """Return what a browser shows of a page, after a press of the left key."""
    if BROWSER is None:
        pytest.skip("no browser on this machine")
    path.write_text(page.replace("</body>", READ + "</body>"))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", scheme, "--dump-dom")
    done = subprocess.run(
        [BROWSER, *options, path.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    found = re.search(r'data-results="(.*?)"', done.stdout)
    assert found is not None, done.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_it_and_follows_the_keys(
    plan: tracer.Plan, tmp_path: Path, dark: bool
) -> None:
    page = page_of(plan, [(0.0, 60_000), (0.5, 3_000_000), (1.0, 60_000)])
    found = in_browser(page, tmp_path / "plan.html", dark=dark)
    assert found["paper"] == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    for name in ("planned", "written", "measured"):
        assert found[name]["areas"] == found[name]["lines"] == 1
        assert found[name]["width"] > 300
        assert found[name]["before"] != found[name]["after"]
    assert "in the loop" in found["planned"]["before"]
    assert "kernel" not in found["measured"]["before"]


@pytest.mark.process
def test_a_browser_draws_twenty_thousand_steps(plan: tracer.Plan, tmp_path: Path) -> None:
    line = Source(__file__, 1, "f")
    steps = tuple((f"op {step}", line) for step in range(20_000))
    live = tuple(1_000 + step % 777 for step in range(19_999)) + (10**7,)
    rows = tuple(LiveRange(f"v{i}", "temporary", 100, i, i + 50, line) for i in range(20_000))
    ranges = LiveRanges(steps, live, rows)
    page = page_of(replace(plan, find_live_ranges=lambda: (ranges, ranges)))
    assert len(page) < 1_000_000
    found = in_browser(page, tmp_path / "plan.html")
    # The peak is not lost among so many.
    assert found["planned"]["before"].startswith("step 19999, op 19999: 10 MB alive")
