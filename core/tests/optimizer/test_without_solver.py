"""Without the extra ``optimizer`` the same code runs: in a process that has no highspy."""

import subprocess
import sys

_PROGRAM = """
import sys
sys.modules["highspy"] = None
from core.tests.optimizer.problems import faults
from core.tests.optimizer.test_mix import problem_of
from nodewright.optimizer.bound import find_values
from nodewright.optimizer.highs import is_installed
from nodewright.optimizer.mix import find_mix

problem = problem_of({(8, 1): 10, (1, 8): 10, (3, 3): 7}, (8, 8, 10.0), (8, 1, 6.0), (1, 8, 6.0))
values = find_values(problem)
mix = find_mix(problem, values, lambda: 0.0)
assert not is_installed()
assert not faults(problem, mix) and not any(mix.left)
assert 0 < values.bound <= mix.price, (values.bound, mix.price)
print(mix.price)
"""


def test_without_the_solver_a_mix_is_made_all_the_same() -> None:
    found = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert 150.0 <= float(found.stdout) <= 170.0


def test_the_solver_prints_nothing() -> None:
    program = "from nodewright.optimizer.highs import Programme; import numpy as np; Programme(np.ones(1), np.ones(1)).solve()"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("", "")
