use super::{
    event::{Event, Operation, Refusal, Told},
    plane::Plane,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// How many workers an instance has.
pub(crate) const WORKERS: usize = 8;

/// How long a worker rests after a failure, so that an outage does not spin.
const REST: Duration = Duration::from_millis(50);

/// A caller of one instance's plane: does one operation after the other on random subjects.
pub(crate) struct Worker {
    pub(crate) plane: Arc<Plane>,
    pub(crate) subjects: i64,
    pub(crate) events: UnboundedSender<Told>,
    pub(crate) stop: CancellationToken,
}

impl Worker {
    /// Works until it is told to stop, and ends the operation it is at.
    pub(crate) async fn run(self) {
        while !self.stop.is_cancelled() {
            let subject = rand::random_range(0..self.subjects);
            let operation = match rand::random_range(0..100) {
                0..46 => Operation::Write,
                46..74 => Operation::Hold,
                _ => Operation::Erase,
            };
            let event = self.perform(operation, subject).await;
            match event {
                Event::Refused { why: Refusal::Tombstoned, .. } => {
                    self.perform(Operation::Resume, subject).await;
                }
                Event::Refused { why: Refusal::Held, .. } => {
                    if let Event::Lifted { .. } = self.perform(Operation::Lift, subject).await {
                        self.perform(operation, subject).await;
                    }
                }
                Event::Failed { .. } => tokio::time::sleep(REST).await,
                _ => {}
            }
        }
    }

    /// Resumes the erasures that dead instances have left; what an instance does first.
    pub(crate) async fn resume_what_was_left(&self) {
        match self.plane.store.tombstoned_subjects().await {
            Ok(subjects) => {
                for subject in subjects {
                    self.perform(Operation::Resume, subject).await;
                }
            }
            // Who next touches such a subject resumes its erasure.
            Err(failure) => {
                let message = failure.with_causes();
                self.tell(Event::Failed { operation: Operation::Resume, message }, None);
            }
        }
    }

    async fn perform(&self, operation: Operation, subject: i64) -> Event {
        let performed = match operation {
            Operation::Write => self.plane.write(subject).await,
            Operation::Hold => self.plane.hold(subject).await,
            Operation::Lift => self.plane.lift(subject).await,
            Operation::Erase => self.plane.erase(subject).await,
            Operation::Resume => self.plane.resume(subject).await,
        };
        let (event, waited) = match performed {
            Ok((event, waited)) => (event, Some(waited)),
            Err(failure) => (Event::Failed { operation, message: failure.with_causes() }, None),
        };
        self.tell(event.clone(), waited);
        event
    }

    fn tell(&self, event: Event, waited: Option<Duration>) {
        let waited_micros = waited.map(|waited| u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
        // Nobody listens any more: the drill is over, and the next look at `stop` says so.
        let _ = self.events.send(Told { event, waited_micros });
    }
}
