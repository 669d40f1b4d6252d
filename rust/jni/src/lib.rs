//! The JNI surface of delta-rlc: the native methods of `io.github.deltarlc.jni.NativeBridge`, and nothing else.
//!
//! Each method converts its arguments, calls the `deletion-vectors` crate and converts the answer. Errors and panics
//! become `io.github.deltarlc.jni.NativeException`; see the module `throw`. Hardly anything is copied on the way: bitmaps are read
//! from Java's arrays, see the module `arrays`, and the answer is written to a direct buffer, see the module `buffers`.

mod arrays;
mod buffers;
mod jvm;
mod throw;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{LazyLock, Mutex, TryLockError};

use arrays::JavaArrays;
use buffers::Region;
use deletion_vectors::{Merger, wire};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray, JObjectArray};
use jni::sys::{jint, jlong, jstring};
use jvm::Jvm;
use throw::{Failure, ThrowNativeException};

/// Version of the native interface: of the methods here and of the layouts in [`wire`].
const ABI_VERSION: jint = 4;

/// `static native int abiVersion()`: compared with the number in the jar before anything else is called.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_abiVersion<'local>(
    _env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> jint {
    ABI_VERSION
}

/// `static native String version()`: the version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_version<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> jstring {
    env.with_env(|env| -> Result<_, Failure> {
        Ok(throw::Returned(env.new_string(env!("CARGO_PKG_VERSION"))?.into_raw()))
    })
    .resolve::<ThrowNativeException>()
    .0
}

/// `static native long address0(ByteBuffer buffer)`: where the memory of a direct buffer is.
///
/// Throws when it is null or not direct.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_address0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    buffer: JByteBuffer<'local>,
) -> jlong {
    let jvm = Jvm::new(&mut env);
    let outcome =
        catch_unwind(AssertUnwindSafe(|| to_java(buffers::address(&jvm, &buffer)? as u64)));
    finish(&mut env, outcome)
}

/// `static native long resolve0(byte[] gathered, int gatheredLength, byte[][] arrays, long[] table, int tableLength, long
/// response, long responseLength)`.
///
/// Answers the request as described in [`wire`], whose array 0 is `gathered`, and any other is that of `arrays`. Lengths are
/// arguments, as to ask the JVM for one takes a call each. Gives the number of bytes used of the response, or, when it is too
/// small, a length that is enough as a negative number.
///
/// Throws when an argument is null or negative, and when the request is not what it should be; never because of what is in
/// a deletion vector, which is a verdict.
///
/// # Safety contract with the Java side
/// `response` is what [`address0`](Java_io_github_deltarlc_jni_NativeBridge_address0) gave for a buffer of at least
/// `responseLength` bytes, which stays reachable until the call returns. Until then arrays and buffer are not written by
/// another thread.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_resolve0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    gathered: JByteArray<'local>,
    gathered_len: jint,
    arrays: JObjectArray<'local, JByteArray<'local>>,
    table: JLongArray<'local>,
    table_len: jint,
    response: jlong,
    response_len: jlong,
) -> jlong {
    // The `jni` crate keeps accounts of its environments and asks for pending exceptions, which is a good part of a small
    // request. So it is called only when there is something to be thrown.
    let jvm = Jvm::new(&mut env);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut response = Region::of(response, response_len)?;
        let table = Numbers::of(&jvm, &table, length(table_len, "table")?)?;
        let gathered = (&gathered, length(gathered_len, "gathered")?);
        with_memory(|Memory { merger, gathered: memory }| {
            let mut arrays = JavaArrays::new(&jvm, gathered, &arrays, memory)?;
            answer(wire::resolve(merger, table.get(), &mut arrays, response.bytes()))
        })
    }));
    finish(&mut env, outcome)
}

/// `static native long overlapCount0(byte[] gathered, int gatheredLength, byte[][] arrays, long[] table, int tableLength, int
/// fileIndex)`: number of rows of one file of the request that both sides deleted.
///
/// Throws as `resolve0` does, and also when one of the bitmaps of that file is malformed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_overlapCount0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    gathered: JByteArray<'local>,
    gathered_len: jint,
    arrays: JObjectArray<'local, JByteArray<'local>>,
    table: JLongArray<'local>,
    table_len: jint,
    file: jint,
) -> jlong {
    let jvm = Jvm::new(&mut env);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let table = Numbers::of(&jvm, &table, length(table_len, "table")?)?;
        let gathered = (&gathered, length(gathered_len, "gathered")?);
        let file = usize::try_from(file).unwrap_or(usize::MAX);
        with_memory(|Memory { merger, gathered: memory }| {
            let mut arrays = JavaArrays::new(&jvm, gathered, &arrays, memory)?;
            to_java(wire::overlap_count(merger, table.get(), &mut arrays, file)?)
        })
    }));
    finish(&mut env, outcome)
}

