//! The fuzz targets without a fuzzer: every seed that is checked in, and mutations of them that are the same in every run.

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use crate::mutation::{Mutations, seeds};
use deletion_vectors::{Bitmap, ErrorCode, validate};

/// Runs one target on all of its seeds and on `rounds` mutations of them.
fn run(name: &str, rounds: usize) {
    let (_, target) =
        crate::hostile::TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    let seeds = seeds(name);
    let mutations = Mutations::new(&seeds).take(rounds);
    for bytes in seeds.iter().cloned().chain(mutations) {
        // What was going on is lost with the panic, and these bytes are the next seed.
        let outcome = catch_unwind(|| target(&bytes));
        assert!(outcome.is_ok(), "{name} panicked on {bytes:02x?}");
    }
}

#[test]
fn any_bytes_as_a_bitmap() {
    run("decode", 200_000);
}

#[test]
fn any_sets_as_a_merge() {
    run("merge", 300);
}

#[test]
fn any_bytes_as_a_request() {
    run("wire", 50_000);
}

#[test]
fn any_bytes_as_a_file() {
    run("frame", 200_000);
}

#[test]
fn any_bytes_as_a_descriptor() {
    run("descriptor", 200_000);
}

/// Traps 31, 34 and 36, and that the corpus is worth its name: seeds and mutations meet every reason to refuse.
#[test]
fn trap_31_34_36_the_corpus_meets_every_reason_to_refuse_a_bitmap() {
    let seeds = seeds("decode");
    let mut met = BTreeSet::new();
    for bytes in seeds.iter().cloned().chain(Mutations::new(&seeds).take(20_000)) {
        for records in [None, Some(3)] {
            if let Err(error) = validate(Bitmap { bytes: &bytes, cardinality: 2 }, records) {
                met.insert(error.code.name());
            }
        }
    }
    let all: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(met, all);
}
