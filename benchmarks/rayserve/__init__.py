"""What Ray Serve gives and costs."""
