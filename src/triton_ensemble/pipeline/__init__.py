"""pipeline.yml before a project is made from it: the template's own rules, rendered, and the check of what they generate."""
