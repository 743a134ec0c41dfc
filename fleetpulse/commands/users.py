"""Commands about users of the dashboard: make, list, revoke."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetpulse.commands.output import Result, answers, err, print_rows
from runtime.clock import SystemClock
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from runtime.config import Config

TOKEN_BYTES = 32
UsersFileOption = Annotated[
    Path | None,
    typer.Option(
        "--users-file",
        envvar="FLEETPULSE_DASHBOARD_USERS_FILE",
        show_envvar=True,
        help="The file of users; without it dashboard_users.json in the data directory.",
    ),
]
Name = Annotated[str, typer.Argument(help="Who it is: stands beside what they do. With --by-proxy, as the proxy says.")]

group = typer.Typer(no_args_is_help=True, help="Users of the dashboard: viewers, and operators who may silence alerts.")


@group.command()
@answers
def add(
    name: Name,
    role: Annotated[str, typer.Option(help="viewer, or operator: may silence alerts.")] = "viewer",
    by_proxy: Annotated[
        bool, typer.Option("--by-proxy", help="No token: a reverse proxy logs this user in (--login-header).")
    ] = False,
    users_file: UsersFileOption = None,
) -> Result:
    """Make a user and print the token that logs in, once: it is kept nowhere. Running dashboards know the user at once.

    Example: [bold]fleetpulse users add ada --role operator[/bold]
    """
    from fleetpulse.dashboard.users import USERS_MAX, User, changing, checked, cookie_value, proof_hash

    made = checked(User(name, role, SystemClock().now_ms()))
    token = "" if by_proxy else secrets.token_urlsafe(TOKEN_BYTES)
    path = path_of(users_file)
    with changing(path) as users:
        if any(user.name == name for user in users):
            raise ConfigError("NAME", name, "is a user already; revoke it first for another token or role")
        if len(users) >= USERS_MAX:
            raise ConfigError("NAME", name, f"would be one more than {USERS_MAX} users")
        users.append(replace(made, proof_hash=proof_hash(cookie_value(token)) if token else ""))

    def show() -> None:
        err.print(f"{name} is {role}; users stand in {path}", markup=False, highlight=False, soft_wrap=True)
        if token:
            typer.echo(token)

    return Result({"name": name, "role": role, "token": token or None}, show)


@group.command("list")
@answers
def list_users(users_file: UsersFileOption = None) -> Result:
    """All users with their roles; no tokens, which are kept nowhere.

    Example: [bold]fleetpulse users list[/bold]
    """
    from fleetpulse.alerts.view import moment
    from fleetpulse.dashboard.users import read

    try:
        found = read(path_of(users_file))
    except FileNotFoundError:
        found = ()
    rows = [(one.name, one.role, "token" if one.proof_hash else "proxy", moment(one.made_ms)) for one in found]
    data = [{"name": one.name, "role": one.role, "by": by, "made_ms": one.made_ms} for one, (_, _, by, _) in
            zip(found, rows, strict=True)]  # fmt: skip
    columns = ("name", "role", "logs in by", "made (UTC)")
    return Result(data, lambda: print_rows("Users", columns, rows, empty="no user; fleetpulse users add"))


@group.command()
@answers
def revoke(name: Name, users_file: UsersFileOption = None) -> Result:
    """Remove a user: logins and open pages of a token end at once; whom the proxy logs in is a viewer from now on.

    Example: [bold]fleetpulse users revoke ada[/bold]
    """
    from fleetpulse.dashboard.users import changing

    with changing(path_of(users_file)) as users:
        left = [user for user in users if user.name != name]
        if len(left) == len(users):
            raise ConfigError("NAME", name, "is no user; fleetpulse users list")
        users[:] = left
    return Result({"revoked": name}, lambda: err.print(f"{name} is no user any more", markup=False, highlight=False))


def path_of(given: Path | None, config: Config | None = None) -> Path:
    """The file that is meant."""
    from fleetpulse.dashboard.users import FILE
    from runtime.config import load

    return given or (config or load()).data_dir / FILE
