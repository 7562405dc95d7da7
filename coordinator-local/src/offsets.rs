use coordinator_core::Scope;

/// Offsets are below 2⁶²: the kernel's are signed, and an end beyond 2⁶³ - 1 is an error.
const MASK: u64 = (1 << 62) - 1;

/// Which bytes of the lock file stand for a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offsets {
    /// Locked by who holds the scope, in its mode.
    pub(crate) scope: i64,
    /// Locked exclusive by who waits for it.
    pub(crate) turnstile: i64,
}

impl Offsets {
    pub(crate) fn of(scope: &Scope) -> Self {
        let digest = scope.digest();
        let offset = |at: usize| {
            let number = digest[at..].first_chunk().map_or(0, |eight| u64::from_be_bytes(*eight)) & MASK;
            i64::try_from(number).unwrap_or_default() // below 2⁶²
        };
        let (scope, turnstile) = (offset(0), offset(8));
        // Else a scope with both halves alike could never be taken: its turnstile would be in its own way.
        Self { scope, turnstile: if turnstile == scope { scope ^ 1 } else { turnstile } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_two_different_offsets_below_two_to_the_62() {
        for name in 0..1000 {
            let offsets = Offsets::of(&Scope::new(name.to_string()).expect("valid"));
            assert_ne!(offsets.scope, offsets.turnstile);
            assert!((0..1 << 62).contains(&offsets.scope) && (0..1 << 62).contains(&offsets.turnstile));
        }
    }

    #[test]
    fn the_offsets_of_a_scope_stay_the_same_in_later_versions() {
        // SHA-256("abc") = ba7816bf8f01cfea 414140de5dae2223 …; processes of two versions must meet.
        let offsets = Offsets::of(&Scope::new("abc").expect("valid"));
        assert_eq!(offsets, Offsets { scope: 0x3a78_16bf_8f01_cfea, turnstile: 0x0141_40de_5dae_2223 });
    }
}
