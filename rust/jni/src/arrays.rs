//! Java byte arrays as slices, where they are.
//!
//! Arrays are held with `GetPrimitiveArrayCritical`, so that nothing is copied but the few bytes of a small request. While
//! one is held the JVM may not be called and its garbage collector may have to wait, so they are let go again and again:
//! between two files, once the files since the last time had [`HELD_BYTES`]. Of an array larger than [`LARGEST_HELD`] the
//! bytes wanted are copied.
#![allow(unsafe_code, reason = "holds arrays of the JVM")]

use std::ffi::c_void;
use std::ptr;

use deletion_vectors::Role;
use deletion_vectors::wire::{Arrays, OutOfArray, Span};
use jni::objects::{JByteArray, JObjectArray};
use jni::sys::{JNI_ABORT, jbyteArray, jsize};

use crate::jvm::Jvm;
use crate::throw::Failure;

/// Arrays are let go when files with this many bytes were looked at: some hundred microseconds of work.
const HELD_BYTES: usize = 1 << 20;
/// Files after which they are let go in any case.
const HELD_FILES: usize = 256;
/// The largest array that is held: some milliseconds of work.
const LARGEST_HELD: usize = 16 << 20;
/// Bytes copied at once: the JVM cannot stop a thread that is copying.
const COPIED_BYTES: usize = 1 << 20;

/// Index of the array that is an argument by itself: most small requests have no other, and to get one from an array of
/// arrays takes a good part of such a request.
const GATHERED: usize = 0;
/// Bytes of that array up to which it is copied: holding it takes a call of the JVM more.
const COPIED_WHOLE: usize = 4096;

/// The arrays of a request, of which those of one file at a time are in use.
#[derive(Debug)]
pub(crate) struct JavaArrays<'a, 'local> {
    jvm: &'a Jvm<'a>,
    gathered: &'a JByteArray<'local>,
    /// The bytes of `gathered`, if they are few.
    gathered_copy: Option<&'a [u8]>,
    arrays: &'a JObjectArray<'local, JByteArray<'local>>,
    /// Number of `arrays`, when it has been asked for.
    count: Option<usize>,
    slots: [Slot; 3],
    /// For each bitmap of a file its bytes, where they are in an array that is too large to be held.
    copies: [Vec<u8>; 3],
    bytes: usize,
    files: usize,
}

/// An array in use.
#[derive(Debug)]
struct Slot {
    /// Index of the array; `usize::MAX` for none.
    index: usize,
    /// A local reference, of ours unless it is [`GATHERED`].
    array: jbyteArray,
    len: usize,
    /// The bytes of the array while it is held.
    start: *mut c_void,
}

impl Slot {
    const EMPTY: Slot =
        Slot { index: usize::MAX, array: ptr::null_mut(), len: 0, start: ptr::null_mut() };

    fn is_for(&self, span: &Span) -> bool {
        span.len != 0 && self.index == span.array
    }

    /// The array's bytes while it is held.
    fn bytes(&self) -> Option<&[u8]> {
        // SAFETY: the array is held, has `len` bytes, and stays held while `self` is borrowed. That nobody writes to it
        // during the call is the Java side's part.
        (!self.start.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.len) })
    }
}

impl<'a, 'local> JavaArrays<'a, 'local> {
    /// The arrays, none of them held. `gathered_len` bytes of `gathered` are in use; `memory` is for a copy of them, kept from
    /// request to request.
    pub(crate) fn new(
        jvm: &'a Jvm<'a>,
        (gathered, gathered_len): (&'a JByteArray<'local>, usize),
        arrays: &'a JObjectArray<'local, JByteArray<'local>>,
        memory: &'a mut Vec<u8>,
    ) -> Result<Self, Failure> {
        let mut gathered_copy = None;
        if (1..=COPIED_WHOLE).contains(&gathered_len) {
            memory.resize(COPIED_WHOLE, 0);
            let copy = memory.get_mut(..gathered_len).unwrap_or(&mut []);
            jvm.bytes(gathered.as_raw(), 0, copy)?;
            gathered_copy = Some(&*copy);
        }
        Ok(JavaArrays {
            jvm,
            gathered,
            gathered_copy,
            arrays,
            count: None,
            slots: [Slot::EMPTY; 3],
            copies: [const { Vec::new() }; 3],
            bytes: 0,
            files: 0,
        })
    }

