use std::fmt;

/// How a scope is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Nobody else holds the scope: erasures.
    Exclusive,
    /// Others may hold it shared too: writes and hold placements.
    Shared,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
