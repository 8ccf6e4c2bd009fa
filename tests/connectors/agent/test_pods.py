from pathlib import Path

import pytest

from connectors.agent.files import Files
from connectors.agent.pods import PodCgroups, parse_pod_uid
from tests.connectors.agent.trees import UID_A, UID_B, UID_STATIC, Driver, NodeFiles


@pytest.mark.parametrize(
    ("folder", "uid"),
    [
        (f"pod{UID_A}", UID_A),
        (f"pod{UID_STATIC}", UID_STATIC),
        (f"kubepods-pod{UID_A.replace('-', '_')}.slice", UID_A),
        (f"kubepods-besteffort-pod{UID_B.replace('-', '_')}.slice", UID_B),
        (f"kubelet-kubepods-burstable-pod{UID_STATIC}.slice", UID_STATIC),
        ("kubepods.slice", None),
        ("kubepods-burstable.slice", None),
        ("burstable", None),
        ("cri-containerd-0123.scope", None),
        ("podman.service", None),
        ("pod", None),
    ],
)
def test_the_uid_is_in_the_name_of_the_cgroup(folder: str, uid: str | None) -> None:
    assert parse_pod_uid(folder) == uid


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_pods_of_all_classes_are_found(tmp_path: Path, driver: Driver) -> None:
    node = NodeFiles(tmp_path, "v2", driver)
    expected = {}
    for uid, qos in ((UID_A, ""), (UID_B, "burstable"), (UID_STATIC, "besteffort")):
        expected[uid] = node.pod_path(uid, qos)  # type: ignore[arg-type]  # a literal each
        (node.cgroup / expected[uid] / "container").mkdir(parents=True)
    assert PodCgroups(Files(), (str(node.cgroup),)).find() == expected


def test_a_kubelet_with_a_cgroup_root_of_its_own_has_them_one_folder_deeper(tmp_path: Path) -> None:
    folder = f"kubelet-kubepods-burstable-pod{UID_A.replace('-', '_')}.slice"
    path = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/{folder}"
    (tmp_path / path).mkdir(parents=True)
    assert PodCgroups(Files(), (str(tmp_path),)).find() == {UID_A: path}
