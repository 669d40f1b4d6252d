//! Any three sets in any encoding: verdict and bytes against a set model, with every instruction set.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{Form, Kind, Rows, check, serialize};

fuzz_target!(|bytes: &[u8]| {
    let Some(([options, forms, kinds, salt], program)) = bytes.split_first_chunk() else { return };
    let (mut base, mut own, mut won) = (Rows::new(), Rows::new(), Rows::new());
    // Each step of the program adds an arithmetic sequence to some of the sets.
    for step in program.as_chunks::<6>().0.iter().take(64) {
        let [sets, key, start_low, start_high, count, more] = *step;
        let first =
            u64::from(key % 8) << 16 | u64::from(u16::from_le_bytes([start_low, start_high]));
        let first = if key & 8 != 0 { first + (3 << 32) } else { first };
        let gap = u64::from(more % 8).max(1);
        let count = (u64::from(count) + 1) << (more >> 4 & 3) * 2;
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
    check(base_in, cur_in, Some((&win_bytes, &win)), num_records);
});
