# Managed by triton-ensemble-template: change pipeline.yml, then `make update`.
"""What the tools know of this project."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
REPOSITORY = ROOT / "model_repository"
ENSEMBLE = {{ ensemble_name | to_json }}

# Folders of the model repository.
MODELS: list[str] = {{ graph.container.models | to_json }}

# Version folders of Python models, and the modules of steps/ that each serves.
STEP_MODULES: dict[str, list[str]] = {{ '{' if graph.python_models else '{}' }}
{% for model in graph.python_models %}
{% for version in model.versions %}
    "{{ model.name }}/{{ version }}": {{ model.modules | to_json }},
{% endfor %}
{% endfor %}
{% if graph.python_models %}
}
{% endif %}

{% if graph.own_models %}
# Version folders of Python models with a model.py of their own, and the folder of steps/ that it lies in.
OWN_MODELS: dict[str, str] = {
{% for model in graph.own_models %}
{% for version in model.versions %}
    "{{ model.name }}/{{ version }}": {{ model.module | to_json }},
{% endfor %}
{% endfor %}
}
{% else %}
OWN_MODELS: dict[str, str] = {}
{% endif %}

# Packages that Python steps declare in pipeline.yml.
REQUIREMENTS: list[str] = {{ graph.packages.steps | to_json }}

# Files that make a model: each with the script in models/ that makes it.
MODEL_FILES: dict[str, str] = {{ '{' if graph.model_files else '{}' }}
{% for path, script in graph.model_files.items() %}
    {{ path | to_json }}: {{ script | to_json }},
{% endfor %}
{% if graph.model_files %}
}
{% endif %}

# Files next to a config, copied from models/.
MODEL_DATA: dict[str, str] = {{ '{' if graph.data else '{}' }}
{% for path, source in graph.data.items() %}
    {{ path | to_json(ensure_ascii=false) }}: {{ source | to_json(ensure_ascii=false) }},
{% endfor %}
{% if graph.data %}
}
{% endif %}
