//! What the crate promises, in one program: linking one takes less time than linking one for each file.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

mod against_roaring;
mod common;
mod hostile;
mod hostile_bytes;
mod malformed;
mod merge;
mod mutation;
mod sparse;
mod vectors;
mod wire;
