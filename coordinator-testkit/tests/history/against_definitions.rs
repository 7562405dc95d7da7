//! Random histories, checked also by the definitions, pair by pair.

use crate::story::{EXCLUSIVE, SHARED, ms};
use coordinator_core::Mode;
use coordinator_testkit::history::{Allowed, Event, History, Step, Violation, What};
use std::collections::BTreeSet;
use std::time::Duration;

/// A lease as it was made up: in milliseconds.
#[derive(Debug)]
struct Made {
    process: String,
    scope: &'static str,
    mode: Mode,
    granted: u64,
    until: u64,
    /// Asked, answered, value.
    tokens: Vec<(u64, u64, u64)>,
}

impl Made {
    fn excludes(&self, other: &Self) -> bool {
        self.scope == other.scope && (self.mode == EXCLUSIVE || other.mode == EXCLUSIVE)
    }

    /// Of the other, granted later.
    fn overlap(&self, later: &Self) -> u64 {
        self.until.min(later.until).saturating_sub(later.granted)
    }

    fn tell(&self, history: &mut History) {
        let mut did = |at, step| {
            let what = What::Client { client: "c".into(), scope: self.scope.into(), step };
            history.record(Event { at: ms(at), process: self.process.clone(), what });
        };
        // The end first: the checker has to put them in order.
        did(self.until, Step::Release);
        for &(asked, answered, token) in &self.tokens {
            did(answered, Step::Token { token, asked: ms(asked) });
        }
        did(self.granted - 1, Step::Invoke(self.mode));
        did(self.granted, Step::Grant(self.mode));
    }
}

/// A small generator with a seed of one's own.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn lease(&mut self, number: usize, span: u64) -> Made {
        let granted = 1 + self.below(span);
        let until = granted + 1 + self.below(12);
        let tokens = (0..self.below(3)).map(|_| {
            let asked = granted + self.below(until - granted);
            (asked, asked + 1 + self.below(6), self.below(40))
        });
        let tokens = tokens.collect();
        Made {
            process: format!("p{number:02}"),
            scope: if self.below(3) == 0 { "t" } else { "s" },
            mode: if self.below(2) == 0 { EXCLUSIVE } else { SHARED },
            granted,
            until,
            tokens,
        }
    }
}

#[test]
fn the_checker_finds_what_the_definitions_find() {
    let (mut bad, mut good) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random(seed);
        // From crowded to hardly any overlap.
        let (leases, span) = (2 + random.below(8), [10, 40, 400][(seed % 3) as usize]);
        let mut made: Vec<_> =
            (0..leases).map(|number| random.lease(usize::try_from(number).expect("small"), span)).collect();
        made.sort_by_key(|lease| (lease.granted, lease.process.clone()));
        made.dedup_by_key(|lease| lease.granted); // whose grant was first has to be plain
        let mut history = History::default();
        for lease in &made {
            lease.tell(&mut history);
        }
        let allowed = random.below(4);
        let violations = history.check(&Allowed::overlap(Duration::from_millis(allowed)));
        if violations.is_empty() {
            good += 1;
        } else {
            bad += 1;
        }

        let context = || format!("seed {seed}, allowed {allowed}: {made:#?}\n{violations:#?}");
        assert_eq!(overlapping(&violations), overlapping_by_definition(&made, allowed), "{}", context());
        assert_eq!(late_tokens(&violations), late_tokens_by_definition(&made), "{}", context());
        assert_eq!(has_repeated(&violations), repeats_by_definition(&made), "{}", context());
        assert_eq!(ahead(&violations), ahead_by_definition(&made), "{}", context());
        let greatest = pairs(&made).map(|(first, second)| first.overlap(second)).max().unwrap_or_default();
        assert_eq!(history.greatest_overlap(), Duration::from_millis(greatest), "{}", context());
    }
    assert!(bad > 300 && good > 300, "{bad} bad and {good} good ones show little");
}

/// Those that exclude each other, the first granted before the second.
fn pairs(made: &[Made]) -> impl Iterator<Item = (&Made, &Made)> {
    let all = made
        .iter()
        .enumerate()
        .flat_map(|(number, first)| made[number + 1..].iter().map(move |second| (first, second)));
    all.filter(|(first, second)| first.excludes(second))
}

fn overlapping(violations: &[Violation]) -> BTreeSet<&str> {
    violations
        .iter()
        .filter_map(|violation| match violation {
            Violation::Overlap { second, .. } => Some(second.process.as_str()),
            _ => None,
        })
        .collect()
}

fn overlapping_by_definition(made: &[Made], allowed: u64) -> BTreeSet<&str> {
    let wrong = pairs(made).filter(|(first, second)| first.overlap(second) > allowed);
    wrong.map(|(_, second)| second.process.as_str()).collect()
}

/// Whose, asked for when, and its value.
fn late_tokens(violations: &[Violation]) -> BTreeSet<(&str, u64)> {
    violations
        .iter()
        .filter_map(|violation| match violation {
            Violation::TokenWentBack { second, later, .. } => Some((second.process.as_str(), later.token)),
            _ => None,
        })
        .collect()
}

fn late_tokens_by_definition(made: &[Made]) -> BTreeSet<(&str, u64)> {
    let mut late = BTreeSet::new();
    for first in made {
        for second in made.iter().filter(|second| second.scope == first.scope) {
            for &(_, answered, earlier) in &first.tokens {
                for &(asked, _, later) in &second.tokens {
                    if answered < asked && earlier > later {
                        late.insert((second.process.as_str(), later));
                    }
                }
            }
        }
    }
    late
}

fn has_repeated(violations: &[Violation]) -> bool {
    violations.iter().any(|violation| matches!(violation, Violation::TokenRepeated { .. }))
}

fn repeats_by_definition(made: &[Made]) -> bool {
    let all: Vec<_> = made.iter().flat_map(|lease| lease.tokens.iter().map(|token| (lease.scope, token.2))).collect();
    all.iter().collect::<BTreeSet<_>>().len() < all.len()
}

fn ahead(violations: &[Violation]) -> BTreeSet<&str> {
    violations
        .iter()
        .filter_map(|violation| match violation {
            Violation::FormerHolderAhead { second, .. } => Some(second.process.as_str()),
            _ => None,
        })
        .collect()
}

fn ahead_by_definition(made: &[Made]) -> BTreeSet<&str> {
    let is_ahead = |(first, second): &(&Made, &Made)| {
        first.tokens.iter().any(|former| second.tokens.iter().any(|newer| former.2 > newer.2))
    };
    pairs(made).filter(is_ahead).map(|(_, second)| second.process.as_str()).collect()
}
