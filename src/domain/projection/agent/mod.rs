//! Rows of an agent store.
