//! Values that must not be seen: erased from memory when dropped, never printed.
//!
//! The wrapper has no `Clone`, no `Display`, no serde; every look at the value is a visible call
//! of [`Secret::expose`].

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A secret value. Erased on drop; its `Debug` prints a placeholder.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes the value into custody. Copies that the caller keeps are the caller's to erase.
    pub const fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// The value. Never pass it to a formatter or a log.
    #[must_use]
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// The value, to be filled in place.
    pub const fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> ZeroizeOnDrop for Secret<T> {}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_value() {
        let s = Secret::new(String::from("hunter2"));
        assert_eq!(format!("{s:?}"), "Secret(..)");
        assert_eq!(s.expose(), "hunter2");
    }
}
