//! The request and the response that cross the JNI boundary: all files of a pass in one call.
//!
//! All numbers are little endian. A request is one block of memory:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic `0x51434C52`, the bytes `RLCQ` |
//! | 4 | version, 1 |
//! | 4 | number of files |
//! | 4 | flags, 0 |
//! | 8 | total length of the request in bytes |
//! | 8 | reserved, 0 |
//! | 80 each | one entry for each file |
//! | | the serialized bitmaps, anywhere behind the entries; they may share bytes |
//!
//! | entry | what |
//! |---|---|
//! | 3 × 8 | base: offset from the start of the request, length, declared cardinality |
//! | 3 × 8 | current: the same |
//! | 3 × 8 | winner: the same |
//! | 8 | number of records of the file, or 2^64-1 when it is not known |
//!
//! Length 0 means absent; offset is then ignored and the cardinality must be 0. The response:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic `0x52434C52`, the bytes `RLCR` |
//! | 4 | version, 1 |
//! | 4 | number of files |
//! | 4 | reserved, 0 |
//! | 8 | bytes used of the response |
//! | 8 | reserved, 0 |
//! | 64 each | one entry for each file, in the order of the request |
//! | | the merged bitmaps, each at a multiple of 8 |
//!
//! | entry | what |
//! |---|---|
//! | 4 | [`VerdictCode`] |
//! | 4 | [`Role`] of a malformed bitmap, else 0 |
//! | 4 | [`ErrorCode`] of a malformed bitmap, else 0 |
//! | 4 | reserved, 0 |
//! | 8 | offset of the merged bitmap from the start of the response, else 0 |
//! | 8 | length of the merged bitmap, else 0 |
//! | 8 | cardinality of the union when merged or covering the file, else 0 |
//! | 8 | first row of a conflict; byte offset in a malformed bitmap; else 0 |
//! | 8 | expected, for a malformed bitmap, else 0 |
//! | 8 | got, for a malformed bitmap, else 0 |

use crate::error::{BitmapError, ErrorCode};
use crate::format::{u32_at, u64_at};
use crate::merge::{
    Bitmap, FileInput, Malformed, MergeError, Merger, Role, Verdict, max_merged_len,
};

/// The bytes `RLCQ`.
pub const REQUEST_MAGIC: u32 = 0x5143_4C52;
/// The bytes `RLCR`.
pub const RESPONSE_MAGIC: u32 = 0x5243_4C52;
/// Version of both layouts, and of the native interface as a whole.
pub const VERSION: u32 = 1;
/// Bytes in front of the first entry, in requests and responses.
pub const HEADER_LEN: usize = 32;
/// Bytes of an entry of a request.
pub const REQUEST_ENTRY_LEN: usize = 80;
/// Bytes of an entry of a response.
pub const RESPONSE_ENTRY_LEN: usize = 64;
/// The number of records of a file for which it is not known.
pub const UNKNOWN_NUM_RECORDS: u64 = u64::MAX;

/// Numbers of the verdicts in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum VerdictCode {
    /// [`Verdict::Merged`].
    Merged = 1,
    /// [`Verdict::UntouchedOk`].
    UntouchedOk = 2,
    /// [`Verdict::CoversFile`].
    CoversFile = 3,
    /// [`Verdict::Overlap`].
    Overlap = 4,
    /// [`Verdict::NotAnExtension`].
    NotAnExtension = 5,
    /// [`Verdict::BaseNotInCurrent`].
    BaseNotInCurrent = 6,
    /// [`Verdict::NothingNew`].
    NothingNew = 7,
    /// [`Verdict::Malformed`].
    Malformed = 8,
}

/// Why a request could not be answered at all. A malformed bitmap is not among these: that is a verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The response is too small.
    #[error("the response needs {needed} bytes")]
    NoSpace {
        /// A length that is enough.
        needed: usize,
    },
    /// The request does not have the layout above.
    #[error("malformed request: {what}: expected {expected}, got {got}")]
    Request {
        /// What is wrong, and of which file where it is about one.
        what: String,
        /// The right value or bound.
        expected: u64,
        /// The value found.
        got: u64,
    },
    /// A bitmap is malformed, for calls that have no verdict to say so with.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A result failed its own check; see [`MergeError::Internal`].
    #[error("internal check failed for file {file}: {what}")]
    Internal {
        /// Index of the file in the request.
        file: usize,
        /// The check.
        what: &'static str,
    },
}

