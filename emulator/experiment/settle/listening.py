"""Where the controller of a run listens for agents of other machines, and what they must show."""

from __future__ import annotations

from pathlib import Path

from emulator.control.certificates.roles import Role
from emulator.control.wire.credentials import read_token, require_protection, tls_files
from emulator.controller.roster.listen_address import ListenAddress
from emulator.errors import PlanError
from emulator.experiment.spec.spec import Agents


def listening(agents: Agents) -> ListenAddress | None:
    """Where agents connect; None if all are local.

    Raises:
        InputError: the token or the identity cannot be used, or control would leave this machine unprotected.
        PlanError: TLS or token files without an address, or agents by hand that have nowhere to connect.
    """
    files = {
        "token-file": agents.token_file,
        "tls-cert": agents.tls_cert,
        "tls-key": agents.tls_key,
        "tls-ca": agents.tls_ca,
        "identity": agents.identity,
    }
    if agents.listen is None:
        if agents.by_hand:
            raise PlanError("agents started by hand need an address: give --listen HOST:PORT or unix:PATH")
        for name, file in files.items():
            if file is not None:
                raise PlanError(f"--{name} is for --listen")
        return None
    token_file, *tls = (None if file is None else Path(file) for file in files.values())
    address = ListenAddress(agents.listen, read_token(token_file), tls_files(*tls))
    if agents.identity is not None:
        from emulator.control.certificates.identity import check_identity

        check_identity(Path(agents.identity), Role.CONTROLLER)
    require_protection(agents.listen, address.tls, insecure=agents.insecure, option="--listen")
    return address
