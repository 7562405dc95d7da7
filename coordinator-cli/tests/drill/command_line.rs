use crate::drill::Drill;
use std::net::TcpListener;

#[test]
fn what_can_not_be_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (&["--kill"][..], "--url"),
        (&["--instances", "0"], "0 is not in 1..=64"),
        (&["--seconds", "soon"], "invalid digit"),
        (&["--subjects", "0"], "0 is not in 1..=10000"),
        (&["--url", "no url"], "the store could not be configured by this URL"),
        (&["--faster"], "unexpected argument"),
    ] {
        let drill = Drill::run(arguments);
        assert_eq!(drill.status, Some(2), "{arguments:?}: {drill:?}");
        assert!(drill.stderr.contains(reason), "{arguments:?}: {drill:?}");
        assert_eq!(drill.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_server_that_is_away_is_told_without_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let drill = Drill::run(&["--url", &format!("postgres://drill:secret@127.0.0.1:{port}/drill")]);
    assert_eq!(drill.status, Some(2), "{drill:?}");
    assert!(drill.stderr.starts_with("error: the store could not be reached: "), "{drill:?}");
    assert!(!drill.stderr.contains("secret"), "{drill:?}");
}

#[test]
fn an_instance_without_orders_ends_at_once() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_coordinator"))
        .arg("drill-instance")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
}
