"""Hierarchies of cgroups, and the pods below them."""

from pathlib import Path

import pytest

from connectors.agent.cgroups import PodCgroups, PodNames, find_hierarchies, parse_pod_uid
from connectors.agent.files import Files
from tests.connectors.agent.trees import UID_A, UID_B, UID_STATIC, Driver, NodeFiles


def test_v2_has_one_hierarchy(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "v2", "systemd").cgroup
    paths = find_hierarchies(root)
    assert (paths.cpu, paths.memory, paths.cpu_file) == (str(root), str(root), "cpu.stat")
    assert paths.roots == (str(root),)


def test_v1_has_a_hierarchy_per_controller(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "v1", "systemd").cgroup
    paths = find_hierarchies(root)
    assert paths.roots == (str(root / "cpuacct"), str(root / "memory"))
    assert paths.cpu_file == "cpuacct.usage"


def test_v1_without_the_link_is_found_by_its_long_name(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "v1", "systemd").cgroup
    (root / "cpuacct").unlink()
    assert find_hierarchies(root).cpu == str(root / "cpu,cpuacct")


def test_a_hybrid_mount_uses_v1_controllers_that_exist(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "hybrid", "systemd").cgroup
    assert find_hierarchies(root).roots == (str(root / "cpuacct"), str(root / "memory"))


def test_a_hybrid_mount_uses_v2_for_other_controllers(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "hybrid", "systemd").cgroup
    (root / "memory" / "memory.stat").unlink()
    paths = find_hierarchies(root)
    assert (paths.cpu, paths.memory) == (str(root / "cpuacct"), str(root / "unified"))


def test_a_folder_without_cgroups_is_an_error_that_names_the_search(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither cgroup\.controllers"):
        find_hierarchies(tmp_path)


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


def test_pods_of_a_kubelet_with_a_cgroup_root_are_found(tmp_path: Path) -> None:
    folder = f"kubelet-kubepods-burstable-pod{UID_A.replace('-', '_')}.slice"
    path = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/{folder}"
    (tmp_path / path).mkdir(parents=True)
    assert PodCgroups(Files(), (str(tmp_path),)).find() == {UID_A: path}


def _folder(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir()


def test_names_are_those_of_the_folders(tmp_path: Path) -> None:
    _folder(
        tmp_path,
        f"shop_web-1_{UID_A}",
        f"kube-system_etcd-n1_{UID_STATIC}",
        "x_y",
        "a_b_c_d",
        "A_b_c",
    )
    names = PodNames(Files(), str(tmp_path))
    assert names.find([UID_A, UID_B, UID_STATIC]) == {
        UID_A: ("shop", "web-1"),
        UID_STATIC: ("kube-system", "etcd-n1"),
    }


def test_removed_pods_are_forgotten_although_their_logs_stay(tmp_path: Path) -> None:
    _folder(tmp_path, f"shop_web-1_{UID_A}", f"shop_web-2_{UID_B}")
    names = PodNames(Files(), str(tmp_path))
    names.find([UID_A, UID_B])
    assert names.find([UID_B]) == {UID_B: ("shop", "web-2")}


def test_a_folder_that_names_no_pod_is_a_failure(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        files = Files()
        names = PodNames(files, str(folder))
        assert names.find([]) == {}
        assert not files.failures, "a node without pods needs no names"
        assert names.find([UID_A, UID_B]) == {}
        assert files.failures == {"names": 1}
        assert files.last_failure == (
            f"{folder}: found no folder of any of 2 pods; expected the kubelet's log folders "
            "NAMESPACE_NAME_UID"
        )
