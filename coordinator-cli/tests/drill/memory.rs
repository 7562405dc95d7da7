use crate::drill::Drill;

#[test]
fn without_a_server_only_the_shared_lock_keeps_items_and_holds() {
    let drill = Drill::run(&["--seconds", "2", "--json"]);
    drill.assert_passed();
    assert_eq!(drill.report()["backend"], "memory");
    assert_eq!(drill.stdout.lines().count(), 1, "nothing but the object: {drill:?}");
}

#[test]
fn one_instance_needs_no_shared_lock_and_is_warned_that_it_proves_little() {
    let drill = Drill::run(&["--seconds", "1", "--instances", "1", "--json"]);
    for phase in ["unprotected", "protected"] {
        assert_eq!(drill.number(phase, "violations"), 0, "{drill:?}");
    }
    assert!(drill.stderr.contains("the unprotected phase shows no violation"), "{drill:?}");
}
