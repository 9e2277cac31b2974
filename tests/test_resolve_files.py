"""Files that `policy resolve` changes or shows a patch of: their bytes, permissions and links, and what no patch fits."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from policy.cli import main
from policy.launchers.patching import files
from policy.launchers.patching.files import MARK, endings_kept, unified, write_whole
from policy.launchers.patching.manifests import json_patch, manifest_patches

HANG = ["--set", "engine.version=0.22.1", "--set", "parallel.nodes=1", "--device", "h200-sxm8", "--no-probe"]
TEXT = "tensor-parallel-size: 2\n# zwei Größen\npipeline-parallel-size: 2\n"
ADDED = 'compilation-config: \'{"pass_config": {"fuse_allreduce_rms": false}}\''
Policy = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Policy:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("FUSION_POLICY_", "VLLM_"))]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capfd.readouterr()
        return code, out, err

    return run


# --- bytes ---

FORMS = {
    "plain": (TEXT, TEXT + ADDED + "\n"),
    "no last line feed": (TEXT[:-1], TEXT + ADDED),
    "carriage returns": (TEXT.replace("\n", "\r\n"), (TEXT + ADDED + "\n").replace("\n", "\r\n")),
    "mark": (MARK + TEXT, MARK + TEXT + ADDED + "\n"),
    "mixed": (TEXT.replace("2\n", "2\r\n"), (TEXT + ADDED + "\n").replace("2\n", "2\r\n").replace("}'\n", "}'\r\n")),
    "one carriage return": (TEXT.replace("\n", "\r\n", 1), (TEXT + ADDED + "\n").replace("\n", "\r\n", 1)),
    "a name with a space": (TEXT, TEXT + ADDED + "\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_only_the_change_is_written_and_the_diff_is_the_same(policy: Policy, tmp_path: Path, form: str) -> None:
    old, new = (text.encode() for text in FORMS[form])
    name = "a size.yaml" if "space" in form else "sizes.yaml"
    file = tmp_path / name
    file.write_bytes(old)
    code, diff, talk = policy("resolve", "allreduce_rms", name, *HANG)
    assert (code, "Traceback" in talk, file.read_bytes()) == (0, False, old)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    applied = subprocess.run(["git", "-c", "core.autocrlf=false", "apply", "-"], input=_bytes(name, old, new), capture_output=True, cwd=tmp_path, check=False)
    assert (applied.returncode, file.read_bytes()) == (0, new), applied.stderr
    # what is printed differs at most in how the capture shows carriage returns
    assert diff.replace("\r", "").splitlines() == _bytes(name, old, new).decode().replace("\r", "").splitlines()
    file.write_bytes(old)
    assert policy("resolve", "allreduce_rms", name, *HANG, "--write")[0] == 0
    assert file.read_bytes() == new
    before = file.stat()
    code, out, talk = policy("resolve", "allreduce_rms", name, *HANG, "--write")
    assert (code, out, talk) == (0, "", "nothing is changed\n")
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def _bytes(name: str, old: bytes, new: bytes) -> bytes:
    return "".join(unified(name, old.decode(), new.decode())).encode()


def test_a_form_feed_ends_no_line_of_a_diff() -> None:
    assert unified("run.sh", "a\x0cb\u2028c\n", "a\x0cb\u2028c\nd\n")[3:] == [" a\x0cb\u2028c\n", "+d\n"]


def test_endings_of_lines_that_stay() -> None:
    assert endings_kept("a\r\nb\nc\r\n", "a\nnew\nb\nc\n") == "a\r\nnew\r\nb\nc\r\n"
    assert endings_kept("a\nb\r\nc\n", "b\nc\nnew\n") == "b\r\nc\nnew\n"
    assert endings_kept("a\r\nb", "a\nb\nnew") == "a\r\nb\r\nnew"


# --- the file itself ---


def test_mode_links_and_other_names_stay(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("old")
    file.chmod(0o751)
    link = tmp_path / "link.sh"
    link.symlink_to("run.sh")
    write_whole(str(link), "new")
    assert link.is_symlink()
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o751)
    other = tmp_path / "other.sh"
    other.hardlink_to(file)
    write_whole(str(file), "newer")
    assert (other.read_text(), other.stat().st_ino) == ("newer", file.stat().st_ino)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.sh", "other.sh", "run.sh"]


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(str(file), "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.yaml", "old")]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everything")
def test_a_file_that_may_not_be_written(policy: Policy, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TEXT)
    file.chmod(0o444)
    code, _, talk = policy("resolve", "allreduce_rms", "a.yaml", *HANG, "--write")
    assert (code, file.read_text()) == (2, TEXT)
    assert "cannot read or write" in talk
    assert "permission denied" in talk


# --- what no patch fits ---


@pytest.mark.parametrize(
    ("name", "text", "form", "told"),
    [
        ("run.sh", "A='x: [y' vllm serve m -tp 2 -pp 2\n: {\n", "json-patch", "holds no YAML documents"),
        ("run.sh", "vllm serve m -tp 2 -pp 2\n", "kustomize", "holds no YAML documents"),
        ("sizes.yaml", TEXT, "kustomize", "has no kind and name by which kustomize finds a resource"),
    ],
)
def test_a_file_that_no_such_patch_fits(policy: Policy, tmp_path: Path, name: str, text: str, form: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    code, out, talk = policy("resolve", "allreduce_rms", name, *HANG, "--format", form)
    assert (code, out) == (2, "")
    assert told in talk
    assert "leave `--format` out for a diff" in talk


def test_a_list_is_patched_member_by_member(policy: Policy, tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "x", "image": "vllm/vllm-openai:v0.22.1", "args": ["--model", "m", "-tp", "2", "-pp", "2"]}]},
    }
    (tmp_path / "list.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    code, out, _ = policy("resolve", "allreduce_rms", "list.yaml", *HANG, "--format", "kustomize")
    patch = yaml.safe_load(out)["patches"][0]
    assert (code, patch["target"]) == (0, {"version": "v1", "kind": "Pod", "name": "a"})
    assert yaml.safe_load(patch["patch"])[0]["path"] == "/spec/containers/0/args/6"
    assert "patch: |-\n" in out
    operations = json.loads(policy("resolve", "allreduce_rms", "list.yaml", *HANG, "--format", "json-patch")[1])
    assert operations[0]["path"] == "/items/0/spec/containers/0/args/6"


def test_documents_that_stay_are_left_out() -> None:
    documents = [{"kind": "A", "metadata": {"name": "a"}}, {"kind": "B", "metadata": {"name": "b"}, "x": 1}]
    changed = [documents[0], {**documents[1], "x": 2}]
    assert manifest_patches(documents, changed) == [({"kind": "B", "name": "b"}, json_patch(documents[1], changed[1]))]


# --- what is said ---


def test_what_is_left_open_is_said(policy: Policy) -> None:
    code, out, talk = policy("resolve", "allreduce_rms", "--no-probe", "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2")
    assert (code, out) == (0, "vllm serve m -tp 2 -pp 2\n")
    assert talk.startswith("left as they are: 1 fusion is undetermined, for want of ")
    assert talk.endswith("nothing is changed\n")


def test_a_setting_that_is_lost_is_said(policy: Policy) -> None:
    _, _, talk = policy("resolve", "allreduce_rms", *HANG, "--", "vllm", "serve", "m", "-cc", '{"mode": 3}', "-cc.pass_config.fuse_norm_quant=true")
    assert "argument" in talk
    assert "mode" in talk.splitlines()[0]


def test_a_required_fusion_is_decided_beside_the_named_ones(policy: Policy) -> None:
    command = ["--", "vllm", "serve", "m", "-tp", "2", "-pp", "2"]
    assert policy("resolve", "norm_quant", "--require", "allreduce_rms", *HANG, *command)[0] == 1


def test_the_variables_of_the_command_are_in_the_json(policy: Policy) -> None:
    code, out, _ = policy("resolve", "allreduce_rms", *HANG, "--mode", "enforce", "--format", "json", "--", "A=1", "vllm", "serve", "m")
    assert (code, json.loads(out)["environment"]) == (0, {"A": "1", "FUSION_POLICY_MODE": "enforce"})


def test_a_file_that_is_not_there_is_no_misspelt_fusion(policy: Policy) -> None:
    code, _, talk = policy("resolve", "deploy.yml")
    assert (code, talk.splitlines()[0]) == (2, "policy: there is no file `deploy.yml`")
