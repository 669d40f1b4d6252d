//! The same questions put to the `roaring` crate, which reads what we write and writes what we read.

use crate::common::Rows;
use deletion_vectors::{Bitmap, FileInput, Merger, Verdict, encode, max_merged_len, rows};
use proptest::prelude::*;
use roaring::RoaringTreemap;

fn written_by_roaring(map: &RoaringTreemap) -> Vec<u8> {
    let mut bytes = 1_681_511_377u32.to_le_bytes().to_vec();
    map.serialize_into(&mut bytes).unwrap();
    bytes
}

fn values() -> impl Strategy<Value = Rows> {
    let start = prop_oneof![0u64..300_000, (0u64..4).prop_map(|high| high << 32)];
    prop::collection::vec((start, 1u64..3000, 1u64..40), 0..12).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(start, n, step)| (start..start + n * step).step_by(step as usize))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_equals_that_of_the_roaring_crate(
        base in values(),
        own in values(),
        won in values(),
        optimize in any::<[bool; 3]>(),
    ) {
        let map = |rows: &Rows, optimize: bool| {
            let mut map: RoaringTreemap = rows.iter().copied().collect();
            if optimize {
                map.optimize();
            }
            map
        };
        let base_map = map(&base, optimize[0]);
        let win_map = map(&won, optimize[2]) | &base_map;
        let cur_map = (map(&own, optimize[1]) - &win_map) | &base_map;
        let (base, cur, win) =
            (written_by_roaring(&base_map), written_by_roaring(&cur_map), written_by_roaring(&win_map));
        let bitmap = |bytes, map: &RoaringTreemap| Some(Bitmap { bytes, cardinality: map.len() });
        let file = FileInput {
            base: bitmap(&base, &base_map),
            current: bitmap(&cur, &cur_map),
            winner: bitmap(&win, &win_map),
            num_records: None,
        };
        let expected = &cur_map | &win_map;
        let mut out = vec![0; max_merged_len(cur.len(), win.len())];
        for (level, mut merger) in Merger::all_levels() {
            match merger.merge(&file, &mut out).unwrap() {
                Verdict::Merged { len, cardinality } => {
                    prop_assert_eq!(cardinality, expected.len());
                    let read = RoaringTreemap::deserialize_from(&out[4..len]).unwrap();
                    prop_assert_eq!(&read, &expected, "{}", level);
                    let mut theirs = expected.clone();
                    theirs.optimize();
                    prop_assert!(len <= written_by_roaring(&theirs).len());
                }
                Verdict::NothingNew => prop_assert_eq!(&cur_map, &base_map),
                other => panic!("{level}: {other:?}"),
            }
        }
    }

    #[test]
    fn encode_is_read_by_the_roaring_crate_and_the_other_way_round(set in values()) {
        let all: Vec<u64> = set.iter().copied().collect();
        let ours = encode(&all).unwrap();
        let map = RoaringTreemap::deserialize_from(&ours[4..]).unwrap();
        prop_assert!(map.iter().eq(all.iter().copied()));
        let theirs = written_by_roaring(&map);
        prop_assert_eq!(rows(Bitmap { bytes: &theirs, cardinality: map.len() }, None), Ok(all));
    }
}
