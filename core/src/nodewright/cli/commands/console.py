"""``nodewright console``: the page of the daemon for any cluster, which it only reads."""

import sys

import click

from nodewright.cli.commands.run import prepare
from nodewright.cli.settings.checks import check_daemon
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options
from nodewright.model.errors import ConfigError


@click.command("console", cls=SettingsCommand)
@source_options
def command(source: SettingsSource) -> None:
    """Serve the daemon's page at --debug-address for the cluster that --kubeconfig names. Write nothing.

    Every --scan-interval the cluster is planned anew, without a write to it or to a cloud; the page shows what a daemon with
    these settings would do. The node groups come from --cloud-provider, or providers: in --config. The page answers only on
    this machine, unless --secure-address is given; if a daemon's page is forwarded to it, give another --debug-address. Ctrl-C ends it.

    Exit codes: 0 ended by a signal; 2 bad input or an unusable plugin.
    """
    from nodewright.cli.daemon.build import DaemonOptions, build_daemon

    loaded = source.load()
    check_daemon(loaded.settings)
    if not loaded.settings.serving.debug_address:
        raise ConfigError("--debug-address: is empty, and the page needs an address")
    app = build_daemon(source, loaded.settings, DaemonOptions(console=True), sys.stderr.buffer)
    prepare(app)
    with app:
        click.echo(f"The page is at http://localhost:{app.ports['debug_address']}/ until Ctrl-C.")
        sys.stdout.flush()
        app.run()
