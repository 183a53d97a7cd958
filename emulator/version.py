"""The version of Charkha: of the command, of both distributions, of what an agent says of itself."""

VERSION = "0.1.0"
