//! The history checker: it rejects what a lock must not do, each for its reason, and accepts what it may.

mod accepted;
mod against_definitions;
mod recording;
mod rejected;
mod story;
mod timeline;
