use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);

/// How long a waiter sleeps between two looks: about a tenth of what it has waited, within bounds.
///
/// So a hand-off between processes costs little of a short wait, and a long wait costs little of the processor.
/// Random, so that no two processes look in step.
#[derive(Debug)]
pub(crate) struct Pause {
    since: Instant,
    random: RandomState,
    looks: u64,
}

impl Pause {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), random: RandomState::new(), looks: 0 }
    }

    /// A wait of another kind begins: quick looks again.
    pub(crate) fn restart(&mut self) {
        self.since = Instant::now();
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.looks += 1;
        let percent = 50 + u32::try_from(self.random.hash_one(self.looks) % 100).unwrap_or(50);
        (self.since.elapsed() / 10 * percent / 100).clamp(SHORTEST, LONGEST * percent / 150)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_within_their_bounds() {
        let mut pause = Pause::new();
        assert_eq!(pause.next(), SHORTEST);
        pause.since -= Duration::from_secs(60);
        let long: Vec<_> = (0..100).map(|_| pause.next()).collect();
        assert!(long.iter().all(|pause| (LONGEST / 3..=LONGEST).contains(pause)), "{long:?}");
        assert!(long.iter().any(|pause| *pause != long[0]));
    }
}
