from tailrace.broker.coordinator.roster import Member, Roster


def member(name: str, *protocols: str, instance: str | None = None) -> Member:
    return Member(
        member_id=name,
        instance_id=instance,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=len(name),
        protocols=tuple((p, p.encode()) for p in protocols),
    )


def roster(*members: Member) -> Roster:
    made = Roster()
    for each in members:
        made.add(each)
    return made


def test_the_first_leads_and_the_next_follows_it() -> None:
    group = roster(member("a", "r"), member("b", "r"))
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "b"
    group.remove("b")
    assert group.leader is None


def test_most_votes_among_what_all_support() -> None:
    group = roster(member("a", "x", "r"), member("b", "s", "r"), member("c", "s", "r"))
    assert group.choose_protocol() == "r"  # neither x nor s is supported by all
    group = roster(member("a", "r", "s"), member("b", "s", "r"), member("c", "s", "r"))
    assert group.choose_protocol() == "s"
    group = roster(member("a", "r", "s"), member("b", "s", "r"))
    assert group.choose_protocol() == "r"  # a tie: the vote that came first


def test_support_follows_changes() -> None:
    group = roster(member("a", "r", "s"), member("b", "r"))
    assert group.supports_any(["r"])
    assert not group.supports_any(["s"])
    group.set_protocols(group["b"], (("s", b""),))
    assert group.supports_any(["s"])
    group.remove("b")
    assert group.supports_any(["r"])


def test_a_protocol_listed_twice_counts_once() -> None:
    group = roster(member("a", "r", "r"), member("b", "r"))
    assert group.supports_any(["r"])
    group.remove("a")
    assert group.choose_protocol() == "r"


def test_a_static_member_keeps_place_lead_and_turn_under_a_new_id() -> None:
    group = roster(member("a", "r", instance="i"), member("b", "r"))
    group.pending_sync.add("a")
    group.rename_static(group["a"], "z")
    assert [m.member_id for m in group] == ["z", "b"]
    assert (group.leader, group.static_id("i"), group.pending_sync) == ("z", "z", {"z"})
    assert "a" not in group


def test_the_leader_stays_if_it_joined_else_the_first_that_did() -> None:
    group = roster(member("a", "r"), member("b", "r"), member("c", "r"))
    assert not group.elect_joined_leader()
    assert group.leader == "a"
    group["c"].join_ticket = 1
    assert group.elect_joined_leader()
    assert group.leader == "c"
    group["b"].join_ticket = 2
    assert group.elect_joined_leader()
    assert group.leader == "c"


def test_counts() -> None:
    group = roster(member("a", "r"), member("bbb", "r"))
    assert group.rebalance_timeout_ms == 3
    assert Roster().rebalance_timeout_ms == 0
    group["a"].join_ticket = 1
    assert group.joined_count == 1
    assert not group.all_joined
    group["bbb"].join_ticket = 2
    assert group.all_joined
    group.pending["x"] = 5
    assert not group.all_joined
