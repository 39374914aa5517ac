"""Flow on a GPU is that of the CPU."""

import pytest

pytest.register_assert_rewrite("tests.gpu_flow.checks")  # so that a failure shows its figures
