//! Bytes that Delta's own JVM classes wrote, read back and merged.
//!
//! `./dev vectors` makes them, from the published jar, in `build/dv-vectors`; the variable `DELTA_RLC_VECTORS` names
//! another directory. Without them there is nothing to test, which is an error when `DELTA_RLC_REQUIRE_VECTORS` is 1.

use std::fs;
use std::path::{Path, PathBuf};

use deletion_vectors::{
    Bitmap, FileInput, Merger, NATIVE_MAGIC, Verdict, encode, max_merged_len, rows,
};
use serde::Deserialize;

/// One bitmap: an entry of `index.json`.
#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    file: String,
    cardinality: u64,
    values_file: String,
    magic: String,
}

/// One merge: an entry of `triples.json`. Bitmaps are named as in `index.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Triple {
    name: String,
    base: Option<String>,
    current: Option<String>,
    winner: Option<String>,
    num_records: Option<u64>,
    verdict: String,
    #[serde(alias = "merged_file")]
    merged_file: Option<String>,
}

fn directory() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/dv-vectors");
    let directory = std::env::var_os("DELTA_RLC_VECTORS").map_or(default, PathBuf::from);
    if directory.join("index.json").is_file() {
        return Some(directory);
    }
    let what = format!(
        "no vectors written by Delta in {}; make them with ./dev vectors",
        directory.display()
    );
    let required = std::env::var("DELTA_RLC_REQUIRE_VECTORS").is_ok_and(|value| value == "1");
    assert!(!required, "{what}");
    println!("SKIPPED: {what}");
    None
}

fn values(path: &Path) -> Vec<u64> {
    fs::read(path)
        .unwrap()
        .as_chunks::<8>()
        .0
        .iter()
        .map(|value| u64::from_le_bytes(*value))
        .collect()
}

fn index(directory: &Path) -> Vec<Vector> {
    serde_json::from_slice(&fs::read(directory.join("index.json")).unwrap()).unwrap()
}

#[test]
fn bitmaps_written_by_delta_decode_to_their_values_and_are_never_smaller_than_ours() {
    let Some(directory) = directory() else { return };
    let index = index(&directory);
    assert!(!index.is_empty());
    for vector in &index {
        let name = &vector.name;
        let bytes = fs::read(directory.join(&vector.file)).unwrap();
        let expected = values(&directory.join(&vector.values_file));
        let is_native = bytes.first_chunk() == Some(&NATIVE_MAGIC.to_le_bytes());
        assert_eq!(is_native, vector.magic == "native", "{name}");
        assert_eq!(vector.cardinality, expected.len() as u64, "{name}");
        let found = rows(Bitmap { bytes: &bytes, cardinality: vector.cardinality }, None);
        assert_eq!(found.as_ref(), Ok(&expected), "{name}");
        let ours = encode(&expected).unwrap();
        // The count of the native form takes four bytes less.
        let theirs = bytes.len() + if is_native { 4 } else { 0 };
        assert!(ours.len() <= theirs, "{name}: ours {} bytes, Delta's {theirs}", ours.len());
        let again = rows(Bitmap { bytes: &ours, cardinality: vector.cardinality }, None);
        assert_eq!(again, Ok(expected), "{name}");
    }
    println!("{} bitmaps written by Delta", index.len());
}

#[test]
fn merges_of_bitmaps_written_by_delta_equal_what_delta_makes_of_them() {
    let Some(directory) = directory() else { return };
    let path = directory.join("triples.json");
    if !path.is_file() {
        println!("SKIPPED: no {}", path.display());
        return;
    }
    let index = index(&directory);
    let triples: Vec<Triple> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert!(!triples.is_empty());
    for triple in &triples {
        let name = &triple.name;
        let load = |wanted: &Option<String>| {
            wanted.as_ref().map(|wanted| {
                let vector = index
                    .iter()
                    .find(|vector| vector.name == *wanted || vector.file == *wanted)
                    .unwrap_or_else(|| panic!("{name}: no bitmap {wanted}"));
                (fs::read(directory.join(&vector.file)).unwrap(), vector.cardinality)
            })
        };
        let (base, current, winner) =
            (load(&triple.base), load(&triple.current), load(&triple.winner));
        fn bitmap(loaded: &Option<(Vec<u8>, u64)>) -> Option<Bitmap<'_>> {
            loaded.as_ref().map(|(bytes, cardinality)| Bitmap { bytes, cardinality: *cardinality })
        }
        let file = FileInput {
            base: bitmap(&base),
            current: bitmap(&current),
            winner: bitmap(&winner),
            num_records: triple.num_records,
        };
        let len =
            |loaded: &Option<(Vec<u8>, u64)>| loaded.as_ref().map_or(0, |(bytes, _)| bytes.len());
        let mut out = vec![0; max_merged_len(len(&current), len(&winner))];
        for (level, mut merger) in Merger::all_levels() {
            let verdict = merger.merge(&file, &mut out).unwrap();
            let word = match verdict {
                Verdict::Merged { .. } => "MERGED",
                Verdict::UntouchedOk => "UNTOUCHED_OK",
                Verdict::CoversFile { .. } => "COVERS_FILE",
                Verdict::Overlap { .. } => "OVERLAP",
                Verdict::NotAnExtension { .. } => "NOT_AN_EXTENSION",
                Verdict::BaseNotInCurrent { .. } => "BASE_NOT_IN_CURRENT",
                Verdict::NothingNew => "NOTHING_NEW",
                Verdict::Malformed(_) => "MALFORMED",
            };
            assert_eq!(word, triple.verdict, "{name}, {level}: {verdict:?}");
            if let (Verdict::Merged { len, cardinality }, Some(merged)) =
                (verdict, &triple.merged_file)
            {
                let theirs = fs::read(directory.join(merged)).unwrap();
                let expected = rows(Bitmap { bytes: &theirs, cardinality }, triple.num_records);
                assert!(expected.is_ok(), "{name}: {expected:?}");
                let ours = out.get(..len).unwrap();
                assert_eq!(
                    rows(Bitmap { bytes: ours, cardinality }, triple.num_records),
                    expected,
                    "{name}"
                );
                assert!(len <= theirs.len(), "{name}: ours {len} bytes, Delta's {}", theirs.len());
            }
        }
    }
    println!("{} merges checked against Delta", triples.len());
}
