"""Running an experiment, or telling what it would do."""

from pathlib import Path
from typing import Any

from fewer.experiments.config import ExperimentConfig, LmSource, ModelSource
from fewer.experiments.cost import experiment_lines, frozen_lm
from fewer.experiments.experiment import Experiment
from fewer.experiments.inputs import missing_inputs
from fewer.experiments.layers import train_values
from fewer.report.tables import write_tables
from fewer.store.model_folder import WEIGHTS
from fewer.training.configs import parse_train_config
from fewer.training.cost import dry_run
from fewer.training.gpus import DEFAULT, GPUS, Gpu


def run_experiment(config: ExperimentConfig, folder: str | Path) -> dict[str, Any]:
    """Run to the end and write the tables; returns the results."""
    results = Experiment(config, folder).run()
    write_tables(results, Path(folder), config.paper)
    return results


def describe(config: ExperimentConfig, gpu: Gpu = GPUS[DEFAULT]) -> str:
    """What an experiment would do, with the cost of all of it, here and on a named GPU."""
    lines = [config.title, f"scales tuned on {config.tune}, reported on {', '.join(config.sets)}"]
    lines += [f"rows: {', '.join(row.key for row in config.rows)}"]
    sources: dict[str, ModelSource | LmSource] = {**config.recognisers, **config.lms}
    for name, source in sources.items():
        if source.train is None:
            lines.append(f"\n{name}: {_given(source)}")
            continue
        values = {"tokenizer": "tokenizer.json", **train_values(source.train)}
        folder = config.models / name if config.models else None
        where = f" (already trained, in {folder})" if folder and (folder / WEIGHTS).exists() else ""
        training = parse_train_config(values, name)
        lines.append(f"\n{name}{where}: {dry_run(training, gpu, frozen_lm(training))}")
    lines += ["", *experiment_lines(config, gpu)]
    if missing := missing_inputs(config):
        lines += ["", f"missing, {len(missing)} in all:", *(f"  {line}" for line in missing)]
        lines.append("docs/recipes.md tells how to get and prepare the data of the recipes")
    else:
        lines += ["", "all files that it reads are here"]
    return "\n".join(lines)


def _given(source: ModelSource | LmSource) -> str:
    """A model that is there, or an n-gram to be estimated."""
    if isinstance(source, ModelSource):
        return f"{source.folder}, as it is"
    if source.ngram is None:
        return f"{source.path}, as it is"
    mixed = f", mixed to fit {source.ngram.mix}" if source.ngram.mix else ""
    return f"{source.ngram.order}-gram of {', '.join(map(str, source.ngram.text))}{mixed}"
