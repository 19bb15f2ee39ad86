//! Where a panic of the engine ends.
//!
//! The engine reads a damaged file on trust and may panic on what it finds. That must cost one
//! answer, not a thread: whoever calls into it does so through here, and gets an error in the
//! words of its own operation. (The crate is never built with `panic = "abort"`.)

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// How the text begins that a panic becomes.
pub(super) const ENGINE_STOPPED: &str = "the storage engine stopped";

thread_local! {
    /// How many calls into the engine are on this thread's stack.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// From now on a panic of the engine that becomes an error is not printed as well. For programs: the
/// hook is the process's.
pub fn quiet_engine_panics() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        if INSIDE.get() == 0 {
            before(panic);
        }
    }));
}

/// Runs `f`; turns a panic into the error that `stopped` makes of what was said.
///
/// What `f` changed outside of itself may be half done after a panic: callers give up what they
/// worked on.
pub(super) fn guarded<T, E>(
    f: impl FnOnce() -> Result<T, E>,
    stopped: impl FnOnce(String) -> E,
) -> Result<T, E> {
    INSIDE.set(INSIDE.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(f));
    INSIDE.set(INSIDE.get() - 1);
    done.unwrap_or_else(|panic| Err(stopped(panic_text(&*panic))))
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "{ENGINE_STOPPED}: {}",
        said.as_deref().unwrap_or("no reason given")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_callers_error_with_its_words() {
        let calm: Result<u8, String> = guarded(|| Ok(1), |reason| reason);
        assert_eq!(calm, Ok(1));
        let said: Result<u8, String> = guarded(|| panic!("page {}", 7), |reason| reason);
        assert_eq!(said, Err("the storage engine stopped: page 7".to_owned()));
    }
}