    /// The array of a span, if it was copied whole.
    fn copied(&self, span: &Span) -> Option<&'a [u8]> {
        self.gathered_copy.filter(|_| span.array == GATHERED)
    }

    fn release(&mut self) {
        let (env, functions) = (self.jvm.env(), self.jvm.functions());
        for slot in &mut self.slots {
            let start = std::mem::replace(&mut slot.start, ptr::null_mut());
            if !start.is_null() {
                // SAFETY: `start` is what the JVM gave for this array, and is given back once. Nothing was written.
                unsafe {
                    (functions.v1_2.ReleasePrimitiveArrayCritical)(
                        env, slot.array, start, JNI_ABORT,
                    );
                }
            }
        }
        self.bytes = 0;
        self.files = 0;
    }

    /// Holds the arrays of `spans`, each once however many of them are in it. The error is the place of the span that
    /// cannot be had, with the length of its array.
    fn hold(&mut self, spans: &[Span; 3]) -> Result<(), (usize, usize)> {
        // With an array held, the JVM must not be called.
        self.release();
        for (place, span) in spans.iter().enumerate() {
            if span.len == 0 || self.copied(span).is_some() {
                continue;
            }
            let known = self.slots.iter().find(|slot| slot.is_for(span)).map(|slot| slot.len);
            let array_len = match known {
                Some(len) => len,
                None => self.load(span.array, spans).ok_or((place, 0))?,
            };
            if array_len > LARGEST_HELD {
                self.copy(place, span).ok_or((place, array_len))?;
            }
        }
        let (env, functions) = (self.jvm.env(), self.jvm.functions());
        for slot in &mut self.slots {
            let Some(place) = spans.iter().position(|span| slot.is_for(span)) else { continue };
            if slot.len <= LARGEST_HELD {
                // SAFETY: a `byte[]`, and not null. From here to `release` nothing but this is called.
                slot.start = unsafe {
                    (functions.v1_2.GetPrimitiveArrayCritical)(env, slot.array, ptr::null_mut())
                };
                if slot.start.is_null() {
                    return Err((place, slot.len));
                }
            }
        }
        Ok(())
    }

    /// Turns a slot that `spans` do not need to the array with this index, and gives its length.
    fn load(&mut self, index: usize, spans: &[Span; 3]) -> Option<usize> {
        let (env, functions) = (self.jvm.env(), self.jvm.functions());
        // There is one: three spans need three slots at most, and one of those is not there yet.
        let slot =
            self.slots.iter_mut().find(|slot| !spans.iter().any(|span| slot.is_for(span)))?;
        if !slot.array.is_null() && slot.index != GATHERED {
            // SAFETY: a local reference that this made.
            unsafe { (functions.v1_1.DeleteLocalRef)(env, slot.array) };
        }
        *slot = Slot::EMPTY;
        if index == GATHERED {
            slot.array = self.gathered.as_raw();
        } else {
            let count = match self.count {
                Some(count) => count,
                None => *self.count.insert(self.jvm.count(self.arrays).unwrap_or(0)),
            };
            let element = jsize::try_from(index).ok().filter(|_| index < count)?;
            // SAFETY: the array is there and has that many elements, all of them `byte[]` or null.
            slot.array = unsafe {
                (functions.v1_1.GetObjectArrayElement)(env, self.arrays.as_raw(), element)
            };
        }
        if slot.array.is_null() {
            return None;
        }
        // SAFETY: a `byte[]`, and not null.
        let len = unsafe { (functions.v1_1.GetArrayLength)(env, slot.array) };
        slot.len = usize::try_from(len).unwrap_or(0);
        slot.index = index;
        Some(slot.len)
    }

    /// Copies the bytes of a span from its array, which has a slot; none if it does not lie within.
    fn copy(&mut self, place: usize, span: &Span) -> Option<()> {
        let slot = self.slots.iter().find(|slot| slot.is_for(span))?;
        if span.offset.checked_add(span.len)? > slot.len {
            return None;
        }
        let copy = self.copies.get_mut(place)?;
        copy.resize(span.len, 0);
        let mut from = span.offset;
        for part in copy.chunks_mut(COPIED_BYTES) {
            self.jvm.bytes(slot.array, from, part).ok()?;
            from += part.len();
        }
        Some(())
    }
}

impl Arrays for JavaArrays<'_, '_> {
    #[inline]
    fn bytes_of(&mut self, spans: &[Span; 3]) -> Result<[&[u8]; 3], OutOfArray> {
        const ROLES: [Role; 3] = [Role::Base, Role::Current, Role::Winner];
        let out = |(place, array_len): (usize, usize)| {
            let role = ROLES.get(place).copied().unwrap_or(Role::Winner);
            OutOfArray { role, array_len }
        };
        let held = spans.iter().all(|span| {
            span.len == 0
                || self.copied(span).is_some()
                || self.slots.iter().any(|slot| slot.is_for(span) && !slot.start.is_null())
        });
        if !held || self.bytes > HELD_BYTES || self.files == HELD_FILES {
            self.hold(spans).map_err(out)?;
        }
        self.files += 1;
        let mut found: [&[u8]; 3] = [&[]; 3];
        for (place, ((found, copy), span)) in
            found.iter_mut().zip(&self.copies).zip(spans).enumerate()
        {
            if let Some(array) = self.copied(span) {
                *found = span.within(array).ok_or_else(|| out((place, array.len())))?;
                continue;
            }
            let Some(slot) = self.slots.iter().find(|slot| slot.is_for(span)) else { continue };
            *found = match slot.bytes() {
                Some(array) => span.within(array).ok_or_else(|| out((place, slot.len)))?,
                None => copy,
            };
            self.bytes += span.len;
        }
        Ok(found)
    }
}

impl Drop for JavaArrays<'_, '_> {
    fn drop(&mut self) {
        // The local references go when the native method returns.
        self.release();
    }
}
