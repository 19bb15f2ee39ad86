//! What an identity remembers.
