//! Native methods that panic, behind the very boundary of the library: `tests/panics.rs` calls them from a JVM.
#![allow(clippy::panic, clippy::indexing_slicing, reason = "this is what it is for")]
#![allow(missing_docs, unreachable_pub, dead_code, reason = "part of a test")]

#[path = "../src/throw.rs"]
mod throw;

use jni::EnvUnowned;
use jni::objects::JClass;
use jni::sys::{jint, jlong};
use throw::{Failure, Returned, ThrowNativeException};

/// `static native long panic0(int how)`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_github_deltarlc_jni_PanicProbe_panic0<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    how: jint,
) -> jlong {
    env.with_env(|_env| -> Result<Returned<jlong>, Failure> {
        match how {
            0 => panic!("on purpose"),
            1 => {
                let none: [u8; 0] = [];
                Ok(Returned(jlong::from(none[std::hint::black_box(7)])))
            }
            2 => std::panic::panic_any(7),
            3 => Err(Failure::Number { number: u64::MAX }),
            _ => Ok(Returned(42)),
        }
    })
    .resolve::<ThrowNativeException>()
    .0
}
