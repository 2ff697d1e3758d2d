"""Memory in ConfigMaps: compressed, cut into shards that the API server accepts, replaced as a whole or not at all.

- The ConfigMap ``nodewright-state`` is the head. It holds the first shard, the digest of all, and the number of shards.
- Further shards are ``nodewright-state-a-1`` and so on, and at every other save ``nodewright-state-b-1`` and so on. They are
  written before the head that names them, so that each head finds its shards. The shards of the former head are deleted
  afterwards. The names are fixed, so that an RBAC role can list them.
- A head is replaced only if it still has the resource version that was read or written last. So a process that is not the
  leader cannot overwrite it.
- A new leader first writes the head again with its own term, one above the last. From then on a former leader's saves fail.
"""

import hashlib
import zlib
from collections.abc import Callable

import msgspec

from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.config_maps import ConfigMaps, StoredMap
from nodewright.adapters.store.codec import UnreadableState, decode_memory, encode_memory
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import Loaded, Pause
from nodewright.model.errors import NodewrightError

STATE_NAME = "nodewright-state"
PAUSE_NAME = "nodewright-pause"
_PAUSE_KEY = "pause"
_SHARD_KEY = "state"
# The API server takes 1 MiB for an object; base64 makes four bytes of three.
SHARD_BYTES = 512 * 1024
# The most bytes of a state when unpacked; a forged one may claim to be larger.
_MOST_BYTES = 256 * 1024 * 1024
MOST_SHARDS = 8
# How often a new leader tries to take over a head that changes meanwhile.
_MOST_TAKES = 5
_PAUSE = msgspec.json.Decoder(Pause)

# The text of the pause's ConfigMap as it was last seen; None: there is none. Raises NodewrightError.
ReadPause = Callable[[], str | None]


