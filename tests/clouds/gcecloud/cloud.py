"""One project of Compute Engine, and the hands that steer it from outside: stock-outs, quotas, throttling, lost answers,
operations that take their time, credentials that expire.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gcecloud.group import API, Mig, Name, Raw
from gcecloud.operations import STOCK_OUT, Operations, State
from gcecloud.schema import BadExchange, check_answer, read_request
from gcecloud.server import Answer, LostAnswer, Request, Server, refuse
from mishaps import Mishap, Mishaps, retry_headers

PROJECT, REGION, ZONE = "proj", "us-east1", "us-east1-b"
SECRET = "c2VjcmV0IHRoYXQgam9pbnMgdGhlIGNsdXN0ZXI"  # noqa: S105 - of no cluster in the world
_WRITES = (
    "instanceGroupManagers.createInstances",
    "instanceGroupManagers.deleteInstances",
    "instanceGroupManagerResizeRequests.cancel",
    "instanceGroupManagerResizeRequests.insert",
    "regionInstanceGroupManagers.createInstances",
    "regionInstanceGroupManagers.deleteInstances",
)


class GceCloud:
    """``calls`` counts what came in by operation; ``findings`` are exchanges that are not of the API."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.state = State(now=now, zones={REGION: ["us-east1-b", "us-east1-c", "us-east1-d"]})
        self.calls: Counter[str] = Counter()
        self.findings: list[str] = []
        self.denied_permissions: set[str] = set()
        self.tells_permissions = True
        self.lets_act_as_all = False
        self._operations = Operations(self.state)
        self.mishaps: Mishaps[Answer] = Mishaps()
        self._tokens = 0
        self._oldest_token = 1
        self._refuses_tokens = False
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self.server = Server(self._answer)

    @property
    def url(self) -> str:
        return f"http://{self.server.address}"

    @property
    def endpoints(self) -> dict[str, str]:
        """What the option of that name is set to."""
        return {"compute": self.url, "resource_manager": self.url}

    def close(self) -> None:
        self._closing.set()
        self.server.close()

    def write_credentials(self, folder: Path) -> Path:
        """A file of workload identity federation, whose tokens come from here."""
        (folder / "subject").write_text("who I am elsewhere")
        file = folder / "credentials.json"
        federation = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/of/this/machine",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{self.url}/token",
            "credential_source": {"file": str(folder / "subject")},
        }
        file.write_text(json.dumps(federation))
        return file

    # Making things

    def add_template(self, name: str = "", machine_type: str = "e2-standard-2", **properties: Any) -> str:
        """An instance template whose kube-env says ``variables``; answers its URL."""
        name = name or f"tmpl-{next(self.state.numbers)}"
        variables = properties.pop("variables", "os=linux;os_distribution=cos;kube_reserved=cpu=60m,memory=1Gi")
        kube_env = f"AUTOSCALER_ENV_VARS: {variables}\nKUBELET_KEY: {SECRET}\nTPM_BOOTSTRAP_KEY: {SECRET}\n"
        disk = {
            "boot": True,
            "type": "PERSISTENT",
            "initializeParams": {"diskSizeGb": "100", "diskType": "pd-balanced"},
        }
        whole = {
            "machineType": machine_type,
            "disks": [disk],
            "metadata": {"items": [{"key": "kube-env", "value": kube_env}]},
            **properties,
        }
        self.state.templates[f"global/{name}"] = {"name": name, "properties": whole}
        return f"{API}/projects/{PROJECT}/global/instanceTemplates/{name}"

    def add_group(self, name: str = "", *, size: int = 0, zone: str = ZONE, template: str = "", **settings: Any) -> str:
        """A group with running machines; answers its id. A regional one has a region for its ``zone``."""
        name = name or f"mig-{next(self.state.numbers)}"
        ref = Name(PROJECT, zone, name)
        zones = tuple(self.state.zones[zone]) if ref.is_regional else ()
        template = template or self.add_template()
        mig = Mig(ref=ref, template=template, base=f"gke-{name}", zones=zones, settings=settings)
        self.state.migs[ref] = mig
        for number in range(size):
            self.state.add_slot(mig, f"{mig.base}-{number:04d}")
        return ref.group_id

    def remove_group(self, group_id: str) -> None:
        del self.state.migs[self.group(group_id).ref]

    # What is there

    def group(self, group_id: str) -> Mig:
        with self._lock:
            self.state.settle()
            return next(mig for ref, mig in self.state.migs.items() if ref.group_id == group_id)

    def machines(self, group_id: str) -> frozenset[str]:
        return self.group(group_id).machines

    # What happens by itself

    def hold(self, group_id: str) -> None:
        """From now on machines come only by ``arrive``."""
        self.group(group_id).held = True

    def limit(self, group_id: str, machines: int, complaint: tuple[str, str] | None = STOCK_OUT) -> None:
        """There is room for so many machines: what is asked for beyond fails so, or never comes and nothing is said."""
        group = self.group(group_id)
        group.room, group.complaint = machines, complaint

    def end_requests(self, group_id: str, state: str, error: tuple[str, str] | None = None) -> None:
        """Resize requests that wait are over: FAILED with an error, or CANCELLED by another."""
        for request in self.group(group_id).resize_requests.values():
            if request["state"] == "ACCEPTED":
                request["state"] = state
                if error is not None:
                    request["status"] = {"error": {"errors": [{"code": error[0], "message": error[1]}]}}

    def set_target(self, group_id: str, size: int) -> None:
        """Another writer resizes the group; what is on its way goes first."""
        with self._lock:
            mig = self.group(group_id)
            while mig.target < size:
                self.state.add_slot(mig, f"{mig.base}-x{next(self.state.numbers)}")
            spare = sorted(mig.living, key=lambda slot: slot.is_there)[: max(0, mig.target - size)]
            for slot in spare:
                self.state.remove_slot(mig, slot.name)
            self.state.settle()

    def arrive(self, group_id: str) -> str:
        """One machine that was asked for is there; answers its provider id."""
        mig = self.group(group_id)
        slot = min((one for one in mig.living if not one.is_there), key=lambda one: one.failure is not None)
        slot.is_there, slot.failure = True, None
        return mig.instance(slot).provider_id

    def begin(self, group_id: str) -> str:
        """One machine that was asked for exists, and does not run yet; answers its provider id."""
        mig = self.group(group_id)
        slot = next(one for one in mig.living if not one.is_there and one.failure is None)
        slot.is_starting = True
        return mig.instance(slot).provider_id

    def fail(self, group_id: str, code: str = STOCK_OUT[0], message: str = STOCK_OUT[1]) -> str:
        """The creation of one machine fails, and goes on being tried; answers its provider id."""
        mig = self.group(group_id)
        slot = next(one for one in mig.living if not one.is_there and one.failure is None)
        slot.failure = (code, message)
        return mig.instance(slot).provider_id

    def recreate(self, group_id: str, *, status: str = "RUNNING") -> None:
        """Every machine is to be created again, and there is no room for it. ``status``: of the old one; empty: it is gone."""
        for slot in self.group(group_id).living:
            slot.recreating, slot.failure, slot.is_there, slot.status = True, STOCK_OUT, bool(status), status

    def vanish(self, provider_id: str) -> None:
        """A machine leaves its group for good, by another writer's hand."""
        for mig in self.state.migs.values():
            mig.slots = {
                name: slot for name, slot in mig.slots.items() if mig.instance(slot).provider_id != provider_id
            }

    # What goes wrong with calls

    def preempt(self, provider_id: str) -> None:
        """Compute Engine begins to preempt a machine."""
        _, _, project, zone, name = provider_id.split("/")
        where, number = f"{API}/projects/{project}/zones/{zone}", len(self.state.preemptions)
        self.state.preemptions.append(
            {
                "kind": "compute#operation",
                "name": f"systemevent-{number}",
                "operationType": "compute.instances.preempted",
                "status": "DONE",
                "progress": 100,
                "insertTime": datetime.fromtimestamp(self.state.now(), UTC).isoformat(),
                "zone": where,
                "targetLink": f"{where}/instances/{name}",
                "selfLink": f"{where}/operations/systemevent-{number}",
            }
        )

    def refuse_once(
        self, operation: str, status: int, reason: str, message: str = "said Google", retry_after: str = ""
    ) -> None:
        headers = retry_headers(retry_after, self.state.now())
        self.mishaps.plan(operation, refuse(status, reason, message, headers))

    def lose_answer_once(self, operation: str) -> None:
        """The next such call takes effect, and its answer is lost."""
        self.mishaps.plan(operation, Mishap.LOST)

    def stall_once(self, operation: str) -> None:
        """The next such call is never answered."""
        self.mishaps.plan(operation, Mishap.STALLS)

    def fail_operation_once(self, code: str, message: str) -> None:
        """The next write is accepted, and ends with an error."""
        self.state.operation_error = (code, message)

    def before_write(self, happening: Callable[[], object]) -> None:
        """Takes place when the next write of a size has arrived and was not looked at yet."""
        self.mishaps.before_write(happening)

    def expire_tokens(self, *, for_good: bool = False) -> None:
        """No token that was given out so far is good any more; ``for_good``: and there are no others."""
        self._oldest_token, self._refuses_tokens = self._tokens + 1, for_good

    def renew_tokens(self) -> None:
        self._refuses_tokens = False

    # How each call is answered

    def _answer(self, request: Request) -> Answer:
        if request.path == "/token":
            return self._give_token()
        if request.path.startswith("/computeMetadata/v1/"):
            return _metadata(request)
        if not self._is_authorised(request):
            return refuse(401, "authError", "Request had invalid authentication credentials.")
        if request.path.endswith(":testIamPermissions"):
            return self._tell_permissions(request)
        try:
            call = read_request(request.verb, request.path, request.query, request.json)
        except BadExchange as error:
            self.findings.append(str(error))
            return refuse(400, "badRequest", str(error))
        answer = self._play(call.route.name, call.asked)
        if answer.status == 200:
            try:
                check_answer(call.route, answer.content)
            except BadExchange as error:
                self.findings.append(str(error))
        return answer

    def _play(self, operation: str, asked: Raw) -> Answer:
        self.calls[operation] += 1
        if operation in _WRITES:
            self.mishaps.write_arrives()
        mishap = self.mishaps.take(operation)
        if mishap is Mishap.STALLS:
            self._closing.wait()
            raise LostAnswer
        if mishap is Mishap.GIVEN_UP:
            raise LostAnswer
        if isinstance(mishap, Answer):
            return mishap
        with self._lock:
            answer = self._operations.play(operation, asked)
        if mishap is Mishap.LOST:
            raise LostAnswer
        return answer

    def _give_token(self) -> Answer:
        self.calls["token"] += 1
        if self._refuses_tokens:
            return Answer(400, {"error": "invalid_grant", "error_description": "The subject token has expired."})
        self._tokens += 1
        token = {"access_token": f"token-{self._tokens}", "expires_in": 3600, "token_type": "Bearer"}
        return Answer(200, {**token, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"})

    def _is_authorised(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" token-")
        return kind == "Bearer" and token.isdigit() and int(token) >= self._oldest_token

    def _tell_permissions(self, request: Request) -> Answer:
        self.calls["projects.testIamPermissions"] += 1
        if not self.tells_permissions:
            return refuse(403, "forbidden", "Cloud Resource Manager API has not been used in project 123456 before.")
        asked = request.json["permissions"]
        denied = self.denied_permissions | (set() if self.lets_act_as_all else {"iam.serviceAccounts.actAs"})
        return Answer(200, {"permissions": [one for one in asked if one not in denied]})


def _metadata(request: Request) -> Answer:
    told = {"project/project-id": PROJECT, "instance/zone": f"projects/123456/zones/{ZONE}"}
    key = request.path.removeprefix("/computeMetadata/v1/")
    return Answer(200, told[key]) if key in told else refuse(404, "notFound", key)
