"""The tests of generated projects: a pytest plugin, contract tests of steps, live tests of a server, tests of containers."""