class ConfigMapStore:
    """Implements StateStore. ``read_pause`` reads from a cache, since every loop looks for a pause."""

    def __init__(self, maps: ConfigMaps, read_pause: ReadPause) -> None:
        self._maps = maps
        self._read_pause = read_pause
        self._head: StoredMap | None = None
        self._digest = ""
        self._term = 0
        # Terms and digests of the head that was read or confirmed last, and of every head sent since.
        self._known: set[tuple[int, str]] = set()
        self._is_unsure = False
        self.writes = 0

    def exists(self) -> bool:
        """Return whether a leader has ever saved anything here. Raises NodewrightError."""
        return self._maps.read(STATE_NAME) is not None

    def load(self) -> Loaded:
        """Return the saved memory, and take it over: from now on the saves of a former leader fail."""
        for _ in range(_MOST_TAKES):
            loaded = self.read()
            self._term = _term_of(self._head) + 1
            try:
                if self._head is None:
                    self.save_if_changed(Memory())
                else:
                    head = msgspec.structs.replace(self._head, data={**self._head.data, "term": str(self._term)})
                    self._head, self._known = self._maps.write(STATE_NAME, head), {_mark(head)}
            except ApiError as error:
                if not error.is_conflict:
                    raise
                continue
            return loaded
        where = f"ConfigMap {self._maps.namespace}/{STATE_NAME}"
        raise NodewrightError(f"{where} keeps being written by other processes")

    def read(self) -> Loaded:
        """Return the saved memory. If it cannot be used, return a warning; it stays in place until the next save."""
        self._head, self._digest, self._is_unsure = self._maps.read(STATE_NAME), "", False
        if self._head is None:
            return Loaded()
        try:
            raw = self._gather(self._head)
            memory = decode_memory(raw)
        except UnreadableState as error:
            where = f"ConfigMap {self._maps.namespace}/{STATE_NAME}"
            return Loaded(warning=f"the saved state in {where} is not used: {error}")
        self._digest = _digest(raw)
        return Loaded(memory=memory)

    def peek(self) -> Memory:
        """Return the saved memory and change nothing; raise NodewrightError."""
        head = self._maps.read(STATE_NAME)
        try:
            return Memory() if head is None else decode_memory(self._gather(head))
        except UnreadableState as error:
            where = f"ConfigMap {self._maps.namespace}/{STATE_NAME}"
            raise NodewrightError(f"{where}: saved state cannot be used: {error}") from error

    def save_if_changed(self, memory: Memory) -> None:
        """Save the memory if it changed. After a failed write, first read the head again: the write may have succeeded."""
        if self._is_unsure:
            self._look_again()
        raw = encode_memory(memory)
        digest = _digest(raw)
        if digest == self._digest:
            return
        packed = zlib.compress(raw, 6)
        shards = [packed[at : at + SHARD_BYTES] for at in range(0, len(packed), SHARD_BYTES)]
        if len(shards) > MOST_SHARDS:
            raise NodewrightError(f"the state is too large for ConfigMaps: {len(packed)} bytes, compressed")
        self._replace(digest, shards)

    def load_pause(self) -> Pause | None:
        text = self._read_pause()
        try:
            return None if text is None else _PAUSE.decode(text)
        except (msgspec.DecodeError, ValueError) as error:
            where = f"ConfigMap {self._maps.namespace}/{PAUSE_NAME}"
            raise NodewrightError(f"{where}: the pause cannot be understood ({error}); delete it to end it") from error

    def save_pause(self, pause: Pause | None) -> None:
        """Save a pause, which the running engine will obey; None ends it."""
        if pause is None:
            self._maps.delete(PAUSE_NAME)
            return
        held = self._maps.read(PAUSE_NAME)
        text = msgspec.json.encode(pause).decode()
        self._maps.write(PAUSE_NAME, StoredMap(data={_PAUSE_KEY: text}, version=held.version if held else ""))

    def _replace(self, digest: str, shards: list[bytes]) -> None:
        before = self._head or StoredMap()
        turn = "b" if before.data.get("turn") == "a" else "a"
        for number, shard in enumerate(shards[1:], start=1):
            self._write_shard(shard_name(turn, number), shard)
        head = StoredMap(
            data={"digest": digest, "shards": str(len(shards)), "turn": turn, "term": str(self._term)},
            binary_data={_SHARD_KEY: shards[0]},
            labels=before.labels,
            annotations=before.annotations,
            version=before.version,
        )
        self._known.add(_mark(head))
        try:
            self._head = self._maps.write(STATE_NAME, head)
        except ApiError:
            self._is_unsure = True
            raise
        self._digest, self._known = digest, {_mark(head)}
        self.writes += 1
        self._sweep(before)

    def _look_again(self) -> None:
        """Accept the present head if this process read or sent it before, or if it was deleted or damaged."""
        found = self._maps.read(STATE_NAME)
        if found is not None and _mark(found) not in self._known and self._is_whole(found):
            where = f"ConfigMap {self._maps.namespace}/{STATE_NAME}"
            raise NodewrightError(f"{where} was written by another process: there may be another leader")
        self._head, self._digest = found, _head_digest(found) if found is not None else ""
        self._is_unsure = False

    def _is_whole(self, head: StoredMap) -> bool:
        """Return whether all shards are as a leader wrote them: an editor may have changed them."""
        try:
            self._gather(head)
        except UnreadableState:
            return False
        return True

    def _gather(self, head: StoredMap) -> bytes:
        """Return the bytes of all shards that the head names; raise UnreadableState."""
        digest, count = _head_digest(head), head.data.get("shards", "")
        if not count.isdecimal() or not 1 <= int(count) <= MOST_SHARDS:
            raise UnreadableState("it does not say how many shards it has")
        packed = head.binary_data.get(_SHARD_KEY, b"")
        for number in range(1, int(count)):
            shard = self._maps.read(shard_name(head.data.get("turn", ""), number))
            if shard is None:
                raise UnreadableState(f"shard {number} is missing")
            packed += shard.binary_data.get(_SHARD_KEY, b"")
        raw = _unpack(packed)
        if _digest(raw) != digest:
            raise UnreadableState("it is damaged: the digest differs")
        return raw

    def _write_shard(self, name: str, shard: bytes) -> None:
        """Write one shard. A shard that a crash left behind is overwritten: no head names it."""
        held = self._maps.read(name)
        version = held.version if held is not None else ""
        self._maps.write(name, StoredMap(binary_data={_SHARD_KEY: shard}, version=version))

    def _sweep(self, before: StoredMap) -> None:
        """Delete the shards that the former head named. One that cannot be deleted only takes up space."""
        count = before.data.get("shards", "")
        if not count.isdecimal():
            return
        turn = before.data.get("turn", "")
        try:
            for number in range(1, min(int(count), MOST_SHARDS)):
                self._maps.delete(shard_name(turn, number))
        except ApiError:
            return


def read_pause_text(data: dict[str, str]) -> str | None:
    """Return the pause in the ConfigMap's data; without its key it counts as a pause that cannot be read."""
    return data.get(_PAUSE_KEY, "")


def shard_name(turn: str, number: int) -> str:
    """Return the name of one ConfigMap of the state; ``turn`` is ``a`` or ``b``."""
    return f"{STATE_NAME}-{'b' if turn == 'b' else 'a'}-{number}"


def _head_digest(head: StoredMap) -> str:
    return head.data.get("digest", "")


def _term_of(head: StoredMap | None) -> int:
    """Return the term of the leader that wrote the head; 0 if there is no head, or its term is not a number."""
    term = head.data.get("term", "") if head is not None else ""
    return int(term) if term.isdecimal() else 0


def _mark(head: StoredMap) -> tuple[int, str]:
    """Return the term and the digest, which together identify a head."""
    return _term_of(head), _head_digest(head)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, _MOST_BYTES)
    except zlib.error as error:
        raise UnreadableState(f"it is damaged: {error}") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise UnreadableState("it is damaged: it is too large or cut off")
    return raw
