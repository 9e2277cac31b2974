"""Scripts on paper: what is started, with which words, under which condition."""

from __future__ import annotations

import pytest

from policy.launchers.containers import find_launches
from policy.launchers.shell_words import tokens

V = "vllm serve m"
#: name -> (script, the commands it comes to, with the condition after ` ? `)
SCRIPTS: dict[str, tuple[str, list[str]]] = {
    "plain": ("vllm serve m --tensor-parallel-size 8", [V + " --tensor-parallel-size 8"]),
    "default": ("vllm serve m -tp ${TP:-8}", [V + " -tp 8"]),
    "default of a default": ("vllm serve m -tp ${TP:-${GPUS:-4}}", [V + " -tp 4"]),
    "set before": ("TP=2\nvllm serve m -tp $TP -pp ${PP}", [V + " -tp 2 -pp ${PP}"]),
    "required": ("vllm serve ${MODEL:?give a model}", ["vllm serve $MODEL"]),
    "set later does not count": ("vllm serve m -tp $TP\nTP=2", [V + " -tp $TP"]),
    "unset gets its default": ('if [ -z "$TP" ]; then TP=4; fi\nvllm serve m -tp $TP', [V + " -tp 4"]),
    "continued": ("vllm serve m \\\n  -tp 2 \\\n  -pp 2", [V + " -tp 2 -pp 2"]),
    "comment ends it": ("vllm serve m \\\n  # -tp 2 \\\n  -pp 2", [V]),
    "wrappers": ("exec nohup numactl --cpunodebind=0 env A=1 vllm serve m > log 2>&1 &", [V]),
    "srun": ("srun -N 2 --container-image=i:1 --export=ALL,A=1 python3 -u -m sglang.launch_server --tp 2", ["python3 -m sglang.launch_server --tp 2"]),
    "mpirun": ("mpirun -n 1 trtllm-serve m --tp_size 2", ["trtllm-serve m --tp_size 2"]),
    "bash -c": ('bash -lc "vllm serve m -tp $TP --x \'{\\"a\\": 1}\'"', [V + ' -tp $TP --x {"a": 1}']),
    "docker": ("docker run --gpus all -e A=1 -v a:b vllm/vllm-openai:v1 --model m -tp 2", ["vllm serve --model m -tp 2"]),
    "docker with a program": ("docker run --rm img:1 python3 -m sglang.launch_server --tp 2", ["python3 -m sglang.launch_server --tp 2"]),
    "array": ('A=(-tp 2)\nA+=(--x "a b")\nvllm serve m "${A[@]}"', [V + " -tp 2 --x a b"]),
    "command in an array": ('C=(vllm serve m)\nC+=(-tp 2)\n"${C[@]}" &', [V + " -tp 2"]),
    "command in a text": ("C='vllm serve m -tp 2'\neval $C", [V + " -tp 2"]),
    "unquoted text": ("A='-tp 2 -pp 2'\nvllm serve m $A", [V + " -tp 2 -pp 2"]),
    "function": ("run() { vllm serve $1 -tp $2; }\nrun m 2", [V + " -tp 2"]),
    "function never called": ("run() { vllm serve m; }", [V]),
    "loop over sizes": ("for t in 1 2; do vllm serve m -tp $t; done", [V + " -tp 1", V + " -tp 2"]),
    "loop over replicas": ("for p in 1 2; do vllm serve m --port 800$p & done", [V + " --port 8001"]),
    "two branches": (
        'if [[ "$A" == "true" ]]; then P=(-tp 1 -dp 8); else P=(-tp 8); fi\nvllm serve m "${P[@]}"',
        [V + " -tp 8 ? A is not true", V + " -tp 1 -dp 8 ? A is true"],
    ),
    "default kept open": (
        'A="${A:-false}"\nP=(-tp 8)\nif [ "$A" = true ]; then P=(-tp 1 -dp 8); fi\nvllm serve m "${P[@]}"',
        [V + " -tp 8 ? A is not true", V + " -tp 1 -dp 8 ? A is true"],
    ),
    "settled by the script": ("A=true\nif [[ $A == true ]]; then T=1; else T=8; fi\nvllm serve m -tp $T", [V + " -tp 1"]),
    "immaterial condition": ('X=\nif [ "$E" = 1 ]; then X=--enforce-eager; fi\nvllm serve m $X', [V]),
    "which node is no condition": ('if [ "$RANK" = 0 ]; then vllm serve m -tp 8; else sleep 9; fi', [V + " -tp 8"]),
    "head and headless": (
        'if [ "$RANK" = 0 ]; then vllm serve m -dp 2; else vllm serve m -dp 2 --headless; fi',
        [V + " -dp 2"],
    ),
    "case": ("case $GPU in h100) T=8;; b200) T=4;; *) T=2;; esac\nvllm serve m -tp $T", [V + " -tp 2", V + " -tp 8 ? GPU is h100", V + " -tp 4 ? GPU is b200"]),
    "options of the script": ("T=4\nwhile [[ $# -gt 0 ]]; do case $1 in --tp) T=$2; shift 2;; esac; done\nvllm serve m -tp $T", [V + " -tp 4"]),
    "talked about": ('echo "vllm serve m"\npkill -f "vllm serve"\necho vllm serve m\nwrite_log x vllm serve m\npip install vllm', []),
    "written and run": ("cat > run.sh <<'EOF'\nvllm serve m -tp 2\nEOF\nbash run.sh", [V + " -tp 2"]),
    "fed to a shell": ("bash <<EOF\nvllm serve m -tp 2\nEOF", [V + " -tp 2"]),
    "placeholders": ("vllm serve <your-model> --port <port>", ["vllm serve <your-model> --port <port>"]),
    "suffix cut": ("M=org/name\nvllm serve $M --served-model-name ${M##*/}", ["vllm serve org/name --served-model-name name"]),
    "arithmetic": ("N=2\nvllm serve m -tp $((N * 4))", [V + " -tp 8"]),
    "router is none": ("python3 -m sglang_router.launch_router --port 1", []),
    "dynamo": ("python3 -m dynamo.vllm --model m --is-prefill-worker -tp 2 --connector none", ["vllm serve --model m -tp 2"]),
    "unclosed": ("if true; then\n vllm serve m -tp 2 'x", [V + " -tp 2 x\n"]),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str) -> None:
    script, expected = SCRIPTS[name]
    found = find_launches(f"#!/bin/bash\n{script}\n", "run.sh")
    read = [" ".join(word.text for word in launch.words) + (f" ? {launch.when}" if launch.when else "") for launch in found.launches]
    if name == "case":  # the branch that is taken when no other is has the longest condition
        read[0] = read[0].partition(" ? ")[0]
    assert read == expected


