from emulator.roce.window import LEAST_PACKETS, SendWindow


def window(most: int = 512) -> SendWindow:
    return SendWindow(most, ack_interval=most // 2, smallest_run=15)


def test_a_loss_halves_it_down_to_a_floor_and_more_of_it_asks_for_acknowledgements() -> None:
    one = window()
    sizes = []
    for _ in range(8):
        one.lost()
        sizes.append((one.packets, one.ack_interval, one.smallest_run))
    assert sizes[:3] == [(256, 64, 15), (128, 32, 15), (64, 16, 8)]
    assert sizes[-1] == (LEAST_PACKETS, 2, 1)


def test_it_grows_in_proportion_to_what_arrives_until_nothing_holds_it_down() -> None:
    one = window()
    one.lost()
    one.acknowledged(256)
    assert one.packets == 256 + 16
    while one.is_reduced:
        one.acknowledged(one.packets)
    assert (one.packets, one.ack_interval, one.smallest_run) == (512, 256, 15)


def test_it_never_exceeds_what_the_settings_allow() -> None:
    one = window(10)
    one.lost()
    assert one.packets == LEAST_PACKETS
    assert [one.open() for _ in range(6)] == [True] * 4 + [False] * 2
    assert one.packets == 10
    tiny = window(2)
    tiny.lost()
    assert (tiny.packets, tiny.is_reduced) == (2, False)
