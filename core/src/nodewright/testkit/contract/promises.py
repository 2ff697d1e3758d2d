"""The promises of the provider contract, one sentence each. Every check belongs to one promise."""

from enum import Enum, StrEnum


class Level(StrEnum):
    """The reach of a certificate; each level includes those before it.

    ``core``: the provider is safe while nothing goes wrong. ``failures``: failures and refusals are reported with
    the right kind of error. ``autoscaler-safe``: restarts, races, late clouds and strangers cost no machine either.
    ``complete``: everything declared.
    """

    CORE = "core"
    FAILURES = "failures"
    AUTOSCALER_SAFE = "autoscaler-safe"
    COMPLETE = "complete"


class Promise(Enum):
    """The promises, in the order in which a certificate lists them."""

    REFRESH = "Reads return the state of the last refresh; refresh reads groups with work in progress without a cache."
    IDENTITY = "Groups and machines keep their ids; every machine that exists is listed, once."
    VALUES = "Hooks return complete values of the contract's types, for empty groups too."
    CAPABILITIES = "Only declared capabilities are offered, and groups list those that are switched off, with a reason."
    REFUSALS = "A refusal is an error of nodewright.model.errors; for an unknown group it is NodeGroupNotFound."
    EXPECTED_TARGET = (
        "A write whose expected_target is not the group's target raises TargetChanged and changes nothing."
    )
    ACCEPTED = "A resize returns how much was accepted, target_size shows it at once, and never exceeds the maximum."
    ONCE = "A write that is sent twice takes effect once."
    NOTHING_DIES = "Lowering a target never ends a machine, even if machines arrive or others resize at that time."
    RESTART = "A new process sees what the one before saw, and makes nothing twice."
    LATENESS = "Where listings are late, settles_after says by how much, or the provider itself bridges it."
    DEADLINES = "A call ends by itself before its deadline, and a slow cloud is waited for."
    CLOCK = "Time is that of the context's clock alone."
    STRANGERS = "Groups and machines of others are not listed and not changed."
    LIMITS = "The limits that the operator configured are those that are listed."
    NODES = "The id of a machine is its node's providerID, and the template describes the node that a machine becomes."
    OVERLAP = "If parallel_calls is declared, calls may overlap."
    DELETION = "Exactly the machines with the given ids are deleted, and the target falls by their number."
    FAILURES = (
        "A failed creation is reported once, from the next refresh until it is deleted, with the cloud's own code."
    )
    ATOMIC = "An atomic resize grants everything or nothing."
    OPTIONS = "Options of a group start from the defaults."
    PRICES = "Prices are above zero and change only with a refresh."
    ACCELERATORS = "The provider names the label and the resources of accelerators."
    SIMILARITY = "Labels for comparing groups are keys, each named once."
    AUTOPROVISIONING = "Groups are created empty from known machine types, and only such groups are deleted."
    PROVISIONING = "Provisioning classes have names, unknown classes are refused, and a request is provisioned once."
    INTERRUPTIONS = "A notice names an existing machine, and is told until the machine is gone."
    DIAGNOSIS = "A diagnosis changes nothing, and API calls are counted."
    SIMULATION = "A cloud in memory reports its machines as they are."

    @property
    def key(self) -> str:
        """Return the promise's name for programs, in lower case."""
        return self.name.lower()

    @property
    def sentence(self) -> str:
        return self.value

    @property
    def level(self) -> Level:
        """Return the level that needs this promise."""
        return _LEVELS.get(self.name, Level.COMPLETE)


_LEVELS = {
    **dict.fromkeys(
        (
            "REFRESH",
            "IDENTITY",
            "VALUES",
            "CAPABILITIES",
            "EXPECTED_TARGET",
            "ACCEPTED",
            "ONCE",
            "DELETION",
            "LIMITS",
            "NOTHING_DIES",
        ),
        Level.CORE,
    ),
    **dict.fromkeys(("REFUSALS", "FAILURES"), Level.FAILURES),
    **dict.fromkeys(
        ("RESTART", "LATENESS", "DEADLINES", "CLOCK", "STRANGERS", "NODES", "OVERLAP"), Level.AUTOSCALER_SAFE
    ),
}
