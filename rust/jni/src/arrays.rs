//! Java byte arrays as slices, where they are.
//!
//! Arrays are held with `GetPrimitiveArrayCritical`, so that nothing is copied. While one is held the JVM may not be
//! called and its garbage collector may have to wait, so they are let go again and again: between two files, once the
//! files since the last time had [`HELD_BYTES`]. Of an array larger than [`LARGEST_HELD`] the bytes wanted are copied.
#![allow(unsafe_code, reason = "holds arrays of the JVM")]

use std::ffi::c_void;
use std::ptr;

use deletion_vectors::Role;
use deletion_vectors::wire::{Arrays, OutOfArray, Span};
use jni::objects::{JByteArray, JObjectArray};
use jni::sys::{JNI_ABORT, jbyte, jbyteArray, jsize};

use crate::jvm::Jvm;

/// Arrays are let go when files with this many bytes were looked at: some hundred microseconds of work.
const HELD_BYTES: usize = 1 << 20;
/// Files after which they are let go in any case.
const HELD_FILES: usize = 256;
/// The largest array that is held: some milliseconds of work.
const LARGEST_HELD: usize = 16 << 20;
/// Bytes copied at once: the JVM cannot stop a thread that is copying.
const COPIED_BYTES: usize = 1 << 20;

/// The `byte[][]` of a request, of which the arrays of one file at a time are in use.
#[derive(Debug)]
pub(crate) struct JavaArrays<'a, 'local> {
    jvm: &'a Jvm<'a>,
    arrays: &'a JObjectArray<'local, JByteArray<'local>>,
    count: usize,
    slots: [Slot; 3],
    bytes: usize,
    files: usize,
}

/// An array in use, or a part of one.
#[derive(Debug)]
struct Slot {
    /// Index of the array; `usize::MAX` for none.
    index: usize,
    /// A local reference of ours.
    array: jbyteArray,
    len: usize,
    /// The bytes of the array while it is held.
    start: *mut c_void,
    /// Of a larger array, the bytes of the span.
    copy: Vec<u8>,
}

impl Slot {
    const fn new() -> Self {
        Slot {
            index: usize::MAX,
            array: ptr::null_mut(),
            len: 0,
            start: ptr::null_mut(),
            copy: Vec::new(),
        }
    }
}

impl<'a, 'local> JavaArrays<'a, 'local> {
    /// The arrays, none of them held.
    pub(crate) fn new(
        jvm: &'a Jvm<'a>,
        arrays: &'a JObjectArray<'local, JByteArray<'local>>,
    ) -> Result<Self, jni::errors::Error> {
        Ok(JavaArrays {
            count: jvm.count(arrays)?,
            jvm,
            arrays,
            slots: [Slot::new(), Slot::new(), Slot::new()],
            bytes: 0,
            files: 0,
        })
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

    /// Turns the slots to the arrays of `spans`, and holds them. The error is the place of the span that cannot be had,
    /// with the length of its array.
    fn hold(&mut self, spans: &[Span; 3]) -> Result<(), (usize, usize)> {
        // With an array held, the JVM must not be called.
        self.release();
        let (env, functions) = (self.jvm.env(), self.jvm.functions());
        for (place, (slot, span)) in self.slots.iter_mut().zip(spans).enumerate() {
            if span.len == 0 {
                continue;
            }
            if slot.index != span.array {
                if !slot.array.is_null() {
                    // SAFETY: a local reference that this made.
                    unsafe { (functions.v1_1.DeleteLocalRef)(env, slot.array) };
                }
                *slot = Slot::new();
                let index = jsize::try_from(span.array).ok().filter(|_| span.array < self.count);
                let Some(index) = index else { return Err((place, 0)) };
                // SAFETY: the array is there and has that many elements, all of them `byte[]` or null.
                slot.array = unsafe {
                    (functions.v1_1.GetObjectArrayElement)(env, self.arrays.as_raw(), index)
                };
                if slot.array.is_null() {
                    return Err((place, 0));
                }
                // SAFETY: a `byte[]`, and not null.
                let len = unsafe { (functions.v1_1.GetArrayLength)(env, slot.array) };
                slot.len = usize::try_from(len).unwrap_or(0);
                slot.index = span.array;
            }
            if slot.len > LARGEST_HELD {
                match span.offset.checked_add(span.len) {
                    Some(end) if end <= slot.len => {}
                    _ => return Err((place, slot.len)),
                }
                slot.copy.resize(span.len, 0);
                let mut from = span.offset;
                for part in slot.copy.chunks_mut(COPIED_BYTES) {
                    // Both are within the length of an array.
                    let start = jsize::try_from(from).unwrap_or(jsize::MAX);
                    let len = jsize::try_from(part.len()).unwrap_or(0);
                    // SAFETY: the range is within the array, and `part` is that long.
                    unsafe {
                        (functions.v1_1.GetByteArrayRegion)(
                            env,
                            slot.array,
                            start,
                            len,
                            part.as_mut_ptr().cast::<jbyte>(),
                        );
                    }
                    from += part.len();
                }
            }
        }
        for (place, (slot, span)) in self.slots.iter_mut().zip(spans).enumerate() {
            if span.len != 0 && slot.len <= LARGEST_HELD {
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
}

impl Arrays for JavaArrays<'_, '_> {
    #[inline]
    fn bytes_of(&mut self, spans: &[Span; 3]) -> Result<[&[u8]; 3], OutOfArray> {
        const ROLES: [Role; 3] = [Role::Base, Role::Current, Role::Winner];
        let out = |(place, array_len): (usize, usize)| {
            let role = ROLES.get(place).copied().unwrap_or(Role::Winner);
            OutOfArray { role, array_len }
        };
        let held = self.slots.iter().zip(spans).all(|(slot, span)| {
            span.len == 0 || (slot.index == span.array && !slot.start.is_null())
        });
        if !held || self.bytes > HELD_BYTES || self.files == HELD_FILES {
            self.hold(spans).map_err(out)?;
        }
        self.files += 1;
        let mut found: [&[u8]; 3] = [&[]; 3];
        for (place, ((found, slot), span)) in
            found.iter_mut().zip(&self.slots).zip(spans).enumerate()
        {
            if span.len == 0 {
                continue;
            }
            if slot.start.is_null() {
                *found = &slot.copy;
                continue;
            }
            // SAFETY: the array is held, has `len` bytes, and stays held while `self` is borrowed. That nobody writes
            // to it during the call is the Java side's part.
            let array = unsafe { std::slice::from_raw_parts(slot.start.cast::<u8>(), slot.len) };
            *found = span.within(array).ok_or_else(|| out((place, slot.len)))?;
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
