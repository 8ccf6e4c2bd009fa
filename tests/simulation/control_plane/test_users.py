"""Rights of the control plane's users, beside an API server that is played."""

import pytest

from simulation.control_plane import users
from simulation.control_plane.build import ControlPlaneUnavailable
from tests.connectors.kubernetes.sinks.played import Played, Said

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def _api_server(*allowed: bool) -> Played:
    """Takes every role, and answers in turn whether a user may do what was asked."""
    played = Played()
    for kind in ("clusterroles", "clusterrolebindings"):
        played.says("POST", f"{users.RBAC}/{kind}", Said(201))
    answers = [Said(201, {"status": {"allowed": each}}) for each in allowed]
    played.says("POST", _REVIEWS, *answers)
    return played


async def test_rights_are_waited_for_until_the_api_server_goes_by_them() -> None:
    played = _api_server(False, False, True)
    async with played.served() as server:
        await users.grant_rights(server)
    roles = played.of("POST", f"{users.RBAC}/clusterroles")
    assert len(played.of("POST", _REVIEWS)) == len(roles) + 2


async def test_rights_that_an_api_server_never_goes_by_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users, "RIGHTS_MAX_S", 0.2)
    async with _api_server(False).served() as server:
        with pytest.raises(ControlPlaneUnavailable, match=r"user loadstream-\w+ .* within 0\.2 s"):
            await users.grant_rights(server)
