use super::beliefs::fold;
use super::{Belief, History, Violation, tokens};
use crate::Moment;
use coordinator_core::Mode;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a fault permits; nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Allowed {
    /// For how long two that exclude each other may believe at the same time.
    pub overlap: Duration,
}

impl Allowed {
    /// Two may believe for that long.
    pub fn overlap(overlap: Duration) -> Self {
        Self { overlap }
    }
}

pub(super) fn check(history: &History, allowed: &Allowed) -> Vec<Violation> {
    let folded = fold(history);
    let mut violations = folded.violations;
    for leases in by_scope(&folded.beliefs).values() {
        for (first, second, overlap) in overlaps(leases, history.end()) {
            if overlap > allowed.overlap {
                let (first, second) = (first.clone(), second.clone());
                violations.push(Violation::Overlap { first, second, overlap, allowed: allowed.overlap });
            }
        }
        violations.extend(tokens::check(leases));
    }
    violations
}

pub(super) fn greatest_overlap(history: &History) -> Duration {
    let beliefs = history.beliefs();
    let overlaps = by_scope(&beliefs).into_values().flat_map(|leases| overlaps(&leases, history.end()));
    overlaps.map(|(.., overlap)| overlap).max().unwrap_or_default()
}

/// In each scope in the order of the grants.
fn by_scope(beliefs: &[Belief]) -> BTreeMap<&str, Vec<&Belief>> {
    let mut scopes: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for belief in beliefs {
        scopes.entry(&belief.scope).or_default().push(belief);
    }
    scopes
}

/// For each lease the one granted before it that it overlaps with for longest, if they exclude each other.
///
/// Of the earlier ones that is the one whose belief ends last: all of them begin before it does.
fn overlaps<'b>(leases: &[&'b Belief], end: Option<Moment>) -> Vec<(&'b Belief, &'b Belief, Duration)> {
    let until = |belief: &Belief| belief.end.map(|(at, _)| at).or(end).unwrap_or(belief.granted);
    let (mut last_exclusive, mut last_any, mut overlaps) = (None, None, Vec::new());
    for &second in leases {
        let first: Option<&Belief> = if second.mode == Mode::Exclusive { last_any } else { last_exclusive };
        if let Some(first) = first {
            let overlap = until(first).min(until(second)).since(second.granted);
            if !overlap.is_zero() {
                overlaps.push((first, second, overlap));
            }
        }
        let later = |last: Option<&'b Belief>| last.filter(|last| until(last) >= until(second)).or(Some(second));
        last_any = later(last_any);
        if second.mode == Mode::Exclusive {
            last_exclusive = later(last_exclusive);
        }
    }
    overlaps
}
