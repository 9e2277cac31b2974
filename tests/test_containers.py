"""Launches out of files: the labelled sample and corpus, what every launch must be, and that nothing raises."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from policy.launchers import containers
from policy.launchers.containers import find_launches, formats
from policy.launchers.found import FoundLaunch, Word
from policy.launchers.read import read_launch
from policy.load import read_pack
from policy.origin import Origin
from tests.score_corpus import ARGUED, FIELDS, describe, score
from tests.shared import shared_path

SAMPLE = Path(__file__).with_name("corpus_sample")
PROGRAMS = {
    "vllm": (("vllm", "serve"), ("-m", "vllm.entrypoints")),
    "sglang": (("sglang", "serve"), ("-m", "sglang.launch_server")),
    "tensorrt_llm": (("trtllm-serve",), ("-m", "dynamo.trtllm"), ("server.py",)),
}


def corpora() -> list[Path]:
    found = shared_path("corpus")
    return [SAMPLE] if found is None else [SAMPLE, found]


def texts() -> list[tuple[str, str]]:
    """Every file of the sample, and of the corpus where it is there, as (name, text)."""
    return [(entry.name, entry.read_text()) for folder in corpora() for entry in sorted(folder.glob("*/*"))]


def sample(name: str) -> str:
    return next(SAMPLE.glob(f"*/{name}")).read_text()


def test_sample_agrees_with_its_labels() -> None:
    counts, rows, _, quarrels = score(SAMPLE)
    assert rows == []
    assert quarrels == []
    assert sum(count["launches"] for count in counts.values()) == 50


def test_corpus_agrees_with_its_labels_but_for_argued_differences() -> None:
    folder = shared_path("corpus")
    if folder is None:
        pytest.skip("the labelled corpus (158 files) is not there; the sample of 24 files ran")
    _, rows, _, quarrels = score(folder)
    assert [(row.file, row.field, row.label, row.read) for row in rows if not row.argued] == []
    assert quarrels == []


def test_arguments_are_not_stale() -> None:
    folder = shared_path("corpus")
    if folder is None:
        pytest.skip("the labelled corpus is not there")
    import yaml

    differing = {(row.file, row.field) for row in score(folder)[1]}
    for file, fields in yaml.safe_load(ARGUED.read_text()).items():
        for field in fields:
            assert any(other == file and field in {"*", name} for other, name in differing), (file, field)
            assert field in {"*", "launches", *FIELDS}


def test_sample_covers_every_format_but_scripts() -> None:
    read = {find_launches(file.read_text(), file.name).format for file in SAMPLE.glob("*/*")}
    missing = {str(module.NAME) for module in formats()} - read
    assert missing == {"shell script", "launch records", "llm-d recipe"}  # tested below, in test_shell_reading.py and by commands.jsonl


@pytest.mark.parametrize(("name", "text"), texts(), ids=lambda value: value if isinstance(value, str) and len(value) < 200 else "")
def test_every_launch_is_one(name: str, text: str) -> None:
    found = find_launches(text, name)
    assert not [problem for problem in found.problems if problem.kind == "unreadable"]
    for launch in found.launches:
        check_words(launch, name, text)
    if not found.launches:
        assert any(problem.kind == "no-launch" and "looked for" in problem.message for problem in found.problems) or found.problems


def check_words(launch: FoundLaunch, name: str, text: str) -> None:
    """Words begin with the engine's program, are numbered from 1, and stand where their origins say."""
    spoken = [word.text for word in launch.words]
    joined = " ".join(spoken[:4])
    assert any(all(part in joined for part in program) for program in PROGRAMS[launch.engine]), spoken[:4]
    assert [word.origin.argument for word in launch.words] == list(range(1, len(launch.words) + 1))
    lines = text.split("\n")
    for word in launch.words:
        assert word.origin.file == name
        assert word.origin.line is not None
        assert 1 <= word.origin.line <= len(lines)
        here = "\n".join(lines[word.origin.line - 1 :])
        synthesised = word.text in {"vllm", "serve", "python3", "-m", "trtllm-serve", "--config", "--model", name}
        assert word.text not in text or word.text in here or "$" in lines[word.origin.line - 1] or synthesised, word
    for variable in launch.environment.values():
        assert variable.origin.kind == "environment"
        assert variable.origin.line is not None


