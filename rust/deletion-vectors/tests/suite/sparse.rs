//! Bitmaps of many small containers, which the merge walks over without reading each on its own: verdicts and bytes
//! against a set model, and no byte of them that is not looked at.

use crate::common::{Form, Kind, Random, Rows, check, model, serialize};
use deletion_vectors::{Bitmap, FileInput, Merger, Verdict, max_merged_len};

/// What the containers of a bitmap look like.
#[derive(Debug, Clone, Copy)]
struct Look {
    containers: u64,
    /// The largest distance from one key to the next.
    gap: u64,
    /// Values of a container at most, but for one in 40, which has ten times as many.
    values: u64,
    /// Values in a row at most.
    run: u64,
}

/// Base, and what each side adds to it.
fn sets(random: &mut Random, look: Look) -> [Rows; 3] {
    let mut sets = [Rows::new(), Rows::new(), Rows::new()];
    let mut key = random.below(3);
    for _ in 0..look.containers {
        let many = if random.below(40) == 0 { 10 } else { 1 };
        let mut left = random.below(look.values * many + 1);
        let mut low = random.below(200);
        while left > 0 && low < 65_536 {
            let run = (1 + random.below(look.run)).min(left).min(65_536 - low);
            let which = [0, 0, 1, 2][random.below(4) as usize];
            sets[which].extend((low..low + run).map(|low| key << 16 | low));
            left -= run;
            low += run + random.below(65_536 / (look.values + 1));
        }
        key += 1 + random.below(look.gap);
    }
    sets
}

const LOOKS: [Look; 10] = [
    Look { containers: 1, gap: 1, values: 4, run: 1 },
    Look { containers: 16, gap: 1, values: 12, run: 1 },
    Look { containers: 17, gap: 2, values: 40, run: 1 },
    Look { containers: 70, gap: 1, values: 3, run: 1 },
    Look { containers: 150, gap: 3, values: 9, run: 2 },
    Look { containers: 40, gap: 40, values: 2, run: 1 },
    Look { containers: 33, gap: 1, values: 60, run: 12 },
    Look { containers: 150, gap: 1, values: 300, run: 300 },
    Look { containers: 400, gap: 2, values: 5, run: 1 },
    Look { containers: 300, gap: 1, values: 45, run: 1 },
];

/// Containers as arrays, as runs, and of both sorts.
fn kinds(which: u64) -> impl Fn(u64) -> Kind {
    move |key| match which {
        0 => Kind::Array,
        1 => Kind::Runs,
        _ => [Kind::Array, Kind::Runs, Kind::Array, Kind::TouchingRuns]
            [(key * 7 + which) as usize % 4],
    }
}

fn union(a: &Rows, b: &Rows) -> Rows {
    a.union(b).copied().collect()
}

/// Rounds of each look; the interpreter that looks for undefined behaviour is some hundred times slower.
const ROUNDS: usize = if cfg!(miri) { 1 } else { 12 };

/// As [`sets`], a few runs around where each container ends, many of which go on in the next one or touch another.
fn sets_across(random: &mut Random, containers: u64) -> [Rows; 3] {
    let mut sets = [Rows::new(), Rows::new(), Rows::new()];
    for key in 1..=containers {
        let mut at = (key << 16) - random.below(30);
        for _ in 0..random.below(5) {
            let run = 1 + random.below(14);
            let which = [0, 0, 1, 2][random.below(4) as usize];
            sets[which].extend(at..at + run);
            at += run + random.below(3);
        }
    }
    sets
}

