//! Files written here, with deletion vectors in every place that a descriptor can name.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deletion_vectors::{Descriptor, StorageType, append_frame, encode, encode_z85};
use dv_oracle::{OracleError, live_rows, read_descriptor};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::json;

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dv-oracle-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes `groups` row groups of ten rows each, ids ascending from 0.
fn write_parquet(path: &Path, groups: i64) {
    let schema = "message rows { required int64 id; optional binary name (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties =
        WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for group in 0..groups {
        let mut row_group = writer.next_row_group().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let ids: Vec<i64> = (group * 10..group * 10 + 10).collect();
        column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let names: Vec<ByteArray> = (0..5).map(|_| ByteArray::from("even")).collect();
        let levels: Vec<i16> = (0..10).map(|row| 1 - row % 2).collect();
        column.typed::<ByteArrayType>().write_batch(&names, Some(&levels), None).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn live_rows_of_every_storage_type_are_those_not_deleted() {
    let directory = Directory::new("types");
    let table = directory.0.as_path();
    let file = table.join("part.parquet");
    write_parquet(&file, 3);
    let all = live_rows(&file, None).unwrap();
    assert_eq!(all.len(), 30);
    assert_eq!(all[0], json!({"id": 0, "name": "even"}));
    assert_eq!(all[1], json!({"id": 1, "name": null}));

    let bytes = encode(&[0, 9, 10, 29]).unwrap();
    let mut frames = Vec::new();
    append_frame(&mut frames, b"another deletion vector");
    let offset = append_frame(&mut frames, &bytes);
    fs::create_dir_all(table.join("ab")).unwrap();
    let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
    fs::write(table.join("ab").join(name), &frames).unwrap();
    let mut only = Vec::new();
    append_frame(&mut only, &bytes);
    fs::write(table.join("an only one.bin"), &only).unwrap();
    let of = |storage_type, path_or_inline_dv: String, offset| Descriptor {
        storage_type,
        path_or_inline_dv,
        offset,
        size_in_bytes: bytes.len() as u64,
        cardinality: 4,
    };
    let uri = format!("file://{}/an%20only%20one.bin", table.display());
    let descriptors = [
        of(StorageType::Uuid, "ab^-aqEH.-t@S}K{vb[*k^".to_owned(), Some(offset)),
        of(StorageType::Inline, encode_z85(&bytes), None),
        of(StorageType::Path, uri, None),
    ];
    for descriptor in &descriptors {
        let path = table.join("descriptor.json");
        fs::write(&path, serde_json::to_vec(descriptor).unwrap()).unwrap();
        assert_eq!(&read_descriptor(&path).unwrap(), descriptor);
        let live = live_rows(&file, Some((descriptor, table))).unwrap();
        let ids: Vec<i64> = live.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        let expected: Vec<i64> = (0..30).filter(|id| ![0, 9, 10, 29].contains(id)).collect();
        assert_eq!(ids, expected);
    }
    let wrong = Descriptor { cardinality: 5, ..descriptors[0].clone() };
    assert!(matches!(live_rows(&file, Some((&wrong, table))), Err(OracleError::Bitmap(_))));
    let wrong = Descriptor { size_in_bytes: 5, ..descriptors[0].clone() };
    assert!(matches!(live_rows(&file, Some((&wrong, table))), Err(OracleError::Frame { .. })));
}

#[test]
fn rows_behind_the_end_of_the_file_are_refused() {
    let directory = Directory::new("range");
    let file = directory.0.join("part.parquet");
    write_parquet(&file, 1);
    let bytes = encode(&[10]).unwrap();
    let descriptor = Descriptor {
        storage_type: StorageType::Inline,
        path_or_inline_dv: encode_z85(&bytes),
        offset: None,
        size_in_bytes: bytes.len() as u64,
        cardinality: 1,
    };
    let error = live_rows(&file, Some((&descriptor, &directory.0))).unwrap_err();
    assert!(error.to_string().starts_with("DV_ROW_RANGE"), "{error}");
}
