import pytest
import stamina

from runtime import retry
from schemas.errors import FencedError, UnavailableError


@pytest.fixture(autouse=True)
def _no_waiting() -> object:
    with stamina.set_testing(True, attempts=4, cap=True):
        yield


def count_attempts(policy: retry.RetryPolicy, error: Exception, on: object = Exception) -> int:
    tried = 0

    def fail() -> None:
        nonlocal tried
        for attempt in retry.attempts(policy, on):  # type: ignore[arg-type]
            with attempt:
                tried += 1
                raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    return tried


def test_what_may_help_is_tried_again() -> None:
    """A retriable error of ours is tried until the policy ends, then raised as it was."""
    assert count_attempts(retry.REQUEST, UnavailableError("down")) == 4


def test_final_errors_of_ours_are_never_tried_again() -> None:
    """Fenced means another process took over: a second try would be wrong."""
    assert count_attempts(retry.NEVER_LOSE, FencedError("fenced")) == 1


def test_only_named_errors_are_tried_again() -> None:
    """A type that the caller did not name is raised at once."""
    assert count_attempts(retry.REQUEST, KeyError("x"), on=(OSError, UnavailableError)) == 1


def test_the_caller_may_decide_by_looking_at_the_error() -> None:
    """A callable chooses what is worth another try."""
    assert count_attempts(retry.REQUEST, OSError(11, "again"), on=lambda error: error.errno == 11) == 4
    assert count_attempts(retry.REQUEST, OSError(13, "denied"), on=lambda error: error.errno == 11) == 1


def test_data_that_exists_nowhere_else_is_tried_for_ever() -> None:
    """The policy of sinks and spools has no limit of attempts or time."""
    assert (retry.NEVER_LOSE.attempts_max, retry.NEVER_LOSE.total_s) == (None, None)


def test_every_policy_is_found_by_its_name() -> None:
    """Names are unique."""
    assert {name: policy.name for name, policy in retry.POLICIES.items()} == {name: name for name in retry.POLICIES}
    assert len(retry.POLICIES) == 4
