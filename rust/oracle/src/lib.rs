//! The rows that a deletion vector leaves in a real Parquet file, read without Spark.
//!
//! An oracle for tests of the whole path: it shares no code with what wrote the file, and of our own only the strict
//! reading of a deletion vector. It keeps everything in memory and is meant for files of tests.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use deletion_vectors::{
    Bitmap, BitmapError, Descriptor, DescriptorError, FIRST_OFFSET, FrameError, Location,
    read_frame, rows,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

/// Why the oracle has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The Parquet file is not one.
    #[error("cannot read {} as Parquet: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// The descriptor cannot be understood.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// The file with the deletion vector is damaged.
    #[error("{}: {source}", path.display())]
    Frame {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FrameError,
    },
    /// The deletion vector does not hold what its descriptor and the Parquet file allow.
    #[error(transparent)]
    Bitmap(#[from] BitmapError),
    /// The descriptor is not JSON, or not a descriptor.
    #[error("cannot read {} as a descriptor: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// The data of a deletion vector: a serialized bitmap. `table_dir` is the directory of the table.
///
/// # Errors
/// [`OracleError`], checksum and size included.
pub fn read_dv(descriptor: &Descriptor, table_dir: &Path) -> Result<Vec<u8>, OracleError> {
    let path = match descriptor.location()? {
        Location::Inline(data) => return Ok(data),
        Location::Relative(name) => table_dir.join(name),
        Location::Absolute(path) => local_path(&path),
    };
    let file = fs::read(&path).map_err(|source| OracleError::Io { path: path.clone(), source })?;
    let offset = descriptor.offset.unwrap_or(FIRST_OFFSET);
    match read_frame(&file, offset, descriptor.size_in_bytes) {
        Ok(data) => Ok(data.to_vec()),
        Err(source) => Err(OracleError::Frame { path, source }),
    }
}

/// A path of this machine from a path or a `file:` URI with percent-encoding.
fn local_path(text: &str) -> PathBuf {
    let Some(rest) = text.strip_prefix("file:") else { return PathBuf::from(text) };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((byte, more)) = left.split_first() {
        let hex = more.first_chunk::<2>().and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) if *byte == b'%' => {
                bytes.push(decoded);
                left = more.get(2..).unwrap_or(&[]);
            }
            _ => {
                bytes.push(*byte);
                left = more;
            }
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rows of `file` that are left, in order, each as a JSON object.
///
/// # Errors
/// [`OracleError`]; a deletion vector with rows that the file does not have is refused.
pub fn live_rows(file: &Path, dv: Option<(&Descriptor, &Path)>) -> Result<Vec<Value>, OracleError> {
    let io = |source| OracleError::Io { path: file.to_owned(), source };
    let parquet = |source| OracleError::Parquet { path: file.to_owned(), source };
    let reader = SerializedFileReader::new(File::open(file).map_err(io)?).map_err(parquet)?;
    let count = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    let deleted = match dv {
        None => Vec::new(),
        Some((descriptor, table_dir)) => {
            let bytes = read_dv(descriptor, table_dir)?;
            rows(Bitmap { bytes: &bytes, cardinality: descriptor.cardinality }, Some(count))?
        }
    };
    let mut deleted = deleted.into_iter().peekable();
    let mut live = Vec::new();
    for (index, row) in (0u64..).zip(reader.get_row_iter(None).map_err(parquet)?) {
        let row = row.map_err(parquet)?;
        if deleted.next_if_eq(&index).is_none() {
            live.push(row.to_json_value());
        }
    }
    Ok(live)
}

/// Reads a descriptor from a file with its JSON.
///
/// # Errors
/// [`OracleError::Io`], [`OracleError::Json`].
pub fn read_descriptor(path: &Path) -> Result<Descriptor, OracleError> {
    let bytes =
        fs::read(path).map_err(|source| OracleError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes)
        .map_err(|source| OracleError::Json { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_path_takes_paths_and_uris() {
        assert_eq!(local_path("/a/b c"), Path::new("/a/b c"));
        assert_eq!(local_path("file:/a/b%20c"), Path::new("/a/b c"));
        assert_eq!(local_path("file:///a/100%"), Path::new("/a/100%"));
    }
}