impl WireError {
    /// A stable name for messages and logs, such as `REQUEST_MALFORMED`.
    pub const fn code(&self) -> &'static str {
        match self {
            WireError::NoSpace { .. } => "RESPONSE_TOO_SMALL",
            WireError::Request { .. } => "REQUEST_MALFORMED",
            WireError::Malformed(malformed) => malformed.error.code.name(),
            WireError::Internal { .. } => "INTERNAL",
        }
    }
}

#[cold]
fn bad_request(what: &str, expected: u64, got: u64) -> WireError {
    WireError::Request { what: what.to_owned(), expected, got }
}

#[cold]
fn bad_entry(file: usize, what: &str, expected: u64, got: u64) -> WireError {
    WireError::Request { what: format!("file {file}: {what}"), expected, got }
}

/// A request whose header has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    bytes: &'a [u8],
    files: usize,
}

impl<'a> Request<'a> {
    /// Checks the header and that all entries are there.
    ///
    /// # Errors
    /// [`WireError::Request`].
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, WireError> {
        let len = bytes.len() as u64;
        if bytes.len() < HEADER_LEN {
            return Err(bad_request("length of the header", HEADER_LEN as u64, len));
        }
        let words = [
            ("magic", u64::from(u32_at(bytes, 0)), u64::from(REQUEST_MAGIC)),
            ("version", u64::from(u32_at(bytes, 4)), u64::from(VERSION)),
            ("flags", u64::from(u32_at(bytes, 12)), 0),
            ("total length", u64_at(bytes, 16), len),
            ("reserved word", u64_at(bytes, 24), 0),
        ];
        for (what, got, expected) in words {
            if got != expected {
                return Err(bad_request(what, expected, got));
            }
        }
        let files = u32_at(bytes, 8);
        let most = (bytes.len() - HEADER_LEN) / REQUEST_ENTRY_LEN;
        match usize::try_from(files) {
            Ok(files) if files <= most => Ok(Request { bytes, files }),
            _ => Err(bad_request("number of files", most as u64, u64::from(files))),
        }
    }

    /// Number of files asked about.
    pub const fn files(&self) -> usize {
        self.files
    }

    /// What the request says of one file.
    ///
    /// # Errors
    /// [`WireError::Request`] when there is no such file or a bitmap lies outside of the payload.
    #[inline]
    pub fn file(&self, index: usize) -> Result<FileInput<'a>, WireError> {
        if index >= self.files {
            return Err(bad_request("index of a file", self.files as u64, index as u64));
        }
        let entry = HEADER_LEN + index * REQUEST_ENTRY_LEN;
        let num_records = u64_at(self.bytes, entry + 72);
        Ok(FileInput {
            base: self.bitmap(index, entry, "base")?,
            current: self.bitmap(index, entry + 24, "current")?,
            winner: self.bitmap(index, entry + 48, "winner")?,
            num_records: (num_records != UNKNOWN_NUM_RECORDS).then_some(num_records),
        })
    }

    #[inline]
    fn bitmap(&self, file: usize, at: usize, name: &str) -> Result<Option<Bitmap<'a>>, WireError> {
        let (offset, len) = (u64_at(self.bytes, at), u64_at(self.bytes, at + 8));
        let cardinality = u64_at(self.bytes, at + 16);
        if len == 0 {
            if cardinality != 0 {
                let what = format!("cardinality of the absent {name} bitmap");
                return Err(bad_entry(file, &what, 0, cardinality));
            }
            return Ok(None);
        }
        let payload = HEADER_LEN + self.files * REQUEST_ENTRY_LEN;
        if offset < payload as u64 {
            let what = format!("offset of the {name} bitmap");
            return Err(bad_entry(file, &what, payload as u64, offset));
        }
        let total = self.bytes.len() as u64;
        let bytes = match (usize::try_from(offset), offset.checked_add(len)) {
            (Ok(start), Some(end)) if end <= total => {
                usize::try_from(end).ok().and_then(|end| self.bytes.get(start..end))
            }
            _ => None,
        };
        match bytes {
            Some(bytes) => Ok(Some(Bitmap { bytes, cardinality })),
            None => {
                let what = format!("end of the {name} bitmap");
                Err(bad_entry(file, &what, total, offset.saturating_add(len)))
            }
        }
    }

    /// A length of the response that is always enough, from the lengths of the bitmaps alone.
    ///
    /// # Errors
    /// [`WireError::Request`], as for [`Self::file`].
    pub fn max_response_len(&self) -> Result<usize, WireError> {
        let mut len = HEADER_LEN + self.files * RESPONSE_ENTRY_LEN;
        for index in 0..self.files {
            let file = self.file(index)?;
            if let Some(current) = file.current {
                let winner = file.winner.map_or(0, |winner| winner.bytes.len());
                len = len.saturating_add(
                    max_merged_len(current.bytes.len(), winner).next_multiple_of(8),
                );
            }
        }
        Ok(len)
    }
}

