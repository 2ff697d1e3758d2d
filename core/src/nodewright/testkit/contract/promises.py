"""What the provider contract promises, one sentence each: every check belongs to one."""

from enum import Enum


class Promise(Enum):
    """In the order of a certificate."""

    REFRESH = "Reads answer from the last refresh, and for a group with work in flight from no cache."
    IDENTITY = "Groups and machines keep their ids; every machine that exists is listed, once."
    VALUES = "Answers are complete values of the contract's types, of empty groups too."
    CAPABILITIES = "What is declared is there; what is not is absent, and what does not hold is switched off openly."
    REFUSALS = "A refusal is an error of nodewright's tree; an unknown group is NodeGroupNotFound."
    EXPECTED_TARGET = (
        "A write names the target it starts from: if somebody else moved it, nothing happens but TargetChanged."
    )
    ACCEPTED = "A resize answers how much was accepted, the target shows it at once, and never beyond the maximum."
    ONCE = "A write that is sent twice takes effect once."
    NOTHING_DIES = "Lowering a target never ends a machine, whatever arrives and whoever resizes meanwhile."
    OVERLAP = "Calls that are said to be able to overlap do."
    DELETION = "Machines are deleted by id only, exactly those, and the target falls by as many."
    FAILURES = "A failed creation is told at the next refresh, with the cloud's own code, once, until it is deleted."
    ATOMIC = "An atomic resize grants everything or nothing."
    OPTIONS = "Options of a group start from the defaults."
    PRICES = "Prices are proportional to time."
    ACCELERATORS = "Accelerators are told by a label and by resource names."
    SIMILARITY = "Labels by which groups are compared are keys, each named once."
    AUTOPROVISIONING = "Groups are made empty from known machine types, and only those are removed."
    PROVISIONING = "Provisioning classes have names, what they do not serve is refused, and a request is served once."
    DIAGNOSIS = "A diagnosis looks and does not touch, and tells what it cost."
    SIMULATION = "A cloud in memory tells the truth about its machines."

    @property
    def key(self) -> str:
        """The promise's name for programs."""
        return self.name.lower()

    @property
    def sentence(self) -> str:
        return self.value
