"""Generates the ``_pb2`` modules from the two .proto files; ``python generate.py [FOLDER]`` writes them to the folder.

They are kept in the repository: modules generated at build time would need the protobuf version of that day.
"""

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).parent / "src"
WIRE = Path("nodewright_externalgrpc") / "wire"


def main(folder: Path) -> int:
    include = ["-I", str(SOURCE), "-I", str(files("grpc_tools") / "_proto")]
    protos = [str(SOURCE / WIRE / name) for name in ("externalgrpc.proto", "node.proto")]
    code: int = protoc.main(["protoc", *include, f"--python_out={folder}", *protos])
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else SOURCE))
