r"""The tool in Python: a model in memory that completes and scores texts.

    with gpt2cli.load("starter") as model:
        print(model.generate("Once upon", seed=6, max_new_tokens=52).text)

Options are those of the command line by their long names with underscores, with values as in a
record of a batch: `stop=["\n"]`, `logit_bias={"the": -5}`, `json_schema={...}`. They have the same
defaults, and the model's own; the environment and the config file do not count. The same seed gives
the text that the command line gives.
"""
