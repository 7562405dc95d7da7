//! What this process was warned about.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Every warning since it was first asked for, `message=… field=value …` each, of all threads: the coordinator has its
/// own.
pub(crate) struct Warnings(Mutex<Vec<String>>);

static ALL: Warnings = Warnings(Mutex::new(Vec::new()));

impl Warnings {
    pub(crate) fn of_this_process() -> &'static Self {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| tracing::subscriber::set_global_default(Listener).expect("the only one"));
        &ALL
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        ALL.0.lock().expect("not poisoned").push(text.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").expect("memory");
    }
}
