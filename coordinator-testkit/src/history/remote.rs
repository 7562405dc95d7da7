//! What another process of the case says, as steps of its client.

use super::{Client, Step};
use crate::process::{Answer, Told};
use coordinator_core::Mode;

impl Client {
    /// What a process answered to who asked for the scope.
    pub(crate) fn answered(&self, scope: &str, mode: Mode, answer: Answer) -> Answer {
        match &answer {
            Answer::Granted { at } => self.did(*at, scope, Step::Grant(mode)),
            Answer::Refused | Answer::TimedOut => self.does(scope, Step::Refused),
            _ => return self.failed(scope, answer),
        }
        answer
    }

    /// What a process said unasked.
    pub(crate) fn told(&self, told: &Told) {
        match told {
            Told::Lost { scope, reason, at } => self.did(*at, scope, Step::Lost(reason.clone())),
            Told::BelievedUntil { scope, at } => self.did(*at, scope, Step::BeliefEnded),
        }
    }

    /// A process that is gone has answered nothing: what it asked for ends with the kill.
    pub(crate) fn failed(&self, scope: &str, answer: Answer) -> Answer {
        if let Answer::Failed { text, .. } = &answer {
            self.does(scope, Step::Failed(text.clone()));
        }
        answer
    }
}
