//! What must be refused is, with the right code; truncations and flipped bits never panic and never go unseen.

use crate::common::{Form, Kind, Rows, serialize};
use deletion_vectors::{
    Bitmap, ErrorCode, FileInput, Malformed, Merger, Role, Verdict, max_merged_len, rows, validate,
};

fn code(bytes: &[u8], cardinality: u64) -> Option<ErrorCode> {
    validate(Bitmap { bytes, cardinality }, Some(1 << 40)).err().map(|error| error.code)
}

fn portable(buckets: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = 1_681_511_377u32.to_le_bytes().to_vec();
    out.extend_from_slice(&(buckets.len() as u64).to_le_bytes());
    for (key, bytes) in buckets {
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out
}

fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A bitmap of one container without runs: cookie, count, key and cardinality less one, offset, payload.
fn plain(key: u16, card_less_one: u16, payload: &[u8]) -> Vec<u8> {
    [words(&[12346, 0, 1, 0, key, card_less_one, 16, 0]), payload.to_vec()].concat()
}

/// A bitmap of one run container.
fn one_run_container(card_less_one: u16, payload: &[u16]) -> Vec<u8> {
    [words(&[12347, 0]), vec![1], words(&[0, card_less_one]), words(payload)].concat()
}

fn set(values: impl IntoIterator<Item = u64>) -> Rows {
    values.into_iter().collect()
}

#[test]
fn well_formed_examples_are_accepted() {
    assert_eq!(code(&portable(&[(0, &plain(0, 1, &words(&[3, 9])))]), 2), None);
    assert_eq!(code(&portable(&[(0, &one_run_container(4, &[1, 7, 4]))]), 5), None);
    assert_eq!(code(&portable(&[]), 0), None);
    assert_eq!(code(&portable(&[(0, &words(&[12346, 0, 0, 0]))]), 0), None);
    // Runs that touch are unusual, but they say clearly what they hold.
    assert_eq!(code(&portable(&[(0, &one_run_container(4, &[2, 7, 1, 9, 2]))]), 5), None);
    // A full container, as one run.
    assert_eq!(code(&portable(&[(0, &one_run_container(65535, &[1, 0, 65535]))]), 65536), None);
}

#[test]
fn every_code_is_given_for_what_it_stands_for() {
    let ok = plain(0, 1, &words(&[3, 9]));
    let with_trailing = [portable(&[(0, &ok)]), vec![0]].concat();
    let mut bitset = vec![0u8; 8192];
    bitset[..513].fill(0xff);
    let two_keys = |a: u16, b: u16| {
        let heads = words(&[12346, 0, 2, 0, a, 0, b, 0, 24, 0, 26, 0]);
        portable(&[(0, &[heads, words(&[1, 2])].concat())])
    };
    let cases: Vec<(&str, Vec<u8>, u64, ErrorCode)> = vec![
        ("nothing", vec![], 0, ErrorCode::Truncated),
        ("half a container", portable(&[(0, &ok[..ok.len() - 1])]), 2, ErrorCode::Truncated),
        ("big endian magic", 1_681_511_377u32.to_be_bytes().to_vec(), 0, ErrorCode::BadMagic),
        ("another cookie", portable(&[(0, &words(&[12345, 0, 0, 0]))]), 0, ErrorCode::BadCookie),
        (
            "cookie with a high half",
            portable(&[(0, &words(&[12346, 1, 0, 0]))]),
            0,
            ErrorCode::BadCookie,
        ),
        ("buckets descend", portable(&[(5, &ok), (4, &ok)]), 4, ErrorCode::KeyOrder),
        ("bucket twice", portable(&[(5, &ok), (5, &ok)]), 4, ErrorCode::KeyOrder),
        ("containers descend", two_keys(2, 1), 2, ErrorCode::KeyOrder),
        ("container twice", two_keys(2, 2), 2, ErrorCode::KeyOrder),
        ("bucket key 2^31", portable(&[(1 << 31, &ok)]), 2, ErrorCode::KeyRange),
        (
            "no runs",
            portable(&[(0, &one_run_container(0, &[0, 0, 0]))]),
            1,
            ErrorCode::ContainerSize,
        ),
        (
            "runs of another size",
            portable(&[(0, &one_run_container(5, &[1, 7, 4]))]),
            6,
            ErrorCode::ContainerSize,
        ),
        (
            "values descend",
            portable(&[(0, &plain(0, 1, &words(&[9, 3])))]),
            2,
            ErrorCode::ValueOrder,
        ),
        ("value twice", portable(&[(0, &plain(0, 1, &words(&[3, 3])))]), 2, ErrorCode::ValueOrder),
        (
            "runs descend",
            portable(&[(0, &one_run_container(1, &[2, 9, 0, 3, 0]))]),
            2,
            ErrorCode::ValueOrder,
        ),
        (
            "runs overlap",
            portable(&[(0, &one_run_container(9, &[2, 1, 4, 5, 4]))]),
            10,
            ErrorCode::ValueOrder,
        ),
        (
            "run too long",
            portable(&[(0, &one_run_container(1, &[1, 65535, 1]))]),
            2,
            ErrorCode::RunRange,
        ),
        (
            "bits missing",
            portable(&[(0, &plain(0, 4104, &bitset))]),
            4105,
            ErrorCode::BitsetCardinality,
        ),
        (
            "wrong offset",
            portable(&[(0, &words(&[12346, 0, 1, 0, 0, 0, 17, 0, 3]))]),
            1,
            ErrorCode::OffsetHeader,
        ),
        ("a byte too many", with_trailing, 2, ErrorCode::TrailingBytes),
        ("too few declared", portable(&[(0, &ok)]), 1, ErrorCode::Cardinality),
        ("too many declared", portable(&[(0, &ok)]), 3, ErrorCode::Cardinality),
        ("row beyond the file", portable(&[(1 << 20, &ok)]), 2, ErrorCode::RowRange),
        ("65537 containers", portable(&[(0, &words(&[12346, 0, 1, 1]))]), 0, ErrorCode::TooMany),
        (
            "2^63 buckets",
            [&portable(&[])[..4], &(1u64 << 63).to_le_bytes()].concat(),
            0,
            ErrorCode::TooMany,
        ),
    ];
    for (name, bytes, cardinality, expected) in &cases {
        assert_eq!(code(bytes, *cardinality), Some(*expected), "{name}");
        // The merge refuses it whichever of the three it is, and says which.
        for role in [Role::Base, Role::Current, Role::Winner] {
            let bad = Bitmap { bytes, cardinality: *cardinality };
            let mut file = FileInput { num_records: Some(1 << 40), ..FileInput::default() };
            match role {
                Role::Base => file.base = Some(bad),
                Role::Current => file.current = Some(bad),
                Role::Winner => file.winner = Some(bad),
            }
            for (level, mut merger) in Merger::all_levels() {
                match merger.merge(&file, &mut [0; 1 << 16]).unwrap() {
                    Verdict::Malformed(Malformed { role: said, error }) => {
                        assert_eq!((said, error.code), (role, *expected), "{name}, {level}");
                        assert!(error.offset <= bytes.len() as u64, "{name}");
                    }
                    // A conflict in front of the defect is told first; a base without the others is one.
                    Verdict::NotAnExtension { .. } if role == Role::Base => {}
                    other => panic!("{name}, {role:?}, {level}: {other:?}"),
                }
            }
        }
    }
    let untested: Vec<_> =
        ErrorCode::ALL.iter().filter(|code| !cases.iter().any(|case| case.3 == **code)).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

/// The loops look at blocks, and at what is left behind the last one in another way.
#[test]
fn a_defect_anywhere_in_a_container_is_found() {
    // As `current`, with a row of its own in the same container that the winner deleted.
    let check = |what: &str, bytes: &[u8], cardinality: u64, expected: Option<ErrorCode>| {
        let bytes = portable(&[(0, bytes)]);
        assert_eq!(code(&bytes, cardinality), expected, "{what}");
        let winner = portable(&[(0, &plain(0, 0, &words(&[60_000])))]);
        let file = FileInput {
            current: Some(Bitmap { bytes: &bytes, cardinality }),
            winner: Some(Bitmap { bytes: &winner, cardinality: 1 }),
            ..FileInput::default()
        };
        for (level, mut merger) in Merger::all_levels() {
            let got = match merger.merge(&file, &mut [0; 4096]).unwrap() {
                Verdict::Malformed(Malformed { error, .. }) => Some(error.code),
                Verdict::Merged { .. } => None,
                other => panic!("{what}, {level}: {other:?}"),
            };
            assert_eq!(got, expected, "{what}, {level}");
        }
    };
    for len in 1..=70u16 {
        let values: Vec<u16> = (0..len).map(|i| 3 * i).collect();
        let array = |values: &[u16]| plain(0, len - 1, &words(values));
        let runs = |values: &[u16], last: [u16; 2]| {
            let mut list = vec![len];
            list.extend(values.iter().flat_map(|value| [*value, 1]));
            list.splice(list.len() - 2.., last);
            one_run_container(2 * len - 1, &list)
        };
        let rows = u64::from(len);
        let last = 3 * (len - 1);
        check("array", &array(&values), rows, None);
        check("runs", &runs(&values, [last, 1]), 2 * rows, None);
        let beyond = runs(&values, [65535, 1]);
        check("last run too long", &beyond, 2 * rows, Some(ErrorCode::RunRange));
        for at in 1..usize::from(len) {
            let mut twice = values.clone();
            twice[at] = twice[at - 1];
            check("value twice", &array(&twice), rows, Some(ErrorCode::ValueOrder));
            twice[at] += 1;
            let overlapping = runs(&twice, [twice[values.len() - 1], 1]);
            check("overlapping runs", &overlapping, 2 * rows, Some(ErrorCode::ValueOrder));
        }
    }
}

#[test]
fn trap_35_row_range_is_exact_for_every_kind() {
    for last in [0u64, 1, 65_535, 65_536, 100_000, 1 << 32] {
        for kind in [Kind::Array, Kind::Bitset, Kind::Runs] {
            let rows = set(last.saturating_sub(5000)..=last);
            let bytes = serialize(&rows, Form::Portable, |_| kind);
            let bitmap = crate::common::bitmap(&bytes, &rows);
            assert_eq!(validate(bitmap, Some(last + 1)), Ok(()));
            let error = validate(bitmap, Some(last)).unwrap_err();
            assert_eq!((error.code, error.expected, error.got), (ErrorCode::RowRange, last, last));
        }
    }
}

#[test]
fn native_form_with_a_wrong_size_is_refused() {
    let rows = set([1, 5, 1 << 33]);
    let bytes = serialize(&rows, Form::Native, |_| Kind::Array);
    assert_eq!(code(&bytes, 3), None);
    for change in [1i64, -1, 4, -4, 100] {
        let mut bad = bytes.clone();
        let size = u32::from_le_bytes(bad[8..12].try_into().unwrap());
        bad[8..12].copy_from_slice(&((i64::from(size) + change) as u32).to_le_bytes());
        assert!(code(&bad, 3).is_some(), "{change}");
    }
}

/// Some of everything: arrays, runs and bitsets, several buckets, in both layouts of the header.
fn samples() -> Vec<(Vec<u8>, Rows)> {
    let mixed = set((0..40)
        .map(|i| i * 3)
        .chain(65_536..70_000)
        .chain((131_072..140_000).filter(|row| row % 2 == 0))
        .chain([1 << 32, (1 << 32) + 7, (1 << 33) + 1]));
    let few = set([1, 2, 3, 4, 5, 6, 70_000, 70_003]);
    let mut samples = Vec::new();
    for form in [Form::Portable, Form::PortableWithEmptyBuckets, Form::Native] {
        for kind in [Kind::Array, Kind::Runs, Kind::TouchingRuns] {
            samples.push((serialize(&few, form, |_| kind), few.clone()));
        }
        let kinds = [Kind::Array, Kind::Runs, Kind::Bitset];
        samples.push((serialize(&mixed, form, |key| kinds[key as usize % 3]), mixed.clone()));
    }
    samples
}

#[test]
fn truncation_at_every_byte_is_refused() {
    for (bytes, rows) in samples() {
        for len in 0..bytes.len() {
            let cut = Bitmap { bytes: &bytes[..len], cardinality: rows.len() as u64 };
            assert!(validate(cut, None).is_err(), "{len} of {}", bytes.len());
        }
    }
}

#[test]
fn flipped_bits_are_refused_or_change_the_rows_consistently() {
    for (bytes, original) in samples() {
        // Bit by bit where it is short, a prime step where bitsets make it long.
        let step = if bytes.len() > 2000 { 37 } else { 1 };
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let bitmap = Bitmap { bytes: &bad, cardinality: original.len() as u64 };
            let read = rows(bitmap, None);
            if let Ok(found) = &read {
                assert!(found.is_sorted_by(|a, b| a < b));
                assert_eq!(found.len(), original.len());
            }
            // All instruction sets agree with the reading, as base, current and winner.
            let win = [7u64 << 40];
            let win_bytes = deletion_vectors::encode(&win).unwrap();
            let file = FileInput {
                current: Some(bitmap),
                winner: Some(Bitmap { bytes: &win_bytes, cardinality: 1 }),
                ..FileInput::default()
            };
            let mut out = vec![0; max_merged_len(bad.len(), win_bytes.len())];
            for (level, mut merger) in Merger::all_levels() {
                match (merger.merge(&file, &mut out).unwrap(), &read) {
                    (Verdict::Merged { len, cardinality }, Ok(found)) => {
                        let mut union: Vec<u64> = found.iter().copied().chain(win).collect();
                        union.sort_unstable();
                        let merged = rows(Bitmap { bytes: &out[..len], cardinality }, None);
                        assert_eq!(merged, Ok(union), "{level}");
                    }
                    (Verdict::Malformed(_), Err(_)) => {}
                    (verdict, _) => panic!("{level}: {verdict:?} but {read:?}"),
                }
            }
        }
    }
}
