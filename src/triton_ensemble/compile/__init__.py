"""The template's own rules on answers, rendered from hooks/."""
