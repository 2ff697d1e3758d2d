"""Azure on this machine: a server of our own that speaks what is used of Azure Resource Manager, over TLS."""

from azurecloud.certificates import Authority
from azurecloud.cloud import AzureCloud

__all__ = ["Authority", "AzureCloud"]
