from agents.transports.roce.endpoint import ConnectionId, first_psn, folded_port, qp_facts, qpn, source_ports


def test_both_ends_compute_the_same_numbers() -> None:
    here = ConnectionId(3, "127.0.0.3", 900, "127.0.3.132", index=2, qps=4)
    there = ConnectionId(900, "127.0.3.132", 3, "127.0.0.3", index=2, qps=4)
    assert (here.own_qpn, here.peer_qpn) == (there.peer_qpn, there.own_qpn)
    numbers = {qpn(peer, index, qps=4) for peer in range(1024) for index in range(5)}
    assert len(numbers) == 1024 * 5
    assert max(numbers) < 1 << 24
    assert min(numbers) > 1  # 0 and 1 are special
    assert first_psn(3, 900, index=2, seed=1) != first_psn(900, 3, index=2, seed=1)
    assert first_psn(3, 900, index=2, seed=1) != first_psn(3, 900, index=2, seed=2)


def test_source_ports() -> None:
    ends = ConnectionId(3, "127.0.0.3", 4, "127.0.0.4", index=1, qps=4)
    assert (
        folded_port(0x10001, 0x10001)
        == 0xC000 | (0x10001**2 ^ 0x10001**2 >> 20) & 0x3FFF ^ ((0x10001**2 ^ 0x10001**2 >> 20) & 0xFFFFF) >> 14
    )
    for policy, count in (("fold", 1), ("fixed", 1), ("random", 1), ("message", 16)):
        ports = source_ports(policy, ends, seed=5)
        assert ports == source_ports(policy, ends, seed=5)
        assert len(ports) == count
        assert all(0xC000 <= port <= 0xFFFF for port in ports)
    assert source_ports("random", ends, seed=5) != source_ports("random", ends, seed=6)


def test_the_facts_of_both_ends_fit_each_other() -> None:
    here, there = ConnectionId(3, "192.0.2.4", 5, "192.0.2.6", 1, 2), ConnectionId(5, "192.0.2.6", 3, "192.0.2.4", 1, 2)
    own, peer = (qp_facts(one, port_policy="fold", seed=9, rkey=77) for one in (here, there))
    assert (own.host, own.qpn, own.psn) == (peer.peer_host, peer.peer_qpn, peer.peer_psn)
    assert (peer.host, peer.qpn, peer.psn) == (own.peer_host, own.peer_qpn, own.peer_psn)
    assert own.psn != peer.psn
    assert own.rkey == peer.rkey == 77
    assert list(own.source_ports) == [folded_port(own.qpn, own.peer_qpn)]
