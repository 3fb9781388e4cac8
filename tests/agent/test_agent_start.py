"""What happens at the start of every Python process of a job, and that the job cannot tell that it does."""

from __future__ import annotations

import json
import sys

import pytest
from job_build import FAILED, LAUNCHER, files_of, run_python, stand_in, the_file

from chaos.jobs.shipped import start_folder

SEEN = (
    "import json, sys; s = sys.modules.get('sitecustomize');"
    "print(json.dumps([s and s.__file__, sys.path[1:], [type(f).__name__ for f in sys.meta_path]]))"
)


@pytest.fixture
def job(run_dir, tmp_path):
    return stand_in(tmp_path / "job")


def sitecustomize(folder, text, name="sitecustomize.py"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_a_process_that_never_imports_nvrx_loads_nothing_of_ours_but_the_start_itself(run_dir):
    script = "import sys; print(*sorted(sys.modules))"
    with_us, without = (set(run_python(run_dir, "-c", script, with_us=each).stdout.split()) for each in (True, False))
    assert with_us - without == set() and files_of(run_dir) == {}


def test_without_a_run_in_the_environment_nothing_waits_and_nothing_is_written(run_dir, job):
    waits = json.loads(run_python(None, "-c", SEEN).stdout)[2]
    assert "Waiting" not in waits
    assert run_python(None, *LAUNCHER, path=[job]).returncode == 0
    assert files_of(run_dir) == {}


def test_with_a_run_in_the_environment_the_process_waits_for_nvrx(run_dir):
    assert json.loads(run_python(run_dir, "-c", SEEN).stdout)[2][0] == "Waiting"


def test_the_users_own_sitecustomize_is_loaded_once_and_in_our_place(run_dir, tmp_path):
    mine = sitecustomize(tmp_path / "mine", "import os, sys; os.write(2, b'mine '); sys.flag = 1")
    with_us, without = (
        run_python(run_dir, "-c", SEEN + "; sys.flag", path=[mine], with_us=each) for each in (True, False)
    )
    assert with_us.stderr == without.stderr == "mine "
    assert json.loads(with_us.stdout)[:2] == json.loads(without.stdout)[:2]
    assert json.loads(with_us.stdout)[0] == str(mine / "sitecustomize.py")


def test_where_the_user_has_none_what_python_finds_is_the_same_as_without_us(run_dir):
    with_us, without = (run_python(run_dir, "-c", SEEN, with_us=each) for each in (True, False))
    assert json.loads(with_us.stdout)[:2] == json.loads(without.stdout)[:2]
    assert with_us.stderr == without.stderr == ""


def test_loaded_in_another_way_it_does_not_look_for_a_next_one(run_dir):
    script = f"import runpy; runpy.run_path({str(start_folder() / 'sitecustomize.py')!r}); print('ran')"
    ran = run_python(run_dir, "-c", script, with_us=False)
    assert (ran.stdout, ran.stderr) == ("ran\n", "")


@pytest.mark.parametrize("text", ["1 / 0", "import no_such_module_of_theirs", "raise ImportError('x')"])
def test_a_users_sitecustomize_that_fails_is_reported_as_without_us_and_the_program_runs(run_dir, tmp_path, text):
    mine = sitecustomize(tmp_path / "mine", text)
    with_us, without = (run_python(run_dir, "-c", "print('ran')", path=[mine], with_us=each) for each in (True, False))
    assert with_us.stderr == without.stderr and "Error in sitecustomize" in without.stderr
    assert with_us.stdout == without.stdout == "ran\n"


def test_the_users_usercustomize_is_loaded_as_without_us(run_dir, tmp_path):
    mine = sitecustomize(tmp_path / "mine", "print('user')", name="usercustomize.py")
    base = getattr(sys, "_base_executable", sys.executable)
    script = "import site; print(site.ENABLE_USER_SITE)"
    with_us, without = (
        run_python(run_dir, "-c", script, path=[mine], with_us=each, executable=base) for each in (True, False)
    )
    assert with_us.stdout == without.stdout and with_us.returncode == 0
    assert ("user" in with_us.stdout) == ("True" in with_us.stdout)


def test_the_users_sitecustomize_may_import_nvrx_itself(run_dir, tmp_path, job):
    mine = sitecustomize(tmp_path / "mine", "import nvidia_resiliency_ext.inprocess.wrap")
    assert run_python(run_dir, *LAUNCHER, path=[mine, job]).returncode == 0
    assert [line["kind"] for line in the_file(run_dir, "launcher")] == ["rendezvous_joined", "worker_failed"]


@pytest.mark.parametrize("broken", ["raise RuntimeError('ours is broken')", "import chaos.no_such_room"])
def test_when_ours_cannot_be_loaded_the_job_runs_as_without_us_and_its_log_says_who_is_not_heard(
    run_dir, tmp_path, job, broken
):
    package = tmp_path / "broken" / "chaos"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(broken)
    ran = run_python(run_dir, *LAUNCHER, path=[tmp_path / "broken", job])
    assert ran.returncode == 0 and FAILED in ran.stderr
    assert ran.stderr.count("nvrx-chaos: NVRx is not heard in process") == 1
    assert files_of(run_dir) == {}


@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "2>/dev/full"])
def test_when_ours_cannot_be_loaded_a_job_whose_standard_error_takes_nothing_runs_on(run_dir, tmp_path, job, closed):
    package = tmp_path / "broken" / "chaos"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('ours is broken')")
    script = (
        "import os, sys; command = f'{sys.executable} -c \"import nvidia_resiliency_ext\" ' + sys.argv[1];"
        "sys.exit(os.waitstatus_to_exitcode(os.system(command)))"
    )
    assert run_python(run_dir, "-c", script, closed, path=[tmp_path / "broken", job]).returncode == 0


def test_a_launcher_started_by_a_script_is_heard_too(run_dir, job):
    script = "from nvidia_resiliency_ext.fault_tolerance.launcher import main; main()"
    assert run_python(run_dir, "-c", script, path=[job]).returncode == 0
    assert [line["kind"] for line in the_file(run_dir, "launcher")] == ["rendezvous_joined", "worker_failed"]


def test_torch_elastic_is_heard_as_well(run_dir, tmp_path):
    package = tmp_path / "job" / "torch" / "distributed" / "elastic" / "multiprocessing"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent, package.parent.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api.py").write_text(f"import logging; logging.getLogger(__name__).error({FAILED!r})")
    assert (
        run_python(
            run_dir, "-c", "import torch.distributed.elastic.multiprocessing.api", path=[tmp_path / "job"]
        ).returncode
        == 0
    )
    assert the_file(run_dir, "launcher")[0]["kind"] == "worker_failed"


def test_a_program_that_is_not_the_launcher_may_log_what_it_likes_under_main(run_dir, job):
    script = (
        "import logging, nvidia_resiliency_ext.fault_tolerance.launcher;"
        f"logging.getLogger('__main__').error({FAILED!r})"
    )
    assert run_python(run_dir, "-c", script, path=[job]).returncode == 0
    assert files_of(run_dir) == {}
