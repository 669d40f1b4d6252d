//! Requests and responses, well-formed and not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;

use deletion_vectors::wire::{
    self, HEADER_LEN, RESPONSE_ENTRY_LEN, Request, RequestBuilder, WireError, overlap_count,
    read_response, resolve,
};
use deletion_vectors::{Bitmap, ErrorCode, FileInput, Role, Verdict, encode, rows};
use proptest::prelude::*;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A request that gets every verdict once, with the verdict codes in order of the files.
fn every_verdict() -> (Vec<u8>, [u32; 8]) {
    let bytes = |rows: &[u64]| (encode(rows).unwrap(), rows.len() as u64);
    let sets =
        [bytes(&[0]), bytes(&[0, 1]), bytes(&[0, 2]), bytes(&[1]), bytes(&[2]), bytes(&[0, 1, 2])];
    let of = |i: usize| Some(Bitmap { bytes: &sets[i].0, cardinality: sets[i].1 });
    let file =
        |base, current, winner, num_records| FileInput { base, current, winner, num_records };
    let wrong = Some(Bitmap { bytes: &sets[4].0, cardinality: 9 });
    let mut builder = RequestBuilder::new();
    builder
        .push(&file(of(0), of(1), of(2), Some(100)))
        .push(&file(of(0), None, of(2), Some(100)))
        .push(&file(of(0), of(1), of(2), Some(3)))
        .push(&file(None, of(1), of(5), None))
        .push(&file(of(0), of(1), of(4), None))
        .push(&file(of(0), of(3), of(2), None))
        .push(&file(of(0), of(0), of(2), None))
        .push(&file(None, of(3), wrong, None));
    (builder.build(), [1, 2, 3, 4, 5, 6, 7, 8])
}

#[test]
fn resolve_writes_every_verdict_with_its_code_at_its_place() {
    let mut response = vec![0; 4096];
    let (request, codes) = every_verdict();
    let used = resolve(&request, &mut response).unwrap();
    assert_eq!(&response[..4], b"RLCR");
    assert_eq!(u32_at(&response, 4), 1);
    assert_eq!(u32_at(&response, 8), 8);
    assert_eq!(u64_at(&response, 16), used as u64);
    for (i, code) in codes.iter().enumerate() {
        let entry = HEADER_LEN + i * RESPONSE_ENTRY_LEN;
        let code = *code;
        assert_eq!(u32_at(&response, entry), code, "file {i}");
        let (role, error) = if code == 8 { (3, ErrorCode::Cardinality as u32) } else { (0, 0) };
        assert_eq!((u32_at(&response, entry + 4), u32_at(&response, entry + 8)), (role, error));
        assert_eq!(u32_at(&response, entry + 12), 0);
        let (offset, len) =
            (u64_at(&response, entry + 16) as usize, u64_at(&response, entry + 24) as usize);
        assert_eq!(len != 0, code == 1);
        if len != 0 {
            assert_eq!(offset % 8, 0);
            let merged = Bitmap {
                bytes: &response[offset..offset + len],
                cardinality: u64_at(&response, entry + 32),
            };
            assert_eq!(rows(merged, None), Ok(vec![0, 1, 2]));
        }
        let detail = u64_at(&response, entry + 40);
        // The overlap is at row 1 and also at row 0, which comes first; the other conflicts are at row 0.
        assert_eq!(detail, 0, "file {i}");
        let cardinality = u64_at(&response, entry + 32);
        assert_eq!(cardinality, if matches!(code, 1 | 3) { 3 } else { 0 });
        let expected_got = (u64_at(&response, entry + 48), u64_at(&response, entry + 56));
        assert_eq!(expected_got, if code == 8 { (9, 1) } else { (0, 0) });
    }
    let entries = read_response(&response[..used]).unwrap();
    assert!(matches!(entries[7].verdict, Verdict::Malformed(m) if m.role == Role::Winner));
    assert_eq!(overlap_count(&request, 3), Ok(2));
    assert_eq!(overlap_count(&request, 0), Ok(0));
    assert!(matches!(overlap_count(&request, 7), Err(WireError::Malformed(_))));
    assert!(matches!(overlap_count(&request, 8), Err(WireError::Request { .. })));
}

