from pathlib import Path

import pytest

from simulation.kubernetes_demo.runner import run
from simulation.kubernetes_demo.steps import Size


def test_other_files_in_the_output_directory_stay(tmp_path: Path) -> None:
    mine, theirs = ("control-plane/etcd/member", "worker/log"), ("notes.txt", "worker/main.py")
    for name in (*mine, *theirs):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    with pytest.raises(FileNotFoundError):
        run(tmp_path / "no program", tmp_path, Size(20, 50), lambda snapshot, observed: None)
    assert not any((tmp_path / name).exists() for name in mine)
    assert all((tmp_path / name).read_text() == "before" for name in theirs)
