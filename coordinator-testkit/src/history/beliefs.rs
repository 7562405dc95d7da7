use super::{Event, History, Step, Violation, What};
use crate::Moment;
use coordinator_core::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A lease, for as long as its client believed in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Belief {
    /// Whose it was.
    pub process: String,
    /// Which of that process's clients.
    pub client: String,
    /// Of what.
    pub scope: String,
    /// How it was held.
    pub mode: Mode,
    /// When it was asked for.
    pub asked: Moment,
    /// When it was got.
    pub granted: Moment,
    /// When the belief ended, and how; `None`: the history ends with it.
    pub end: Option<(Moment, End)>,
    /// When the loss was told.
    pub lost: Option<Moment>,
    /// The tokens that were got with or under it.
    pub tokens: Vec<Fetched>,
}

/// How a belief ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Released, or dropped.
    Released,
    /// The client was told, or found out itself.
    Lost,
    /// With its process.
    Killed,
}

/// A fencing token that a client got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Its value.
    pub token: u64,
    /// When it was asked for.
    pub asked: Moment,
    /// When it was there.
    pub answered: Moment,
}

impl Belief {
    /// Whether the two exclude each other.
    pub fn excludes(&self, other: &Self) -> bool {
        self.scope == other.scope && !(self.mode == Mode::Shared && other.mode == Mode::Shared)
    }

    fn ends(&mut self, at: Moment, how: End) {
        self.end.get_or_insert((at, how));
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, client, scope, mode, granted, .. } = self;
        write!(f, "the {mode} lease of {scope:?} that {process}/{client} had from {granted}")?;
        match self.end {
            None => f.write_str(" on"),
            Some((at, End::Released)) => write!(f, " until it was released at {at}"),
            Some((at, End::Lost)) => write!(f, " until it was lost at {at}"),
            Some((at, End::Killed)) => write!(f, " until its process was killed at {at}"),
        }
    }
}

/// What a history comes to, and what does not fit.
#[derive(Default)]
pub(super) struct Folded {
    pub(super) beliefs: Vec<Belief>,
    pub(super) violations: Vec<Violation>,
}

/// A client and a scope; by process first, since a kill ends all of a process.
type Who<'h> = (&'h str, &'h str, &'h str);

/// Idle is not to be found here.
#[derive(Clone, Copy)]
enum State {
    Asking(Mode, Moment),
    /// The number of the belief.
    Holding(usize),
    Over(usize),
}

pub(super) fn fold(history: &History) -> Folded {
    let (mut fold, mut dead) = (Fold::default(), BTreeSet::new());
    for event in history.events() {
        // A process that is being killed may still get a line out.
        if dead.contains(event.process.as_str()) {
            continue;
        }
        match &event.what {
            What::Client { client, scope, step } => fold.step(event, (&event.process, client, scope), step),
            What::Killed => {
                fold.killed(&event.process, event.at);
                dead.insert(event.process.as_str());
            }
            What::Note(_) => {}
        }
    }
    fold.end()
}

#[derive(Default)]
struct Fold<'h> {
    folded: Folded,
    states: BTreeMap<Who<'h>, State>,
}

impl<'h> Fold<'h> {
    fn step(&mut self, event: &'h Event, who: Who<'h>, step: &Step) {
        let at = event.at;
        match (step, self.states.get(&who).copied()) {
            (Step::Invoke(mode), None | Some(State::Over(_))) => {
                self.states.insert(who, State::Asking(*mode, at));
            }
            (Step::Grant(mode), Some(State::Asking(asked_for, asked))) if *mode == asked_for => {
                self.states.insert(who, State::Holding(self.folded.beliefs.len()));
                self.folded.beliefs.push(granted(who, *mode, asked, at));
            }
            (Step::Refused | Step::Failed(_) | Step::Dropped, Some(State::Asking(..))) => {
                self.states.remove(&who);
            }
            (step, Some(State::Holding(number) | State::Over(number))) => {
                if self.under_lease(number, at, step) {
                    self.states.insert(who, State::Over(number));
                } else if matches!(step, Step::Invoke(_) | Step::Grant(_) | Step::Refused) {
                    self.folded.violations.push(Violation::OutOfPlace { event: event.clone() });
                }
            }
            _ => self.folded.violations.push(Violation::OutOfPlace { event: event.clone() }),
        }
    }

    /// Something that happens to a lease; whether its belief is over.
    fn under_lease(&mut self, number: usize, at: Moment, step: &Step) -> bool {
        let belief = &mut self.folded.beliefs[number];
        let acted = match step {
            Step::Release | Step::Dropped => {
                belief.ends(at, End::Released);
                None
            }
            Step::Lost(_) => {
                belief.lost.get_or_insert(at);
                belief.ends(at, End::Lost);
                None
            }
            Step::BeliefEnded => {
                belief.ends(at, End::Lost);
                Some(at)
            }
            Step::Token { token, asked } => {
                belief.tokens.push(Fetched { token: *token, asked: *asked, answered: at });
                Some(*asked)
            }
            Step::Invoke(_) | Step::Grant(_) | Step::Refused | Step::Failed(_) => None,
        };
        if let (Some(lost), Some(acted)) = (belief.lost, acted)
            && acted > lost
        {
            // It was believed in all the same, so that is how long the belief is.
            belief.end = Some((acted, End::Lost));
            self.folded.violations.push(Violation::BelievedAfterLoss { belief: belief.clone(), lost, acted });
        }
        self.folded.beliefs[number].end.is_some()
    }

    fn killed(&mut self, process: &str, at: Moment) {
        self.states.retain(|(of, ..), state| {
            if let (true, State::Holding(number)) = (*of == process, *state) {
                self.folded.beliefs[number].ends(at, End::Killed);
            }
            *of != process
        });
    }

    fn end(mut self) -> Folded {
        for ((process, client, scope), state) in self.states {
            match state {
                State::Asking(mode, asked) => self.folded.violations.push(Violation::Unanswered {
                    process: process.into(),
                    client: client.into(),
                    scope: scope.into(),
                    mode,
                    asked,
                }),
                State::Holding(number) => {
                    let belief = self.folded.beliefs[number].clone();
                    self.folded.violations.push(Violation::NeverEnded { belief });
                }
                State::Over(_) => {}
            }
        }
        self.folded
    }
}

fn granted((process, client, scope): Who<'_>, mode: Mode, asked: Moment, granted: Moment) -> Belief {
    Belief {
        process: process.into(),
        client: client.into(),
        scope: scope.into(),
        mode,
        asked,
        granted,
        end: None,
        lost: None,
        tokens: Vec::new(),
    }
}
