//! The trust gate.
