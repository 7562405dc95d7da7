use super::{Belief, Event, Fetched, What};
use crate::Moment;
use coordinator_core::Mode;
use std::fmt;
use std::time::Duration;

/// What is wrong with a history, and who did it. Moments are written as they stand in its JSON lines.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// Two that exclude each other believed in their leases at the same time, for longer than was allowed.
    Overlap {
        /// Who was granted first.
        first: Belief,
        /// Who was granted while the first believed.
        second: Belief,
        /// For how long.
        overlap: Duration,
        /// How long it might have been.
        allowed: Duration,
    },
    /// A client believed, or got a token that it asked for, after it had been told of the loss.
    BelievedAfterLoss {
        /// The lease.
        belief: Belief,
        /// When the loss was told.
        lost: Moment,
        /// When it was believed in all the same.
        acted: Moment,
    },
    /// A token that was asked for when another was there already is not greater than that one.
    TokenWentBack {
        /// Under which lease the earlier one was got.
        first: Belief,
        /// The earlier one.
        earlier: Fetched,
        /// Under which lease the later one was got.
        second: Belief,
        /// The later one.
        later: Fetched,
    },
    /// Two calls gave the same token.
    TokenRepeated {
        /// One of those who got it.
        first: Belief,
        /// The other, or the same lease.
        second: Belief,
        /// The token.
        token: u64,
    },
    /// A former holder has a token that is not smaller than its successor's: a sink takes the former for the newer.
    FormerHolderAhead {
        /// Who was granted first.
        first: Belief,
        /// Its token.
        former: u64,
        /// Its successor.
        second: Belief,
        /// The successor's token.
        newer: u64,
    },
    /// A lease was neither released nor lost, nor was its process killed.
    NeverEnded {
        /// The lease.
        belief: Belief,
    },
    /// A client was neither served nor refused nor told, nor was its process killed.
    Unanswered {
        /// Its process.
        process: String,
        /// Its name.
        client: String,
        /// What it asked for.
        scope: String,
        /// And how.
        mode: Mode,
        /// Since when.
        asked: Moment,
    },
    /// An event that can't follow those before it: a lease, a refusal or a token for who has not asked.
    OutOfPlace {
        /// The event.
        event: Event,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { first, second, overlap, allowed } => {
                write!(f, "both believed for {overlap:?}, {allowed:?} is allowed: {first}, and {second}")
            }
            Self::BelievedAfterLoss { belief, lost, acted } => {
                write!(f, "told of the loss at {lost} and believing again at {acted}: {belief}")
            }
            Self::TokenWentBack { first, earlier, second, later } => write!(
                f,
                "token {} was there at {}, and token {}, asked for at {}, is not greater: {first}, and {second}",
                earlier.token, earlier.answered, later.token, later.asked
            ),
            Self::TokenRepeated { first, second, token } => {
                write!(f, "token {token} was given twice: {first}, and {second}")
            }
            Self::FormerHolderAhead { first, former, second, newer } => {
                write!(
                    f,
                    "token {former} of a former holder passes token {newer} of a newer one: {first}, and {second}"
                )
            }
            Self::NeverEnded { belief } => write!(f, "neither released nor lost: {belief}"),
            Self::Unanswered { process, client, scope, mode, asked } => {
                write!(f, "never answered: {process}/{client}, who asked for {scope:?} {mode} at {asked}")
            }
            Self::OutOfPlace { event: Event { at, process, what } } => match what {
                What::Client { client, scope, step } => {
                    write!(f, "can't be at this point: {step:?} of {scope:?} for {process}/{client} at {at}")
                }
                what => write!(f, "can't be at this point: {what:?} of {process} at {at}"),
            },
        }
    }
}
