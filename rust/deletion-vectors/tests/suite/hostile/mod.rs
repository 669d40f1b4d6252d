//! What must hold of any bytes, one function for each way into the crate. The fuzz targets call these with what the
//! fuzzer finds, `hostile_bytes.rs` with the seeds and with mutations of them.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use deletion_vectors::wire::{
    ENTRY_NUMBERS, HEADER_LEN, RESPONSE_ENTRY_LEN, WireError, overlap_count, read_response, resolve,
};
use deletion_vectors::{
    Bitmap, Descriptor, ErrorCode, FileInput, FrameError, Location, Merger, StorageType, Verdict,
    append_frame, crc32, encode, encode_z85, max_merged_len, read_frame, rows, validate,
};
use roaring::RoaringTreemap;

use crate::common::{Form, Kind, Rows, check, serialize};

/// Runs a target on some bytes; panics when something does not hold.
pub type Target = fn(&[u8]);

/// Every way in, by the name of its fuzz target and of its folder of seeds.
pub const TARGETS: [(&str, Target); 5] = [
    ("decode", decode),
    ("merge", merge),
    ("wire", wire),
    ("frame", frame),
    ("descriptor", descriptor),
];

/// As a serialized bitmap: refused at a byte of it, or read to ascending rows that the `roaring` crate reads as well and
/// that come back out of our own encoder.
pub fn decode(bytes: &[u8]) {
    // The right cardinality is what the error about a wrong one says.
    let cardinality = match validate(Bitmap { bytes, cardinality: u64::MAX }, None) {
        Err(error) if error.code == ErrorCode::Cardinality => error.got,
        Err(error) => {
            assert!(error.offset <= bytes.len() as u64, "{error}");
            assert!(error.to_string().contains(&format!(" at byte {}", error.offset)));
            return;
        }
        Ok(()) => panic!("no bitmap has so many rows"),
    };
    // A run of four bytes may stand for 65,536 rows, and a list of them all for 8 bytes each.
    if cardinality > 1 << 22 {
        return;
    }
    let found = rows(Bitmap { bytes, cardinality }, None).expect("only the cardinality was wrong");
    assert_eq!(found.len() as u64, cardinality);
    assert!(found.is_sorted_by(|a, b| a < b));
    let ours = encode(&found).expect("rows ascend");
    assert_eq!(rows(Bitmap { bytes: &ours, cardinality }, None).as_ref(), Ok(&found));
    let read = RoaringTreemap::deserialize_from(&ours[4..]).expect("what we write is well-formed");
    assert!(read.iter().eq(found));
}

/// As a program that makes three sets in any encoding: verdict and bytes against a set model and against the `roaring`
/// crate, with every instruction set.
pub fn merge(bytes: &[u8]) {
    let Some(([options, forms, kinds, salt], program)) = bytes.split_first_chunk() else { return };
    let (mut base, mut own, mut won) = (Rows::new(), Rows::new(), Rows::new());
    // Each step of the program adds an arithmetic sequence to some of the sets.
    for step in program.as_chunks::<6>().0.iter().take(64) {
        let [sets, key, start_low, start_high, count, more] = *step;
        let first =
            u64::from(key % 8) << 16 | u64::from(u16::from_le_bytes([start_low, start_high]));
        let first = if key & 8 != 0 { first + (3 << 32) } else { first };
        let gap = u64::from(more % 8).max(1);
        let count = (u64::from(count) + 1) << ((more >> 4 & 3) * 2);
        for (bit, set) in [&mut base, &mut own, &mut won].into_iter().enumerate() {
            if sets >> bit & 1 == 1 {
                set.extend((0..count).map(|i| first + i * gap));
            }
        }
    }
    let mut cur: Rows = base.union(&own).copied().collect();
    let win: Rows = base.union(&won).copied().collect();
    if options & 1 == 1 {
        cur.retain(|row| base.contains(row) || !win.contains(row));
    }
    if options & 2 == 2 {
        base = own;
    }
    let form =
        |n: u8| [Form::Portable, Form::PortableWithEmptyBuckets, Form::Native][n as usize % 3];
    let kind = |turn: u64| {
        move |key: u64| {
            let all = [Kind::Array, Kind::Bitset, Kind::Runs, Kind::TouchingRuns];
            let which =
                (key.wrapping_mul(u64::from(*salt) | 1) + turn + u64::from(*kinds)) >> (turn % 3);
            all[which as usize % 4]
        }
    };
    let base_bytes = serialize(&base, form(*forms), kind(0));
    let cur_bytes = serialize(&cur, form(forms / 3), kind(1));
    let win_bytes = serialize(&win, form(forms / 9), kind(2));
    let base_in = (options & 4 == 0).then_some((&base_bytes[..], &base));
    let cur_in = (options & 8 == 0).then_some((&cur_bytes[..], &cur));
    let last = cur.last().max(win.last()).max(base.last()).map_or(0, |last| last + 1);
    let num_records = (options & 16 == 0).then_some(last);
    let merged = check(base_in, cur_in, Some((&win_bytes, &win)), num_records);
    if let Some(merged) = merged {
        let tree = |rows: &Rows| rows.iter().copied().collect::<RoaringTreemap>();
        let read = RoaringTreemap::deserialize_from(&merged[4..]).expect("well-formed");
        assert_eq!(read, tree(&cur) | tree(&win));
    }
}

