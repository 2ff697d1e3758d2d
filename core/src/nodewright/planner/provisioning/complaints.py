"""What is wrong with a request, in words that say what to change. CA notices little of it."""

from nodewright.model.provisioning_request import NO_RETRY, VALID_UNTIL_SECONDS, ProvisioningRequest
from nodewright.planner.provisioning.housekeeping import read_seconds

# As the CustomResourceDefinition has it: a cluster with an older one lets more through.
_MOST_SETS, _MOST_PODS = 32, 16_384


def find_problem(request: ProvisioningRequest) -> str:
    """Why nothing can be looked for; empty: nothing is wrong."""
    sets, parameters = request.spec.pod_sets, request.spec.parameters
    if not 1 <= len(sets) <= _MOST_SETS:
        return f"spec.podSets has {len(sets)} entries: it must have 1 to {_MOST_SETS}"
    for number, pod_set in enumerate(sets):
        if not 1 <= pod_set.count <= _MOST_PODS:
            return f"spec.podSets[{number}].count is {pod_set.count}: it must be 1 to {_MOST_PODS}"
        if not pod_set.pod_template_ref.name:
            return f"spec.podSets[{number}].podTemplateRef.name is empty: it must name a PodTemplate"
    if parameters.get(NO_RETRY, "false") not in ("true", "false"):
        return f"parameter {NO_RETRY} must be true or false"
    try:
        read_seconds(parameters.get(VALID_UNTIL_SECONDS, "1"))
    except ValueError:
        return f"parameter {VALID_UNTIL_SECONDS} must be a number of seconds above 0, or a duration like 2h"
    return ""
