"""Replaces secrets and accounts in recordings. Equal values get equal substitutes, so that a replay is consistent."""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from nodewright.adapters.provider.markup import clean_markup, is_markup, paired_names

# Headers that are kept. All others, such as Authorization and cookies, are not written.
HEADERS = frozenset(
    {
        "content-type",
        "date",
        "etag",
        "if-match",
        "retry-after",
        "x-amz-target",
        "x-amzn-errortype",
        "x-amzn-query-error",
        "x-goog-fieldmask",
    }
)
# The value of a field with such a name may be a secret.
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|signature|credential|assertion|authori[sz]ation|cookie|bearer|kubeconfig"
    r"|certificate|(private|api|access|account|shared|ssh|public|subscription|encryption)[-_.]?key|keydata|ssh-keys"
    r"|(user|custom)[-_.]?data|connection[-_.]?string|protectedsettings|commandtoexecute|(^|[-_.])(sig|sas|pin|pass)$",
    re.IGNORECASE,
)
# Values of such a field that are not secret, because they are switches.
_SWITCH = re.compile(r"|true|false|yes|no|on|off|none|null|enabled|disabled|required|optional", re.IGNORECASE)
_SECRET_TEXTS = (
    re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)", re.DOTALL),
    re.compile(r"\beyJ[\w-]+\.[\w-]+(\.[\w-]*)*"),  # JSON web tokens
    re.compile(r"\b(AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{8,}\b"),  # key ids and principals of AWS
    re.compile(r"\bya29\.[\w.-]+|\b1//[\w-]{16,}|\bAIza[\w-]{20,}|\bGOCSPX-[\w-]+"),  # tokens and keys of Google
    re.compile(r"\bgh[pousr]_\w{16,}|\bgithub_pat_\w+|\bglpat-[\w-]+|\bxox[abprs]-[\w-]+|\bhvs\.[\w-]+"),
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),  # bootstrap tokens of Kubernetes
    re.compile(r"\bssh-(rsa|ed25519|dss) [\w+/=]+|\becdsa-sha2-\S+ [\w+/=]+"),
    re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+"),  # addresses of people and service accounts
)
# The text after such a word is a secret, whatever its form.
_AFTER_WORD = re.compile(r"(?<=Bearer )[\w+/=.~-]+|(?<=Basic )[\w+/=]+", re.IGNORECASE)
# ``name=value`` in text, such as an address within a message. A value in quotes may have spaces, and be in escaped JSON.
_SECRET_PAIR = re.compile(
    r"(?<![\w-])(?P<name>[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|signature|credential|sig"
    r"|(?:access|account|api|encryption|private|shared|subscription)[-_]?key))"
    r"(?P<is>(?:\\*[\"'])?\s*[=:]\s*)"
    r"(?:(?P<quote>\\*[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|.))*)|(?P<value>[^\s&\"'<>,;]+))",
    re.IGNORECASE | re.DOTALL,
)
# The user of a URL: before the first slash; after a colon that no port follows, up to the last @.
_USER = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*:(?:\\*/){2})"
    r"(?:[^\s/?#\"'<>:@\[]*:(?!\d+(?:[/?#]|\\/))[^\s\"'<>]+|[^\s/?#\"'<>]+)@(?=[\w.\[-])",
    re.IGNORECASE,
)
# Long runs of letters and digits, such as keys in base64. Names have dashes between words.
_RUN = re.compile(r"(?<![A-Za-z0-9+_-])[A-Za-z0-9+_-]{24,}={0,2}")
_SLASHED_KEY = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")  # secret keys of AWS
_HEX = re.compile(r"(?<![0-9A-Za-z-])[0-9a-fA-F]{32,}(?![0-9A-Za-z-])")
_GUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])")
# The places in which a cloud names an account.
_ACCOUNTS = (
    re.compile(r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(?P<id>\d{12}):"),
    re.compile(r"(?<![\w.-])(?P<id>\d{12})(?![\w.-])"),
    re.compile(r"\b(?P<id>\d{6,14})-compute(?=@)"),
    re.compile(r"\bprojects/(?P<id>[a-z0-9][a-z0-9.:-]*[a-z0-9])(?=[/:?\"'\s]|$)"),
    re.compile(r"\bsubscriptions/(?P<id>[\w-]+)", re.IGNORECASE),
)
_ACCOUNT_NAME = re.compile(
    r"(owner|account|subscription|tenant|client|project|principal|object)[-_.]?(id|number)?$|^project$", re.IGNORECASE
)
# The signature of a request to AWS, different in each request.
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
# A field that says where a listing continues. Its value differs in each response, and occurs nowhere else.
_PAGE_NAME = re.compile(r"(next|page|continuation|skip)[-_.]?token$", re.IGNORECASE)
_SUBSTITUTE = re.compile(r"redacted-\d+|account-\d+|0{6}\d{6}|0{8}-0{4}-0{4}-0{4}-\d{12}", re.IGNORECASE)
_SHORTEST_SECRET = 6


class Sanitizer:
    """Replaces secrets and accounts. ``secrets`` are texts that must not occur anywhere. Thread-safe.

    Each text is searched for every secret and account that was learned. So values that differ in each request or for each
    machine are not learned: signatures, page tokens, GUIDs.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.RLock()
        self._substitutes: dict[str, str] = {}
        self._everywhere: set[str] = set()
        self._accounts: dict[str, str] = {}
        self._guids: dict[str, str] = {}
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: str) -> None:
        """Replace this text everywhere from now on; texts of less than six characters are not taken as secrets."""
        with self._lock:
            if len(secret) >= _SHORTEST_SECRET and not _SUBSTITUTE.fullmatch(secret):
                self._redact(secret)
                self._everywhere.add(secret)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that are kept, and learn the credentials in the others."""
        words = {"signedheaders", *(name.lower() for name in headers)}  # a signature lists the headers that it signs
        for name, value in headers.items():
            if _SECRET_NAME.search(name):
                for part in re.split(r"[\s,;=]+", as_string(value)):
                    is_word = part.lower() in words or part.lower().startswith(("aws4", "bearer"))
                    if len(part) >= 12 and "/" not in part and not is_word and not _SIGNATURE.fullmatch(part):
                        self.learn(part)
        return {name.lower(): self.text(as_string(value)) for name, value in headers.items() if name.lower() in HEADERS}

    def url(self, url: str) -> str:
        """Return the URL without its user and with a sanitised query."""
        parts = urlsplit(url)
        place = self.text(parts.netloc.rpartition("@")[2])
        return urlunsplit((parts.scheme, place, self.text(parts.path), self._form(parts.query), ""))

    def body(self, body: str) -> str:
        """Return a sanitised body in its own format: JSON, XML, a form post or text."""
        body = body.removeprefix("\ufeff")
        start = body.lstrip()[:1]
        if start in ("{", "["):
            try:
                return json.dumps(self.value(json.loads(body)))
            except ValueError:
                return self.text(body)
        if is_markup(body):
            return self._known(clean_markup(body, _is_secret_name, self._clean, self.text))
        if re.match(r"[\w.%+\[\]-]+=[^\s]*$", body):
            return self._form(body)
        return self.text(body)

    def value(self, value: Any, name: str = "", *, is_secret: bool = False) -> Any:
        """Return a sanitised JSON value; ``name`` is the name of its field."""
        is_secret = is_secret or _is_secret_name(name)
        if isinstance(value, dict):
            fields = {str(key): one for key, one in value.items() if isinstance(one, str)}
            return {
                self.text(str(key)): self._paired(str(key), one, paired_names(fields, str(key)), is_secret=is_secret)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(one, name, is_secret=is_secret) for one in value]
        if isinstance(value, str):
            return self._field(name, value, is_secret=is_secret)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return 0 if is_secret or _ACCOUNT_NAME.search(name) else value
        return value

    def text(self, text: str) -> str:
        """Return a text without learned secrets, and without texts that look like a secret or name an account."""
        with self._lock:
            text = self._known(text)
            text = _USER.sub(lambda match: match["scheme"], text)
            text = _AFTER_WORD.sub(lambda match: self._redact_everywhere(match[0]), text)
            text = _SECRET_PAIR.sub(self._pair, text)
            for pattern in _SECRET_TEXTS:
                text = pattern.sub(lambda match: self._redact(match[0]), text)
            text = _GUID.sub(lambda match: self._account(match[0]), text)
            text = _HEX.sub(lambda match: self._redact(match[0]), text)
            text = _RUN.sub(self._run, text)
            text = _SLASHED_KEY.sub(lambda match: self._redact(match[0]) if _is_mixed(match[0]) else match[0], text)
            for pattern in _ACCOUNTS:
                for match in pattern.finditer(text):
                    self._account(match["id"])
            return self._known(text)

    def _known(self, text: str) -> str:
        """Return a text without the secrets and accounts that were learned."""
        with self._lock:
            for secret in sorted((one for one in self._everywhere if one in text), key=len, reverse=True):
                text = text.replace(secret, self._substitutes[secret])
            for account, instead in self._accounts.items():
                if account in text:
                    text = re.sub(rf"(?<![\w-]){re.escape(account)}(?![\w-])", instead, text)
            return text

    def _paired(self, name: str, value: Any, paired: Sequence[str], *, is_secret: bool) -> Any:
        """Return a sanitised value of a field that other fields may name."""
        secret = is_secret or any(_is_secret_name(one) for one in (name, *paired))
        return self.value(value, next(iter(paired), name), is_secret=secret)

    def _clean(self, name: str, text: str, is_secret: bool) -> str:
        return self._field(name, text, is_secret=is_secret)

    def _field(self, name: str, text: str, *, is_secret: bool) -> str:
        if is_secret and not _SWITCH.fullmatch(text):
            with self._lock:
                return self._redact(text) if _PAGE_NAME.search(name) else self._redact_everywhere(text)
        if text and _ACCOUNT_NAME.search(name) and re.fullmatch(r"[\w-]{3,}", text):
            with self._lock:
                self._account(text)
        if text.lstrip()[:1] in ("{", "[", "<"):
            return self.body(text)
        return self.text(text)

    def _form(self, query: str) -> str:
        fields = parse_qsl(query, keep_blank_values=True)
        beside: dict[str, dict[str, str]] = {}
        for name, value in fields:
            stem, _, last = name.rpartition(".")
            beside.setdefault(stem, {})[last] = value
        cleaned = []
        for name, value in fields:
            stem, _, last = re.sub(r"(\.\d+)+$", "", name).rpartition(".")
            paired = paired_names(beside.get(stem, {}), last)
            cleaned.append((self.text(name), self._paired(name, value, paired, is_secret=False)))
        return urlencode(cleaned)

    def _pair(self, match: re.Match[str]) -> str:
        value = match["quoted"] if match["value"] is None else match["value"]
        if _SWITCH.fullmatch(value) or _SUBSTITUTE.fullmatch(value):
            return match[0]
        redact = self._redact if _PAGE_NAME.search(match["name"]) else self._redact_everywhere
        return f"{match['name']}{match['is']}{match['quote'] or ''}{redact(value)}"

    def _run(self, match: re.Match[str]) -> str:
        is_key = any(len(part) >= 20 and _is_mixed(part) for part in re.split("[-_]", match[0]))
        return self._redact(match[0]) if is_key else match[0]

    def _redact(self, secret: str) -> str:
        """Return the substitute of a secret; a substitute is returned unchanged."""
        if not secret or _SUBSTITUTE.fullmatch(secret):
            return secret
        if secret not in self._substitutes:
            self._substitutes[secret] = f"redacted-{len(self._substitutes) + 1}"
        return self._substitutes[secret]

    def _redact_everywhere(self, secret: str) -> str:
        """Return the substitute of a secret that was recognised by its place, and replace it in other places from now on."""
        # A short word is too common to be replaced in every text.
        is_long = len(secret) >= 12 or (len(secret) >= 8 and not secret.isalpha())
        if is_long and not _SUBSTITUTE.fullmatch(secret) and not _SIGNATURE.fullmatch(secret):
            self._everywhere.add(secret)
        return self._redact(secret)

    def _account(self, account: str) -> str:
        """Return the substitute of an account, in the form of the account: twelve digits, a GUID or a name."""
        if _SUBSTITUTE.fullmatch(account):
            return account
        number = len(self._accounts) + len(self._guids) + 1
        if _GUID.fullmatch(account):
            return self._guids.setdefault(account.lower(), f"00000000-0000-0000-0000-{number:012}")
        is_number = re.fullmatch(r"\d{12}", account)
        return self._accounts.setdefault(account, f"000000{number:06}" if is_number else f"account-{number}")


def as_string(value: object) -> str:
    """Return a header's value as text; some libraries give bytes."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the values of environment variables whose names say that they are secret."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name) and not _SWITCH.fullmatch(value)]


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _is_mixed(text: str) -> bool:
    """Return whether a text has capital letters, small ones and digits."""
    kinds: tuple[Callable[[str], bool], ...] = (str.isupper, str.islower, str.isdigit)
    return all(any(kind(letter) for letter in text) for kind in kinds)
