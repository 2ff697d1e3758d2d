"""The two pluggy markers of the provider contract."""

import pluggy

PROJECT = "nodewright"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