/// Compares with the model; every third round has each sort of conflict, somewhere.
fn ask(random: &mut Random, round: usize, [base, own, won]: [Rows; 3]) {
    let (mut cur, mut win) = (union(&base, &own), union(&base, &won));
    let pick = |random: &mut Random, rows: &Rows| {
        rows.iter().nth(random.below(rows.len().max(1) as u64) as usize).copied()
    };
    match round {
        3 => win.extend(pick(random, &own)),
        6 => drop(pick(random, &base).map(|row| win.remove(&row))),
        9 => drop(pick(random, &base).map(|row| cur.remove(&row))),
        _ => {}
    }
    let form = [Form::Portable, Form::Native][round % 2];
    let base_bytes = serialize(&base, form, kinds(random.below(4)));
    let cur_bytes = serialize(&cur, form, kinds(random.below(4)));
    let win_bytes = serialize(&win, Form::Portable, kinds(random.below(4)));
    let last = cur.last().max(win.last()).max(base.last()).map_or(0, |last| last + 1);
    for num_records in [None, Some(last), Some(last + 70_000)] {
        check(
            Some((&base_bytes, &base)),
            Some((&cur_bytes, &cur)),
            Some((&win_bytes, &win)),
            num_records,
        );
        check(None, Some((&cur_bytes, &cur)), Some((&win_bytes, &win)), num_records);
    }
}

#[test]
fn merge_of_small_containers_equals_the_model() {
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    for look in LOOKS {
        for round in 0..ROUNDS {
            let sets = sets(&mut random, look);
            ask(&mut random, round, sets);
        }
    }
}

#[test]
fn merge_of_runs_that_go_on_in_the_next_container_equals_the_model() {
    let mut random = Random(0x1405_7b7e_f767_814f);
    for containers in [1, 2, 3, 4, 9, 130, 300] {
        for round in 0..ROUNDS {
            let sets = sets_across(&mut random, containers);
            ask(&mut random, round, sets);
        }
    }
}

/// With any byte changed, a bitmap is refused, or it is another one and the answer that for the other one.
#[test]
#[cfg_attr(miri, ignore = "too slow")]
fn merge_of_small_containers_with_a_byte_changed_is_never_the_answer_for_other_rows() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut positive = 0;
    for look in [LOOKS[1], LOOKS[5], LOOKS[6]] {
        for which in 0..3 {
            let [base, own, won] =
                sets(&mut random, Look { containers: look.containers.min(20), ..look });
            let sides = [base.clone(), union(&base, &own), union(&base, &won)];
            let bytes =
                [0, 1, 2].map(|side: usize| serialize(&sides[side], Form::Portable, kinds(which)));
            let len = max_merged_len(bytes[1].len(), bytes[2].len());
            let num_records = Some(1 << 40);
            for (level, mut merger) in Merger::all_levels() {
                for side in 0..3 {
                    for at in 0..bytes[side].len() {
                        let mut changed = bytes.clone();
                        changed[side][at] ^= 1 << random.below(8);
                        let cards = [0, 1, 2].map(|one: usize| sides[one].len() as u64);
                        let bitmap =
                            |one: usize| Bitmap { bytes: &changed[one], cardinality: cards[one] };
                        let file = FileInput {
                            base: Some(bitmap(0)),
                            current: Some(bitmap(1)),
                            winner: Some(bitmap(2)),
                            num_records,
                        };
                        let mut out = vec![0; len];
                        let verdict = merger.merge(&file, &mut out).unwrap();
                        if !verdict.is_positive() {
                            continue;
                        }
                        positive += 1;
                        let rows =
                            [0, 1, 2].map(|one| deletion_vectors::rows(bitmap(one), num_records));
                        let rows = rows.map(|rows| match rows {
                            Ok(rows) => rows.into_iter().collect::<Rows>(),
                            Err(error) => {
                                panic!("{level}: byte {at} of {side}: {verdict:?} but {error}")
                            }
                        });
                        let expected = model(&rows[0], Some(&rows[1]), &rows[2], num_records);
                        assert!(
                            expected.is_positive(),
                            "{level}: byte {at} of {side}: {verdict:?}"
                        );
                        if let Verdict::Merged { len, cardinality } = verdict {
                            let found = deletion_vectors::rows(
                                Bitmap { bytes: &out[..len], cardinality },
                                num_records,
                            );
                            let right: Vec<u64> = union(&rows[1], &rows[2]).into_iter().collect();
                            assert_eq!(found, Ok(right), "{level}: byte {at} of {side}");
                        }
                    }
                }
            }
        }
    }
    // Some changes move a row that only one side has deleted, which is another well-formed question.
    assert!(positive > 0);
}