#[test]
fn resolve_without_files_gives_an_empty_response() {
    let request = RequestBuilder::new().build();
    assert_eq!(resolve(&request, &mut [0; 32]), Ok(32));
    assert_eq!(resolve(&request, &mut [0; 31]), Err(WireError::NoSpace { needed: 32 }));
}

#[test]
fn resolve_into_too_little_space_names_a_length_that_is_enough() {
    let (request, _) = every_verdict();
    let mut big = vec![0; 1 << 16];
    let used = resolve(&request, &mut big).unwrap();
    for len in 0..used {
        match resolve(&request, &mut vec![0; len]) {
            Err(WireError::NoSpace { needed }) => {
                assert!(needed > len);
                assert_eq!(resolve(&request, &mut vec![0; needed]), Ok(used));
            }
            Ok(_) => panic!("{len} bytes were enough for {used}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(Request::parse(&request).unwrap().files(), 8);
}

#[test]
fn resolve_refuses_every_malformed_header_and_entry() {
    let (request, _) = every_verdict();
    let mut response = vec![0; 1 << 16];
    for len in 0..request.len() {
        assert!(resolve(&request[..len], &mut response).is_err(), "{len}");
    }
    for at in [0, 4, 12, 16, 24] {
        let mut bad = request.clone();
        bad[at] ^= 1;
        let error = resolve(&bad, &mut response).unwrap_err();
        assert_eq!(error.code(), "REQUEST_MALFORMED");
    }
    let mut with_entry = |word: usize, value: u64| {
        let mut bad = request.clone();
        let at = HEADER_LEN + 8 * word;
        bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
        resolve(&bad, &mut response)
    };
    let total = request.len() as u64;
    // Offset within the entries, end behind the request, both with overflow.
    for (word, value) in
        [(0, 0), (0, 40), (0, total), (0, u64::MAX), (1, total), (1, u64::MAX), (4, u64::MAX)]
    {
        assert!(
            matches!(with_entry(word, value), Err(WireError::Request { .. })),
            "{word} {value}"
        );
    }
    // An absent bitmap with a cardinality: base of file 3.
    assert!(matches!(with_entry(30 + 2, 1), Err(WireError::Request { .. })));
    // More files than there are entries for.
    let mut bad = request.clone();
    bad[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(resolve(&bad, &mut response), Err(WireError::Request { .. })));
}

#[test]
fn bitmaps_may_share_bytes() {
    let bytes = encode(&[1, 2]).unwrap();
    let bitmap = Some(Bitmap { bytes: &bytes, cardinality: 2 });
    let mut builder = RequestBuilder::new();
    builder.push(&FileInput { base: bitmap, current: bitmap, winner: bitmap, num_records: None });
    let mut request = builder.build();
    let first = u64_at(&request, HEADER_LEN).to_le_bytes();
    for word in [3, 6] {
        request[HEADER_LEN + 8 * word..][..8].copy_from_slice(&first);
    }
    let mut response = vec![0; 256];
    let used = resolve(&request, &mut response).unwrap();
    assert_eq!(read_response(&response[..used]).unwrap()[0].verdict, Verdict::NothingNew);
    assert_eq!(wire::VERSION, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resolve_of_garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), files in 0u32..4) {
        let mut response = vec![0; 4096];
        let _ = resolve(&bytes, &mut response);
        // The same behind a header that is right.
        let mut request = bytes;
        request.resize(request.len().max(32), 0);
        let total = request.len() as u64;
        request[..4].copy_from_slice(b"RLCQ");
        request[4..8].copy_from_slice(&1u32.to_le_bytes());
        request[8..12].copy_from_slice(&files.to_le_bytes());
        request[12..16].fill(0);
        request[16..24].copy_from_slice(&total.to_le_bytes());
        request[24..32].fill(0);
        for word in (0..files as usize * 10).filter(|word| word % 10 != 9) {
            // Offsets and lengths that are at least near the payload.
            let at = HEADER_LEN + 8 * word;
            if let Some(place) = request.get_mut(at..at + 8) {
                place[2..].fill(0);
            }
        }
        let _ = resolve(&request, &mut response);
        let _ = overlap_count(&request, 0);
    }
}
