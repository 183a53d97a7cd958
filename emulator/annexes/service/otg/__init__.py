"""Open Traffic Generator: its model of collective communication, as proposed upstream, as runs of this service."""
