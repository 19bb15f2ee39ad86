//! Decisions of an identity.
