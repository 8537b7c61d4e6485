# SPDX-License-Identifier: Apache-2.0
"""The command line on a cluster: `streamapp status`, `plan`, `suspend` and the others, and kubectl's plug-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from cluster.packages import program
from lib.apiserver import ApiServer
from lib.left_out import or_left_out
from lib.operator import RUNNING, WORD_COUNT, Apps
from streamapp.cli.completion import suggestions
from streamapp.cli.main import main

pytestmark = pytest.mark.cluster

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(api: ApiServer, apps: Apps, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command for the test's namespace; returns its exit code, its output, and its complaints."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*arguments, "--kubeconfig", str(api.kubeconfig), "--namespace", apps.namespace])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def plan(run: Run, tmp_path: Path) -> Callable[..., str]:
    """The output of `streamapp plan` for the word count with these fields of its spec."""

    def said(code: int = 0, **spec: object) -> str:
        body = yaml.safe_load(WORD_COUNT)
        body["spec"] = {name: value for name, value in (body["spec"] | spec).items() if value is not None}
        (tmp_path / "app.yaml").write_text(yaml.safe_dump(body))
        ended, out, complaints = run("plan", str(tmp_path / "app.yaml"))
        assert ended == code, complaints
        return out

    return said


def test_status(apps: Apps, run: Run, tmp_path: Path) -> None:
    apps.create()
    code, out, _ = run("status", "word-count")
    assert (code, out) == (1, f"{apps.namespace}/word-count: not seen by an operator yet\n")
    apps.settle()
    code, out, _ = run("status", "word-count")
    assert code == 1
    assert f"{apps.namespace}/word-count: Pending\n  executors   0 of 1\n" in out
    with apps.driver_says(RUNNING, tmp_path):
        apps.add_executor()
        apps.settle()
        code, out, _ = run("status", "word-count")
    assert code == 0
    assert "  executors   1 of 1\n  lag         7 records: text-lines 7\n  word-counts epoch 12\n" in out
    assert "Ready          True    Processing      records are processed" in out


def test_status_of_a_wrong_manifest_says_what_is_wrong(apps: Apps, run: Run) -> None:
    apps.create(driver={"resources": {"limits": {"memory": "64Mi"}}})
    apps.settle()
    code, out, _ = run("status", "word-count")
    assert code == 1
    assert "memory of 64Mi is too little; at least 928Mi" in out
    assert "last error, " in out


def test_suspend_and_resume(apps: Apps, run: Run) -> None:
    apps.create()
    assert run("suspend", "word-count") == (0, "word-count stops\n", "")
    assert apps.get("StreamApp", "word-count")["spec"]["suspend"] is True
    assert run("resume", "word-count") == (0, "word-count goes on\n", "")
    assert not apps.get("StreamApp", "word-count")["spec"].get("suspend")


def test_scale(apps: Apps, run: Run) -> None:
    apps.create()
    assert run("scale", "word-count", "3") == (0, "word-count is to have 3 executors\n", "")
    code, _, complaint = run("scale", "word-count", "0")
    assert code == 1
    assert "`streamapp suspend word-count` stops it" in complaint
    assert apps.get("StreamApp", "word-count")["spec"]["replicas"] == 3
    apps.change(replicas=None, autoscaling={"maxReplicas": 4})
    code, _, complaint = run("scale", "word-count", "3")
    assert code == 1
    assert "spec.autoscaling of " in complaint


def test_restart(apps: Apps, run: Run) -> None:
    assert run("restart", "word-count")[0] == 1
    apps.create()
    apps.settle()
    before = apps.await_driver()["metadata"]["uid"]
    assert run("restart", "word-count")[0] == 0
    apps.settle()
    apps.await_driver(other_than=before)


def test_logs_of_what_is_not_there(apps: Apps, run: Run) -> None:
    apps.create()
    assert "has no driver now" in run("logs", "word-count")[2]
    assert "has no executor '1'; no executor of it runs" in run("logs", "word-count", "--executor", "1")[2]
    apps.settle()
    apps.add_executor(2)
    assert "has no executor '1'; there are: 2" in run("logs", "word-count", "--executor", "1")[2]


def test_plan(apps: Apps, plan: Callable[..., str]) -> None:
    assert plan() == f"{apps.namespace}/word-count is new\n"
    apps.create()
    assert plan() == "nothing changes\n"
    assert plan(replicas=3) == "Live  replicas: 3 is new\n\nnothing is started anew\n"
    slower = plan(epochInterval="1s", replicas=3)
    assert "RestartQuery  epochInterval: 100ms becomes 1s\nLive          replicas: 3 is new\n" in slower
    assert "the driver is started anew" in slower
    topology = yaml.safe_load(WORD_COUNT)["spec"]["topology"]
    renamed = plan(topology=[*topology[:2], {**topology[2], "store": "others"}, *topology[3:]])
    assert "RestartQuery  node 'counts' changes: store: word-counts becomes others\n" in renamed
    assert "store 'word-counts' is not used any more; its changelog word-count-word-counts-changelog stays" in renamed
    assert "store 'others' is new and begins empty" in renamed
    other = plan(code=1, topology=[*topology[:2], {**topology[2], "aggregate": {"count": "sum(1.5)"}}, *topology[3:]])
    assert "NeedsStateMigration  node 'counts' changes: aggregate.count: count(*) becomes sum(1.5)\n" in other
    assert "the running version would go on: node 'counts' changes: store 'word-counts'" in other
    assert apps.get("StreamApp", "word-count")["metadata"]["generation"] == 1


def test_plan_takes_a_manifest_of_a_laptop(apps: Apps, plan: Callable[..., str], tmp_path: Path) -> None:
    """It does not say where Kafka is: the app's address stays, and the output says what to do before the manifest can
    be applied."""
    told = f"{tmp_path / 'app.yaml'} has no `kafka`, and a cluster needs one: add "
    new = plan(kafka=None).splitlines()
    assert new[0] == f"{apps.namespace}/word-count is new"
    assert new[1].startswith(told)
    apps.create()
    changed = plan(kafka=None, epochInterval="1s").splitlines()
    assert changed[0] == "RestartQuery  epochInterval: 100ms becomes 1s"
    assert changed[-1].startswith(told)


def test_plan_of_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = yaml.safe_load(WORD_COUNT)
    (tmp_path / "old.yaml").write_text(WORD_COUNT)
    body["spec"]["maxParallelism"] = 4
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(body))
    assert main(["plan", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]) == 1
    assert "Forbidden  maxParallelism: 8 becomes 4\n" in capsys.readouterr().out


@pytest.mark.parametrize("without", [("old", "new"), ("old",), ("new",)])
def test_plan_of_two_files_takes_manifests_of_a_laptop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], without: tuple[str, ...]
) -> None:
    for name, parallelism in (("old", 8), ("new", 4)):
        body = yaml.safe_load(WORD_COUNT)
        body["spec"]["maxParallelism"] = parallelism
        if name in without:
            del body["spec"]["kafka"]
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(body))
    assert main(["plan", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]) == 1
    said = capsys.readouterr().out
    assert "Forbidden  maxParallelism: 8 becomes 4\n" in said
    assert "kafka" not in said


def test_plan_leaves_what_others_have_set(apps: Apps, run: Run, plan: Callable[..., str]) -> None:
    apps.create()
    run("scale", "word-count", "3")
    assert plan() == "nothing changes\n"


def test_plan_says_what_the_api_server_would_refuse(apps: Apps, run: Run, tmp_path: Path) -> None:
    apps.create()
    body = yaml.safe_load(WORD_COUNT)
    body["spec"]["maxParallelism"] = 4
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(body))
    code, out, complaint = run("plan", str(tmp_path / "app.yaml"))
    assert (code, out) == (1, "")
    assert "maxParallelism" in complaint


def test_an_app_a_context_or_a_cluster_that_is_not_there(run: Run, api: ApiServer, tmp_path: Path) -> None:
    code, _, complaint = run("status", "nobody")
    assert code == 1
    assert "there is no StreamApp 'nobody' in namespace" in complaint
    assert "there is no context 'moon'; there are: test" in run("status", "nobody", "--context", "moon")[2]
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    assert main(["status", "nobody", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 3


def test_kubectl_finds_it(api: ApiServer, apps: Apps) -> None:
    apps.create()
    paths = [str(Path(sys.executable).parent), str(api.folder / "bin"), os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(paths), "KUBECONFIG": str(api.kubeconfig)}

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["kubectl", *arguments], env=environment, capture_output=True, text=True, timeout=60)

    assert kubectl("streamapp", "suspend", "word-count", "-n", apps.namespace).stdout == "word-count stops\n"
    assert kubectl("streamapp", "--help").stdout.startswith("usage: kubectl streamapp ")
    answer = kubectl("streamapp", "query", "word-count", "word-counts", "-n", apps.namespace)
    assert answer.returncode == 1
    assert "word-count has no driver now" in answer.stderr


def test_completion(api: ApiServer, apps: Apps) -> None:
    apps.create()
    place = ("--kubeconfig", str(api.kubeconfig), "-n", apps.namespace)
    assert suggestions(["su"]) == ["suspend"]
    assert suggestions(["dr"]) == [], "what is internal is not shown"
    assert suggestions(["suspend", *place, "w"]) == ["word-count"]
    assert suggestions(["suspend", *place, "x"]) == []
    assert suggestions(["scale", *place, "word-count", ""]) == []
    assert suggestions(["suspend", "--kubeconfig", "/nowhere", ""]) == []
    assert suggestions(["logs", "--f"]) == ["--follow"]
    assert suggestions(["completion", "b"]) == ["bash"]
    assert suggestions(["frobnicate", ""]) == []


def test_kubectl_is_told_what_to_complete(api: ApiServer, apps: Apps) -> None:
    apps.create()
    program = str(Path(sys.executable).parent / "kubectl_complete-streamapp")
    environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig)}

    def said(*words: str) -> str:
        return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=True).stdout

    assert said("status", "-n", apps.namespace, "wor") == "word-count\n:4\n"
    assert said("plan", "x") == ":0\n"
    assert said("query", "-n", apps.namespace, "wor") == "word-count\n:4\n"  # on a laptop it has no NAME


def test_kubectl_itself_asks_what_to_complete(api: ApiServer, apps: Apps) -> None:
    """As its scripts for shells do it: kubectl finds the program of that name on the PATH and uses its output."""
    apps.create()
    paths = [str(Path(sys.executable).parent), str(api.folder / "bin"), os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(paths), "KUBECONFIG": str(api.kubeconfig)}

    def completed(*words: str) -> tuple[set[str], str]:
        """The words that may stand there, and whether names of files may, too."""
        command = ["kubectl", "__complete", "streamapp", *words]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
        *found, directive = said.splitlines()
        return set(found), directive

    names, files = completed("")
    assert {"logs", "plan", "query", "restart", "resume", "scale", "status", "suspend"} <= names
    assert "driver" not in names
    assert files == ":4", "no files"
    assert completed("suspend", "-n", apps.namespace, "w") == ({"word-count"}, ":4")
    assert completed("logs", "word-count", "--t") == ({"--tail"}, ":4")
    assert completed("plan", "") == (set(), ":0"), "files"


@pytest.fixture
def with_streamapp() -> dict[str, str]:
    """An environment with streamapp in its PATH."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_zsh_completes(with_streamapp: dict[str, str]) -> None:
    """The test calls the function that zsh's own bashcompinit calls when Tab is pressed."""
    zsh = or_left_out(partial(program, "zsh"))
    script = """
        autoload -U compinit && compinit -u -D
        source <(streamapp completion zsh)
        [[ ${_comps[streamapp]} == *_bash_complete*_streamapp* ]] || exit 1
        complete_last() {
            words=("$@") CURRENT=$# COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            compgen -F _streamapp -- "${@[-1]}"
        }
        complete_last streamapp compl
        complete_last streamapp completion z
    """
    done = subprocess.run([zsh, "-f", "-c", script], env=with_streamapp, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "completion\nzsh\n", "")


def test_bash_completes(with_streamapp: dict[str, str]) -> None:
    script = """
        source <(streamapp completion bash)
        COMP_WORDS=(streamapp compl) COMP_CWORD=1
        _streamapp
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script], env=with_streamapp, capture_output=True, text=True, check=True)
    assert done.stdout == "completion\n"
