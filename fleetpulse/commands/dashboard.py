"""The command ``dashboard``: the fleet in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.output import err, spoken
from fleetpulse.commands.people import AsWriter
from fleetpulse.commands.services import HealthPort, file_option
from fleetpulse.commands.users import UsersFileOption, path_of

DEFAULT_PORT = 8_600
Token = Annotated[
    str | None,
    typer.Option(
        envvar="FLEETPULSE_DASHBOARD_TOKEN",
        show_envvar=True,
        help="Who knows it may look; at least 16 characters. Give it in the environment: others see arguments.",
    ),
]
LoginHeader = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        envvar="FLEETPULSE_DASHBOARD_LOGIN_HEADER",
        show_envvar=True,
        help="Header in which a reverse proxy names who is logged in: X-Forwarded-User.",
    ),
]
TrustedProxies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="FLEETPULSE_DASHBOARD_TRUSTED_PROXIES",
        show_envvar=True,
        help="Address of that proxy; may be given more than once, in the environment with spaces or commas between.",
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        envvar="FLEETPULSE_DASHBOARD_ALLOWED_HOSTS",
        show_envvar=True,
        help="Another name of this server, as browsers write it; more than one as for --trusted-proxy.",
    ),
]
_SEEN = (
    "fleetpulse: whoever is on this machine reads --token in the list of processes; give the token by --token-file or"
    " FLEETPULSE_DASHBOARD_TOKEN"
)


@spoken
def dashboard(
    ctx: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Anything but loopback needs a token or a login header.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = DEFAULT_PORT,
    token: Token = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="FLEETPULSE_DASHBOARD_TOKEN_FILE",
            show_envvar=True,
            help="File that holds the token, such as a mounted secret.",
        ),
    ] = None,
    users_file: UsersFileOption = None,
    login_header: LoginHeader = None,
    trusted_proxy: TrustedProxies = None,
    allowed_host: AllowedHosts = None,
    rules: Annotated[
        Path | None,
        file_option("Your rules: their slo_classes are the objectives of goodput; else those of the configuration."),
    ] = None,
    budgets: Annotated[
        Path | None, file_option("Your budgets, for the page Cost; without it those of the configuration, if any.")
    ] = None,
    prices: Annotated[
        Path | None,
        file_option("Your prices, for the list price of a request; else those of the configuration, else examples."),
    ] = None,
    as_writer: AsWriter = False,
    health_port: HealthPort = None,
) -> None:
    """Look at the fleet in a browser: GPUs, models, requests, alerts, costs, the pipeline, SQL.

    Reads ClickHouse as the read-only user; loads nothing from the network.

    Example: [bold]fleetpulse dashboard --port 8600[/bold]
    """
    with _packages():
        from fleetpulse.dashboard.serve import Binding, run, token_of
    from fleetpulse.dashboard.security import access_for
    from fleetpulse.dashboard.users import UsersFile
    from fleetpulse.dashboard.view import Facts
    from fleetpulse.sql.reader_profile import login_of_people
    from runtime import logs
    from runtime.config import load
    from stream_jobs.rules.load import load_set

    source = ctx.get_parameter_source("token")
    if source is not None and source.name == "COMMANDLINE":
        err.print(_SEEN, style="yellow", markup=False, highlight=False)
    known, config = token_of(token, token_file), load()
    users = UsersFile(path_of(users_file, config))
    access = access_for(host, known, login_header, _each(trusted_proxy), _each(allowed_host), users)
    logs.configure("dashboard")
    reading = login_of_people(config, as_writer=as_writer)
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    err.print(f"fleetpulse dashboard: http://{shown}", markup=False, highlight=False)
    slo_classes = load_set(rules or config.rules).slo_classes
    facts = Facts(slo_classes, budgets or config.budgets, prices or config.prices, config.limits)
    run(reading, access, Binding(host, port, health_port), facts)


def _each(given: list[str] | None) -> tuple[str, ...]:
    """Of an option, or of a variable, which splits at spaces alone: addresses and names have no commas."""
    return tuple(one for each in given or () for one in each.split(",") if one)


@contextmanager
def _packages() -> Iterator[None]:
    """Says how to install the packages of the dashboard where they are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        err.print(
            f"fleetpulse: {error.name} is missing, of fleetpulse[dashboard]: docs/start/install.md#extras",
            style="red",
            markup=False,
        )
        raise typer.Exit(2) from error