/// Bytes in front of the entries of an input of [`wire`], and of an entry: for each bitmap its place among all bytes, its
/// length and its cardinality, then the number of records.
const INPUT_HEADER_LEN: usize = 32;
const INPUT_ENTRY_LEN: usize = 80;

/// The table of an input: the number of files stands at byte 8, and all bytes are the one array.
pub fn wire_table(bytes: &[u8]) -> Vec<i64> {
    let files =
        bytes.get(8..12).map_or(0, |count| u32::from_le_bytes(count.try_into().expect("4")));
    let mut table = Vec::new();
    let entries = bytes.get(INPUT_HEADER_LEN..).unwrap_or(&[]).chunks_exact(INPUT_ENTRY_LEN);
    for entry in entries.take(files as usize) {
        let numbers: Vec<i64> = entry
            .chunks_exact(8)
            .map(|number| i64::from_le_bytes(number.try_into().expect("8")))
            .collect();
        for bitmap in numbers[..9].chunks_exact(3) {
            table.push(0);
            table.extend(bitmap);
        }
        table.push(numbers[9]);
    }
    table
}

/// What the table says of a file, where all of it can be had.
fn wire_file<'a>(entry: &[i64], bytes: &'a [u8]) -> Option<FileInput<'a>> {
    let bitmap = |at: usize| {
        let number = |index: usize| usize::try_from(entry[at + index]).ok();
        let (offset, len) = (number(1)?, number(2)?);
        let span = bytes.get(offset..offset.checked_add(len)?)?;
        let bitmap = Bitmap { bytes: span, cardinality: u64::try_from(entry[at + 3]).ok()? };
        Some((len != 0).then_some(bitmap))
    };
    Some(FileInput {
        base: bitmap(0)?,
        current: bitmap(4)?,
        winner: bitmap(8)?,
        num_records: u64::try_from(entry[12]).ok(),
    })
}

/// The longest response that a request may ask for: its bitmaps, which may share bytes, and their entries.
pub fn longest_response(table: &[i64], len: usize) -> usize {
    let files = table.len() / ENTRY_NUMBERS;
    HEADER_LEN + files * (RESPONSE_ENTRY_LEN + 8 + max_merged_len(len, len))
}

