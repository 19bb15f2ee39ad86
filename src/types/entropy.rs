//! Randomness as a capability.

/// A source of unpredictable bytes. Only the edges and the command line own a real one; tests
/// pass a seeded one.
pub trait Entropy: Send + Sync {
    /// Fills the whole buffer.
    ///
    /// # Errors
    ///
    /// When the operating system has no randomness to give.
    fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError>;
}

/// The operating system refused to give random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes: {reason}")]
pub struct EntropyError {
    /// What the platform said.
    pub reason: String,
}
