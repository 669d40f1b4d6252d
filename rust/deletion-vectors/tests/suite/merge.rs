//! Verdicts and merged bytes against a set model, for every pairing of container kinds.

use crate::common::{Form, Kind, Random, Rows, check, serialize};
use proptest::prelude::*;

const KINDS: [Kind; 4] = [Kind::Array, Kind::Bitset, Kind::Runs, Kind::TouchingRuns];

fn rows(values: impl IntoIterator<Item = u64>) -> Rows {
    values.into_iter().collect()
}

/// Disjoint sets of these sizes within one container, of single values or of runs.
fn disjoint(random: &mut Random, sizes: [usize; 3], clustered: bool) -> [Rows; 3] {
    let mut sets = [Rows::new(), Rows::new(), Rows::new()];
    let mut free: Vec<u64> = (0..65536).collect();
    for (set, size) in sets.iter_mut().zip(sizes) {
        while set.len() < size && !free.is_empty() {
            let at = random.below(free.len() as u64) as usize;
            let run = if clustered { 1 + random.below(300) as usize } else { 1 };
            let run = run.min(size - set.len()).min(free.len() - at);
            set.extend(free.drain(at..at + run));
        }
    }
    sets
}

#[test]
fn trap_32_merge_every_pairing_of_kinds_and_cardinalities_equals_the_model() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let sizes = [
        [0, 1, 1],
        [0, 1, 0],
        [3, 5, 2],
        [1, 100, 90],
        [0, 2048, 2048],
        [0, 2048, 2049],
        [0, 4095, 1],
        [0, 4096, 1],
        [1, 4095, 1],
        [4095, 1, 0],
        [4095, 1, 1],
        [4096, 1, 1],
        [4097, 1, 1],
        [0, 4097, 4097],
        [100, 4096, 4096],
        [5000, 300, 20000],
        [0, 30000, 35536],
        [30000, 5536, 30000],
    ];
    for size in sizes {
        for clustered in [false, true] {
            let [base, own, won] = disjoint(&mut random, size, clustered);
            let cur: Rows = base.union(&own).copied().collect();
            let win: Rows = base.union(&won).copied().collect();
            for (i, kinds) in KINDS.iter().enumerate() {
                for other in KINDS {
                    // Base takes each kind in turn against every pairing of the two others.
                    let base_kind = KINDS[(i + other as usize) % 4];
                    let base_bytes = serialize(&base, Form::Portable, |_| base_kind);
                    let cur_bytes = serialize(&cur, Form::Portable, |_| *kinds);
                    let win_bytes = serialize(&win, Form::Native, |_| other);
                    let base_in = (!base.is_empty()).then_some((&base_bytes[..], &base));
                    check(base_in, Some((&cur_bytes, &cur)), Some((&win_bytes, &win)), None);
                    check(base_in, Some((&cur_bytes, &cur)), Some((&win_bytes, &win)), Some(65536));
                    check(base_in, None, Some((&win_bytes, &win)), None);
                }
            }
        }
    }
}

#[test]
fn merge_conflicts_of_every_sort_name_the_first_row() {
    let mut random = Random(42);
    for size in
        [[2, 3, 4], [50, 100, 100], [2000, 3000, 3000], [4097, 5000, 9000], [9000, 9000, 9000]]
    {
        for clustered in [false, true] {
            let [base, own, won] = disjoint(&mut random, size, clustered);
            let cur: Rows = base.union(&own).copied().collect();
            let win: Rows = base.union(&won).copied().collect();
            let pick = |random: &mut Random, set: &Rows| {
                let at = random.below(set.len() as u64) as usize;
                *set.iter().nth(at).unwrap()
            };
            for round in 0..12 {
                let (mut cur, mut win) = (cur.clone(), win.clone());
                match round % 4 {
                    0 => drop(win.insert(pick(&mut random, &own))),
                    1 => drop(win.remove(&pick(&mut random, &base))),
                    2 => drop(cur.remove(&pick(&mut random, &base))),
                    _ => {
                        let row = pick(&mut random, &base);
                        cur.remove(&row);
                        win.remove(&row);
                    }
                }
                let kind = |n: u64| KINDS[(n + round) as usize % 4];
                let base_bytes = serialize(&base, Form::Portable, |_| kind(0));
                let cur_bytes = serialize(&cur, Form::Portable, |_| kind(1));
                let win_bytes = serialize(&win, Form::Portable, |_| kind(2));
                let base_in = Some((&base_bytes[..], &base));
                check(base_in, Some((&cur_bytes, &cur)), Some((&win_bytes, &win)), None);
                check(base_in, None, Some((&win_bytes, &win)), None);
            }
        }
    }
}