def test_places_of_words_are_exact_in_a_block_inside_a_manifest() -> None:
    name = "sglang__docker-k8s-sglang-distributed-sts.yaml"
    text = sample(name)
    (launch,) = find_launches(text, name).launches
    lines = text.split("\n")
    for word in launch.words:
        assert word.origin.line is not None
        assert word.origin.column is not None
        assert lines[word.origin.line - 1][word.origin.column - 1 :].startswith(word.text[:4]), word


def test_standard_input_has_the_same_launches() -> None:
    for file in SAMPLE.glob("*/*"):
        named, nameless = (find_launches(file.read_text(), name) for name in (file.name, "-"))
        assert [describe(launch) for launch in named.launches] == [describe(launch) for launch in nameless.launches], file.name
        assert named.format == nameless.format


def test_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    for file in SAMPLE.glob("*/*"):
        text = file.read_text()
        plain, other = find_launches(text, file.name), find_launches("\ufeff" + text.replace("\n", "\r\n"), file.name)
        assert [describe(launch) for launch in plain.launches] == [describe(launch) for launch in other.launches], file.name


def test_a_format_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_new_format.py").write_text(
        'NAME, LOOKS_FOR = "a new format", "its own mark"\n'
        "from policy.launchers.found import FoundLaunch\n"
        "def looks_like(text, documents, name): return 100 if text.startswith('%NEW') else 0\n"
        "def read(text, documents, name, problems): return [FoundLaunch('vllm')]\n"
    )
    monkeypatch.setattr(containers, "__path__", [*containers.__path__, str(tmp_path)])
    formats.cache_clear()
    try:
        assert find_launches("%NEW\nanything", "-").format == "a new format"
    finally:
        monkeypatch.undo()
        formats.cache_clear()


def test_a_broken_format_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, documents: object, name: str) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(formats()[0], "looks_like", broken)
    found = find_launches("#!/bin/sh\nvllm serve m\n", "x.sh")
    assert [launch.engine for launch in found.launches] == ["vllm"]
    assert [problem.kind for problem in found.problems] == ["unreadable"]


def test_secrets_stay_in_the_file() -> None:
    text = "services:\n  a:\n    image: vllm/vllm-openai:v1\n    command: --model m\n    environment: {HF_TOKEN: abc, VLLM_USE_V1: '1'}\n"
    (launch,) = find_launches(text, "compose.yaml").launches
    assert set(launch.environment) == {"VLLM_USE_V1"}


def test_what_cannot_be_parsed_is_told_with_its_place() -> None:
    found = find_launches("apiVersion: v1\nkind: Pod\nspec: [\n", "pod.yaml")
    assert [(problem.kind, problem.origin.line) for problem in found.problems if problem.kind == "unparsable-yaml"] == [("unparsable-yaml", 4)]
    found = find_launches('{"argv": ["vllm", "serve", "m"]}\n{"argv": [\n', "records.jsonl")
    assert len(found.launches) == 1
    assert [(problem.kind, problem.origin.line) for problem in found.problems] == [("unparsable-json", 2)]


@pytest.mark.parametrize("text", ["", "\n", "\x00", "{", "[]", "null", "---\n---\n", "a: &a [*a]", "kind: Pod", "vllm", "#!/bin/sh\n", "{}" * 1000])
def test_nothing_is_found_in_nothing(text: str) -> None:
    found = find_launches(text, "-")
    assert found.launches == []
    assert found.problems[-1].kind == "no-launch"


SPLICES = [
    *("\n", "\t", "{{", "}}", '"', "'", "$(", "${", "`", "<<EOF\n", "- ", "&a ", "*a", "<<: *a", "!!python/object:x ", "|", "[", "]", "{", "}", "#", ":"),
    *("\\\n", "if ", "fi\n", "case x in\n", "esac", "(", ")", ";;", "[[ ", "$((", "\x00", "\udc80", "--config ", "for i in 1 2; do ", "done", "f() {", "}\n"),
]


def mutated(chance: random.Random, text: str) -> str:
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.randrange(1, 60))
    kinds = [
        lambda: text[:start],
        lambda: text[start:],
        lambda: text[:start] + text[end:],
        lambda: text[:start] + text[start:end] * 3 + text[end:],
        lambda: text[:start] + chance.choice(SPLICES) * chance.randrange(1, 30) + text[end:],
    ]
    return chance.choice(kinds)()


