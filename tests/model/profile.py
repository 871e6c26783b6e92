"""How Hypothesis runs here: the same examples each time, however slow the machine is."""

from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.configuration import set_hypothesis_home_dir

set_hypothesis_home_dir(Path(__file__).parents[2] / ".hypothesis")

STEADY = settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)

WITHOUT_SHRINKING = settings(STEADY, phases=[Phase.explicit, Phase.generate])
"""For state machines: to shrink a history of forty steps takes minutes. Use STEADY by hand."""
