"""The MQTT broker of a URL, and clients for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from emulator.annexes.telemetry.messages import PREFIX, BrokerMessage
from emulator.errors import InputError

if TYPE_CHECKING:
    import aiomqtt
    from paho.mqtt.properties import Properties

EXPIRY_S = 7 * 86_400
"""How long a broker keeps a retained message of a run."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_ACKNOWLEDGED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, from `mqtt[s]://[user@]HOST[:PORT][/PREFIX]`; `prefix` is the first level of all topics."""

    host: str
    port: int
    prefix: str = PREFIX
    username: str | None = None
    password: str | None = None
    is_tls: bool = False

    @classmethod
    def parse(cls, url: str, *, password: str | None = None) -> Self:
        """The broker of a URL.

        Args:
            url: a URL, or a host with or without a port.
            password: given separately, because other users can see command lines.

        Raises:
            InputError: the URL is malformed or contains a password.
        """
        problem = f"{url!r} is not a broker: write mqtt://[USER@]HOST[:PORT][/PREFIX], or mqtts:// for TLS"
        try:
            parts = urlsplit(url if "//" in url else f"mqtt://{url}")
            if parts.password is not None:  # checked first: no other error may repeat the URL
                raise InputError("other users can see a password in a URL: set CHARKHA_MQTT_PASSWORD instead")
            port = parts.port or _PORTS[parts.scheme]
            (parts.hostname or "").encode("idna")  # as a resolver does; a UnicodeError is a ValueError
        except (ValueError, KeyError) as error:
            raise InputError(problem) from error
        prefix = parts.path.strip("/")
        if not parts.hostname or any(character in url for character in "+#?"):
            raise InputError(problem)
        user = unquote(parts.username) if parts.username else None
        return cls(parts.hostname, port, prefix or PREFIX, user, password, parts.scheme == "mqtts")

    def client(self, *, will: BrokerMessage | None = None) -> aiomqtt.Client:
        """A client, not connected yet. Call it inside an event loop.

        Args:
            will: last will of the connection.
        """
        import aiomqtt
        from paho.mqtt.packettypes import PacketTypes

        expiry = message_properties(PacketTypes.WILLMESSAGE)
        last = None
        if will is not None:
            last = aiomqtt.Will(will.topic, will.payload, qos=1, retain=will.is_retained, properties=expiry)
        return aiomqtt.Client(
            self.host,
            self.port,
            username=self.username,
            password=self.password,
            protocol=aiomqtt.ProtocolVersion.V5,
            will=last,
            timeout=_ACKNOWLEDGED_WITHIN_S,
            keepalive=10,
            tls_params=aiomqtt.TLSParameters() if self.is_tls else None,
        )


def message_properties(packet: int) -> Properties:
    """MQTT 5 properties of a message: it expires after a week.

    Args:
        packet: type of the packet, of paho's PacketTypes.
    """
    from paho.mqtt.properties import Properties

    properties = Properties(packet)
    properties.MessageExpiryInterval = EXPIRY_S
    return properties
