"""AWS on this machine: moto's server as a process of its own, and a proxy before it that plays what moto lacks."""

from awscloud.cloud import AwsCloud
from awscloud.moto_server import MotoServer

__all__ = ["AwsCloud", "MotoServer"]