def test_a_file_that_the_script_writes_comes_along() -> None:
    script = "#!/bin/bash\nTP=4\ncat > c.yaml <<EOF\ntensor-parallel-size: $TP\nmax-num-seqs: ${N}\nEOF\nvllm serve m --config c.yaml\n"
    (launch,) = find_launches(script, "run.sh").launches
    assert launch.files == {"c.yaml": "tensor-parallel-size: 4\nmax-num-seqs: $N\n"}


def test_environment_image_and_version() -> None:
    script = "#!/bin/bash\npip install 'vllm==0.11.0'\nexport A=1\nB=2\nC=3 vllm serve m\n"
    (launch,) = find_launches(script, "run.sh").launches
    assert {name: word.text for name, word in launch.environment.items()} == {"A": "1", "C": "3"}
    assert launch.version is not None
    assert (launch.version.text, launch.version.origin.line) == ("0.11.0", 2)
    (launch,) = find_launches("#!/bin/bash\nsrun --container-image=vllm/vllm-openai:v0.12.0 vllm serve m\n", "run.sh").launches
    assert launch.image is not None
    assert launch.image.text == "vllm/vllm-openai:v0.12.0"


def test_slurm_directives() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8\nvllm serve m -tp $SLURM_GPUS_ON_NODE -pp $SLURM_NNODES\n"
    (launch,) = find_launches(script, "job.sbatch").launches
    assert [word.text for word in launch.words[3:]] == ["-tp", "8", "-pp", "2"]
    assert {name: stated.value for name, stated in launch.stated.items()} == {"parallel.nodes": 2, "device.gpus_per_node": 8}


def test_options_that_a_comment_cuts_off_are_told() -> None:
    (launch,) = find_launches("#!/bin/bash\nvllm serve m \\\n  # -tp 2 \\\n  -pp 2\n", "run.sh").launches
    assert any("line 4" in note for note in launch.notes)


def test_the_lexer_loses_no_literal_text() -> None:
    written = "a 'b c' \"d $e\" f=(g h) $(i j) <k> {{ l m }} n\\ o"
    said = [token.word.written for token in tokens(written) if token.word is not None]
    assert said == ["a", "b c", "d $e", "f=", "$(i j)", "<k>", "{{ l m }}", "n o"]
