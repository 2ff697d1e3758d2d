"""The image of deploy/Dockerfile, built by buildah on a Debian of its own, without a registry; then it meets the control plane.

Debian with Python stands in for the base image ``python:…-slim``. On top comes the image of a plugin, by the recipe that
``nodewright provider new`` writes; an author without a checkout builds it on Python alone, with wheels of nodewright.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.accounts import Account
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command, wait_until
from tests.e2e.helm import render
from tests.e2e.rights import path_of

ROOT = Path(__file__).parents[2]
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
# The longest step installs the packages of a provider.
_STEP_SECONDS = 900
# How this machine reaches a package index, as pip on it does.
_PIP_FILES = ("/etc/pip.conf", "~/.config/pip", "~/.pip", "/etc/ssl/certs", os.environ.get("PIP_FIND_LINKS", ""))
Buildah = Callable[..., str]
_RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"
_PODS = "/api/v1/namespaces/default/pods"


def run(*command: str | Path) -> str:
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=_STEP_SECONDS,
        env={**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"},
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """``buildah("images")``, with a store of its own in which Debian is the base image."""
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME") if Path("/etc/debian_version").exists() else None
    if missing or suite is None or os.geteuid():
        pytest.skip("an image needs root on a Debian with buildah and mmdebstrap")
    folder = tmp_path_factory.mktemp("images")

    def call(*words: str | Path) -> str:
        return run("buildah", "--root", folder / "store", "--runroot", folder / "run", *words)

    root = folder / "debian.tar"
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite, root)
    container = call("from", "scratch").strip()
    mounted = Path(call("mount", container).strip())
    run("tar", "--extract", f"--file={root}", f"--directory={mounted}")
    root.unlink()
    (mounted / "usr/bin/python").symlink_to("python3")
    call("umount", container)
    call("commit", "--rm", container, "docker.io/library/python:debian-slim")
    yield call
    # Buildah leaves the folder of its layers mounted. Later runs of pytest could not delete it.
    subprocess.run(["umount", "--quiet", folder / "store/overlay"], check=False)


def build(buildah: Buildah, tag: str, *words: str | Path) -> str:
    """Build with the network and pip's configuration of this machine; return what the steps print."""
    there = [str(path) for name in _PIP_FILES if name and (path := Path(name).expanduser()).exists()]
    volumes = [f"--volume={path}:{path}:ro" for path in there]
    environ = [f"--env={name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]
    return buildah("build", "--pull=never", *volumes, *environ, "--tag", tag, *words)


def start(buildah: Buildah, image: str, folder: Path, *command: str) -> str:
    """Run a command in a container as the image's user, without capabilities; ``folder`` is where the chart mounts its settings."""
    container = buildah("from", "--pull=never", image).strip()
    user = "--user=65532:65532"
    return buildah("run", user, "--cap-drop=all", f"--volume={folder}:/etc/nodewright:ro", container, "--", *command)


def make_folder(plane: ControlPlane, tmp_path: Path, token: str = "") -> Path:
    """Return a folder with a kubeconfig that holds in a container. ``token``: it is that user's."""
    folder = tmp_path / "settings"
    folder.mkdir()
    kubeconfig = json.loads(plane.kubeconfig("nodewright").read_text())
    for cluster in kubeconfig["clusters"]:
        shutil.copy(cluster["cluster"]["certificate-authority"], folder / "authority.pem")
        cluster["cluster"]["certificate-authority"] = "/etc/nodewright/authority.pem"
    for user in kubeconfig["users"] if token else ():
        user["user"] = {"token": token}
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    return folder


@contextmanager
def install(plane: ControlPlane, manifests: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Make the service account of the chart and its rights, as helm does; yield a token of the account."""
    name = manifests["ServiceAccount"]["metadata"]["name"]
    made = [(_ACCOUNTS, manifests["ServiceAccount"])]
    made += [(path_of(manifests[kind]), manifests[kind]) for kind in _RIGHTS if kind in manifests]
    for path, document in made:
        plane.request(path, method="POST", body=document)
    try:
        yield Account(plane, name).issue()[0]
    finally:
        for path, document in made:
            plane.request(f"{path}/{document['metadata']['name']}", method="DELETE")


def is_unschedulable(plane: ControlPlane, name: str) -> bool:
    conditions = plane.request(f"{_PODS}/{name}")["status"].get("conditions", ())
    return any(one.get("reason") == "Unschedulable" for one in conditions)


def test_the_image_of_an_author_without_a_checkout(buildah: Buildah, clean: ControlPlane, tmp_path: Path) -> None:
    """The steps of the guide: the package, an image on Python alone, the chart's rights and arguments, a dry run."""
    package = tmp_path / "plugin"
    assert run_command("provider", "new", "blue-sky", "--folder", str(package)).returncode == 0
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", package / "wheels", ROOT / "core")
    image = "nodewright-blue-sky:1.0.0"
    build(buildah, image, "--build-arg=NODEWRIGHT=python:debian-slim", package)
    assert buildah("inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", image).strip() == "[nodewright]"

    values = yaml.safe_load((package / "values.yaml").read_text())
    # A user of the tests has the chart's own names.
    rendered = render({**values, "fullnameOverride": "sky"}, chart=package / "chart")
    manifests = {document["kind"]: document for document in rendered}
    [container] = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image
    pod = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "3"}}}]}
    clean.request(_PODS, method="POST", body={"metadata": {"name": "big"}, "spec": pod})
    wait_until(lambda: is_unschedulable(clean, "big"), "verdict of kube-scheduler")
    with install(clean, manifests) as token:
        folder = make_folder(clean, tmp_path, token)
        (folder / "settings.yaml").write_text(manifests["ConfigMap"]["data"]["settings.yaml"])
        chosen = [word for word in container["args"] if not word.startswith("--address=")]
        chosen += ["--once", "--kubeconfig=/etc/nodewright/kubeconfig", "--address=127.0.0.1:0"]
        chosen += ["--debug-address=127.0.0.1:0"]
        said = start(buildah, image, folder, "sh", "-c", f"nodewright {' '.join(chosen)} 2>&1")
    [planned] = [json.loads(line)["action"] for line in said.splitlines() if "would be done" in line]
    assert (planned["type"], planned["group"], planned["target"]) == ("IncreaseSize", "blue-sky/web", 1)
    assert planned["pods"] == ["default/big"]
    assert "orbidden" not in said


