"""Plans of moves, against one that tries everything, and by what must hold of any plan."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.balancing.plan import (
    Move,
    ProxyLoad,
    Rules,
    balance,
    balance_regions,
    drain,
)

NAMES = ("a:1", "b:1", "c:1", "d:1", "e:1")


def proxy(name: str, count: int, *, accepts: bool = True, region: str = "") -> ProxyLoad:
    """One with so many streams, which weigh 1."""
    return ProxyLoad(name, {f"{name}-{n:03}": 1 for n in range(count)}, accepts, region)


def loaded(name: str, *weights: int, accepts: bool = True, region: str = "") -> ProxyLoad:
    return ProxyLoad(name, {f"{name}-{n}": w for n, w in enumerate(weights)}, accepts, region)


@st.composite
def clusters(
    draw: st.DrawFn, weights: st.SearchStrategy[int], regions: str = "x"
) -> list[ProxyLoad]:
    return [
        loaded(
            name,
            *draw(st.lists(weights, max_size=12)),
            accepts=draw(st.sampled_from([True, True, True, False])),
            region=draw(st.sampled_from(regions)),
        )
        for name in NAMES[: draw(st.sampled_from([5, 4, 3, 2, 1]))]
    ]


counted = clusters(st.just(1))
weighed = clusters(st.sampled_from([0, 1, 2, 3, 5, 9, 20, 40]))
rules = st.builds(Rules, tolerance_percent=st.integers(0, 60), moves_max=st.none())


def after(proxies: list[ProxyLoad], moves: list[Move]) -> list[ProxyLoad]:
    """Do the moves, and check that each is possible."""
    owned = {each.name: dict(each.streams) for each in proxies}
    for stream, source, target in moves:
        owned[target][stream] = owned[source].pop(stream)
    return [ProxyLoad(p.name, owned[p.name], p.accepts, p.region) for p in proxies]


def totals(proxies: list[ProxyLoad]) -> dict[str, int]:
    return {each.name: sum(each.streams.values()) for each in proxies}


def oracle(proxies: list[ProxyLoad], tolerance_percent: int) -> list[Move]:
    """Try each stream of the proxy that has most with the one that has least, again and again."""
    now, moved = proxies, set[str]()
    moves: list[Move] = []
    while True:
        have = totals(now)
        average = sum(have.values()) / len(have)
        takers = sorted((have[p.name], p.name) for p in now if p.accepts and have[p.name] < average)
        found = None
        for total, source in sorted((-have[p.name], p.name) for p in now):
            if found is not None or not takers:
                break
            if -total * 100 * len(have) <= sum(have.values()) * (100 + tolerance_percent):
                break
            least, target = takers[0]
            streams = next(p.streams for p in now if p.name == source)
            choices = sorted(
                (max(-total - w, least + w), w, stream)
                for stream, w in streams.items()
                if w and stream not in moved and max(-total - w, least + w) < -total
            )
            if choices:
                found = Move(choices[0][2], source, target)
        if found is None:
            return moves
        moves.append(found)
        moved.add(found.stream)
        now = after(now, [found])


@given(weighed, rules)
def test_a_plan_is_that_of_one_that_tries_everything(
    proxies: list[ProxyLoad], rules: Rules
) -> None:
    assert balance(proxies, rules) == oracle(proxies, rules.tolerance_percent)


@given(weighed, rules, st.randoms())
def test_every_move_helps_and_none_goes_back(
    proxies: list[ProxyLoad], rules: Rules, random: object
) -> None:
    moves = balance(proxies, rules)
    now = proxies
    for move in moves:
        before = totals(now)
        average = sum(before.values()) / len(before)
        assert before[move.source] > average * (1 + rules.tolerance_percent / 100) - 1e-9
        assert before[move.target] < average
        assert next(p for p in now if p.name == move.target).accepts
        now = after(now, [move])
        have = totals(now)
        assert max(have[move.source], have[move.target]) < before[move.source]
    assert max(Counter(move.stream for move in moves).values(), default=1) == 1
    assert max(totals(now).values()) <= max(totals(proxies).values())
    random.shuffle(proxies)  # type: ignore[attr-defined]
    assert balance(proxies, rules) == moves


@given(counted, rules)
def test_counts_end_within_the_tolerance_and_stay(proxies: list[ProxyLoad], rules: Rules) -> None:
    now = after(proxies, balance(proxies, rules))
    have = totals(now)
    average = sum(have.values()) / len(have)
    limit = average * (1 + rules.tolerance_percent / 100)
    takers = [have[p.name] for p in now if p.accepts]
    if any(count < average for count in takers):
        assert all(count <= limit or count - min(takers) <= 1 for count in have.values())
    assert balance(now, rules) == []
    moved = Counter(move.source for move in balance(proxies, rules))
    assert not moved.keys() & {move.target for move in balance(proxies, rules)}


@given(clusters(st.integers(0, 40), "xyz"), rules)
def test_regions_are_balanced_apart(proxies: list[ProxyLoad], rules: Rules) -> None:
    where = {each.name: each.region for each in proxies}
    moves = balance(proxies, rules)
    assert all(where[move.source] == where[move.target] for move in moves)
    for region in "xyz":
        members = [each for each in proxies if each.region == region]
        assert balance(members, rules) == [m for m in moves if where[m.source] == region]


@given(clusters(st.integers(0, 40), "xyz"), rules)
def test_one_region_gives_to_another(proxies: list[ProxyLoad], rules: Rules) -> None:
    where = {each.name: each.region for each in proxies}
    moves = balance_regions(proxies, "x", "y", rules)
    assert all((where[move.source], where[move.target]) == ("x", "y") for move in moves)
    now = after(proxies, moves)
    assert max(totals(now).values()) <= max(totals(proxies).values())
    assert balance_regions([p for p in proxies if p.region != "z"], "x", "y", rules) == moves


@given(clusters(st.integers(0, 40), "xy"), st.sets(st.sampled_from(NAMES)))
def test_a_drained_proxy_keeps_nothing(proxies: list[ProxyLoad], drained: set[str]) -> None:
    moves = drain(proxies, drained)
    takers = {each.name for each in proxies if each.accepts} - drained
    now = {each.name: each for each in after(proxies, moves)}
    for each in proxies:
        if takers and each.name in drained:
            assert not now[each.name].streams
        else:
            assert now[each.name].streams.items() >= each.streams.items()
    where = {each.name: each.region for each in proxies}
    for move in moves:
        near = {name for name in takers if where[name] == where[move.source]}
        assert move.target in (near or takers)


def test_streams_of_one_weight_by_name_and_only_as_many_as_needed() -> None:
    moves = balance([proxy("a:1", 5), proxy("b:1", 1), proxy("c:1", 0)], Rules(0))
    assert moves == [
        Move("a:1-000", "a:1", "c:1"),
        Move("a:1-001", "a:1", "b:1"),
        Move("a:1-002", "a:1", "c:1"),
    ]


def test_a_tolerance_keeps_what_is_even_enough() -> None:
    uneven = [proxy("a:1", 110), proxy("b:1", 90)]
    assert balance(uneven, Rules(10)) == []
    assert len(balance(uneven, Rules(9))) == 1
    assert len(balance(uneven, Rules(0))) == 10


def test_a_heavy_stream_alone_stays() -> None:
    assert balance([loaded("a:1", 100), loaded("b:1")], Rules(0)) == []
    assert balance([loaded("a:1", 100, 10), loaded("b:1")], Rules(0)) == [
        Move("a:1-1", "a:1", "b:1")
    ]


def test_idle_streams_do_not_move_by_load() -> None:
    assert balance([loaded("a:1", 0, 0, 0), loaded("b:1")], Rules(0)) == []


def test_only_as_many_moves_as_asked_for() -> None:
    uneven = [
        proxy("a:1", 10),
        proxy("b:1", 0),
        proxy("c:1", 9, region="x"),
        proxy("d:1", 0, region="x"),
    ]
    every = balance(uneven, Rules(0))
    assert len(every) == 5 + 4
    for count in range(10):
        assert balance(uneven, Rules(0, count)) == every[:count]
    assert drain(uneven, ["a:1"], 3) == drain(uneven, ["a:1"])[:3]


def test_drained_streams_are_spread_over_the_others() -> None:
    moves = drain([proxy("a:1", 4), proxy("b:1", 3), proxy("c:1", 0)], ["a:1"])
    assert Counter(move.target for move in moves) == {"c:1": 3, "b:1": 1}


def test_a_proxy_that_accepts_nothing_is_no_target() -> None:
    closed = [proxy("a:1", 4), proxy("b:1", 0, accepts=False)]
    assert balance(closed, Rules(0)) == drain(closed, ["a:1"]) == []


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="two proxies are called a:1"):
        balance([proxy("a:1", 1), proxy("a:1", 2)])
    with pytest.raises(ValueError, match="not negative"):
        Rules(-1)
    with pytest.raises(ValueError, match="not negative"):
        Rules(0, -1)


def test_a_hundred_thousand_streams() -> None:
    many = [proxy(f"p{n:03}", 2_000 if n < 50 else 0) for n in range(100)]
    now = after(many, balance(many, Rules(0)))
    assert set(totals(now).values()) == {1_000}
