"""For every test: hypothesis allows an example any time, since how long one takes says more of the machine's load."""

from hypothesis import settings

settings.register_profile("nodewright", deadline=None)
settings.load_profile("nodewright")
