from pathlib import Path

import pytest

from connectors.agent.hierarchies import find_hierarchies
from tests.connectors.agent.trees import NodeFiles


def test_v2_has_all_in_one_tree(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "v2", "systemd").cgroup
    found = find_hierarchies(root)
    assert (found.cpu, found.memory, found.cpu_file) == (str(root), str(root), "cpu.stat")
    assert found.roots == (str(root),)


def test_v1_has_a_tree_a_controller(tmp_path: Path) -> None:
    root = NodeFiles(tmp_path, "v1", "systemd").cgroup
    found = find_hierarchies(root)
    assert found.roots == (str(root / "cpuacct"), str(root / "memory"))
    assert found.cpu_file == "cpuacct.usage"


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
    found = find_hierarchies(root)
    assert (found.cpu, found.memory) == (str(root / "cpuacct"), str(root / "unified"))


def test_a_folder_without_cgroups_is_an_error_that_names_the_search(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"neither cgroup\.controllers"):
        find_hierarchies(tmp_path)
