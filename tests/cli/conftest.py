from __future__ import annotations

from types import SimpleNamespace

import pytest

from chaos.cli.main import main


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """`nvrx-chaos ARGUMENTS` in this process, with a home of its own."""
    monkeypatch.setenv("NVRX_CHAOS_HOME", str(tmp_path / "home"))

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=out, stderr=err)

    return call
