"""``nodewright serve-externalgrpc``: a provider for the Go cluster-autoscaler, over its externalgrpc protocol.

The server is that of the distribution nodewright-externalgrpc, which is imported here only.
"""

import signal
from importlib import import_module
from typing import Any

import click

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.config_files import PricesFile
from nodewright.cli.connect import Connector
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.model.address import parse_address
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings

_GRACE_SECONDS = 5.0


@click.command("serve-externalgrpc", cls=SettingsCommand)
@click.option("--listen", metavar="HOST:PORT", required=True, help="Address to listen on; port 0: any free port.")
@click.option("--cert", metavar="FILE", default="", help="PEM file with the certificate of this server.")
@click.option("--key", metavar="FILE", default="", help="PEM file with its private key.")
@click.option("--cacert", metavar="FILE", default="", help="PEM file of the authority that signs client certificates.")
@click.option(
    "--insecure", is_flag=True, help="Use plaintext: every client that can reach the port can delete machines."
)
@settings_options
def command(settings: Settings, listen: str, insecure: bool, **files: str) -> None:
    """Serve the configured provider to the Go cluster-autoscaler, which needs --cloud-provider=externalgrpc.

    The server uses TLS with client certificates, unless --insecure is given. After SIGTERM or Ctrl-C it finishes the
    calls in progress and exits.

    Exit codes: 0 stopped by a signal; 2 bad input.
    """
    if len(settings.providers) != 1:
        raise ConfigError(
            f"--cloud-provider: serve-externalgrpc serves exactly one provider, but the settings have {len(settings.providers)}"
        )
    host, _ = parse_address("--listen", listen)
    address = listen if host else f"[::]{listen}"  # gRPC's name for every address of the machine
    wire = _import("server")
    certificates = _import("certificates")
    credentials = certificates.server_credentials(certificates.Files("--", insecure=insecure, **files))
    prices = PricesFile(lambda: settings.scale_up)
    prices.check()
    # The client of the protocol waits itself when the cloud is busy.
    connector = Connector(clock=SystemClock(), dry_run=False, honours_retry_after=False)
    [client] = connector.connect_all(settings.providers)
    client.refresh()
    servicer = wire.Servicer(client, ignores_id_case=client.info.ignores_id_case, rates=prices.read().rates)
    server, port = wire.make_server(servicer, address, credentials)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop(_GRACE_SECONDS))
    server.start()
    how = "in plaintext" if insecure else "with TLS, for clients with a certificate"
    click.echo(f"Serving provider {client.name} on {address.rpartition(':')[0]}:{port} {how}.")
    server.wait_for_termination()


def _import(module: str) -> Any:
    try:
        return import_module(f"nodewright_externalgrpc.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError(f'there is no {error.name}; try: pip install "nodewright[externalgrpc]"') from error
