"""Memory in ConfigMaps: compressed, cut into shards that the API server takes, replaced as a whole or not at all.

The ConfigMap ``nodewright-state`` is the head: it holds the first shard, the digest of everything, and which shards
follow. Those are ``nodewright-state-a-1`` and so on or, every other time, ``-b-1``: they are written before the head
that names them, so that a head always finds its shards, and what no head names any more is deleted after it. Their
names are known beforehand, so that a role can list them. The head is replaced only in the version that was read or
written last: a process that is no longer the leader, or never was, cannot write over it. A new leader first writes the head as
it is with a term of its own, one above the last: what a former leader still has on its way fails from then on.
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
# No saved state is larger; a forged one may claim to be.
_MOST_BYTES = 256 * 1024 * 1024
MOST_SHARDS = 8
# So often the head may change while a new leader takes it over.
_MOST_TAKES = 5
_PAUSE = msgspec.json.Decoder(Pause)

# The text of the pause's ConfigMap as it was last seen; None: there is none. Raises NodewrightError.
ReadPause = Callable[[], str | None]


class ConfigMapStore:
    """Implements StateStore. ``read_pause`` comes from a cache: a pause is looked for in every loop."""

    def __init__(self, maps: ConfigMaps, read_pause: ReadPause) -> None:
        self._maps = maps
        self._read_pause = read_pause
        self._head: StoredMap | None = None
        self._digest = ""
        self._term = 0
        # Marks of what was found and of every head sent since the last that is known to have been taken.
        self._known: set[tuple[int, str]] = set()
        self._is_unsure = False
        self.writes = 0

    def exists(self) -> bool:
        """Return whether a leader has ever saved anything here. Raises NodewrightError."""
        return self._maps.read(STATE_NAME) is not None

    def load(self) -> Loaded:
        """Take over what is saved: no save of a former leader is accepted any more."""
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
        raise NodewrightError(f"{where} is written by other processes all the time")

    def read(self) -> Loaded:
        """Return what is saved. Memory that cannot be used stays where it is until the next save, under a warning."""
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
        """Return what is saved and change nothing; raise NodewrightError."""
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
        """Order a pause, or end it, for whichever engine runs."""
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
        """Accept the head as it is now if it holds what was read or sent before, or if it was deleted or damaged."""
        found = self._maps.read(STATE_NAME)
        if found is not None and _mark(found) not in self._known and self._is_whole(found):
            where = f"ConfigMap {self._maps.namespace}/{STATE_NAME}"
            raise NodewrightError(f"{where} was written by another process: there may be another leader")
        self._head, self._digest = found, _head_digest(found) if found is not None else ""
        self._is_unsure = False

    def _is_whole(self, head: StoredMap) -> bool:
        """Return whether all parts are as a leader writes them; an editor may have changed them."""
        try:
            self._gather(head)
        except UnreadableState:
            return False
        return True

    def _gather(self, head: StoredMap) -> bytes:
        """Return the bytes of all parts that the head names; raise UnreadableState."""
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
        """Write a part of the state. A part that a crash left behind is overwritten: no head names it."""
        held = self._maps.read(name)
        version = held.version if held is not None else ""
        self._maps.write(name, StoredMap(binary_data={_SHARD_KEY: shard}, version=version))

    def _sweep(self, before: StoredMap) -> None:
        """Delete the shards that the former head named; those that stay by a failure only take room."""
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
    """Return which leader wrote the head; one that no head names, or an editor broke, is 0."""
    term = head.data.get("term", "") if head is not None else ""
    return int(term) if term.isdecimal() else 0


def _mark(head: StoredMap) -> tuple[int, str]:
    """Return what tells heads apart that leaders write."""
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
