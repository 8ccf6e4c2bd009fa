from pathlib import Path

from connectors.agent.files import Files
from connectors.agent.names import PodNames
from tests.connectors.agent.trees import UID_A, UID_B, UID_STATIC


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


def test_pods_that_went_are_forgotten_though_their_logs_stay(tmp_path: Path) -> None:
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
