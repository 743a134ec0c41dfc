"""What an error of ClickHouse means for the sink."""

from __future__ import annotations

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError, ContractError, FleetpulseError, UnavailableError
from sinks.database import explained


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(DatabaseError("no table", code=60), ContractError, id="an unknown table needs migrate"),
        pytest.param(DatabaseError("no column", code=16), ContractError, id="an unknown column needs migrate"),
        pytest.param(DatabaseError("bad data", code=117), ContractError, id="bad data stays bad"),
        pytest.param(DatabaseError("login", code=516), ConfigError, id="a wrong password needs a person"),
        pytest.param(DatabaseError("grant", code=497), ConfigError, id="a missing grant needs a person"),
        pytest.param(DatabaseError("memory", code=241), UnavailableError, id="memory comes back"),
        pytest.param(DatabaseError("parts", code=252), UnavailableError, id="too many parts are merged in time"),
        pytest.param(DatabaseError("disk", code=243), UnavailableError, id="a full disk is emptied"),
        pytest.param(OperationalError("refused"), UnavailableError, id="no answer may be a restart"),
        pytest.param(ConnectionResetError("reset"), UnavailableError, id="a broken connection is made anew"),
    ],
)
def test_an_error_says_whether_trying_again_helps(error: Exception, kind: type[FleetpulseError]) -> None:
    """What a person must mend stops the sink loudly; everything else is tried again."""
    found = explained(error, ClickHouseConfig(url="http://127.0.0.1:1"))

    assert type(found) is kind
    assert found.retriable is (kind is UnavailableError)
    assert str(error) in str(found)
