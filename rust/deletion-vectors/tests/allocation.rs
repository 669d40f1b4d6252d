//! Hostile bytes cannot make the crate ask for memory: nothing that the driver calls allocates more than a small multiple
//! of what it is given. A file of its own, as the allocator that counts is the whole program's.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

#[path = "suite/common/mod.rs"]
mod common;
#[path = "suite/hostile/mod.rs"]
mod hostile;
#[path = "suite/mutation/mod.rs"]
mod mutation;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use deletion_vectors::wire::{ENTRY_NUMBERS, WireError, overlap_count, resolve};
use deletion_vectors::{Bitmap, Descriptor, FileInput, Merger, StorageType, read_frame, validate};
use mutation::{Mutations, seeds};

thread_local! {
    /// Bytes of this thread that are in use, and the most there have been.
    static NOW: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count(more: usize, less: usize) {
    // While a thread ends its counters are gone, and nobody looks.
    let _ = NOW.try_with(|now| {
        now.set((now.get() + more).saturating_sub(less));
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `body` had allocated at once.
fn peak(body: impl FnOnce()) -> usize {
    let before = NOW.get();
    MOST.set(before);
    body();
    MOST.get() - before
}

/// What a merger keeps for itself, whatever it is given.
const MERGER: usize = 64 << 10;

/// Runs `body` on the seeds of a target and on mutations of them; each may allocate twice its input, a message, and what
/// is `fixed`.
fn every_input(target: &str, rounds: usize, fixed: usize, mut body: impl FnMut(&[u8])) {
    let seeds = seeds(target);
    for bytes in seeds.iter().cloned().chain(Mutations::new(&seeds).take(rounds)) {
        let peak = peak(|| body(&bytes));
        let limit = 2 * bytes.len() + 1024 + fixed;
        assert!(peak <= limit, "{target}: {peak} bytes for {} of {bytes:02x?}", bytes.len());
    }
}

#[test]
fn the_allocator_counts() {
    assert_eq!(peak(|| drop(std::hint::black_box(vec![0u8; 1000]))), 1000);
    assert_eq!(peak(|| drop(std::hint::black_box(Box::new(7u64)))), 8);
}

#[test]
fn bitmaps_are_checked_and_merged_in_scratch_that_does_not_grow() {
    let mut out = vec![0; 1 << 20];
    let mut merger = Merger::new();
    every_input("decode", 20_000, MERGER, |bytes| {
        let bitmap = |cardinality| Bitmap { bytes, cardinality };
        let got = validate(bitmap(u64::MAX), None).err().map_or(0, |error| error.got);
        let _ = validate(bitmap(got), Some(1 << 20));
        for (base, winner) in [(None, Some(bitmap(got))), (Some(bitmap(got)), None)] {
            let file = FileInput { base, current: Some(bitmap(got)), winner, num_records: None };
            let _ = merger.merge(&file, &mut out);
            let _ = merger.overlap_count(&file);
        }
    });
}

#[test]
fn requests_are_answered_in_the_memory_that_is_given() {
    let mut response = vec![0; 1 << 20];
    let mut merger = Merger::new();
    every_input("wire", 20_000, MERGER, |bytes| {
        let table = hostile::wire_table(bytes);
        let mut arrays = &[bytes][..];
        // What the Java side then allocates is bounded, too.
        if let Err(WireError::NoSpace { needed }) =
            resolve(&mut merger, &table, &mut arrays, &mut [])
        {
            assert!(needed <= hostile::longest_response(&table, bytes.len()));
        }
        let _ = resolve(&mut merger, &table, &mut arrays, &mut response);
        for file in 0..table.len() / ENTRY_NUMBERS {
            let _ = overlap_count(&mut merger, &table, &mut arrays, file);
        }
    });
}

#[test]
fn files_and_descriptors_are_read_in_proportion() {
    every_input("frame", 20_000, 0, |bytes| {
        if let Some((numbers, file)) = bytes.split_first_chunk::<8>() {
            let number =
                |at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|i| numbers[at + i])));
            let _ = read_frame(file, number(0), number(4));
        }
    });
    every_input("descriptor", 20_000, 0, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes.get(5..).unwrap_or(&[])) else { return };
        let descriptor = Descriptor {
            storage_type: StorageType::Inline,
            path_or_inline_dv: text.to_owned(),
            offset: None,
            size_in_bytes: u64::MAX,
            cardinality: 0,
        };
        let _ = descriptor.location();
    });
}
