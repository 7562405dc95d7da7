use crate::{database::Database, drill::Drill};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::process::Child;

#[test]
fn on_processes_only_the_shared_lock_keeps_items_and_holds() {
    let database = Database::create();
    let drill = Drill::run(&["--seconds", "3", "--json", "--url", &database.url]);
    drill.assert_passed();
    assert_eq!(drill.report()["backend"], "postgres");
    assert_eq!(database.schemas(), 0);
}

#[test]
fn killed_instances_break_nothing_under_the_shared_lock() {
    let database = Database::create();
    let drill = Drill::run(&["--seconds", "4", "--json", "--kill", "--url", &database.url]);
    drill.assert_passed();
    for phase in ["unprotected", "protected"] {
        assert!(drill.number(phase, "instances_killed") >= 2, "{drill:?}");
    }
    assert_eq!(database.schemas(), 0);
}

#[test]
fn an_interrupted_drill_leaves_nothing_behind() {
    let database = Database::create();
    let drill = started(&database);
    kill(pid(&drill), Signal::SIGINT).expect("it runs");
    let drill = Drill::new(drill.wait_with_output().expect("it ends"));
    assert_eq!(drill.status, Some(2), "{drill:?}");
    assert_eq!(drill.stderr, "error: interrupted\n");
    assert_eq!(database.schemas(), 0);
    database.wait_for_sessions(|sessions| sessions == 0);
}

#[test]
fn instances_end_when_the_drill_is_killed() {
    let database = Database::create();
    let mut drill = started(&database);
    drill.kill().expect("it runs");
    drill.wait().expect("it ends");
    database.wait_for_sessions(|sessions| sessions == 0);
}

/// A drill whose instances are at work.
fn started(database: &Database) -> Child {
    let drill = Drill::command(&["--seconds", "60", "--url", &database.url]).spawn().expect("the binary runs");
    database.wait_for_sessions(|sessions| sessions > 4);
    drill
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a process id"))
}