#[test]
fn merge_of_absent_and_empty_bitmaps_treats_both_as_the_empty_set() {
    let none = Rows::new();
    let one = rows([7]);
    let empty = [
        serialize(&none, Form::Portable, |_| Kind::Array),
        serialize(&none, Form::Native, |_| Kind::Array),
        // One bucket without a container, as Delta writes for a bitmap that was emptied.
        [
            &1_681_511_377u32.to_le_bytes()[..],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x3a, 0x30, 0, 0, 0, 0, 0, 0],
        ]
        .concat(),
    ];
    let bytes = serialize(&one, Form::Portable, |_| Kind::Array);
    let one_in = Some((&bytes[..], &one));
    for empty in &empty {
        let empty_in = Some((&empty[..], &none));
        for base in [None, empty_in] {
            for win in [None, empty_in] {
                assert!(check(base, one_in, win, Some(8)).is_some());
                check(base, empty_in, win, None);
                check(base, None, win, Some(0));
                check(one_in, empty_in, win, None);
                check(one_in, None, win, None);
            }
            check(base, empty_in, one_in, None);
            check(base, None, one_in, Some(8));
            check(base, one_in, one_in, None);
        }
    }
}

#[test]
fn trap_37_merge_covering_the_file_is_told_for_every_file_size_at_a_container_edge() {
    for num_records in [1u64, 2, 65_535, 65_536, 65_537, 131_072, 131_073] {
        for split in [1, num_records / 2, num_records - 1] {
            let cur: Rows = (0..split).collect();
            let win: Rows = (split..num_records).collect();
            if cur.is_empty() {
                continue;
            }
            for kind in KINDS {
                let cur_bytes = serialize(&cur, Form::Portable, |_| kind);
                let win_bytes = serialize(&win, Form::Portable, |_| kind);
                let (cur, win) = (Some((&cur_bytes[..], &cur)), Some((&win_bytes[..], &win)));
                check(None, cur, win, Some(num_records));
                check(None, cur, win, Some(num_records + 1));
                check(None, cur, win, None);
            }
        }
        // First and last row.
        let (first, last) = (rows([0]), rows([num_records - 1]));
        let first_bytes = serialize(&first, Form::Portable, |_| Kind::Array);
        let last_bytes = serialize(&last, Form::Portable, |_| Kind::Array);
        check(None, Some((&first_bytes, &first)), Some((&last_bytes, &last)), Some(num_records));
    }
}

#[test]
fn trap_33_merge_across_many_containers_and_beyond_2_pow_32() {
    let mut random = Random(77);
    for highs in [&[0u64][..], &[0, 1], &[0, 5, 9], &[3], &[0, (1 << 31) - 1]] {
        for containers in [1u64, 2, 3, 4, 5, 8, 9, 31, 32, 33, 40] {
            let (mut base, mut cur, mut win) = (Rows::new(), Rows::new(), Rows::new());
            for high in highs {
                for container in 0..containers {
                    let start = high << 32 | (container * 3 % 65536) << 16;
                    match random.below(7) {
                        0 => {
                            cur.extend((0..5).map(|i| start + i * 2));
                            win.extend((0..5).map(|i| start + 1 + i * 2));
                        }
                        1 => cur.extend(start..start + 1 + random.below(9)),
                        2 => win.extend(start + 9..start + 10 + random.below(9)),
                        3 => {
                            cur.extend(start..start + 5000);
                            win.extend(start + 5000..start + 5000 + random.below(9000));
                        }
                        4 => {
                            let shared: Vec<u64> = (0..40).map(|i| start + i * 7).collect();
                            base.extend(&shared);
                            cur.extend(&shared);
                            win.extend(&shared);
                            cur.insert(start + 1);
                        }
                        5 => win.extend((0..4096).map(|i| start + i * 3)),
                        _ => {
                            cur.extend([start, start + 2]);
                            win.extend([start + 1, start + 3]);
                        }
                    }
                }
            }
            for round in 0..6u64 {
                let far = highs.iter().any(|high| *high > 100);
                let form = match round % 3 {
                    1 if !far => Form::PortableWithEmptyBuckets,
                    2 if !far => Form::Native,
                    _ => Form::Portable,
                };
                let kind = |key: u64| KINDS[(key.wrapping_mul(31) + round) as usize % 4];
                let base_bytes = serialize(&base, form, kind);
                let cur_bytes = serialize(&cur, form, kind);
                let win_bytes = serialize(&win, form, kind);
                let (base, cur, win) = (
                    Some((&base_bytes[..], &base)),
                    Some((&cur_bytes[..], &cur)),
                    Some((&win_bytes[..], &win)),
                );
                check(base, cur, win, None);
                check(base, cur, win, Some(1 << 63));
                check(base, win, cur, None);
                check(base, None, cur, None);
                check(None, cur, win, None);
                check(cur, cur, cur, None);
                check(cur, cur, win, None);
            }
        }
    }
}

