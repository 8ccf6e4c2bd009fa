"""Checks of the API server: whether it answers, its clock, the rights of processes, its pods.

Kubernetes itself checks the rights of the given credentials (SelfSubjectAccessReview), or of the service
accounts of a Helm release (SubjectAccessReview).
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import yaml

import connectors.kubernetes
from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.health import SKEW_MAX_MS
from connectors.kubernetes.sources.http import AnswerTimes, estimate_skew_ms
from connectors.kubernetes.watch.state_watch import KubernetesWatch, WatchBroken
from connectors.process import wall_clock
from connectors.units import ago_text, names_text
from loadstream.doctor.findings import Finding, error, ok, warning
from loadstream.doctor.pods import check_pods
from schemas.messages.pods import Pod, PodLifecycle

_RIGHTS = Path(connectors.kubernetes.__file__).parent / "rights.yaml"
_REVIEWS = "/apis/authorization.k8s.io/v1"
#: API groups of programs that not every cluster has.
_OPTIONAL = ("metrics.k8s.io", "slo.koordinator.sh", "scheduling.koordinator.sh")
#: Rights that a line names.
_NAMED_MAX = 4
#: Time limit for listing nodes and pods; 5,000 nodes take a third of it.
LIST_S = 90.0

#: Group, resource with subresource, name of the object or empty, verb.
Right = tuple[str, str, str, str]


async def check_server(server: ApiServer) -> list[Finding]:
    """Check whether the API server answers, and compare its clock with this machine's."""
    requested_at_ms = wall_clock.now_ms()
    try:
        answer = await server.send("GET", "/version")
    except (AccessError, ApiUnreachable) as failure:
        advice = "Check the kubeconfig's server and certificate-authority, and the network"
        return [error("API server", str(failure), advice)]
    if answer.status == 401:
        text = f"{server.access.origin}: the credentials are refused"
        return [error("API server", text, "Renew the token or the certificate of the kubeconfig")]
    date = answer.headers.get("Date")
    date_ms = int(parsedate_to_datetime(date).timestamp() * 1_000) if date else None
    skew = estimate_skew_ms(AnswerTimes(requested_at_ms, wall_clock.now_ms(), date_ms), None) or 0
    if abs(skew) > SKEW_MAX_MS:
        order = "ahead of" if skew > 0 else "behind"
        text = f"the API server's clock is {ago_text(abs(skew))} {order} this machine's"
        return [error("clock", text, "Let NTP set both; samples from the future are refused")]
    return [ok("API server", f"{server.access.origin}: it answers, and its clock agrees")]


async def check_rights(
    server: ApiServer, duties: Collection[str], release: tuple[str, str] | None, *, required: bool
) -> list[Finding]:
    """Find missing rights of the server's credentials, or of a Helm release (namespace and name).

    With `required`, a missing right is an error, because the process uses these credentials.
    """
    findings = []
    for duty in duties:
        user = f"system:serviceaccount:{release[0]}:{release[1]}-{duty}" if release else None
        rights = list(_list_rights(duty))
        try:
            if release and duty != "watch" and await _is_not_installed(server, release, duty):
                findings.append(
                    ok("rights", f"the release does not run {duty}: no service account")
                )
                continue
            allowed = await asyncio.gather(*(_is_allowed(server, user, right) for right in rights))
        except (ApiError, ApiUnreachable) as failure:
            findings.append(error("rights", f"the API server did not check them: {failure}"))
            break
        missing = [right for right, may in zip(rights, allowed, strict=True) if not may]
        findings.append(_grade(duty, user or server.access.origin, missing, required=required))
    return findings


def _grade(duty: str, user: str, missing: list[Right], *, required: bool) -> Finding:
    if not missing:
        return ok("rights", f"{user} may do everything that {duty} needs")
    needed = [right for right in missing if right[0] not in _OPTIONAL and not right[2]]
    missing_text = names_text([_describe(right) for right in needed or missing], _NAMED_MAX)
    text = f"{user} lacks for {duty}: {missing_text}"
    if not needed:
        return warning("rights", text, "Only metrics-server and Koordinator's objects need them")
    advice = f"Bind the role loadstream-{duty} of rights.yaml (`helm template ... -s templates/rights.yaml`)"
    return (error if required else warning)("rights", text, advice)


async def _is_not_installed(server: ApiServer, release: tuple[str, str], duty: str) -> bool:
    namespace, name = release
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}-{duty}"
    return (await server.send("GET", path)).status == 404


def _list_rights(duty: str) -> Iterator[Right]:
    for role in yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8")):
        for rule in role["rules"] if role["metadata"]["name"] == f"loadstream-{duty}" else ():
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", ("",)):
                        for verb in rule["verbs"]:
                            yield group, resource, name, verb


def _describe(right: Right) -> str:
    group, resource, name, verb = right
    return f"{verb} {resource}{f'.{group}' if group else ''}{f' {name}' if name else ''}"


async def _is_allowed(server: ApiServer, user: str | None, right: Right) -> bool:
    group, full_resource, name, verb = right
    resource, _, subresource = full_resource.partition("/")
    attributes = {
        "group": group, "resource": resource, "subresource": subresource, "name": name, "verb": verb,
    }  # fmt: skip
    spec: Mapping[str, Any] = {"resourceAttributes": attributes}
    kind = "selfsubjectaccessreviews"
    if user is not None:
        kind, spec = "subjectaccessreviews", {**spec, "user": user}
    answer = await server.send("POST", f"{_REVIEWS}/{kind}", body={"spec": spec})
    if not answer.ok:
        raise answer.error()
    return bool(answer.json()["status"]["allowed"])


async def scan_pods(server: ApiServer, cluster: str) -> list[Finding]:
    """Count the cluster's pods that loadstream would refuse; no process of loadstream has to run."""
    watch = KubernetesWatch(cluster, server)
    pods: list[Pod] = []
    try:
        async with asyncio.timeout(LIST_S), aclosing(watch.full_list("doctor")) as messages:
            async for _, message in messages:
                if isinstance(message, PodLifecycle):
                    pods.append(message.pod)
    except (TimeoutError, WatchBroken) as failure:
        reasons = [state.why for state in watch.health() if state.why] or [str(failure)]
        return [warning("pods", f"nodes and pods cannot be listed: {reasons[0]}")]
    finally:
        await watch.close()
    return list(check_pods(pods))
