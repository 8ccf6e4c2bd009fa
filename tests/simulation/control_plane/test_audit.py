"""Actions on pods are read from lines of the audit log as the API server writes them."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from simulation.control_plane.audit import AuditLog, find_duplicates, read_audit_log


def _event(
    at_s: float,
    verb: str,
    name: str | None,
    *,
    subresource: str | None = None,
    user: str = "loadstream-bind",
    status: int = 201,
    uid: str | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """Return an event whose response was sent 10 ms after the request."""
    about = {"resource": "pods", "namespace": "shop", "apiVersion": "v1"}
    about |= {"name": name} if name else {}
    about |= {"subresource": subresource} if subresource else {}
    about |= {"uid": uid} if uid else {}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/shop/pods/{name}",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": about,
        "responseStatus": {"metadata": {}, "code": status},
        "requestReceivedTimestamp": f"2026-11-22T10:00:{at_s:09.6f}Z",
        "stageTimestamp": f"2026-11-22T10:00:{at_s + 0.01:09.6f}Z",
        **parts,
    }


def _creation(at_s: float, name: str, uid: str, generated: bool = False) -> dict[str, Any]:
    response = {"kind": "Pod", "metadata": {"namespace": "shop", "name": name, "uid": uid}}
    requested_name = None if generated else name
    return _event(at_s, "create", requested_name, user="admin", responseObject=response)


def _binding(at_s: float, name: str, node: str = "n1", **parts: Any) -> dict[str, Any]:
    body = {
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {"loadstream/decision": "d1"}},
        "target": {"kind": "Node", "name": node},
    }
    return _event(at_s, "create", name, subresource="binding", requestObject=body, **parts)


def _eviction(at_s: float, name: str, uid: str | None = None, **parts: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": uid}} if uid else {}
    options |= {"dryRun": ["All"]} if parts.pop("dry", False) else {}
    body = {"kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    return _event(
        at_s, "create", name, subresource="eviction",
        **{"user": "loadstream-evict", "requestObject": body, **parts},
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def _read(log: Path, *events: dict[str, Any]) -> AuditLog:
    log.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    return read_audit_log(log)


def test_a_pod_has_the_bindings_evictions_and_deletions_of_its_life(log: Path) -> None:
    log_summary = _read(
        log,
        _creation(1, "web", "u1"),
        _binding(2, "web"),
        _eviction(3, "web", "u1"),
        _event(4, "delete", "web", user="kwok", status=200),
    )
    (pod,) = log_summary.pods
    assert (pod.namespace, pod.name, pod.uid) == ("shop", "web", "u1")
    assert [(act.user, act.node) for act in pod.bindings] == [("loadstream-bind", "n1")]
    assert pod.bindings[0].annotations == {"loadstream/decision": "d1"}
    assert [act.user for act in pod.evictions] == ["loadstream-evict"]
    assert [act.user for act in pod.deletions] == ["kwok"]
    assert log_summary.count_by_user("evictions") == {"loadstream-evict": 1}
    assert find_duplicates(log_summary.pods) == []


def test_a_reused_name_is_another_pod(log: Path) -> None:
    log_summary = _read(
        log,
        _creation(1, "db-0", "u1", generated=True),
        _binding(2, "db-0"),
        _eviction(3, "db-0"),
        _creation(4, "db-0", "u2", generated=True),
        _binding(5, "db-0", "n2"),
        _eviction(6, "db-0"),
    )
    assert [(pod.uid, len(pod.bindings), len(pod.evictions)) for pod in log_summary.pods] == [
        ("u1", 1, 1),
        ("u2", 1, 1),
    ]
    assert find_duplicates(log_summary.pods) == []


@pytest.mark.parametrize(
    ("twice", "message"),
    [
        ([_binding(2, "web"), _binding(3, "web", "n2")], "was bound 2 times"),
        ([_eviction(2, "web"), _eviction(3, "web", "u1")], "was evicted 2 times"),
    ],
)
def test_a_repeated_action_is_a_fault(log: Path, twice: list[Any], message: str) -> None:
    (fault,) = find_duplicates(_read(log, _creation(1, "web", "u1"), *twice).pods)
    assert message in fault
    assert "shop/web (u1)" in fault


def test_refused_requests_and_dry_runs_are_not_actions(log: Path) -> None:
    log_summary = _read(
        log,
        _creation(1, "web", "u1"),
        _binding(2, "web", status=409),
        _binding(3, "web", status=409),
        _eviction(4, "web", status=429),
        _eviction(5, "web", dry=True),
        _eviction(6, "web", requestURI="/api/v1/namespaces/shop/pods/web/eviction?dryRun=All"),
    )
    (pod,) = log_summary.pods
    assert (pod.bindings, pod.evictions) == ([], [])
    assert log_summary.refused == {
        ("loadstream-bind", "bindings", 409): 2,
        ("loadstream-evict", "evictions", 429): 1,
    }


def test_an_incomplete_last_line_is_kept_and_a_truncated_line_is_counted(log: Path) -> None:
    whole = orjson.dumps(_creation(1, "web", "u1"))
    log.write_bytes(whole[:50] + b"\n" + whole + b"\n" + whole[:70])
    log_summary = read_audit_log(log)
    assert [pod.uid for pod in log_summary.pods] == ["u1"]
    assert log_summary.unreadable == 1
    assert read_audit_log(log.with_name("none")) == AuditLog((), {}, {}, 0)