/// Gives the answer, or throws.
fn finish(
    env: &mut EnvUnowned<'_>,
    outcome: std::thread::Result<Result<throw::Returned<jlong>, Failure>>,
) -> jlong {
    match outcome {
        Ok(Ok(throw::Returned(number))) => number,
        failed => {
            // A panic goes on in here, where it becomes an exception.
            env.with_env(|_| failed.unwrap_or_else(|payload| resume_unwind(payload)))
                .resolve::<ThrowNativeException>()
                .0
        }
    }
}

/// What a call needs memory for.
#[derive(Debug, Default)]
struct Memory {
    merger: Merger,
    /// See [`JavaArrays::new`].
    gathered: Vec<u8>,
}

/// Memory kept from call to call: getting it, filled with zeros, takes longer than many a merge. It is 180 KiB at most.
static SPARE: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

/// Gives `work` memory that no other call has: what is kept, unless that is in use. That of a call that panicked is dropped.
fn with_memory<T>(work: impl FnOnce(&mut Memory) -> T) -> T {
    match SPARE.try_lock() {
        Ok(mut memory) => work(&mut memory),
        Err(TryLockError::Poisoned(poisoned)) => {
            SPARE.clear_poison();
            let mut memory = poisoned.into_inner();
            *memory = Memory::default();
            work(&mut memory)
        }
        Err(TryLockError::WouldBlock) => work(&mut Memory::default()),
    }
}

/// A length that Java gave.
fn length(len: jint, name: &'static str) -> Result<usize, Failure> {
    let negative =
        |_| Failure::Argument { name, what: "has a negative length", expected: 0, got: len.into() };
    usize::try_from(len).map_err(negative)
}

/// The numbers of a `long[]`, those of few files without an allocation.
struct Numbers {
    few: [jlong; Numbers::FEW],
    many: Vec<jlong>,
    len: usize,
}

impl Numbers {
    const FEW: usize = 4 * wire::ENTRY_NUMBERS;

    fn of(jvm: &Jvm<'_>, table: &JLongArray<'_>, len: usize) -> Result<Numbers, Failure> {
        let mut numbers = Numbers { few: [0; Self::FEW], many: Vec::new(), len };
        let place = match numbers.few.get_mut(..len) {
            Some(few) => few,
            None => {
                numbers.many = vec![0; len];
                &mut numbers.many[..]
            }
        };
        jvm.numbers(table, place)?;
        Ok(numbers)
    }

    fn get(&self) -> &[jlong] {
        self.few.get(..self.len).unwrap_or(&self.many)
    }
}

/// Bytes used, or bytes needed as a negative number.
fn answer(outcome: Result<usize, wire::WireError>) -> Result<throw::Returned<jlong>, Failure> {
    match outcome {
        Ok(used) => to_java(used as u64),
        Err(wire::WireError::NoSpace { needed }) => {
            to_java(needed as u64).map(|throw::Returned(needed)| throw::Returned(-needed))
        }
        Err(error) => Err(error.into()),
    }
}

fn to_java(number: u64) -> Result<throw::Returned<jlong>, Failure> {
    jlong::try_from(number).map(throw::Returned).map_err(|_| Failure::Number { number })
}

#[cfg(test)]
#[allow(clippy::panic, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn answer_gives_the_needed_length_as_a_negative_number() {
        assert_eq!(answer(Ok(96)).map_err(|e| e.to_string()), Ok(throw::Returned(96)));
        let small = answer(Err(wire::WireError::NoSpace { needed: 500 }));
        assert_eq!(small.map_err(|e| e.to_string()), Ok(throw::Returned(-500)));
    }

    #[test]
    fn memory_is_kept_again_after_a_call_that_panicked() {
        let fill = |byte| move |memory: &mut Memory| memory.gathered.push(byte);
        with_memory(fill(1));
        let panicked = catch_unwind(|| with_memory(|_| panic!("in a call")));
        assert!(panicked.is_err());
        // Not what the one that panicked had, and kept from here on.
        with_memory(fill(2));
        with_memory(fill(3));
        assert_eq!(with_memory(|memory| memory.gathered.clone()), [2, 3]);
    }

    #[test]
    fn abi_version_is_that_of_the_layouts() {
        assert_eq!(u32::try_from(ABI_VERSION), Ok(wire::VERSION));
    }
}
