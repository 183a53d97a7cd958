"""Exit codes: distinct, and those that the errors carry."""

import signal

from emulator import errors, exit_codes

CODES = {name: value for name, value in vars(exit_codes).items() if name.isupper()}


def test_every_code_has_one_meaning_and_fits_a_byte() -> None:
    assert len(set(CODES.values())) == len(CODES)
    assert all(0 <= code <= 255 for code in CODES.values())


def test_scripts_can_depend_on_the_numbers() -> None:
    assert CODES == {
        "DONE": 0,
        "FAILED": 1,
        "BAD_INPUT": 2,
        "HOST_LACKS": 3,
        "REGRESSION": 4,
        "EXPECTATION_FAILED": 5,
        "TESTER_LIMITED": 6,
        "UNDECIDED": 7,
        "INTERRUPTED": 128 + signal.SIGINT,
        "STDOUT_CLOSED": 128 + signal.SIGPIPE,
    }


def test_every_error_carries_one_of_them() -> None:
    classes = [errors.EmulatorError]
    while classes:
        one = classes.pop()
        assert one.exit_code in CODES.values()
        assert one.exit_code != exit_codes.DONE
        classes += one.__subclasses__()
