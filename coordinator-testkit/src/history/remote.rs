use super::{Client, Recorder, Step};
use crate::Moment;
use crate::process::{Answer, Process, Told};
use coordinator_core::Mode;
use std::time::Duration;

/// A process of the case, recorded as it is spoken to.
pub(crate) struct Remote<'p> {
    process: &'p Process,
    client: Client,
    recorder: &'p Recorder,
}

impl Recorder {
    /// The same process, recorded; as often as is wanted.
    pub(crate) fn of<'p>(&'p self, process: &'p Process) -> Remote<'p> {
        let client = self.client_of(process.env().instance(), "case");
        Remote { process, client, recorder: self }
    }
}

impl Remote<'_> {
    pub(crate) async fn acquire(&self, scope: &str, mode: Mode, limit: Duration) -> Answer {
        self.client.does(scope, Step::Invoke(mode));
        self.client.answered(scope, mode, self.process.acquire(scope, mode, limit).await)
    }

    pub(crate) async fn try_acquire(&self, scope: &str, mode: Mode) -> Answer {
        self.client.does(scope, Step::Invoke(mode));
        self.client.answered(scope, mode, self.process.try_acquire(scope, mode).await)
    }

    /// As [`acquire`](Self::acquire), without waiting for the answer here.
    pub(crate) async fn queue(&self, scope: &str, mode: Mode) -> impl Future<Output = Answer> + Send + 'static + use<> {
        self.client.does(scope, Step::Invoke(mode));
        let (client, scope, answer) = (self.client.clone(), scope.to_owned(), self.process.queue(scope, mode).await);
        async move { client.answered(&scope, mode, answer.await) }
    }

    pub(crate) async fn release(&self, scope: &str) -> Answer {
        self.client.does(scope, Step::Release);
        self.client.failed(scope, self.process.release(scope).await)
    }

    pub(crate) async fn fence(&self, scope: &str) -> Answer {
        let asked = Moment::now();
        let answer = self.process.fence(scope).await;
        if let Answer::Token(token) = answer {
            self.client.does(scope, Step::Token { token, asked });
        }
        self.client.failed(scope, answer)
    }

    /// What it says unasked next, which is recorded.
    pub(crate) async fn told(&self, limit: Duration) -> Told {
        let told = self.process.told(limit).await;
        self.client.told(&told);
        told
    }

    pub(crate) fn kill(&self) {
        self.recorder.killed(self.process.env().instance());
        self.process.kill();
    }

    pub(crate) fn freeze(&self) {
        self.recorder.note(self.process.env().instance(), "frozen");
        self.process.freeze();
    }

    pub(crate) fn thaw(&self) {
        self.recorder.note(self.process.env().instance(), "thawed");
        self.process.thaw();
    }
}

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
    fn failed(&self, scope: &str, answer: Answer) -> Answer {
        if let Answer::Failed { text, .. } = &answer {
            self.does(scope, Step::Failed(text.clone()));
        }
        answer
    }
}
