"""Writes the files of llmgov in a rendered chart to a folder: files.py RENDERED FOLDER."""
import pathlib
import sys

import yaml

rendered, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
policies = folder / "policies"
policies.mkdir(parents=True)
for document in yaml.safe_load_all(rendered.read_text()):
    if document["kind"] != "ConfigMap":
        continue
    for name, content in document["data"].items():
        content = content.replace("/etc/llmgov-policies", str(policies)).replace("/var/lib/llmgov", str(folder))
        (folder if name == "llmgov.yaml" else policies).joinpath(name).write_text(content)
