//! The drill as its users run it: the binary, its output and its exit status.

mod command_line;
mod database;
mod drill;
mod memory;
mod postgres;