@pytest.mark.parametrize("file", sorted(SAMPLE.glob("*/*")), ids=lambda file: file.name)
def test_damage_is_never_a_traceback(file: Path) -> None:
    chance = random.Random(file.name)
    raw = file.read_bytes()
    damaged = [raw[: chance.randrange(len(raw))].decode(errors="replace") for _ in range(6)]
    damaged += [mutated(chance, mutated(chance, file.read_text())) for _ in range(14)]
    for text in damaged:
        for name in (file.name, "-"):
            found = find_launches(text, name)
            assert not [problem for problem in found.problems if problem.kind == "unreadable"], text
            assert found.launches or found.problems


HOSTILE = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x]\n" + "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 8)}]" for n in range(12)),
    "depth": "[" * 50_000,
    "python tag": "vllm: !!python/object/apply:os.system [true]",
    "substitutions": "vllm serve " + "$(" * 5_000,
    "arrays": "vllm serve m\n" + "A=(" * 5_000,
    "doubling": "A=(a b c d)\n" + "A=(${A[@]} ${A[@]})\n" * 40 + "vllm serve ${A[@]}",
    "growing": "A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 60 + "vllm serve $A",
    "recursion": "f() { f; f; vllm serve m; }\nf\n",
    "loops": "for i in 1 2 3 4 5 6 7 8 9; do " * 9 + "vllm serve m -tp $i\n" + "done;" * 9,
    "conditions": "".join(f'if [ "$A{n}" == 1 ]; then B{n}=1; fi\n' for n in range(500)) + "vllm serve m -tp $B1",
    "log": "INFO non-default args: {'model': 'm', 'a': {" * 500,
    "records": '{"argv": [' * 2_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end(name: str) -> None:
    found = find_launches(HOSTILE[name], "-")
    assert not [problem for problem in found.problems if problem.kind == "unreadable"]


def test_records_of_several_shapes() -> None:
    records = [
        {"argv": ["vllm", "serve", "m", "-tp", "2"]},
        {"command": "A=1 vllm serve m -tp 2", "env": {"B": "2"}, "image": "vllm/vllm-openai:v0.11.0", "host": "h1"},
        {"cmd": ["bash", "-c", "exec vllm serve m -tp 2"]},
        {"commands": ["vllm serve m -tp 2", "sleep 1"], "environment": ["B=2"]},
    ]
    found = find_launches("\n".join(json.dumps(record) for record in records), "records.jsonl")
    assert found.format == "launch records"
    assert [describe(launch)["tensor_parallel_size"] for launch in found.launches] == [2, 2, 2, 2]
    assert [word.origin.line for launch in found.launches for word in launch.words[:1]] == [1, 2, 3, 4]
    second = found.launches[1]
    assert (second.name, second.image and second.image.text) == ("h1", "vllm/vllm-openai:v0.11.0")
    assert {name: word.text for name, word in second.environment.items()} == {"A": "1", "B": "2"}


