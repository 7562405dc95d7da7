//! What the cohort asked, parked until the test answers.

use super::{Grant, Scripted};
use coordinator_core::{CancellationToken, Error, ErrorKind, Look, LossReason, Mode, Scope, Session};
use tokio::sync::oneshot;

/// What the cohort asked, and what is to be answered.
pub struct Parked {
    pub asked: Asked,
    pub reply: oneshot::Sender<Reply>,
    pub script: Scripted,
}

#[derive(Clone)]
pub enum Asked {
    TryLock { scope: Scope, mode: Mode },
    Lock { scope: Scope, mode: Mode, unwanted: CancellationToken },
    Unlock { scope: Scope, grant: Grant },
    Contended { scope: Scope, grant: Grant, look: Look },
    Confirm { grant: Grant },
    Verify { scope: Scope, grant: Grant },
    Fence { scope: Scope, grant: Grant },
    Close,
}

pub enum Reply {
    Granted(Grant),
    NotGranted,
    Contended(bool),
    Done,
    Token(u64),
    Failed(Error),
    Panic,
}

impl Asked {
    pub fn name(&self) -> &'static str {
        match self {
            Self::TryLock { .. } => "try_lock",
            Self::Lock { .. } => "lock",
            Self::Unlock { .. } => "unlock",
            Self::Contended { .. } => "contended",
            Self::Confirm { .. } => "confirm",
            Self::Verify { .. } => "verify",
            Self::Fence { .. } => "fence",
            Self::Close => "close",
        }
    }
}

impl Parked {
    /// The answer that everybody hopes for.
    pub fn agree(self) {
        match self.asked.clone() {
            Asked::Lock { unwanted, .. } if unwanted.is_cancelled() => self.refuse(),
            Asked::TryLock { scope, mode } | Asked::Lock { scope, mode, .. } => {
                let grant = self.script.grant(scope, mode);
                self.say(Reply::Granted(grant));
            }
            Asked::Contended { .. } => self.say(Reply::Contended(false)),
            Asked::Unlock { scope, grant } => {
                self.script.script().free(scope, grant.id);
                self.say(Reply::Done);
            }
            Asked::Fence { grant, .. } => self.say(Reply::Token(grant.id)),
            Asked::Confirm { .. } | Asked::Verify { .. } | Asked::Close => self.say(Reply::Done),
        }
    }

    /// A lock on this session.
    pub fn grant_on(self, session: &Session) {
        let (Asked::TryLock { scope, mode } | Asked::Lock { scope, mode, .. }) = self.asked else {
            panic!("{} is not answered by a grant", self.asked.name());
        };
        let grant = self.script.script().grant_on(session.clone(), scope, mode);
        self.say(Reply::Granted(grant));
    }

    /// Not granted; somebody else waits; what is asked of a lock is answered with `Lost`.
    pub fn refuse(self) {
        match self.asked.clone() {
            Asked::TryLock { .. } | Asked::Lock { .. } => self.say(Reply::NotGranted),
            Asked::Contended { grant, .. } => {
                self.script.script().contended.insert(grant.id);
                self.say(Reply::Contended(true));
            }
            _ => self.fail(Error::lost("scripted", LossReason::NotHeld)),
        }
    }

    pub fn fail(self, error: Error) {
        self.note_failure();
        self.say(Reply::Failed(error));
    }

    pub fn fail_unavailable(self) {
        self.fail(Error::new(ErrorKind::Unavailable, "scripted", "the script says so"));
    }

    /// The driver's future panics.
    pub fn panic(self) {
        self.note_failure();
        self.say(Reply::Panic);
    }

    fn note_failure(&self) {
        match &self.asked {
            Asked::Contended { grant, .. } => {
                self.script.script().contended.insert(grant.id);
            }
            Asked::Unlock { scope, grant } => self.script.script().free(*scope, grant.id),
            _ => {}
        }
    }

    fn say(self, reply: Reply) {
        let _ = self.reply.send(reply); // the runtime may be gone
    }
}
