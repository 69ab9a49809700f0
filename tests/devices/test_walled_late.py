"""A device on which programs run later: what fails then is reported, and taken back."""

from __future__ import annotations

import pytest
from tests.helpers.hits import python_calls
from tests.helpers.walled import AsynchronousDevice, opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.capture.hit import MISS, misses
from contraflow.testing import assert_close


@pytest.fixture(autouse=True)
def device():
    with opened(AsynchronousDevice) as found:
        yield found


def test_programs_run_when_something_waits(device):
    x = cf.ones(3, device="walled") + 1
    assert device.runs == 0
    assert x.tolist() == [2.0] * 3
    assert device.runs == 2


def test_an_op_that_fails_late_gives_zeros_and_an_error_that_names_it(device):
    x = cf.ones(4, 3, device="walled")
    found = x[cf.tensor([0, 7], device="walled")]
    total = x.sum()
    with pytest.raises(
        IndexError, match=r"^getitem: index 7 .* size 4, at test_walled_late.py:\d+.$"
    ):
        device.synchronize()
    assert found.tolist() == [[0.0] * 3] * 2
    assert total.item() == 12.0


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cross_entropy", lambda x, i: F.cross_entropy(x, i)),
        ("nll_loss", lambda x, i: cf.nn.NLLLoss()(x, i)),
        ("take", lambda x, i: x.take(i * 9)),
        ("gather", lambda x, i: x.gather(1, i[:, None])),
        ("multi_margin_loss", lambda x, i: F.multi_margin_loss(x, i)),
    ],
)
def test_an_error_names_what_the_user_called_and_not_a_part_of_it(device, name, call):
    call(cf.ones(3, 4, device="walled"), tokens(0, 5, 1))
    with pytest.raises(IndexError, match=rf"^{name}: index \d+ .*, at test_walled_late.py:\d+\.$"):
        device.synchronize()


