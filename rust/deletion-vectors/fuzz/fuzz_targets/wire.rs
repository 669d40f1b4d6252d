//! Any bytes as a request: refused or answered, into memory of any size, and every instruction set gives the same
//! verdicts and bytes.
#![no_main]

use deletion_vectors::wire::{ENTRY_NUMBERS, WireError, overlap_count, read_response, resolve};
use deletion_vectors::{Bitmap, FileInput, Merger, Verdict, max_merged_len};
use libfuzzer_sys::fuzz_target;

/// Bytes in front of the entries of an input, and of an entry: for each bitmap its place among all bytes, its length and
/// its cardinality, then the number of records.
const HEADER_LEN: usize = 32;
const ENTRY_LEN: usize = 80;

/// The table of an input: the number of files stands at byte 8, and all bytes are the one array.
fn table(bytes: &[u8]) -> Vec<i64> {
    let files =
        bytes.get(8..12).map_or(0, |count| u32::from_le_bytes(count.try_into().expect("4")));
    let mut table = Vec::new();
    let entries = bytes.get(HEADER_LEN..).unwrap_or(&[]).chunks_exact(ENTRY_LEN);
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
fn file<'a>(entry: &[i64], bytes: &'a [u8]) -> Option<FileInput<'a>> {
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

fuzz_target!(|bytes: &[u8]| {
    let table = table(bytes);
    let mut arrays = &[bytes][..];
    let mut response = vec![0xa5; bytes.len()];
    let answer = match resolve(&table, &mut arrays, &mut response) {
        Err(WireError::NoSpace { needed }) if needed < 1 << 30 => {
            response.resize(needed, 0);
            match resolve(&table, &mut arrays, &mut response) {
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
        }
        Err(WireError::Internal { what, .. }) => panic!("{what}"),
        Err(_) => {}
    }
    for (index, entry) in table.chunks_exact(ENTRY_NUMBERS).enumerate().take(4) {
        let _ = overlap_count(&table, &mut arrays, index);
        let Some(file) = file(entry, bytes) else { continue };
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
});