/// Answers a request and gives the number of bytes used of the response.
///
/// # Errors
/// [`WireError::NoSpace`] with a length that is enough, when the response is too small for all answers; what it
/// holds then is unspecified. [`WireError::Request`] when the request is not what it should be.
pub fn resolve(request: &[u8], response: &mut [u8]) -> Result<usize, WireError> {
    let request = Request::parse(request)?;
    let entries = HEADER_LEN + request.files * RESPONSE_ENTRY_LEN;
    let no_space = |request: &Request<'_>| match request.max_response_len() {
        Ok(needed) => WireError::NoSpace { needed },
        Err(error) => error,
    };
    let Some((head, blobs)) = response.split_at_mut_checked(entries) else {
        return Err(no_space(&request));
    };
    let (header, head) = head.split_at_mut(HEADER_LEN);
    let mut merger = Merger::new();
    let mut used = 0usize;
    for (index, entry) in head.as_chunks_mut::<RESPONSE_ENTRY_LEN>().0.iter_mut().enumerate() {
        let file = request.file(index)?;
        let room = blobs.get_mut(used..).unwrap_or(&mut []);
        match merger.merge(&file, room) {
            Ok(verdict) => {
                write_entry(entry, &verdict, entries + used);
                if let Verdict::Merged { len, .. } = verdict {
                    let end = used + len;
                    used = end.next_multiple_of(8);
                    match blobs.get_mut(end..used) {
                        Some(padding) => padding.fill(0),
                        None => return Err(no_space(&request)),
                    }
                }
            }
            Err(MergeError::NoSpace { .. }) => return Err(no_space(&request)),
            Err(MergeError::Internal(what)) => {
                return Err(WireError::Internal { file: index, what });
            }
        }
    }
    let total = entries + used;
    let words = [RESPONSE_MAGIC, VERSION, u32::try_from(request.files).unwrap_or(u32::MAX), 0];
    let mut place = header.as_chunks_mut::<8>().0.iter_mut();
    let numbers = [word_pair(words[0], words[1]), word_pair(words[2], words[3]), total as u64, 0];
    for (place, number) in place.by_ref().zip(numbers) {
        *place = number.to_le_bytes();
    }
    Ok(total)
}

/// Number of rows that both sides deleted in one file of a request.
///
/// # Errors
/// [`WireError::Request`] when the request is not what it should be or there is no such file,
/// [`WireError::Malformed`] when one of its bitmaps is malformed.
pub fn overlap_count(request: &[u8], file: usize) -> Result<u64, WireError> {
    let file = Request::parse(request)?.file(file)?;
    Ok(Merger::new().overlap_count(&file)?)
}

