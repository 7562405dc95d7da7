//! Tokens of one scope. What is demanded of them:
//!
//! - No two calls give the same one.
//! - One that was asked for when another was there already is greater.
//! - Of two leases that exclude each other, all tokens of the one that was granted first are smaller. Both calls may have
//!   been under way at the same time: the former holder's, that was frozen in it, has to give a small one, or to fail.
//!   It is demanded only of calls that began after the grant: they show that the lease was held at the backend then,
//!   so that the order in which two clients saw their grants is the order in which they held.
//!
//! Tokens of shared leases that overlap have no order among each other but that of the calls.

use super::{Belief, Fetched, Violation};
use coordinator_core::Mode;
use std::collections::BTreeMap;

type Under<'b> = (&'b Belief, Fetched);

/// `leases` are those of one scope, in the order of their grants.
pub(super) fn check(leases: &[&Belief]) -> Vec<Violation> {
    let all: Vec<Under<'_>> =
        leases.iter().flat_map(|lease| lease.tokens.iter().map(|token| (*lease, *token))).collect();
    let mut violations = repeated(&all);
    violations.extend(went_back(&all));
    violations.extend(former_holders_ahead(leases));
    violations
}

fn repeated(all: &[Under<'_>]) -> Vec<Violation> {
    let (mut seen, mut violations) = (BTreeMap::new(), Vec::new());
    for (second, Fetched { token, .. }) in all {
        if let Some(first) = seen.insert(token, *second) {
            let (first, second) = (first.clone(), (*second).clone());
            violations.push(Violation::TokenRepeated { first, second, token: *token });
        }
    }
    violations
}

/// For each one the greatest of those that were there when it was asked for.
fn went_back(all: &[Under<'_>]) -> Vec<Violation> {
    let (mut asked, mut answered) = (all.to_vec(), all.to_vec());
    asked.sort_by_key(|(_, fetched)| fetched.asked);
    answered.sort_by_key(|(_, fetched)| fetched.answered);
    let (mut answered, mut greatest, mut violations) = (answered.into_iter().peekable(), None, Vec::new());
    for (second, later) in asked {
        while let Some(there) = answered.next_if(|(_, fetched)| fetched.answered < later.asked) {
            greatest = greater(greatest, there);
        }
        if let Some((first, earlier)) = greatest
            && earlier.token > later.token
        {
            let (first, second) = (first.clone(), second.clone());
            violations.push(Violation::TokenWentBack { first, earlier, second, later });
        }
    }
    violations
}

fn former_holders_ahead(leases: &[&Belief]) -> Vec<Violation> {
    let (mut exclusive, mut any, mut violations) = (None, None, Vec::new());
    for &second in leases {
        let under = || second.tokens.iter().filter(|fetched| fetched.asked >= second.granted);
        let before: Option<Under<'_>> = if second.mode == Mode::Exclusive { any } else { exclusive };
        if let (Some((first, former)), Some(newer)) = (before, under().min_by_key(|fetched| fetched.token))
            && former.token > newer.token
            && first.granted < second.granted
        {
            let (first, second) = (first.clone(), second.clone());
            violations.push(Violation::FormerHolderAhead { first, former: former.token, second, newer: newer.token });
        }
        if let Some(&most) = under().max_by_key(|fetched| fetched.token) {
            any = greater(any, (second, most));
            if second.mode == Mode::Exclusive {
                exclusive = greater(exclusive, (second, most));
            }
        }
    }
    violations
}

fn greater<'b>(known: Option<Under<'b>>, other: Under<'b>) -> Option<Under<'b>> {
    known.filter(|(_, fetched)| fetched.token >= other.1.token).or(Some(other))
}
