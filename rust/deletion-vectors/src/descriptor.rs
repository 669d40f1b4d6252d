//! Where a deletion vector is kept, as the log says it.
//!
//! Source: the section "Deletion Vector Descriptor Schema" of Delta's `PROTOCOL.md`.

use core::fmt;

/// How [`Descriptor::path_or_inline_dv`] is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StorageType {
    /// `u`: a file beside the table, named by a UUID.
    #[cfg_attr(feature = "serde", serde(rename = "u"))]
    Uuid,
    /// `i`: the data itself.
    #[cfg_attr(feature = "serde", serde(rename = "i"))]
    Inline,
    /// `p`: a file with an absolute path.
    #[cfg_attr(feature = "serde", serde(rename = "p"))]
    Path,
}

/// The field `deletionVector` of an action in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub struct Descriptor {
    /// How the next field is to be read.
    pub storage_type: StorageType,
    /// A prefix and an encoded UUID, an absolute path, or the encoded data.
    pub path_or_inline_dv: String,
    /// Where in the file the deletion vector begins, in bytes. Absent when it is inline, or the first of its file.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub offset: Option<u64>,
    /// Size of the data in bytes.
    pub size_in_bytes: u64,
    /// Number of rows.
    pub cardinality: u64,
}

/// Where the data is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Here.
    Inline(Vec<u8>),
    /// In a file below the table's directory.
    Relative(String),
    /// In a file with this absolute path, a URI perhaps.
    Absolute(String),
}

/// Why a descriptor cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The text is not Z85.
    #[error("DV_DESCRIPTOR at byte {offset}: {what}")]
    Encoding {
        /// Where in the encoded text.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The text is too short for what it should say.
    #[error("DV_DESCRIPTOR: expected {expected} {what}, got {got}")]
    Length {
        /// Of what.
        what: &'static str,
        /// At least so many.
        expected: u64,
        /// But there are so many.
        got: u64,
    },
}

/// Characters of an encoded UUID.
const UUID_CHARS: usize = 20;

impl Descriptor {
    /// Where the data is.
    ///
    /// # Errors
    /// [`DescriptorError`] when the text is not what the storage type says.
    ///
    /// # Example
    /// ```
    /// use deletion_vectors::{Descriptor, Location, StorageType};
    ///
    /// let descriptor = Descriptor {
    ///     storage_type: StorageType::Uuid,
    ///     path_or_inline_dv: "ab^-aqEH.-t@S}K{vb[*k^".to_owned(),
    ///     offset: Some(4),
    ///     size_in_bytes: 40,
    ///     cardinality: 6,
    /// };
    /// let file = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
    /// assert_eq!(descriptor.location()?, Location::Relative(file.to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn location(&self) -> Result<Location, DescriptorError> {
        let text = &self.path_or_inline_dv;
        match self.storage_type {
            StorageType::Path => Ok(Location::Absolute(text.clone())),
            StorageType::Inline => {
                let mut data = decode_z85(text)?;
                let got = data.len() as u64;
                let size =
                    usize::try_from(self.size_in_bytes).ok().filter(|size| *size <= data.len());
                let Some(size) = size else {
                    return Err(DescriptorError::Length {
                        what: "bytes",
                        expected: self.size_in_bytes,
                        got,
                    });
                };
                // What the encoding had to add to come to a multiple of four.
                data.truncate(size);
                Ok(Location::Inline(data))
            }
            StorageType::Uuid => {
                let split =
                    text.len().checked_sub(UUID_CHARS).and_then(|at| text.split_at_checked(at));
                let Some((prefix, encoded)) = split else {
                    let (expected, got) = (UUID_CHARS as u64, text.len() as u64);
                    return Err(DescriptorError::Length {
                        what: "characters of a UUID",
                        expected,
                        got,
                    });
                };
                let uuid = Uuid(decode_z85(encoded)?);
                let directory =
                    if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
                Ok(Location::Relative(format!("{directory}deletion_vector_{uuid}.bin")))
            }
        }
    }
}

