"""Code that runs in image builds, in containers and in their health checks, with the standard library only."""