#[test]
fn encode_of_sets_that_begin_with_row_zero_is_the_smallest_form() {
    for set in [
        rows([0]),
        rows([0, 1]),
        rows([0, 2]),
        rows(0..3),
        rows(0..9),
        rows([0, 1, 65_536]),
        rows(0..70_000),
    ] {
        let all: Vec<u64> = set.iter().copied().collect();
        let bytes = deletion_vectors::encode(&all).unwrap();
        assert_eq!(deletion_vectors::rows(crate::common::bitmap(&bytes, &set), None), Ok(all));
        assert_eq!(bytes.len(), crate::common::smallest_len(&set));
    }
}

fn one_container() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u16>(), 0..40),
        1 => prop::collection::vec(any::<u16>(), 0..6000),
        2 => prop::collection::vec((any::<u16>(), 0u16..400), 0..40).prop_map(|runs| {
            runs.into_iter().flat_map(|(a, n)| a..=a.saturating_add(n)).collect()
        }),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a.min(b)..=a.max(b)).collect()),
        1 => prop::collection::vec(0u16..200, 0..100),
    ]
}

fn row_set() -> impl Strategy<Value = Rows> {
    prop::collection::vec(
        (prop_oneof![0u64..6, Just(1 << 16), Just(3 << 16)], one_container()),
        0..5,
    )
    .prop_map(|containers| {
        containers
            .into_iter()
            .flat_map(|(key, values)| values.into_iter().map(move |v| key << 16 | u64::from(v)))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_of_any_sets_equals_the_model(
        base in row_set(),
        own in row_set(),
        won in row_set(),
        disjoint in any::<bool>(),
        forms in any::<[u8; 3]>(),
        kinds in any::<u64>(),
    ) {
        let mut cur: Rows = base.union(&own).copied().collect();
        let win: Rows = base.union(&won).copied().collect();
        if disjoint {
            cur.retain(|row| base.contains(row) || !win.contains(row));
        }
        let form = |n: u8| [Form::Portable, Form::PortableWithEmptyBuckets, Form::Native][n as usize % 3];
        let kind = |salt: u64| move |key: u64| KINDS[(kinds >> ((key + salt) % 60)) as usize % 4];
        let base_bytes = serialize(&base, form(forms[0]), kind(0));
        let cur_bytes = serialize(&cur, form(forms[1]), kind(7));
        let win_bytes = serialize(&win, form(forms[2]), kind(13));
        let base_in = (!base.is_empty()).then_some((&base_bytes[..], &base));
        check(base_in, Some((&cur_bytes, &cur)), Some((&win_bytes, &win)), None);
        check(base_in, None, Some((&win_bytes, &win)), None);
        // Sets that have nothing to do with one another.
        let own_bytes = serialize(&own, Form::Portable, kind(3));
        check(base_in, Some((&own_bytes, &own)), Some((&win_bytes, &win)), None);
    }

    #[test]
    fn encode_is_the_smallest_form_and_decodes_to_the_same(rows in row_set()) {
        let rows_vec: Vec<u64> = rows.iter().copied().collect();
        let bytes = deletion_vectors::encode(&rows_vec).unwrap();
        prop_assert!(bytes.len() <= crate::common::smallest_len(&rows));
        let again = deletion_vectors::rows(crate::common::bitmap(&bytes, &rows), None);
        prop_assert_eq!(again, Ok(rows_vec));
    }
}
