//! The promises of `FencingGate`.

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{FencingGate, FencingToken};

#[test]
fn only_followed_holders_are_refused() {
    let mut gate = FencingGate::default();
    for (mode, token, admitted) in [
        (Exclusive, 0, false),
        (Shared, 3, true),
        (Shared, 2, true),
        (Exclusive, 3, false), // a shared token of the same value is another holder's
        (Exclusive, 4, true),
        (Exclusive, 4, true), // the next effect of the same holder
        (Shared, 4, false),
        (Shared, 6, true),
        (Exclusive, 5, false),
        (Shared, 5, true),
    ] {
        assert_eq!(gate.admit(mode, FencingToken::new(token)), admitted, "{mode} {token} at {gate:?}");
    }
    assert_eq!((gate.last_exclusive.get(), gate.last_any.get()), (4, 6));
}
