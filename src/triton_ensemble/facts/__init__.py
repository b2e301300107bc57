"""What the toolkit knows: tables, configs, answers and files, which all other packages read."""