const fn word_pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Writes one entry of the response; `blob` is where the merged bitmap stands.
#[inline]
fn write_entry(entry: &mut [u8; RESPONSE_ENTRY_LEN], verdict: &Verdict, blob: usize) {
    use VerdictCode as Code;
    let mut words = [0u64; 8];
    let code = match *verdict {
        Verdict::Merged { len, cardinality } => {
            words = [0, 0, blob as u64, len as u64, cardinality, 0, 0, 0];
            Code::Merged
        }
        Verdict::UntouchedOk => Code::UntouchedOk,
        Verdict::CoversFile { cardinality } => {
            words[4] = cardinality;
            Code::CoversFile
        }
        Verdict::Overlap { first_row } => {
            words[5] = first_row;
            Code::Overlap
        }
        Verdict::NotAnExtension { first_row } => {
            words[5] = first_row;
            Code::NotAnExtension
        }
        Verdict::BaseNotInCurrent { first_row } => {
            words[5] = first_row;
            Code::BaseNotInCurrent
        }
        Verdict::NothingNew => Code::NothingNew,
        Verdict::Malformed(Malformed { role, error }) => {
            let BitmapError { code, offset, expected, got } = error;
            words =
                [word_pair(0, role as u32), u64::from(code as u32), 0, 0, 0, offset, expected, got];
            Code::Malformed
        }
    };
    words[0] |= u64::from(code as u32);
    for (place, word) in entry.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

/// Builds requests: for tests, fuzzing, benches and callers that do not have their own layout code.
#[derive(Debug, Clone, Default)]
pub struct RequestBuilder {
    entries: Vec<[u64; 10]>,
    payload: Vec<u8>,
}

impl RequestBuilder {
    /// A request about no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn push(&mut self, file: &FileInput<'_>) -> &mut Self {
        let mut entry = [0; 10];
        for (words, bitmap) in
            entry.as_chunks_mut::<3>().0.iter_mut().zip([file.base, file.current, file.winner])
        {
            if let Some(Bitmap { bytes, cardinality }) = bitmap {
                *words = [self.payload.len() as u64, bytes.len() as u64, cardinality];
                self.payload.extend_from_slice(bytes);
                self.payload.resize(self.payload.len().next_multiple_of(8), 0);
            }
        }
        entry[9] = file.num_records.unwrap_or(UNKNOWN_NUM_RECORDS);
        self.entries.push(entry);
        self
    }

    /// The bytes of the request.
    pub fn build(&self) -> Vec<u8> {
        let payload = HEADER_LEN + self.entries.len() * REQUEST_ENTRY_LEN;
        let total = payload + self.payload.len();
        let mut bytes = Vec::with_capacity(total);
        for word in
            [REQUEST_MAGIC, VERSION, u32::try_from(self.entries.len()).unwrap_or(u32::MAX), 0]
        {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&(total as u64).to_le_bytes());
        bytes.extend_from_slice(&0u64.to_le_bytes());
        for entry in &self.entries {
            for (index, word) in entry.iter().enumerate() {
                let is_offset = index % 3 == 0 && index < 9;
                let present = entry.get(index + 1).is_some_and(|len| *len != 0);
                let word = if is_offset && present { word + payload as u64 } else { *word };
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}

/// One entry of a response, read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseEntry<'a> {
    /// The verdict; that of a merged file has the length of `merged`.
    pub verdict: Verdict,
    /// The merged bitmap, empty if there is none.
    pub merged: &'a [u8],
}

/// Reads a response back; none when it is not one. For tests, fuzzing and benches.
pub fn read_response(response: &[u8]) -> Option<Vec<ResponseEntry<'_>>> {
    let known = u32_at(response, 0) == RESPONSE_MAGIC && u32_at(response, 4) == VERSION;
    if !known || u64_at(response, 16) != response.len() as u64 {
        return None;
    }
    let files = usize::try_from(u32_at(response, 8)).ok()?;
    let entries = response.get(HEADER_LEN..)?.as_chunks::<RESPONSE_ENTRY_LEN>().0.get(..files)?;
    entries.iter().map(|entry| read_entry(entry, response)).collect()
}

fn read_entry<'a>(entry: &[u8], response: &'a [u8]) -> Option<ResponseEntry<'a>> {
    let start = usize::try_from(u64_at(entry, 16)).ok()?;
    let len = usize::try_from(u64_at(entry, 24)).ok()?;
    let merged = response.get(start..start.checked_add(len)?)?;
    let (cardinality, first_row) = (u64_at(entry, 32), u64_at(entry, 40));
    let verdict = match u32_at(entry, 0) {
        1 => Verdict::Merged { len, cardinality },
        2 => Verdict::UntouchedOk,
        3 => Verdict::CoversFile { cardinality },
        4 => Verdict::Overlap { first_row },
        5 => Verdict::NotAnExtension { first_row },
        6 => Verdict::BaseNotInCurrent { first_row },
        7 => Verdict::NothingNew,
        8 => {
            let role = match u32_at(entry, 4) {
                1 => Role::Base,
                2 => Role::Current,
                3 => Role::Winner,
                _ => return None,
            };
            let error = BitmapError {
                code: ErrorCode::from_number(u32_at(entry, 8))?,
                offset: first_row,
                expected: u64_at(entry, 48),
                got: u64_at(entry, 56),
            };
            Verdict::Malformed(Malformed { role, error })
        }
        _ => return None,
    };
    Some(ResponseEntry { verdict, merged })
}
