//! Errors and panics as Java exceptions.
//!
//! Everything that goes wrong is thrown as `NativeException(String code, String message)`. A panic has code `PANIC` and
//! keeps its message: the driver that this library is loaded into must not end because of it. An exception that is
//! already pending is left alone.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use deletion_vectors::wire::WireError;
use jni::errors::ErrorPolicy;
use jni::objects::{JObject, JThrowable, JValue};
use jni::sys::{jlong, jstring};
use jni::{Env, jni_sig, jni_str};

/// Why a native method cannot answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// An argument.
    #[error("{name} {what}: expected {expected}, got {got}")]
    Argument { name: &'static str, what: &'static str, expected: i64, got: i64 },
    /// A number that does not fit into a Java long.
    #[error("{number} does not fit into a long")]
    Number { number: u64 },
    /// JNI itself.
    #[error(transparent)]
    Jni(#[from] jni::errors::Error),
}

impl Failure {
    /// The stable code that Java gets besides the message.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Failure::Wire(error) => error.code(),
            Failure::Argument { .. } => "ARGUMENT",
            Failure::Number { .. } => "INTERNAL",
            Failure::Jni(_) => "JNI",
        }
    }
}

/// What a native method returns. Beside a thrown exception the JVM ignores it; that there is none at all, because even
/// throwing failed, shows in the default: the smallest long, or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Returned<T>(pub(crate) T);

impl Default for Returned<jlong> {
    fn default() -> Self {
        Returned(jlong::MIN)
    }
}

impl Default for Returned<jstring> {
    fn default() -> Self {
        Returned(std::ptr::null_mut())
    }
}

/// Throws `NativeException` for errors and panics alike.
#[derive(Debug)]
pub(crate) struct ThrowNativeException;

impl<T> ErrorPolicy<Returned<T>, Failure> for ThrowNativeException
where
    Returned<T>: Default,
{
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut (),
        error: Failure,
    ) -> jni::errors::Result<Returned<T>> {
        throw(env, error.code(), &error.to_string()).map(|()| Returned::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _captures: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<Returned<T>> {
        throw(env, "PANIC", &message_of(payload)).map(|()| Returned::default())
    }
}

/// Leaves an exception pending. An error means that there is none of ours, though there may be one of the JVM's, such
/// as that the class was not found.
fn throw(env: &mut Env<'_>, code: &str, message: &str) -> jni::errors::Result<()> {
    if env.exception_check() {
        return Ok(());
    }
    let code = JObject::from(env.new_string(code)?);
    let message = JObject::from(env.new_string(message)?);
    let exception = env.new_object(
        jni_str!("io/github/deltarlc/jni/NativeException"),
        jni_sig!("(Ljava/lang/String;Ljava/lang/String;)V"),
        &[JValue::Object(&code), JValue::Object(&message)],
    )?;
    let exception = env.cast_local::<JThrowable>(exception)?;
    match env.throw(exception) {
        // `throw` reports the exception that it has just made pending.
        Ok(()) | Err(jni::errors::Error::JavaException) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The message of a panic. Dropping a payload may panic again, which must not get out either.
pub(crate) fn message_of(payload: Box<dyn Any + Send + 'static>) -> String {
    let message = match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "a panic without a message".to_owned(),
        },
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    message
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn caught(body: impl FnOnce()) -> String {
        message_of(catch_unwind(AssertUnwindSafe(body)).unwrap_err())
    }

    #[test]
    fn message_of_panic_is_kept_whatever_its_type() {
        assert_eq!(caught(|| panic!("plain")), "plain");
        let number = 7;
        assert_eq!(caught(|| panic!("formatted {number}")), "formatted 7");
        assert_eq!(caught(|| std::panic::panic_any(7)), "a panic without a message");
    }

    #[test]
    fn message_of_payload_whose_drop_panics_does_not_unwind() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("while dropping");
            }
        }
        assert_eq!(caught(|| std::panic::panic_any(Bomb)), "a panic without a message");
    }

    #[test]
    fn default_beside_an_exception_is_the_smallest_long_or_null() {
        assert_eq!(Returned::<jlong>::default().0, i64::MIN);
        assert!(Returned::<jstring>::default().0.is_null());
    }
}