/// 16 bytes, shown as a UUID.
struct Uuid(Vec<u8>);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The digits of Z85, in order.
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Z85 to bytes: five characters for four bytes, big endian.
///
/// # Errors
/// [`DescriptorError::Encoding`].
pub fn decode_z85(text: &str) -> Result<Vec<u8>, DescriptorError> {
    let bad = |offset: usize, what| DescriptorError::Encoding { offset: offset as u64, what };
    let (groups, rest) = text.as_bytes().as_chunks::<5>();
    if !rest.is_empty() {
        return Err(bad(text.len(), "the text of Z85 ends inside a group of five"));
    }
    let mut bytes = Vec::with_capacity(groups.len() * 4);
    for (index, group) in groups.iter().enumerate() {
        let mut number = 0u64;
        for (place, character) in group.iter().enumerate() {
            let digit = DIGITS.iter().position(|digit| digit == character);
            let digit = digit.ok_or_else(|| bad(5 * index + place, "not a digit of Z85"))?;
            number = number * 85 + digit as u64;
        }
        let word = u32::try_from(number)
            .map_err(|_| bad(5 * index, "a group of Z85 that is more than four bytes"))?;
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    Ok(bytes)
}

/// Bytes to Z85, with zeros added up to a multiple of four.
pub fn encode_z85(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for group in bytes.chunks(4) {
        let mut word = [0; 4];
        for (place, byte) in word.iter_mut().zip(group) {
            *place = *byte;
        }
        let number = u32::from_be_bytes(word);
        for power in [52_200_625, 614_125, 7_225, 85, 1] {
            let digit = (number / power % 85) as usize;
            text.push(DIGITS.get(digit).copied().map_or('0', char::from));
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn descriptor(storage_type: StorageType, text: &str, size_in_bytes: u64) -> Descriptor {
        Descriptor {
            storage_type,
            path_or_inline_dv: text.to_owned(),
            offset: None,
            size_in_bytes,
            cardinality: 0,
        }
    }

    #[test]
    fn z85_round_trips_and_refuses_what_it_is_not() {
        // The example of the Z85 specification.
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(encode_z85(&bytes), "HelloWorld");
        assert_eq!(decode_z85("HelloWorld"), Ok(bytes.to_vec()));
        for bad in ["Hello\u{e9}orl", "Hell", "#####", "Hell\"", "Hell "] {
            assert!(decode_z85(bad).is_err(), "{bad}");
        }
        assert_eq!(
            decode_z85("HelloWor\"d").unwrap_err().to_string(),
            "DV_DESCRIPTOR at byte 8: not a digit of Z85"
        );
        for len in 0..20u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(91)).collect();
            let decoded = decode_z85(&encode_z85(&bytes)).unwrap();
            assert!(decoded.starts_with(&bytes));
        }
    }

    #[test]
    fn location_of_every_storage_type() {
        let uuid = "^-aqEH.-t@S}K{vb[*k^";
        let name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
        assert_eq!(
            descriptor(StorageType::Uuid, uuid, 0).location(),
            Ok(Location::Relative(name.to_owned()))
        );
        let path = "file:/a/b.bin";
        assert_eq!(
            descriptor(StorageType::Path, path, 0).location(),
            Ok(Location::Absolute(path.to_owned()))
        );
        let inline = descriptor(StorageType::Inline, "HelloWorld", 6).location();
        assert_eq!(inline, Ok(Location::Inline(vec![0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59])));
        assert!(descriptor(StorageType::Inline, "HelloWorld", 9).location().is_err());
        assert!(descriptor(StorageType::Uuid, "short", 0).location().is_err());
        assert!(
            descriptor(
                StorageType::Uuid,
                "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}a",
                0
            )
            .location()
            .is_err()
        );
    }
}