def training(seed: int, dropout: float = 0.0):
    """A compiled step, and what it changes."""
    cf.manual_seed(seed)
    table = cf.nn.Embedding(5, 4).to("walled")
    head = cf.nn.Linear(4, 5).to("walled")
    optimizer = cf.optim.AdamW([*table.parameters(), *head.parameters()], lr=0.1)

    @cf.compile
    def step(tokens, targets):
        optimizer.zero_grad()
        x = table(tokens)
        loss = F.cross_entropy(head(F.dropout(x, dropout) if dropout else x), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step, optimizer, [*table.parameters(), *head.parameters()]


def tokens(*numbers: int) -> cf.Tensor:
    return cf.tensor(numbers, device="walled")


def state(optimizer, parameters):
    moments = [optimizer.state[p] for p in parameters]
    return (
        [p.tolist() for p in parameters],
        [p.grad.tolist() for p in parameters],
        [(m["step"].value, m["exp_avg"].tolist()) for m in moments],
        cf.get_rng_state(),
    )


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("looks", [False, True])
def test_a_step_that_fails_late_is_taken_back_with_those_behind_it(device, dropout, looks):
    step, optimizer, parameters = training(0, dropout)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    for _ in range(3):
        step(*good)
    device.synchronize()
    before = state(optimizer, parameters)  # which looks at the gradients, so that others follow
    if not looks:
        step(*good)
        device.synchronize()
        before = None
    step(tokens(0, 9, 2), good[1])
    assert step._hit is not misses
    gradients = [p.grad for p in parameters] if looks else None
    step(*good)  # queued behind the one that fails
    step(*good)
    with pytest.raises(IndexError, match=r"embedding: index 9 is out of range.* at test_walled"):
        parameters[0].tolist()
    assert before is None or state(optimizer, parameters) == before
    del gradients
    step(*good)
    device.synchronize()

    other, others, twins = training(0, dropout)
    for _ in range(4 if looks else 5):
        other(*good)
    assert state(optimizer, parameters) == state(others, twins)
    for p, q in zip(parameters, twins):
        assert_close(p, q, 0.0, 0.0)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_the_error_surfaces_in_a_later_call_too(device, dropout):
    step, optimizer, parameters = training(1, dropout)
    good = tokens(0, 1), tokens(1, 2)
    for _ in range(3):
        step(*good)
    before = state(optimizer, parameters)
    step(tokens(0, 1), tokens(1, 8))
    for _ in range(device.most - len(device.queue)):
        step(*good)
    with pytest.raises(IndexError, match=r"index 8 is out of range"):
        step(*good)
    assert state(optimizer, parameters)[1:] == before[1:]


def test_state_of_python_waits_for_the_program():
    class Counter:
        last = None

    counter = Counter()
    x = cf.ones(4, device="walled")

    @cf.compile
    def f(at):
        counter.last = x[at]
        return counter.last.sum()

    f(tokens(1, 2))
    f(tokens(1, 3))
    kept = counter.last
    with pytest.raises(IndexError, match="index 5 is out of range"):
        f(tokens(1, 5))
    assert counter.last is kept


def picks(w: cf.Tensor):
    """A compiled function that writes to a tensor, and fails for a wrong index."""

    @cf.compile
    def f(at):
        w.add_(1)
        return w[at]

    f(tokens(0, 1))
    f(tokens(1, 0))
    return f


def test_programs_that_cannot_fail_are_taken_back_behind_one_that_does(device):
    p = cf.zeros(2, device="walled")
    f, plus = picks(cf.zeros(3, device="walled")), cf.compile(lambda: p.add_(1))
    plus()
    plus()
    device.synchronize()
    f(tokens(7))
    plus()
    with pytest.raises(IndexError, match="index 7 is out of range"):
        device.synchronize()
    assert p.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("known", [False, True], ids=["recorded", "hit"])
def test_results_of_a_call_that_was_taken_back_are_zeros(device, known):
    """Their memory was that of earlier results."""
    x = cf.arange(4.0).to("walled")
    f = cf.compile(lambda at: (x[at] * 2, (x[at] + 1).sum()))
    if known:
        for _ in range(4):
            f(tokens(3))
    else:
        f(tokens(2))
        f(tokens(3))
    device.synchronize()
    failed, behind = f(tokens(5)), f(tokens(2))
    with pytest.raises(IndexError, match="index 5 is out of range"):
        failed[0].tolist()
    for doubled, total in (failed, behind):
        assert doubled.tolist() == [0.0]
        assert total.item() == 0.0
    assert f(tokens(3))[0].tolist() == [6.0]
    assert failed[0].tolist() == [0.0]


def test_results_of_before_stay_when_a_call_is_taken_back(device):
    x = cf.arange(4.0).to("walled")
    f = cf.compile(lambda at: x[at] * 2)
    for _ in range(3):
        f(tokens(1))
    before = f(tokens(3))
    f(tokens(4))
    f(tokens(5))
    with pytest.raises(IndexError, match="index 4 is out of range"):
        device.synchronize()
    assert before.tolist() == [6.0]


def test_gradients_of_before_stay_where_they_are_when_a_step_is_taken_back(device):
    step, _, parameters = training(0)
    good = tokens(0, 1, 2), tokens(1, 2, 3)
    for _ in range(4):
        step(*good)
    device.synchronize()
    other, _, twins = training(0)
    for _ in range(4):
        other(*good)
    loss = step(tokens(0, 9, 2), good[1])
    with pytest.raises(IndexError, match="index 9 is out of range"):
        device.synchronize()
    assert loss.item() == 0.0
    assert [p.grad.tolist() for p in parameters] == [p.grad.tolist() for p in twins]


def test_a_backward_of_a_call_that_was_taken_back_stays(device):
    """It is an op of eager mode, which ran behind the call: the gradient has no meaning, and the
    one behind it is right again."""
    x = cf.arange(4.0).to("walled").requires_grad_()
    f = cf.compile(lambda at: (x[at] * 2).sum())
    for _ in range(3):
        x.grad = None
        f(tokens(2)).backward()
    x.grad = None
    loss = f(tokens(5))
    loss.backward()
    with pytest.raises(IndexError, match="index 5 is out of range"):
        device.synchronize()
    assert loss.item() == 0.0
    assert x.grad.shape == x.shape
    x.grad = None
    f(tokens(1)).backward()
    assert x.grad.tolist() == [0.0, 2.0, 0.0, 0.0]


def test_a_backward_that_fails_late_is_reported(device):
    w = cf.ones(4, 2, device="walled", requires_grad=True)
    loss = cf.compile(lambda at: (w[at] ** 2).sum())
    loss(tokens(1)).backward()
    with pytest.raises(IndexError, match="index 9 is out of range"):  # noqa: PT012
        loss(tokens(9)).backward()
        device.synchronize()


def test_an_error_of_before_comes_before_a_call_changes_anything(device):
    class Keeper:
        last = None

    keeper, p = Keeper(), cf.zeros(2, device="walled")

    @cf.compile
    def f():
        p.add_(1)
        keeper.last = p * 2
        return p.sum()

    f()
    f()
    kept, version = keeper.last, p._version
    cf.ones(3, device="walled")[tokens(5)]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        f()
    assert keeper.last is kept
    assert p._version == version
    assert p.tolist() == [2.0, 2.0]


def test_a_value_saved_of_a_write_that_never_came_is_refused(device):
    w = cf.zeros(3, device="walled")
    x = cf.ones(3, device="walled", requires_grad=True)
    f = picks(w)
    f(tokens(7))
    y = (x * w).sum()
    with pytest.raises(IndexError, match="index 7 is out of range"):
        device.synchronize()
    f(tokens(1))
    with pytest.raises(cf.OverwrittenError):
        y.backward()


@pytest.mark.parametrize("calls", [1, 3])
def test_versions_move_on_when_calls_are_taken_back(device, calls):
    w = cf.zeros(3, device="walled")
    f = picks(w)
    device.synchronize()
    before = w._version
    for _ in range(calls):
        f(tokens(7, 0))
    during = w._version
    with pytest.raises(IndexError, match="index 7 is out of range"):
        device.synchronize()
    assert before < during < w._version
    assert w.tolist() == [2.0] * 3


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_what_the_user_changed_since_stays(device, dropout):
    step, _, parameters = training(2, dropout)
    for _ in range(3):
        step(tokens(0, 1), tokens(1, 2))
    device.synchronize()
    step(tokens(0, 9), tokens(1, 2))
    parameters[0].grad = None
    drawn = cf.rand(2, device="walled")
    random = cf.get_rng_state()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        device.synchronize()
    assert parameters[0].grad is None
    assert parameters[1].grad is not None
    assert cf.get_rng_state() == random
    assert not cf.rand(2, device="walled").equal(drawn)


def test_writing_in_place_waits_for_the_index(device):
    w = cf.ones(3, 2, device="walled")
    with pytest.raises(IndexError, match="index 8 is out of range"):
        w[tokens(8)] = 5.0
    with pytest.raises(IndexError, match="index 8 is out of range"):
        w.index_add_(0, tokens(8), cf.ones(1, 2, device="walled"))
    assert w.tolist() == [[1.0, 1.0]] * 3


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_step_that_hits_is_ten_python_calls_at_most(device, dropout):
    step, _, _ = training(0, dropout)
    for _ in range(4):
        step(tokens(0, 1, 2), tokens(1, 2, 3))
    given = tokens(0, 1, 3), tokens(1, 2, 4)
    step(*given)  # which asks where they lie
    entered = python_calls(lambda: step(*given), "WalledProgram.rerun")
    assert {"hit", "WalledProgram.rerun"} <= set(entered)
    assert len(entered) <= 1 + 10, entered  # the lambda, and the call


def test_gradients_stay_where_they_are_behind_a_lookup_that_may_fail(device):
    """The lookup checks the indices; its gradient, which comes last, does not check them again."""
    step, _, parameters = training(0)
    for _ in range(4):
        step(tokens(0, 1, 2), tokens(1, 2, 3))
    (program,) = step._last_programs
    assert len(program.standing.pairs) == len(parameters)


@pytest.mark.parametrize("is_state", [False, True])
def test_a_call_that_moves_tensors_hits(device, is_state):
    """Beside the calls of the transfer it has those of any other hit; a tensor is moved once."""
    w, b = cf.ones(3, device="walled"), cf.arange(3.0)

    @cf.compile
    def f(x):
        w.add_(1)
        moved = (b if is_state else x).to("walled")
        return (w * moved).sum() + x.to("walled")

    for number in range(1, 7):
        x = cf.full((3,), float(number))
        before = device.uploads
        expected = ((1 + number) * (b if is_state else x)).sum() + x
        assert_close(f(x).cpu(), expected)
        assert device.uploads == before + 1 + is_state
    assert f.captures == 1
    of_device = "WalledProgram.rerun", "WalledDevice.address", "finalize.__call__"
    entered = python_calls(lambda: f(x), "moved_copy", "Native.locate", *of_device)
    assert {"hit", "moved_copy"} <= set(entered)
    hit = [name for name in entered if name not in ("moved_copy", "Native.locate", *of_device[1:])]
    assert len(hit) <= 1 + 10, hit  # the lambda, and the call


def test_state_of_python_is_written_by_a_hit_when_its_program_is_known_to_be_well(device):
    class Keeper:
        last = None

    keeper, x, w = Keeper(), cf.ones(4, device="walled"), cf.zeros(2, device="walled")

    @cf.compile
    def f(at):
        w.add_(1)
        keeper.last = x[at]
        return keeper.last.sum()

    for _ in range(3):
        f(tokens(1, 2))
    assert f._hit((tokens(1, 3),)) is not MISS
    kept, version = keeper.last, w._version
    with pytest.raises(IndexError, match="index 5 is out of range"):
        f(tokens(1, 5))
    assert keeper.last is kept
    assert w._version > version
    assert w.tolist() == [4.0, 4.0]
    f(tokens(1, 0))
    assert keeper.last is not kept


def test_a_value_saved_between_hits_of_which_one_never_came_is_refused(device):
    w = cf.zeros(3, device="walled")
    x = cf.ones(3, device="walled", requires_grad=True)
    f = picks(w)
    f(tokens(2, 0))
    assert f._hit is not misses
    f(tokens(7, 0))
    y = (x * w).sum()
    with pytest.raises(IndexError, match="index 7 is out of range"):
        device.synchronize()
    f(tokens(1, 0))
    with pytest.raises(cf.OverwrittenError):
        y.backward()


def test_a_result_that_is_moved_waits_for_the_program(device):
    step, optimizer, parameters = training(4)
    moved = cf.compile(lambda *given: step.function(*given).to("cpu"))
    good = tokens(0, 1), tokens(1, 2)
    for _ in range(3):
        moved(*good)
    before = state(optimizer, parameters)
    with pytest.raises(IndexError, match="index 9 is out of range"):
        moved(tokens(0, 9), good[1])
    assert state(optimizer, parameters) == before
