"""Calls run one at a time and end at their deadline, and the number of hung calls is bounded."""

import copy
import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout

import pytest

from nodewright.adapters.clocks import DeadlinePassed, VirtualClock
from nodewright.adapters.provider import CallTimedOut, InlineRunner, ThreadRunner
from nodewright.model.errors import ProviderUnavailable

SOON = 0.02
LONG = 30.0


def test_answers_and_errors_come_back() -> None:
    runner = ThreadRunner("p")
    assert runner.run(lambda: 7, LONG) == 7
    with pytest.raises(KeyError):
        runner.run(lambda: {"there": 1}["absent"], LONG)
    runner.close()


def test_one_thread_serves_all_calls_that_return() -> None:
    runner = ThreadRunner("p")
    assert len({runner.run(threading.get_ident, LONG) for _ in range(5)}) == 1
    runner.close()


def test_calls_never_overlap_with_one_worker() -> None:
    runner, busy = ThreadRunner("p"), threading.Lock()

    def call() -> bool:
        alone = busy.acquire(blocking=False)
        if alone:
            busy.release()
        return alone

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: runner.run(call, LONG), range(50)))
    runner.close()


def test_parallel_workers_do_overlap() -> None:
    runner, both = ThreadRunner("p", workers=2), threading.Barrier(2, timeout=LONG)
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda _: runner.run(both.wait, LONG), range(2))) == [0, 1]
    runner.close()


def test_a_hung_call_is_abandoned_and_the_next_one_runs() -> None:
    runner, release = ThreadRunner("p"), threading.Event()
    with pytest.raises(CallTimedOut):
        runner.run(release.wait, SOON)
    assert runner.run(lambda: "next", LONG) == "next"
    release.set()
    runner.close()


def test_too_many_hung_calls_make_the_provider_unavailable_until_one_returns() -> None:
    runner, release, returned = ThreadRunner("p", max_abandoned=2), threading.Event(), threading.Event()
    with pytest.raises(CallTimedOut):
        runner.run(threading.Event().wait, SOON)
    with pytest.raises(CallTimedOut):
        runner.run(release.wait, SOON)
    started: list[int] = []
    with pytest.raises(ProviderUnavailable, match="2 calls to p hang"):
        runner.run(lambda: started.append(1), LONG)
    assert started == []
    release.set()
    while not returned.wait(SOON):  # the hung thread needs a moment to say that it is back
        try:
            runner.run(returned.set, LONG)
        except ProviderUnavailable:
            continue
    assert runner.run(lambda: "again", LONG) == "again"
    runner.close()


def test_waiting_for_a_busy_provider_ends_at_the_deadline() -> None:
    runner, entered, release = ThreadRunner("p"), threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        release.wait()

    holder = threading.Thread(target=lambda: runner.run(hold, LONG))
    holder.start()
    assert entered.wait(LONG)
    with pytest.raises(ProviderUnavailable, match="busy"):
        runner.run(lambda: 1, SOON)
    release.set()
    holder.join(LONG)
    runner.close()


def test_inline_calls_end_at_their_deadline_on_virtual_time() -> None:
    clock = VirtualClock(100)
    runner = InlineRunner(clock)
    assert runner.run(lambda: clock.sleep(5), 10) is None
    with pytest.raises(CallTimedOut):
        runner.run(lambda: clock.sleep(1e9), 10)
    assert clock.now() == 115


def test_an_inner_call_does_not_outlive_the_outer_one() -> None:
    clock = VirtualClock()
    runner = InlineRunner(clock)
    with pytest.raises(CallTimedOut, match="5 s"):
        runner.run(lambda: runner.run(lambda: clock.sleep(100), 50), 5)
    assert clock.now() == 5


def test_virtual_time_never_runs_backwards() -> None:
    clock = VirtualClock(50)
    clock.advance_to(20)
    clock.sleep(-1)
    assert clock.now() == 50
    with clock.deadline(60), pytest.raises(DeadlinePassed):
        clock.advance_to(61)
    clock.advance_to(61)
    assert clock.now() == 61


def _prints(text: str) -> Callable[[], int]:
    return lambda: sys.stdout.write(text)


def test_what_calls_print_goes_to_the_stderr_of_the_moment() -> None:
    """One call is awaited all the time, while what stands for stdout and stderr comes and goes."""
    runner, release, there = ThreadRunner("p", workers=2), threading.Event(), sys.stdout
    with ThreadPoolExecutor(1) as pool:
        with redirect_stdout(io.StringIO()) as first:
            begun = threading.Barrier(2, timeout=LONG)
            waiting = pool.submit(runner.run, lambda: (begun.wait(), release.wait()), LONG)
            begun.wait()
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            runner.run(_prints("call, "), LONG)
            sys.stdout.write("command")
            release.set()
            waiting.result(LONG)
            runner.run(_prints("call again"), LONG)
        assert sys.stdout is there
    assert (first.getvalue(), out.getvalue(), err.getvalue()) == ("", "command", "call, call again")
    runner.close()


def test_what_stands_for_stdout_can_be_copied_as_a_stream() -> None:
    runner = ThreadRunner("p")
    with redirect_stdout(io.StringIO()) as out:
        runner.run(_prints(""), LONG)
        there = sys.stdout
        assert there is not out
        assert isinstance(there, io.TextIOBase)
        copy.copy(there).write("copied")
    assert out.getvalue() == "copied"
    runner.close()


def test_what_an_abandoned_call_prints_late_is_no_output() -> None:
    runner, release, printed = ThreadRunner("p"), threading.Event(), threading.Event()

    def call() -> None:
        release.wait()
        sys.stdout.write("late")
        printed.set()

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        with pytest.raises(CallTimedOut):
            runner.run(call, SOON)
        release.set()
        assert printed.wait(LONG)
    assert (out.getvalue(), err.getvalue()) == ("", "late")
    runner.close()


def test_what_threads_of_a_plugin_print_during_a_call_is_no_output() -> None:
    def call() -> None:
        thread = threading.Thread(target=_prints("from beside"))
        thread.start()
        thread.join()

    runner = ThreadRunner("p")
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        runner.run(call, LONG)
    assert (out.getvalue(), err.getvalue()) == ("", "from beside")
    with redirect_stdout(io.StringIO()) as out:
        runner.run(lambda: None, LONG)
        with redirect_stderr(sys.stdout):
            runner.run(_prints("all in one"), LONG)
    assert out.getvalue() == "all in one"
    runner.close()