/// As a request: refused or answered, into memory of any size, and every instruction set gives the same verdicts and
/// bytes. A malformed bitmap is named with a byte of it.
pub fn wire(bytes: &[u8]) {
    let table = wire_table(bytes);
    let mut arrays = &[bytes][..];
    let mut response = vec![0xa5; bytes.len()];
    let mut merger = Merger::new();
    let answer = match resolve(&mut merger, &table, &mut arrays, &mut response) {
        Err(WireError::NoSpace { needed }) => {
            assert!(needed <= longest_response(&table, bytes.len()), "{needed} bytes");
            response.resize(needed, 0);
            match resolve(&mut merger, &table, &mut arrays, &mut response) {
                Err(WireError::NoSpace { .. }) => panic!("the space asked for was not enough"),
                answer => answer,
            }
        }
        answer => answer,
    };
    match answer {
        Ok(used) => {
            let entries = read_response(&response[..used]).expect("a response");
            assert_eq!(entries.len(), table.len() / ENTRY_NUMBERS);
            for entry in entries {
                if let Verdict::Malformed(malformed) = entry.verdict {
                    assert!(malformed.error.offset <= bytes.len() as u64);
                }
            }
        }
        Err(WireError::Internal { what, .. }) => panic!("{what}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for (index, entry) in table.chunks_exact(ENTRY_NUMBERS).enumerate().take(4) {
        let _ = overlap_count(&mut merger, &table, &mut arrays, index);
        let Some(file) = wire_file(entry, bytes) else { continue };
        let len = |bitmap: Option<Bitmap<'_>>| bitmap.map_or(0, |b| b.bytes.len());
        let mut first: Option<(Verdict, Vec<u8>)> = None;
        for (level, mut merger) in Merger::all_levels() {
            let mut out = vec![0; max_merged_len(len(file.current), len(file.winner))];
            let verdict = merger.merge(&file, &mut out).expect("enough space");
            out.truncate(if let Verdict::Merged { len, .. } = verdict { len } else { 0 });
            let (right, bytes) = first.get_or_insert((verdict, out.clone()));
            assert_eq!((&verdict, &out), (&*right, &*bytes), "{level}");
        }
    }
}

/// Two numbers that a descriptor would have, and the rest.
fn offset_and_size(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (offset, rest) = bytes.split_first_chunk::<4>()?;
    let (size, file) = rest.split_first_chunk::<4>()?;
    let widen = |number: u32| if number == u32::MAX { u64::MAX } else { u64::from(number) };
    Some((widen(u32::from_le_bytes(*offset)), widen(u32::from_le_bytes(*size)), file))
}

/// As offset, size and a file of deletion vectors: refused with the place, or given as the bytes that are there and that
/// the same frame holds when it is written again.
pub fn frame(bytes: &[u8]) {
    let Some((offset, size, file)) = offset_and_size(bytes) else { return };
    match read_frame(file, offset, size) {
        Ok(data) => {
            assert_eq!(data.len() as u64, size);
            let at = offset as usize + 4;
            assert_eq!(data, &file[at..at + data.len()]);
            let mut again = Vec::new();
            assert_eq!(append_frame(&mut again, data), 1);
            assert_eq!(&again[1..], &file[at - 4..at + data.len() + 4]);
        }
        Err(error) => {
            let place = if matches!(error, FrameError::Version { .. }) { 0 } else { offset };
            let told = error.to_string();
            assert!(told.contains(&format!(" at byte {place}")), "{told}");
            if let FrameError::Checksum { got, .. } = error {
                let at = offset as usize + 4;
                assert_eq!(got, crc32(&file[at..at + size as usize]));
            }
        }
    }
}

/// As a descriptor: refused with the place, or a location that is written again as it was read.
pub fn descriptor(bytes: &[u8]) {
    let Some(([kind, size @ ..], text)) = bytes.split_first_chunk::<5>() else { return };
    let text = String::from_utf8_lossy(text).into_owned();
    let size_in_bytes = u64::from(u32::from_le_bytes(*size));
    let storage_type =
        [StorageType::Uuid, StorageType::Inline, StorageType::Path][*kind as usize % 3];
    let descriptor = Descriptor {
        storage_type,
        path_or_inline_dv: text.clone(),
        offset: None,
        size_in_bytes,
        cardinality: 0,
    };
    match descriptor.location() {
        Ok(Location::Inline(data)) => {
            assert_eq!(data.len() as u64, size_in_bytes);
            assert!(text.starts_with(encode_z85(&data[..data.len() / 4 * 4]).as_str()));
        }
        Ok(Location::Relative(path)) => {
            assert!(path.ends_with(".bin") && path.contains("deletion_vector_"), "{path}");
            let prefix = &text[..text.len() - 20];
            assert_eq!(path.len(), prefix.len() + usize::from(!prefix.is_empty()) + 56);
        }
        Ok(Location::Absolute(path)) => assert_eq!(path, text),
        Err(error) => assert!(error.to_string().starts_with("DV_DESCRIPTOR"), "{error}"),
    }
}
