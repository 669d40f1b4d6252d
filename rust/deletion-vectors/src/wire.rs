//! The request and the response that cross the JNI boundary: all files of a pass in one call.
//!
//! A request is a table of numbers, 13 for each file, which says where in which array of bytes each bitmap stands. The
//! arrays are given as [`Arrays`], so that the JVM's own can be used where they are; bitmaps may share bytes.
//!
//! | numbers | what |
//! |---|---|
//! | 4 | base: index of the array, offset in it, length, declared cardinality |
//! | 4 | current: the same |
//! | 4 | winner: the same |
//! | 1 | number of records of the file, or -1 when it is not known |
//!
//! Length 0 means absent; array and offset are then ignored and the cardinality must be 0.
//!
//! The response is one block of memory, all numbers little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic `0x52434C52`, the bytes `RLCR` |
//! | 4 | version, 4 |
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

/// The bytes `RLCR`.
pub const RESPONSE_MAGIC: u32 = 0x5243_4C52;
/// Version of both layouts, and of the native interface as a whole.
pub const VERSION: u32 = 4;
/// Numbers of an entry of a request.
pub const ENTRY_NUMBERS: usize = 13;
/// Bytes in front of the first entry of a response.
pub const HEADER_LEN: usize = 32;
/// Bytes of an entry of a response.
pub const RESPONSE_ENTRY_LEN: usize = 64;
/// The number of records of a file for which it is not known.
pub const UNKNOWN_NUM_RECORDS: i64 = -1;

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

#[cold]
fn bad_bitmap(file: usize, role: Role, what: &str, expected: u64, got: u64) -> WireError {
    let name = match role {
        Role::Base => "base",
        Role::Current => "current",
        Role::Winner => "winner",
    };
    bad_entry(file, &format!("{name} bitmap, {what}"), expected, got)
}

/// Where a bitmap stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Index of the array.
    pub array: usize,
    /// Where it begins there.
    pub offset: usize,
    /// Its length, 0 for a bitmap that is absent.
    pub len: usize,
}

/// A bitmap does not lie within its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfArray {
    /// The bitmap.
    pub role: Role,
    /// Length of the array, 0 where there is none.
    pub array_len: usize,
}

/// The arrays that a request speaks of.
pub trait Arrays {
    /// The bytes of base, current and winner of one file, empty for a span of length 0.
    ///
    /// # Errors
    /// The first that does not lie within its array.
    fn bytes_of(&mut self, spans: &[Span; 3]) -> Result<[&[u8]; 3], OutOfArray>;
}

impl Arrays for &[&[u8]] {
    #[inline]
    fn bytes_of(&mut self, spans: &[Span; 3]) -> Result<[&[u8]; 3], OutOfArray> {
        let mut found: [&[u8]; 3] = [&[]; 3];
        for ((found, span), role) in found.iter_mut().zip(spans).zip(ROLES) {
            let array = self.get(span.array).copied().unwrap_or(&[]);
            *found = span.within(array).ok_or(OutOfArray { role, array_len: array.len() })?;
        }
        Ok(found)
    }
}

const ROLES: [Role; 3] = [Role::Base, Role::Current, Role::Winner];

impl Span {
    /// The bytes, if all of them are in `array`; nothing for a span of length 0.
    #[inline]
    pub fn within<'a>(&self, array: &'a [u8]) -> Option<&'a [u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        array.get(self.offset..self.offset.checked_add(self.len)?)
    }
}

/// One entry of a request.
#[derive(Debug, Clone, Copy)]
struct Entry {
    spans: [Span; 3],
    cardinalities: [u64; 3],
    num_records: Option<u64>,
}

