# Everything is Any: the SDK's own types keep the type checker busy for minutes.
from typing import Any

def __getattr__(name: str) -> Any: ...
