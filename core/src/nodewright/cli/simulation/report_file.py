"""Puts the report's page where it is wanted, or where it can be written."""

import tempfile
from pathlib import Path

from nodewright.model.errors import ConfigError


def check_writable(path: Path) -> None:
    """Before a long run: can a report be written there? Raises ConfigError."""
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise _refusal(path, error) from None


def save_report(page: str, path: Path) -> Path:
    """Writes the page to ``path``; answers it in full. Raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise _refusal(path, error) from None
    return path.resolve()


def save_report_somewhere(page: str, wanted: Path) -> Path:
    """As ``save_report``, but where that cannot be: in the folder for temporary files."""
    try:
        return save_report(page, wanted)
    except ConfigError:
        return save_report(page, Path(tempfile.mkdtemp(prefix="nodewright-")) / wanted.name)


def _refusal(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"--report: {path}: {error.strerror}")