impl Entry {
    #[inline]
    fn parse(file: usize, numbers: &[i64; ENTRY_NUMBERS]) -> Result<Entry, WireError> {
        let (bitmaps, [num_records]) = numbers.as_chunks::<4>() else {
            return Err(bad_entry(file, "length of the entry", 13, 0));
        };
        let mut entry = Entry {
            spans: [Span::default(); 3],
            cardinalities: [0; 3],
            num_records: u64::try_from(*num_records).ok(),
        };
        if *num_records < UNKNOWN_NUM_RECORDS {
            return Err(bad_entry(file, "number of records", 0, num_records.cast_unsigned()));
        }
        for (((span, cardinality), numbers), role) in
            entry.spans.iter_mut().zip(&mut entry.cardinalities).zip(bitmaps).zip(ROLES)
        {
            let [array, offset, len, rows] = numbers.map(i64::cast_unsigned);
            if len == 0 {
                if rows != 0 {
                    return Err(bad_bitmap(file, role, "cardinality without bytes", 0, rows));
                }
                continue;
            }
            let most = i64::MAX as u64;
            if array.max(offset).max(len).max(rows) > most {
                return Err(bad_bitmap(
                    file,
                    role,
                    "negative number",
                    most,
                    numbers.map(i64::cast_unsigned).into_iter().fold(0, u64::max),
                ));
            }
            let (Ok(array), Ok(offset), Ok(len)) =
                (usize::try_from(array), usize::try_from(offset), usize::try_from(len))
            else {
                return Err(bad_bitmap(file, role, "address", usize::MAX as u64, offset));
            };
            *span = Span { array, offset, len };
            *cardinality = rows;
        }
        Ok(entry)
    }

    /// What the request says of the file.
    #[inline]
    fn input<'a>(
        &self,
        file: usize,
        arrays: &'a mut impl Arrays,
    ) -> Result<FileInput<'a>, WireError> {
        let bytes = match arrays.bytes_of(&self.spans) {
            Ok(bytes) => bytes,
            Err(out) => return Err(self.out_of_array(file, out)),
        };
        let of = |bytes: &'a [u8], cardinality| {
            (!bytes.is_empty()).then_some(Bitmap { bytes, cardinality })
        };
        let [base, current, winner] = bytes;
        let [base_rows, current_rows, winner_rows] = self.cardinalities;
        Ok(FileInput {
            base: of(base, base_rows),
            current: of(current, current_rows),
            winner: of(winner, winner_rows),
            num_records: self.num_records,
        })
    }

    #[cold]
    fn out_of_array(&self, file: usize, OutOfArray { role, array_len }: OutOfArray) -> WireError {
        let [base, current, winner] = self.spans;
        let span = match role {
            Role::Base => base,
            Role::Current => current,
            Role::Winner => winner,
        };
        let end = span.offset.saturating_add(span.len) as u64;
        bad_bitmap(file, role, "end within its array", array_len as u64, end)
    }
}

/// The entries of a request.
fn entries(table: &[i64]) -> Result<&[[i64; ENTRY_NUMBERS]], WireError> {
    match table.as_chunks() {
        (entries, []) => Ok(entries),
        (entries, _) => {
            let whole = (entries.len() * ENTRY_NUMBERS) as u64;
            Err(bad_request("length of the table", whole, table.len() as u64))
        }
    }
}

/// That the response needs more space: a length that is always enough, from the lengths of the bitmaps alone. A request
/// cannot ask for more by stating lengths that are not there.
#[cold]
fn no_space(table: &[[i64; ENTRY_NUMBERS]], arrays: &mut impl Arrays) -> WireError {
    let mut needed = HEADER_LEN + table.len() * RESPONSE_ENTRY_LEN;
    for (index, numbers) in table.iter().enumerate() {
        let file = Entry::parse(index, numbers).and_then(|entry| entry.input(index, arrays));
        match file {
            Ok(FileInput { current: Some(current), winner, .. }) => {
                let winner_len = winner.map_or(0, |winner| winner.bytes.len());
                let len = max_merged_len(current.bytes.len(), winner_len);
                needed =
                    needed.saturating_add(len.checked_next_multiple_of(8).unwrap_or(usize::MAX));
            }
            Ok(_) => {}
            Err(error) => return error,
        }
    }
    WireError::NoSpace { needed }
}