#: name -> (text, what is read of each launch besides the engine)
FORMS: dict[str, tuple[str, list[dict[str, object]]]] = {
    "dynamo v1beta1": (
        """
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  env: [{name: VLLM_X, value: "1"}]
  components:
    - name: Frontend
      podTemplate: {spec: {containers: [{name: main, image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1", command: [python3, -m, dynamo.frontend]}]}}
    - name: Decode
      multinode: {nodeCount: 2}
      podTemplate:
        spec:
          containers:
            - name: main
              image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1
              command: [python3, -m, dynamo.vllm]
              args: [--model, m, -tp, "8", -pp, "2", --dyn-tool-call-parser, hermes]
""",
        [{"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "nodes": 2, "model": "m", "role": "decode"}],
    ),
    "ray cluster with a head that serves": (
        """
apiVersion: ray.io/v1
kind: RayCluster
spec:
  headGroupSpec:
    template:
      spec:
        containers:
          - {name: head, image: "vllm/vllm-openai:v1", command: [sh, -c, "ray start --head; vllm serve m -tp 8 -pp 3"],
             resources: {limits: {nvidia.com/gpu: 8}}}
  workerGroupSpecs:
    - replicas: 2
      template: {spec: {containers: [{name: w, image: "vllm/vllm-openai:v1", resources: {limits: {nvidia.com/gpu: 8}}}]}}
""",
        [{"tensor_parallel_size": 8, "pipeline_parallel_size": 3, "nodes": 3, "model": "m"}],
    ),
    "ray cluster without a command": (
        """
apiVersion: ray.io/v1
kind: RayCluster
spec: {headGroupSpec: {template: {spec: {containers: [{name: head, image: "vllm/vllm-openai:v1"}]}}}}
""",
        [],
    ),
    "an indexed job whose pods are the nodes": (
        """
apiVersion: batch/v1
kind: Job
spec:
  completions: 4
  template:
    spec:
      containers:
        - name: a
          image: lmsysorg/sglang:v0.5.9
          env: [{name: M, value: org/m}]
          command: [python3, -m, sglang.launch_server, --model-path, $(M), --tp, "32", --nnodes, $(N), --node-rank, $(JOB_COMPLETION_INDEX)]
""",
        [{"tensor_parallel_size": 32, "nodes": 4, "model": "org/m"}],
    ),
    "a script in a mounted ConfigMap": (
        """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  run.sh: |
    #!/bin/sh
    vllm serve m -tp $TP
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      volumes: [{name: v, configMap: {name: c}}]
      containers:
        - name: a
          image: registry/own:1
          env: [{name: TP, value: "2"}]
          command: [/bin/sh, /scripts/run.sh]
          volumeMounts: [{name: v, mountPath: /scripts}]
""",
        [{"tensor_parallel_size": 2, "model": "m"}],
    ),
    "json": (
        '{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "vllm/vllm-openai:v1", "args": ["--model", "m", "-tp", "2"]}]}}',
        [{"tensor_parallel_size": 2, "model": "m"}],
    ),
    "compose with an image's own server": (
        "services:\n  a:\n    image: vllm/vllm-openai:v1\n    command: --model m --tensor-parallel-size ${TP:-2}\n  r:\n    image: lmsysorg/sglang-router:1\n",
        [{"tensor_parallel_size": 2, "model": "m"}],
    ),
    "prefill and decode of two pods in one log": (
        "[pod/p-0/vllm] (APIServer pid=1) INFO 01-01 [utils.py:1] non-default args: {'model': 'm', 'tensor_parallel_size': 4, "
        "'kv_transfer_config': {'kv_role': 'kv_producer'}}\n"
        "[pod/d-0/vllm] (APIServer pid=1) INFO 01-01 [utils.py:1] non-default args: {'model': 'm', 'tensor_parallel_size': 2, "
        "'kv_transfer_config': {'kv_role': 'kv_consumer'}}\n"
        "[pod/p-0/vllm] (EngineCore_DP0 pid=9) INFO 01-01 Initializing a V1 LLM engine (v0.14.0) with config: model='m', "
        "tensor_parallel_size=4, pipeline_parallel_size=1\n"
        "[pod/p-0/vllm] NCCL INFO comm 0x1 rank 0 nranks 4\n",
        [
            {"tensor_parallel_size": 4, "pipeline_parallel_size": 1, "model": "m", "role": "prefill"},
            {"tensor_parallel_size": 2, "pipeline_parallel_size": None, "model": "m", "role": "decode"},
        ],
    ),
    "every rank prints the same": (
        "".join(
            f"\x1b[36m(Worker pid={n}, ip=192.0.2.{n})\x1b[0m server_args=ServerArgs(model_path='m', tp_size=8, nnodes=2, node_rank=0, "
            "enable_dp_attention=True, dp_size=8, json={'a': [1, None]}, mode=<Mode.A: 1>)\n"
            for n in range(8)
        ),
        [{"tensor_parallel_size": 8, "data_parallel_size": 8, "nodes": 2, "model": "m", "dp_attention": True}],
    ),
    "an llm-d recipe": (
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nprefill: {tp: 4, extra-args: '--enforce-eager'}\n"
        'decode:\n  tp: 8\n  extra-args: >-\n    --compilation-config {"pass_config":{"fuse_allreduce_rms":true}}\n    --block-size 256\n',
        [{"tensor_parallel_size": 4, "role": "prefill"}, {"tensor_parallel_size": 8, "role": "decode", "forced_fusions": {"fuse_allreduce_rms": True}}],
    ),
    "ray serve forces its executor": (
        "applications:\n- args:\n    llm_configs:\n    - model_loading_config: {model_id: s, model_source: org/m}\n"
        "      engine_kwargs: {tensor_parallel_size: 4, enable_prefix_caching: false}\n",
        [{"tensor_parallel_size": 4, "model": "org/m"}],
    ),
    "options that fit vLLM and SGLang alike": ("tensor-parallel-size: 4\nmodel: m\n", [{"tensor_parallel_size": 4, "model": "m"}]),
    "options of nobody": ("host: a\nport: 1\nlog-level: debug\n", []),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    text, expected = FORMS[name]
    read = [describe(launch) for launch in find_launches(text, "-").launches]
    assert [{field: launch[field] for field in wanted} for launch, wanted in zip(read, expected, strict=False)] == expected
    assert len(read) == len(expected)


def test_ray_serve_states_the_executor() -> None:
    (launch,) = find_launches(FORMS["ray serve forces its executor"][0], "-").launches
    assert launch.stated["engine.executor"].value == "ray"
    assert "--no-enable-prefix-caching" in [word.text for word in launch.words]


def test_branches_of_a_template_are_no_lost_settings() -> None:
    name = "template-with-branches.yaml"
    (launch,) = find_launches(sample(name), name).launches
    assert launch.templated
    read = read_launch(read_pack(), launch, None, None, False, {})
    assert (read.errors, [notice.kind for notice in read.notices]) == ([], [])
    plain = sample(name).replace("{{ .Values.ranks | quote }}", '"4"').replace("{{ .Release.Name }}", "x")
    plain = "".join(line for line in plain.splitlines(keepends=True) if "{{" not in line)
    (launch,) = find_launches(plain, name).launches
    assert [notice.kind for notice in read_launch(read_pack(), launch, None, None, False, {}).notices] == ["duplicate-setting"]


@pytest.mark.parametrize("value", ["<port>", "{{ .port }}", "${PORT}", "{{- if .tls }}8443{{- end }}"])
def test_what_a_reader_or_a_template_fills_in_is_not_refused(value: str) -> None:
    words = ("vllm", "serve", "<model>", "--port", value, "--tensor-parallel-size", "2")
    launch = FoundLaunch("vllm", tuple(Word(text, Origin("argument", argument=number)) for number, text in enumerate(words, 1)))
    read = read_launch(read_pack(), launch, "0.22.1", None, False, {})
    assert read.errors == []
    assert read.launch.given["parallel.tensor_parallel_size"].values.single() == 2


def test_a_word_that_names_no_release_leaves_the_version_unknown() -> None:
    launch = FoundLaunch(
        "vllm",
        (Word("vllm", Origin("argument", argument=1)), Word("serve", Origin("argument", argument=2))),
        version=Word(">=nightly", Origin("file", "", "recipe.yaml", 3)),
    )
    read = read_launch(read_pack(), launch, None, None, False, {})
    assert (read.errors, [notice.kind for notice in read.notices]) == ([], ["version-unknown", "version-assumed"])
    assert "engine.version" not in read.launch.given


@pytest.mark.parametrize(
    ("text", "launches"),
    [
        ("# Page\n\nRun `vllm serve a` or\n\n    vllm serve b\n", 1),  # no code block: the words are taken as they stand
        ("# Page\n\n```python\nrun('vllm serve a')\n```\n", 0),
        ("# Page\n\n```\nINFO vllm serve a is up\n```\n", 0),
        ("# Page\n\n```bash\nvllm serve a 'open\n```\n\n```bash\nvllm serve b\n```\n", 2),
        ("jobs:\n  a:\n    steps:\n    - name: vllm serve a\n      run: make\n", 0),
        ("FROM vllm/vllm-openai:v0.22.1\nRUN vllm serve a\n", 0),
        ('FROM vllm/vllm-openai:v0.22.1 AS one\nCMD ["a/b"]\nFROM one\nENTRYPOINT ["sleep"]\n', 1),
        ("[Service]\nExecStartPre=vllm serve a\nExecStart=/bin/true\n", 0),
    ],
)
def test_only_what_is_run_is_a_launch(text: str, launches: int) -> None:
    assert len(find_launches(text, "-").launches) == launches


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("vllm/vllm-openai:v0.11.0", "python3 -m vllm.entrypoints.openai.api_server"),
        ("vllm/vllm-openai:v0.11.1", "vllm serve"),
        ("vllm/vllm-openai:v0.22", "vllm serve"),
        ("vllm/vllm-openai:latest", "vllm serve"),
    ],
)
def test_what_an_image_starts(image: str, program: str) -> None:
    (launch,) = find_launches(f"services:\n  engine:\n    image: {image}\n    command: --model a/b\n", "compose.yaml").launches
    assert " ".join(word.text for word in launch.words) == f"{program} --model a/b"
