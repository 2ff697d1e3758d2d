"""What is wrong with a request, in words that say what to change. CA notices little of it."""

from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.planner.provisioning_requests.parameters import find_bad_parameter

# As the CustomResourceDefinition has it: a cluster with an older one lets more through.
_MOST_SETS, _MOST_PODS = 32, 16_384


def find_problem(request: ProvisioningRequest) -> str:
    """Why nothing can be looked for; empty: nothing is wrong."""
    sets = request.spec.pod_sets
    if not 1 <= len(sets) <= _MOST_SETS:
        return f"spec.podSets has {len(sets)} entries: it must have 1 to {_MOST_SETS}"
    for number, pod_set in enumerate(sets):
        if not 1 <= pod_set.count <= _MOST_PODS:
            return f"spec.podSets[{number}].count is {pod_set.count}: it must be 1 to {_MOST_PODS}"
        if not pod_set.pod_template_ref.name:
            return f"spec.podSets[{number}].podTemplateRef.name is empty: it must name a PodTemplate"
    return find_bad_parameter(request.spec.parameters)