/// Answers a request with `merger`'s memory and gives the number of bytes used of the response.
///
/// # Errors
/// [`WireError::NoSpace`] with a length that is enough, when the response is too small for all answers; what it
/// holds then is unspecified. [`WireError::Request`] when the request is not what it should be.
pub fn resolve(
    merger: &mut Merger,
    table: &[i64],
    arrays: &mut impl Arrays,
    response: &mut [u8],
) -> Result<usize, WireError> {
    let table = entries(table)?;
    let entries = HEADER_LEN + table.len() * RESPONSE_ENTRY_LEN;
    let Some((head, blobs)) = response.split_at_mut_checked(entries) else {
        return Err(no_space(table, arrays));
    };
    let (header, head) = head.split_at_mut(HEADER_LEN);
    let mut used = 0usize;
    let places = head.as_chunks_mut::<RESPONSE_ENTRY_LEN>().0;
    for (index, (numbers, place)) in table.iter().zip(places).enumerate() {
        let file = Entry::parse(index, numbers)?.input(index, arrays)?;
        let room = blobs.get_mut(used..).unwrap_or(&mut []);
        match merger.merge(&file, room) {
            Ok(verdict) => {
                write_entry(place, &verdict, entries + used);
                if let Verdict::Merged { len, .. } = verdict {
                    let end = used + len;
                    used = end.next_multiple_of(8);
                    match blobs.get_mut(end..used) {
                        Some(padding) => padding.fill(0),
                        None => return Err(no_space(table, arrays)),
                    }
                }
            }
            Err(MergeError::NoSpace { .. }) => return Err(no_space(table, arrays)),
            Err(MergeError::Internal(what)) => {
                return Err(WireError::Internal { file: index, what });
            }
        }
    }
    let total = entries + used;
    let files = u32::try_from(table.len()).unwrap_or(u32::MAX);
    let numbers = [word_pair(RESPONSE_MAGIC, VERSION), word_pair(files, 0), total as u64, 0];
    for (place, number) in header.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    Ok(total)
}

/// Number of rows that both sides deleted in one file of a request, counted with `merger`'s memory.
///
/// # Errors
/// [`WireError::Request`] when the request is not what it should be or there is no such file,
/// [`WireError::Malformed`] when one of its bitmaps is malformed.
pub fn overlap_count(
    merger: &mut Merger,
    table: &[i64],
    arrays: &mut impl Arrays,
    file: usize,
) -> Result<u64, WireError> {
    let entries = entries(table)?;
    let Some(numbers) = entries.get(file) else {
        return Err(bad_request("index of a file", entries.len() as u64, file as u64));
    };
    let file = Entry::parse(file, numbers)?.input(file, arrays)?;
    Ok(merger.overlap_count(&file)?)
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

/// Builds requests, with one array for each bitmap: for tests, fuzzing and benches.
#[derive(Debug, Clone, Default)]
pub struct RequestBuilder<'a> {
    table: Vec<i64>,
    arrays: Vec<&'a [u8]>,
}

impl<'a> RequestBuilder<'a> {
    /// A request about no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn push(&mut self, file: &FileInput<'a>) -> &mut Self {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for bitmap in [file.base, file.current, file.winner] {
            let entry = bitmap.map_or([0; 4], |Bitmap { bytes, cardinality }| {
                self.arrays.push(bytes);
                let array = self.arrays.len() as u64 - 1;
                [number(array), 0, number(bytes.len() as u64), number(cardinality)]
            });
            self.table.extend(entry);
        }
        self.table.push(file.num_records.map_or(UNKNOWN_NUM_RECORDS, number));
        self
    }

    /// The table and the arrays.
    pub fn build(self) -> (Vec<i64>, Vec<&'a [u8]>) {
        (self.table, self.arrays)
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
