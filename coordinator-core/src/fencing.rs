use crate::Mode;
use std::fmt;

/// A number that grows with every token fetched for a scope, across instances, crashes and restarts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value, to be sent to a sink.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The sink's side of fencing, one per scope: refuses effects of holders that others have followed.
///
/// The usual rule, "not smaller than the greatest seen", is wrong for shared leases: two writers that hold the
/// scope together present their tokens in any order. So a shared token passes above the last *exclusive* one, an
/// exclusive token above the last of *any* kind. The token that was admitted last may be presented again, for the
/// next effect of the same holder.
///
/// A holder that never presents its token protects nobody.
///
/// ```
/// use coordinator_core::{FencingGate, FencingToken, Mode};
///
/// let mut gate = FencingGate::default();
/// assert!(gate.admit(Mode::Shared, FencingToken::new(7)));
/// assert!(gate.admit(Mode::Shared, FencingToken::new(5))); // shared leases coexist
/// assert!(gate.admit(Mode::Exclusive, FencingToken::new(8)));
/// assert!(!gate.admit(Mode::Shared, FencingToken::new(7))); // a writer that was frozen
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FencingGate {
    /// The greatest exclusive token admitted; zero before the first.
    pub last_exclusive: FencingToken,
    /// The greatest token admitted; zero before the first.
    pub last_any: FencingToken,
}

impl FencingGate {
    /// Whether an effect under this token may happen now; remembers the token if so.
    #[must_use = "an effect whose token is not admitted must not happen"]
    pub fn admit(&mut self, mode: Mode, token: FencingToken) -> bool {
        let again = token == self.last_any && token == self.last_exclusive && token != FencingToken(0);
        match mode {
            Mode::Shared if token > self.last_exclusive => {}
            Mode::Exclusive if token > self.last_any || again => self.last_exclusive = token,
            _ => return false,
        }
        self.last_any = self.last_any.max(token);
        true
    }
}
