//! Floor 1: primitives.
