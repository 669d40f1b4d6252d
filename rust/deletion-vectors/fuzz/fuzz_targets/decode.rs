//! Any bytes as a serialized bitmap: refused, or read to ascending rows that the `roaring` crate reads as well and that
//! come back out of our own encoder.
#![no_main]

use deletion_vectors::{Bitmap, ErrorCode, encode, rows};
use libfuzzer_sys::fuzz_target;
use roaring::RoaringTreemap;

fuzz_target!(|bytes: &[u8]| {
    // The right cardinality is what the error about a wrong one says.
    let cardinality = match rows(Bitmap { bytes, cardinality: u64::MAX }, None) {
        Err(error) if error.code == ErrorCode::Cardinality => error.got,
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64);
            return;
        }
        Ok(_) => panic!("no bitmap has so many rows"),
    };
    let found = rows(Bitmap { bytes, cardinality }, None).expect("only the cardinality was wrong");
    assert_eq!(found.len() as u64, cardinality);
    assert!(found.is_sorted_by(|a, b| a < b));
    let ours = encode(&found).expect("rows ascend");
    assert_eq!(rows(Bitmap { bytes: &ours, cardinality }, None).as_ref(), Ok(&found));
    let read = RoaringTreemap::deserialize_from(&ours[4..]).expect("what we write is well-formed");
    assert!(read.iter().eq(found));
});
