"""The table of fuzz targets: each is there, and begins with inputs that its invariant holds for."""

from __future__ import annotations

import inspect

import pytest

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_accepts_its_seeds(name: str) -> None:
    invariant, seeds = TARGETS[name].load()
    assert (invariant.__doc__ or "").startswith("Invariant: ")
    assert seeds
    for seed in seeds:
        invariant(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_invariants_hold_for_sampled_input(name: str) -> None:
    """By a fuzz test in the file that defines it."""
    invariant, _ = TARGETS[name].load()
    module = inspect.getmodule(invariant)
    assert module is not None
    tests = [test for key, test in vars(module).items() if key.startswith("test_")]
    fuzzed = [test.hypothesis.inner_test for test in tests if hasattr(test, "hypothesis")]
    assert any(invariant.__name__ in test.__code__.co_names for test in fuzzed)
