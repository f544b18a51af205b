"""Writes logs/ with the tools' own code: run where lm_eval==0.4.13, crfm-helm==0.5.16 and inspect-ai==0.3.285 are.

python -m tests.scoring.contributed.make_logs
"""

import json
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.scoring.contributed.prompts import PROMPTS, K, continuation

LOGS = Path(__file__).parent / "logs"


def harness() -> None:
    """An evaluation by lm-evaluation-harness of a task like realtoxicityprompts, with k responses."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker

    class StandIn(LM):
        asked: dict[int, int] = {}

        def loglikelihood(self, requests):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

        def generate_until(self, requests):
            found = []
            for request in requests:
                index = self.asked.get(request.doc_id, 0)
                self.asked[request.doc_id] = index + 1
                found.append(continuation(request.doc_id, index))
            return found

    with TemporaryDirectory() as folder:
        data = Path(folder) / "prompts.jsonl"
        data.write_text(
            "".join(
                json.dumps(
                    {
                        "filename": f"{prompt.id}.txt",
                        "begin": 0,
                        "end": 9,
                        "challenging": False,
                        "prompt": {"text": prompt.text, "toxicity": 0.01},
                        "continuation": {"text": " and it went on", "toxicity": 0.01},
                    }
                )
                + "\n"
                for prompt in PROMPTS
            )
        )
        task = {
            "task": "realtoxicityprompts",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"train": str(data)}},
            "test_split": "train",
            "doc_to_text": "{{prompt.text}}",
            "doc_to_target": "",
            "repeats": K,
            "generation_kwargs": {
                "until": ["\n\n"],
                "do_sample": True,
                "temperature": 1.0,
                "top_p": 0.9,
                "max_gen_toks": 20,
            },
            "output_type": "generate_until",
            "process_results": lambda doc, results: {"score": 0},
            "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": False}],
            "metadata": {"version": 0.0},
        }
        tracker = EvaluationTracker(output_path=folder)
        results = lm_eval.simple_evaluate(
            model=StandIn(),
            model_args="pretrained=stand-in/model",
            tasks=[task],
            log_samples=True,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples(task_name="realtoxicityprompts", samples=samples["realtoxicityprompts"])
        for path in Path(folder).rglob("samples_*.jsonl"):
            shutil.copy(path, LOGS / "samples_realtoxicityprompts_2026-01-02T03-04-05.678901.jsonl")
        for path in Path(folder).rglob("results_*.json"):
            found = json.loads(path.read_text(encoding="utf-8"))
            for private in ("pretty_env_info", "configs", "git_hash"):  # what it says of the machine that ran this
                found.pop(private, None)
            target = LOGS / "results_2026-01-02T03-04-05.678901.json"
            target.write_text(json.dumps(found, indent=2), encoding="utf-8")


def helm() -> None:
    """A scenario state as HELM's runner writes it."""
    from helm.benchmark.adaptation.common_adapter_specs import get_completion_adapter_spec
    from helm.benchmark.adaptation.request_state import RequestState
    from helm.benchmark.adaptation.scenario_state import ScenarioState
    from helm.benchmark.scenarios.scenario import TEST_SPLIT, Input, Instance
    from helm.common.general import asdict_without_nones
    from helm.common.request import GeneratedOutput, Request, RequestResult, Token

    def state(number: int, text: str) -> RequestState:
        texts = [continuation(number, index) for index in range(K)]
        completions = [
            GeneratedOutput(
                text=text,
                logprob=-2.0,
                tokens=[Token(text=text[:4], logprob=-1.5), Token(text=text[4:], logprob=-0.5)],
                finish_reason={"reason": "length"},
            )
            for text in texts
        ]
        return RequestState(
            instance=Instance(
                input=Input(text=text), references=[], split=TEST_SPLIT, sub_split="non-toxic", id=f"id{number}"
            ),
            reference_index=None,
            request_mode=None,
            train_trial_index=0,
            output_mapping=None,
            request=Request(
                model="stand-in/model",
                model_deployment="stand-in/model",
                prompt=text,
                temperature=0.9,
                num_completions=K,
                max_tokens=20,
            ),
            result=RequestResult(
                success=True, embedding=[], completions=completions, cached=False, request_datetime=1767323045
            ),
            num_train_instances=0,
            prompt_truncated=False,
        )

    spec = get_completion_adapter_spec(
        temperature=0.9, max_tokens=20, num_outputs=K, model="stand-in/model", model_deployment="stand-in/model"
    )
    found = ScenarioState(spec, [state(number, prompt.text) for number, prompt in enumerate(PROMPTS)])
    (LOGS / "scenario_state.json").write_text(json.dumps(asdict_without_nones(found), indent=2))


def inspect() -> None:
    """A log of Inspect in both of its formats, of a model that gives these outputs, in K epochs."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model

    asked: dict[str, int] = {}

    def output(messages, tools, tool_choice, config) -> ModelOutput:
        text = messages[-1].text
        count = asked.get(text, 0)
        asked[text] = count + 1
        places = [number for number, prompt in enumerate(PROMPTS) if prompt.text == text]
        found = ModelOutput.from_content(
            "stand-in", continuation(places[count % len(places)], count // len(places)), "max_tokens"
        )
        found.usage = ModelUsage(input_tokens=7, output_tokens=20, total_tokens=27)
        return found

    samples = [Sample(id=prompt.id, input=prompt.text) for prompt in PROMPTS]
    with TemporaryDirectory() as folder, chdir(folder):  # outside the repository, whose state it would note
        logs = eval(
            Task(dataset=MemoryDataset(samples), name="real_toxicity_prompts", epochs=K),
            model=get_model("mockllm/model", custom_outputs=output),
            log_dir=folder,
            log_format="eval",
            max_samples=1,
            display="none",
            **GenerateConfig(temperature=1.0, top_p=0.9, max_tokens=20).model_dump(exclude_none=True),
        )
        log = read_eval_log(logs[0].location)
        shutil.copy(logs[0].location.removeprefix("file://"), LOGS / "inspect.eval")
        write_eval_log(log, str(LOGS / "inspect.json"))


if __name__ == "__main__":
    harness()
    helm()
    inspect()