def start_read_only(buildah: Buildah, image: str, folder: Path, *command: str) -> None:
    """Run a command as the chart does: the image's user, no capabilities, a read-only root, and an empty /tmp."""
    container = buildah("from", "--pull=never", image).strip()
    mounted = buildah("mount", container).strip()
    (Path(mounted) / "etc/nodewright").mkdir(exist_ok=True)
    script = """
        mount --bind "$1" "$1"
        mount --bind "$2" "$1/etc/nodewright"
        mount -t tmpfs tmpfs "$1/tmp"
        mount -o remount,bind,ro "$1"
        root=$1; shift 2
        if touch "$root/opt/written" 2>/dev/null; then echo "the root is not read-only" >&2; exit 1; fi
        exec chroot "$root" setpriv --reuid=65532 --regid=65532 --clear-groups --inh-caps=-all --bounding-set=-all \
            --no-new-privs "$@"
    """
    entered = ["unshare", "--mount", "sh", "-euc", script, "sh", mounted, str(folder)]
    environ = {"PATH": "/opt/nodewright/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
    ended = subprocess.run([*entered, *command], env=environ, capture_output=True, text=True, check=False)
    buildah("umount", container)
    assert ended.returncode == 0, ended.stderr


def test_the_image_and_that_of_a_plugin(buildah: Buildah, clean: ControlPlane, tmp_path: Path) -> None:
    arguments = ("--build-arg=PYTHON=debian", "--build-arg=PROVIDERS=fake")
    said = build(buildah, "nodewright:0.1.0", *arguments, "-f", ROOT / "deploy/Dockerfile", ROOT)
    assert "nodewright-fake" in said

    folder = make_folder(clean, tmp_path)
    groups = [{"name": "small", "max_size": 3, "cpu": 4, "memory": "16Gi"}]
    (folder / "settings.yaml").write_text(yaml.safe_dump({"providers": {"fake": {"options": {"groups": groups}}}}))
    daemon = [
        "nodewright",
        "run",
        "--kubeconfig=/etc/nodewright/kubeconfig",
        "--config=/etc/nodewright/settings.yaml",
        "--once",
    ]
    daemon += ["--address=127.0.0.1:0", "--debug-address=127.0.0.1:0"]
    start_read_only(buildah, "nodewright:0.1.0", folder, *daemon)
    status = clean.request("/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status")
    assert [group["name"] for group in yaml.safe_load(status["data"]["status"])["nodeGroups"]] == ["small"]

    timed = f"du -sm /opt/nodewright; since=$(date +%s%N); {' '.join(daemon)} >/dev/null 2>&1"
    told = start(buildah, "nodewright:0.1.0", folder, "sh", "-ec", f"{timed}; echo $(($(date +%s%N) - since))")
    megabytes, *_, nanoseconds = told.split()
    print(
        f"{megabytes} MiB beyond the base; {int(nanoseconds) / 1e9:.1f} s from the start to the end of the first loop"
    )

    written = run_command("provider", "new", "blue-sky", "--folder", str(tmp_path / "plugin"))
    assert written.returncode == 0, written.stderr
    assert "blue-sky" in build(buildah, "nodewright-blue-sky:1.0.0", tmp_path / "plugin")
    assert "blue-sky" in start(buildah, "nodewright-blue-sky:1.0.0", folder, "nodewright", "providers")
