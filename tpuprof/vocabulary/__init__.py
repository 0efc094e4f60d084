"""What host event names mean, as data: one TOML file per framework."""
