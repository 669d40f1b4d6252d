//! Requests and responses, well-formed and not.

use deletion_vectors::wire::{
    self, ENTRY_NUMBERS, HEADER_LEN, RESPONSE_ENTRY_LEN, RequestBuilder, WireError, read_response,
};
use deletion_vectors::{Bitmap, ErrorCode, FileInput, Merger, Role, Verdict, encode, rows};
use proptest::prelude::*;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A request that owns its arrays.
#[derive(Debug, Clone)]
struct Request {
    table: Vec<i64>,
    arrays: Vec<Vec<u8>>,
}

impl Request {
    fn of(builder: RequestBuilder<'_>) -> Request {
        let (table, arrays) = builder.build();
        Request { table, arrays: arrays.into_iter().map(<[u8]>::to_vec).collect() }
    }
}

fn resolve(request: &Request, response: &mut [u8]) -> Result<usize, WireError> {
    let arrays: Vec<&[u8]> = request.arrays.iter().map(Vec::as_slice).collect();
    wire::resolve(&mut Merger::new(), &request.table, &mut &arrays[..], response)
}

fn overlap_count(request: &Request, file: usize) -> Result<u64, WireError> {
    let arrays: Vec<&[u8]> = request.arrays.iter().map(Vec::as_slice).collect();
    wire::overlap_count(&mut Merger::new(), &request.table, &mut &arrays[..], file)
}

/// A request that gets every verdict once, with the verdict codes in order of the files.
fn every_verdict() -> (Request, [u32; 8]) {
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
    (Request::of(builder), [1, 2, 3, 4, 5, 6, 7, 8])
}

#[test]
fn resolve_writes_every_verdict_with_its_code_at_its_place() {
    let mut response = vec![0; 4096];
    let (request, codes) = every_verdict();
    let used = resolve(&request, &mut response).unwrap();
    assert_eq!(&response[..4], b"RLCR");
    assert_eq!(u32_at(&response, 4), 4);
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
    let request = Request::of(RequestBuilder::new());
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
}

#[test]
fn resolve_refuses_every_malformed_entry() {
    let (request, _) = every_verdict();
    let mut response = vec![0; 1 << 16];
    for len in (0..request.table.len()).filter(|len| len % ENTRY_NUMBERS != 0) {
        let cut = Request { table: request.table[..len].to_vec(), ..request.clone() };
        let error = resolve(&cut, &mut response).unwrap_err();
        assert_eq!(error.code(), "REQUEST_MALFORMED");
        assert!(overlap_count(&cut, 0).is_err());
    }
    let mut with = |number: usize, value: i64| {
        let mut bad = request.clone();
        bad.table[number] = value;
        let file = number / ENTRY_NUMBERS;
        let counted = overlap_count(&bad, file);
        assert!(matches!(counted, Err(WireError::Request { .. })), "{number} {value}: {counted:?}");
        match resolve(&bad, &mut response) {
            Err(WireError::Request { what, .. }) => what,
            other => panic!("{number} {value}: {other:?}"),
        }
    };
    let (arrays, len) = (request.arrays.len() as i64, request.arrays[0].len() as i64);
    for (number, value) in [
        (0, arrays),
        (0, -1),
        (0, i64::MAX),
        (1, 1),
        (1, len),
        (1, -1),
        (1, i64::MAX),
        (2, len + 1),
        (2, -1),
        (2, i64::MAX),
        (3, -1),
        (3, i64::MIN),
    ] {
        let what = with(number, value);
        assert!(what.starts_with("file 0: base bitmap"), "{what}");
    }
    assert!(with(5, 1).starts_with("file 0: current bitmap"));
    assert!(with(9, 1).starts_with("file 0: winner bitmap"));
    assert!(with(12, -2).starts_with("file 0: number of records"));
    // An absent bitmap with a cardinality: base of file 3.
    assert!(with(3 * ENTRY_NUMBERS + 3, 1).starts_with("file 3: base bitmap"));
}

#[test]
fn array_and_offset_of_an_absent_bitmap_are_ignored() {
    let table = [-5, i64::MAX, 0, 0, 7, -1, 0, 0, 9, 9, 0, 0, -1];
    let mut response = vec![0; 256];
    let used = wire::resolve(&mut Merger::new(), &table, &mut &[][..], &mut response).unwrap();
    assert_eq!(read_response(&response[..used]).unwrap()[0].verdict, Verdict::UntouchedOk);
}

#[test]
fn bitmaps_may_share_bytes_and_stand_anywhere() {
    let bytes = encode(&[1, 2]).unwrap();
    let len = bytes.len() as i64;
    let array = [&[9; 3], &bytes[..], &[9; 5]].concat();
    let table = [0, 3, len, 2, 0, 3, len, 2, 0, 3, len, 2, -1];
    let mut response = vec![0; 256];
    let used =
        wire::resolve(&mut Merger::new(), &table, &mut &[&array[..]][..], &mut response).unwrap();
    assert_eq!(read_response(&response[..used]).unwrap()[0].verdict, Verdict::NothingNew);
    assert_eq!(wire::VERSION, 4);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resolve_of_garbage_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        wild in prop::collection::vec(any::<i64>(), 0..40),
        near in prop::collection::vec(0i64..700, 0..5 * ENTRY_NUMBERS),
    ) {
        let mut response = vec![0; 4096];
        for mut table in [wild, near] {
            table.resize(table.len().next_multiple_of(ENTRY_NUMBERS), 0);
            for entry in table.chunks_exact_mut(ENTRY_NUMBERS) {
                // Mostly an array that is there.
                for number in [0, 4, 8] {
                    entry[number] &= 1;
                }
            }
            let _ = wire::resolve(&mut Merger::new(), &table, &mut &[&bytes[..]][..], &mut response);
            let _ = wire::overlap_count(&mut Merger::new(), &table, &mut &[&bytes[..]][..], 0);
        }
    }
}
