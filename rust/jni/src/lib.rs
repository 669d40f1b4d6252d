//! The JNI surface of delta-rlc: the native methods of `io.github.deltarlc.jni.NativeBridge`, and nothing else.
//!
//! Each method converts its arguments, calls the `deletion-vectors` crate and converts the answer. Errors and panics
//! become `io.github.deltarlc.jni.NativeException`; see the module `throw`. Bytes cross in direct buffers, so that nothing is
//! copied and the garbage collector is never held up; see the module `buffers`.

mod buffers;
mod throw;

use buffers::Pair;
use deletion_vectors::wire;
use jni::EnvUnowned;
use jni::objects::{JByteBuffer, JClass};
use jni::sys::{jint, jlong, jstring};
use throw::{Failure, ThrowNativeException};

/// Version of the native interface: of the methods here and of the layouts in [`wire`].
const ABI_VERSION: jint = 1;

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

/// `static native long resolve0(ByteBuffer request, long requestLength, ByteBuffer response, long responseLength)`.
///
/// Answers the request as described in [`wire`]. Gives the number of bytes used of the response, or, when it is too
/// small, a length that is enough as a negative number.
///
/// Throws when a buffer is not direct or shorter than stated, when the two overlap, and when the request is not what
/// it should be; never because of what is in a deletion vector, which is a verdict.
///
/// # Safety contract with the Java side
/// Both buffers stay reachable and are not written by another thread until the call returns.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_resolve0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    request: JByteBuffer<'local>,
    request_len: jlong,
    response: JByteBuffer<'local>,
    response_len: jlong,
) -> jlong {
    env.with_env(|env| -> Result<_, Failure> {
        let mut pair = Pair::of(env, &request, request_len, &response, response_len)?;
        let (request, response) = pair.slices();
        answer(wire::resolve(request, response))
    })
    .resolve::<ThrowNativeException>()
    .0
}

/// `static native long overlapCount0(ByteBuffer request, long requestLength, int fileIndex)`: number of rows of one
/// file of the request that both sides deleted.
///
/// Throws as `resolve0` does, and also when one of the bitmaps of that file is malformed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_NativeBridge_overlapCount0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    request: JByteBuffer<'local>,
    request_len: jlong,
    file: jint,
) -> jlong {
    env.with_env(|env| -> Result<_, Failure> {
        let request = buffers::Region::of(env, &request, request_len, "request")?;
        let file = usize::try_from(file).unwrap_or(usize::MAX);
        to_java(wire::overlap_count(request.bytes(), file)?)
    })
    .resolve::<ThrowNativeException>()
    .0
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
mod tests {
    use super::*;

    #[test]
    fn answer_gives_the_needed_length_as_a_negative_number() {
        assert_eq!(answer(Ok(96)).map_err(|e| e.to_string()), Ok(throw::Returned(96)));
        let small = answer(Err(wire::WireError::NoSpace { needed: 500 }));
        assert_eq!(small.map_err(|e| e.to_string()), Ok(throw::Returned(-500)));
    }

    #[test]
    fn abi_version_is_that_of_the_layouts() {
        assert_eq!(u32::try_from(ABI_VERSION), Ok(wire::VERSION));
    }
}
