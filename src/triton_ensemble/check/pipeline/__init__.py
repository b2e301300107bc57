"""The check of a pipeline.yml: the template's rules on answers, then the check of the configs that they give."""
